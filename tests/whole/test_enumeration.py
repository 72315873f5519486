"""Tiny models whose every token sequence is written down: next words, scores, entropies and all spellings are right."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import wordprob
from enumeration import EndingLM, Enumeration
from small_models import small_tokenizer
from wordprob.core.words import define

FAMILIES = ("never", "first", "byte fallback", "byte-level")
DEFINITIONS = ("whitespace", "punctuation")
CONTEXTS = ("", "ab", "ab.", "b a")
EXHAUSTED = 100_000
"""More beginnings than there are."""
EXACT = 1e-9
LIKELY = 1e-6


@functools.cache
def judged(family, definition, seed=0):
    """Return a scorer on a tiny model, and all of its texts."""
    model = EndingLM(small_tokenizer(family), seed=seed)
    return wordprob.Scorer(model), Enumeration(model, define(definition))


def true_entropy(probabilities, order):
    """Rényi's definition; what the distribution lacks of one belongs to no word."""
    p = np.array([each for each in probabilities if each > 0])
    if order == 1.0:
        return float(-(p * np.log(p)).sum() / p.sum())
    return float(-np.log(p.max())) if math.isinf(order) else float(np.log((p**order).sum() / p.sum()) / (1 - order))


def distribution(truth, context):
    """Return p(word | context) in own spellings for every word that has any."""
    own = {word: truth.own(context, word) for word in truth.next_words(context)}
    return {word: p for word, p in own.items() if p > 0}


def test_the_enumeration_by_hand():
    """All sequences add up to one, and after a context so do words, the end, and what is written in other spellings."""
    _, truth = judged("never", "whitespace")
    assert math.fsum(each.probability for each in truth.sequences) == pytest.approx(1.0, abs=1e-12)
    assert truth.own_covers("ab") >= {tuple(small_tokenizer("never").encode(["ab"])[0].ids.tolist())}
    for context in CONTEXTS:
        everything = [truth.every(context, word) for word in truth.next_words(context)]
        assert math.fsum(everything) + truth.end(context) <= 1.0 + 1e-12
        assert math.fsum(distribution(truth, context).values()) <= math.fsum(everything) + 1e-12


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_next_words_are_all_words(family, definition, context):
    scorer, truth = judged(family, definition)
    found = scorer.next_words(context, definition, top=EXHAUSTED, max_open=EXHAUSTED)
    listed = {word.separator + word.word: word.probability for word in found.words}
    expected = {word: p for word, p in distribution(truth, context).items() if p > LIKELY}
    assert expected
    assert expected.keys() <= listed.keys()
    assert {word: listed[word] for word in expected} == pytest.approx(expected, abs=EXACT)
    assert found.end == pytest.approx(truth.end(context), abs=EXACT)


@pytest.mark.parametrize("max_open", [30, EXHAUSTED])
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_next_words_in_all_spellings_have_the_truth_between_their_bounds(family, context, max_open):
    scorer, truth = judged(family, "whitespace")
    found = scorer.next_words(context, top=max_open, max_open=max_open, spellings="all")
    assert found.words
    for word in found.words[:20]:
        expected = truth.every(context, word.separator + word.word)
        assert word.probability <= expected + EXACT
        assert word.probability_high >= expected - EXACT
        if max_open == EXHAUSTED:
            assert word.probability == pytest.approx(expected, abs=LIKELY)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_all_sequences(family, definition):
    """Each word in own spellings; in all spellings with the truth in the interval, narrow or wide."""
    scorer, truth = judged(family, definition)
    for context in CONTEXTS:
        words = sorted(distribution(truth, context).items(), key=lambda item: -item[1])[:6]
        for max_open in (1, EXHAUSTED):
            options = {"spellings": "all", "tolerance": 1e-12, "max_open": max_open}
            for word, expected in words:
                row = scorer.score(context + word, definition, unit="nats", **options).to_pandas().iloc[-1]
                assert math.exp(-row["surprisal"]) == pytest.approx(expected, abs=EXACT)
                every = -math.log(truth.every(context, word))
                assert row["surprisal_all_low"] - LIKELY <= every <= row["surprisal_all_high"] + LIKELY


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_limited_context_is_the_only_one(family, definition):
    """The last word is what it is after the word before it alone."""
    scorer, truth = judged(family, definition)
    for text, context, word in (("b ab a", "ab", " a"), ("a b ab", "b", " ab"), ("ab a b", "a", " b")):
        row = scorer.score(text, definition, unit="nats", max_context="1words").to_pandas().iloc[-1]
        assert math.exp(-row["surprisal"]) == pytest.approx(truth.own(context, word), abs=EXACT)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_entropies_are_bounded_and_their_errors_are_honest(family, definition):
    """Bounds contain the truth; differences from it, divided by their standard errors, are about one in size."""
    orders = {"word_entropy": 1.0, "word_entropy_2": 2.0, "word_entropy_inf": math.inf}
    standardised = []
    for seed in range(2):
        scorer, truth = judged(family, definition, seed)
        for context in CONTEXTS:
            text = f"{context} a".strip()
            options = {"unit": "nats", "extras": list(orders), "max_open": 6}
            row = scorer.score(text, definition, **options).to_pandas().iloc[-1]
            known = [*distribution(truth, context).values(), truth.end(context)]
            for name, order in orders.items():
                expected = true_entropy(known, order)
                assert row[f"{name}_low"] <= expected + EXACT
                assert order == 1.0 or row[f"{name}_high"] >= expected - EXACT
                if row[f"{name}_se"] > 1e-6:
                    standardised.append((row[name] - expected) / row[f"{name}_se"])
    assert len(standardised) > 5
    assert 0.2 < np.sqrt(np.mean(np.square(standardised))) < 2.0
