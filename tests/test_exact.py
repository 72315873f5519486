"""The exact language model judges the estimators: every position of every text, to 1e-12."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordprob import Scorer
from wordprob.core import words
from wordprob.errors import OptionError
from wordprob.models.exact import CHAIN, FAMILIES, ExactLM, ToyTokenizer, enumerate_texts

DEFINITIONS = ("whitespace", "punctuation")
CASES = [(family, definition) for family in FAMILIES for definition in DEFINITIONS]


@cache
def scored(family: str, definition: str):
    model = ExactLM.bigram(family, longest=5)
    return model, Scorer(model).score(model.texts, definition, unit="nats")


def truths(model: ExactLM, definition: str) -> tuple[list[float], list[float]]:
    """True probabilities of all words, and of all ends, from strings alone."""
    rule = words.define(definition)
    reach = cache(lambda prefix: model.prefix_probability(prefix, definition))
    found, ends = [], []
    for text in model.texts:
        before = reach("")
        for word in rule.segment(text):
            after = reach(text[: word.end])
            found.append(after / before)
            before = after
        ends.append(model.texts[text] / before)
    return found, ends


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_corrected_is_the_truth_at_every_position(family, definition):
    model, table = scored(family, definition)
    true, ends = truths(model, definition)
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
    assert np.abs(np.exp(-table.texts()["end"]) - ends).max() < 1e-12


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_naive_is_not_the_truth_but_in_theorem_1(family, definition):
    model, table = scored(family, definition)
    error = np.abs(np.exp(-table.to_pandas()["surprisal_naive"]) - truths(model, definition)[0]).max()
    if (family, definition) == ("eow", "whitespace"):
        assert error < 1e-12
    else:
        assert error > 0.2


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_all_words_and_the_end_add_up_to_one(family, definition):
    """Σ_w p(w | w_<t) + p(end | w_<t) = 1, each follower scored by the estimator."""
    model = ExactLM.bigram(family, longest=4)
    scorer, rule = Scorer(model), words.define(definition)
    contexts = {t[: w.end] for t in list(model.texts)[:40] for w in rule.segment(t)} | {""}
    contexts = {c for c in contexts if model.prefix_probability(c, definition) > 0}
    for context in sorted(contexts)[:25]:
        total = 0.0
        for follower in model.followers(context, definition):
            text = next(t for t in model.texts if _goes_on(rule, t, context, follower))
            count = len(rule.segment(context))
            table = scorer.score(text, definition, unit="nats")
            end = follower == "<end>"
            value = table.texts()["end"][0] if end else table.to_pandas()["surprisal"][count]
            total += np.exp(-value)
        assert total == pytest.approx(1.0, abs=1e-12)


def _goes_on(rule, text, context, follower):
    if follower == "<end>":
        return text == context
    reached = context + follower
    ends = {w.end for w in rule.segment(text)}
    return text.startswith(reached) and len(reached) in ends and (not context or len(context) in ends)


@pytest.mark.parametrize(("family", "definition"), CASES)
def test_conservation_and_the_itemised_terms(family, definition):
    _, table = scored(family, definition)
    frame = table.to_pandas()
    assert table.texts()["conservation"].abs().max() < 1e-12
    itemised = frame["surprisal_naive"] + frame["after"] - frame["before"]
    assert np.abs(frame["surprisal"] - itemised).max() < 1e-12


def test_the_printed_fix_2_is_wrong():
    """The paper's formula adds the unmarked spelling above the line only; the ratio of Z adds it below as well."""
    model = ExactLM.bigram("eow-unmarked", longest=5)
    vocabulary, definition = model.tokenizer.vocabulary, "punctuation"
    text, context = "She saw the mark saw", "She saw the mark "
    ids = {piece: vocabulary.tokens.index(piece) for piece in ("She ", "saw ", "saw", "the ", "mark ")}
    c = [0, *(ids[p] for p in ("She ", "saw ", "the ", "mark "))]
    ends = [i for i, t in enumerate(vocabulary.tokens) if t.strip() in ("?", ".", "'s") or i in vocabulary.ends]
    p = model.distribution
    printed = p(c)[ids["saw"]] * p([*c, ids["saw"]])[ends].sum() + p(c)[ids["saw "]]
    truth = model.prefix_probability(text, definition) / model.prefix_probability(context.strip(), definition)
    ours = np.exp(-Scorer(model).score(text, definition, unit="nats").to_pandas()["surprisal"].iloc[-1])
    assert ours == pytest.approx(truth, abs=1e-12)
    assert abs(printed - truth) > 0.1


def test_joined_newlines_matter():
    """Without the joined spelling, a word before a line break would look less likely than it is."""
    _, table = scored("bow-joined", "whitespace")
    frame = table.to_pandas()
    assert (frame["after"] < -0.1).any()


def test_unknown_family_names_the_known():
    with pytest.raises(OptionError, match="bow-joined"):
        ExactLM.bigram("bow-join")


# --- random languages --------------------------------------------------------------------------------------------

SHAPES = {
    "bow": (r" ?\w+|[.,]|\s", "", ""),
    "bow-marked": (r" ?\w+|[.,]|\s", " ", ""),
    "bow-joined": (r" ?\w+|[.,]\n*|\s", "", ""),
    "eow": (r"\w+ ?|[.,] ?|\s", "", " "),
    "eow-unmarked": (r"\w+ ?|[.,] ?|\s", "", ""),
}


@st.composite
def languages(draw):
    lexicon = draw(st.lists(st.text("ab", min_size=1, max_size=3), min_size=2, max_size=4, unique=True))
    marks = draw(st.sampled_from([[], ["."], [".", ","]]))
    chain = {}
    for word in ["", *lexicon, *marks]:
        options = [*lexicon, ""] if word in ("", *marks) else [*lexicon, *marks, ""]
        weights = draw(st.lists(st.integers(1, 9), min_size=len(options), max_size=len(options)))
        chain[word] = {w: x / sum(weights) for w, x in zip(options, weights, strict=True)}
    shape = draw(st.sampled_from(sorted(SHAPES)))
    substrings = sorted({w[i:j] for w in lexicon for i in range(len(w)) for j in range(i + 1, len(w) + 1)})
    forms = [*substrings, *(f" {s}" for s in substrings), *(f"{s} " for s in [*substrings, *marks]), ".\n", ",\n", "\n"]
    pieces = draw(st.lists(st.sampled_from(forms), max_size=10, unique=True))
    newline = draw(st.sampled_from([0.0, 0.3]))
    chunks, prefix, suffix = SHAPES[shape]
    texts = enumerate_texts(chain, 3, newline, frozenset(marks), frozenset(marks))
    return ExactLM(texts, ToyTokenizer(chunks, [*pieces, "a", "b", ".", ",", "\n"], prefix, suffix))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(languages(), st.sampled_from(DEFINITIONS))
def test_random_lexicons_and_vocabularies(model, definition):
    table = Scorer(model).score(model.texts, definition, unit="nats")
    true, ends = truths(model, definition)
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
    assert np.abs(np.exp(-table.texts()["end"]) - ends).max() < 1e-12


def test_the_example_chain_is_a_distribution():
    for word, following in CHAIN.items():
        assert sum(following.values()) == pytest.approx(1.0), word


def test_a_spelling_that_only_a_line_break_brings_out():
    """Ends are marked everywhere but before a line break, and no token joins the two."""
    chain = {"": {"a": 1.0}, "a": {".": 0.5, "a": 0.3, "": 0.2}, ".": {"a": 0.6, "": 0.4}}
    chunks, prefix, suffix = SHAPES["eow"]
    texts = enumerate_texts(chain, 3, 0.3, frozenset("."), frozenset("."))
    model = ExactLM(texts, ToyTokenizer(chunks, ["a", ". ", ".", "\n"], prefix, suffix))
    table = Scorer(model).score(model.texts, "whitespace", unit="nats")
    true, _ = truths(model, "whitespace")
    assert np.abs(np.exp(-table.to_pandas()["surprisal"]) - true).max() < 1e-12
