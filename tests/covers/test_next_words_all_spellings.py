"""Next words in all spellings: what is called certain is true of every word that a model can write."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import pytest

import wordprob
from wordprob.core.words import define
from wordprob.models.exact import START_ID, LeakyLM, ToyTokenizer

CONTEXTS = ("", "the", "the mark", "mark the")
TOPS = (1, 2, 4, 9)
LIMITS = (4, 20, 60, 200)
LIGHTEST = 2e-5
"""Texts with less mass than this are not expanded further."""
LEFT_OUT = 30 * LIGHTEST
"""A word may have so much besides, as each of its beginnings may have been left out."""


@dataclass
class Truth:
    """The probability of each next word in all spellings, and of the end."""

    words: dict[str, float]
    end: float


class EveryWord:
    """A dynamic programme over the texts after a context: for each text and last token, the mass that writes it."""

    def __init__(self, model, context, definition):
        self.model = model
        self.context = context
        self.rule = define(definition)
        self.end_id = model.tokenizer.vocabulary.ends[0]
        self.pieces = list(model._pieces())
        self.distributions = [model.distribution(token).tolist() for token in range(model.vocab_size)]
        self.found = defaultdict(float)
        self.end = 0.0
        self.left_out = 0.0

    def truth(self) -> Truth:
        by_length = defaultdict(dict)
        by_length[len(self.context)][self.context] = {[START_ID, *self.model.tokenizer.ids(self.context)][-1]: 1.0}
        while by_length:
            for text, masses in by_length.pop(min(by_length)).items():
                self._go_on(text, masses, by_length)
        event = sum(self.found.values()) + self.end + self.left_out
        words = {word: mass / event for word, mass in self.found.items()}
        return Truth(words, self.end / event)

    def _go_on(self, text, masses, by_length):
        word = self._next_word(text)
        if word is not None and word.end < len(text):
            self.found[text[len(self.context) : word.end]] += sum(masses.values())
        elif sum(masses.values()) < LIGHTEST:
            self.left_out += sum(masses.values())
        else:
            for last, mass in masses.items():
                self._share_out(text, word, mass, self.distributions[last], by_length)

    def _share_out(self, text, word, mass, probabilities, by_length):
        if word is not None:
            self.found[text[len(self.context) :]] += mass * probabilities[self.end_id]
        elif text == self.context:
            self.end += mass * probabilities[self.end_id]
        else:
            self.left_out += mass * probabilities[self.end_id]  # white space, and then nothing: no word
        for token, piece in self.pieces:
            if text != self.context or self._may_follow(piece):
                reached = by_length[len(text) + len(piece)].setdefault(text + piece, {})
                reached[token] = reached.get(token, 0.0) + mass * probabilities[token]

    def _next_word(self, text):
        words = self.rule.segment(text)
        return next((word for word in words if word.start >= len(self.context)), None)

    def _may_follow(self, piece):
        if not self.context:
            return not piece[0].isspace()
        return any(word.end == len(self.context) for word in self.rule.segment(self.context + piece))


@cache
def truth_of(context, definition) -> Truth:
    return EveryWord(LeakyLM(), context, definition).truth()


def check_certain(found, truth):
    """Check that no word that is not listed has more than one that is certain; return how many are certain."""
    listed = {each.separator + each.word for each in found.words}
    best_left_out = max((p for word, p in truth.words.items() if word not in listed), default=0.0)
    for each in found.words:
        probability = truth.words[each.separator + each.word]
        assert each.probability <= probability + LEFT_OUT
        assert each.probability_high >= probability - 1e-12
        if each.is_certain:
            assert probability + LEFT_OUT >= best_left_out
    return sum(each.is_certain for each in found.words)


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_no_word_that_is_not_listed_is_more_probable(context, definition):
    scorer = wordprob.load("exact:leaky")
    truth = truth_of(context, definition)
    for top in TOPS:
        for max_open in LIMITS:
            found = scorer.next_words(context, definition, top=top, max_open=max_open, spellings="all")
            n_certain = check_certain(found, truth)
        assert n_certain == top or top > 2, "most are certain in the end"


@pytest.mark.parametrize("mass", [0.3, 0.6])
@pytest.mark.parametrize("context", CONTEXTS)
def test_no_word_is_more_probable_than_those_up_to_a_mass(context, mass):
    found = wordprob.load("exact:leaky").next_words(context, "punctuation", mass=mass, spellings="all")
    check_certain(found, truth_of(context, "punctuation"))


def test_the_truth_is_that_of_the_model():
    for context in ("the", "mark"):
        for word, probability in list(truth_of(context, "punctuation").words.items())[:40]:
            text = context + word
            _, expected = LeakyLM().truth(text, "punctuation")[-1]
            assert probability == pytest.approx(expected, abs=LEFT_OUT)


def test_a_word_that_was_found_and_not_listed_counts():
    """It had less in the spellings that were found, and has more in all."""
    found = wordprob.load("exact:leaky").next_words("mark the", "punctuation", top=4, spellings="all")
    assert [each.separator + each.word for each in found.words] == [" .", " ..", ".", ".."]
    assert all(each.is_certain for each in found.words)


def test_a_real_model(load_model):
    found = load_model("small-llama2").next_words("(", "punctuation", top=1, spellings="all")
    assert [each.is_certain for each in found.words] == [True]


MARKS = ").,;!"


@pytest.mark.parametrize("seed", range(6))
def test_tokens_that_hold_the_same_word_and_another_one(seed):
    """Any of ``)``, ``).``, ``),``, ``);`` shows the word ``)``: a word that was not found may have all of them."""
    pieces = [*(first + second for first in MARKS for second in MARKS), " the", " mark", "ma"]
    model = LeakyLM(ToyTokenizer(r" ?\w+|[^\w\s]|\s", pieces), seed=seed, spread=1.0)
    scorer = wordprob.Scorer(model)
    truth = EveryWord(model, "the", "punctuation").truth()
    for top in (1, 2, 3, 5):
        for max_open in (1, 2, 3, 5, 8, 12, 20, 40):
            found = scorer.next_words("the", "punctuation", top=top, max_open=max_open, spellings="all")
            check_certain(found, truth)
