"""Own spellings of tokenizers that close words by a mark, against an enumeration of everything that may follow."""

from __future__ import annotations

import json
from functools import cache
from itertools import product

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from brute_force import BruteForce, Interval
from random_lm import RandomLM
from wordprob import Scorer
from wordprob.core import words
from wordprob.models.registry import open_tokenizer

TOLERANCE_NATS = 1e-6

MERGES = {
    "clip-like": ["m a", "ma r</w>", "; ;</w>", "; -</w>", ". .", ".. .</w>", "a r", "- -", "-- ;", "r k</w>", "; ."],
    "gpt1-like": ["m a", "ma r</w>", "a r", "r k</w>", "ma r", "mar k</w>", "a a", "aa k", "a k</w>", "r r</w>"],
    "no single letter can follow": [
        *("a r", "a m", "a a", "a k", "a r</w>", "a m</w>", "a a</w>", "a k</w>"),
        *("m m", "m m</w>", "r m"),
    ],
}
PRE_TOKENIZERS = {
    "clip-like": Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"),
    "gpt1-like": Regex(r"\p{L}+|[^\s\p{L}]"),
    "no single letter can follow": Regex(r"\p{L}+|[^\s\p{L}]"),
}
LETTERS, MARKS = "mark", ";-."
TEXTS = ["mar; ar", "mar... mark", "ma-;-ar", "aark.; -", "rar ;;", "MAR; mark"]


class Enumeration(BruteForce):
    """Everything that may follow is written down: all strings of a few characters, with white space or without.

    After a mark the definition says what ends a word, since the tokens do not show where white space is.
    """

    def rests(self, left, definition):
        return all_strings()

    def closes(self, cover, beyond, left, definition):
        if definition is None or beyond or not self.vocabulary.marked[cover[-1]]:
            return super().closes(cover, beyond, left, definition)
        p = self.distribution(cover)
        word = next(word for word in definition.segment(left) if word.end == len(left))
        openings = [piece.decode() for _, piece in self._tokens]
        labels = [definition.label(opening) for opening in openings]
        ending = definition.boundaries(left[: word.start], word.text, sorted(set(labels)), closed=True)
        mass = sum(p[token] for (token, _), label in zip(self._tokens, labels, strict=True) if label in ending)
        return Interval(*[float(mass + self.p_end(cover))] * 2)


@cache
def all_strings():
    """Return all strings of up to four characters of the vocabularies, and of white space and another one."""
    strings = ["".join(row) for size in range(5) for row in product(LETTERS + MARKS, repeat=size)]
    return [*strings, *(" " + string for string in strings if len(string) < 3)]


@pytest.fixture(params=sorted(MERGES))
def tokenizer(request, tmp_path):
    """A tokenizer with ``</w>`` that lower-cases, of seven characters and a few merges."""
    merges = [tuple(merge.split()) for merge in MERGES[request.param]]
    singles = [character + mark for character in LETTERS + MARKS for mark in ("", "</w>")]
    pieces = dict.fromkeys([*singles, *("".join(pair) for pair in merges), "<|end|>"])
    bpe = models.BPE({piece: n for n, piece in enumerate(pieces)}, merges, end_of_word_suffix="</w>")
    made = Tokenizer(bpe)
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Split(PRE_TOKENIZERS[request.param], "removed", invert=True)
    made.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|end|>", "eos_token": "<|end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return open_tokenizer(tmp_path)


def random_weights(tokenizer):
    """Return a scorer with random weights, and the enumeration with the same ones."""
    model = RandomLM(tokenizer)

    def distribution(ids):
        weights = np.exp(model.logits(ids))
        return weights / weights.sum()

    return Scorer(model), Enumeration(tokenizer, distribution, kept=1 << 12)


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_words(tokenizer, definition):
    scorer, reference = random_weights(tokenizer)
    rule = words.define(definition)
    for text in TEXTS:
        found = scorer.score(text, definition, unit="nats").to_pandas()["surprisal"]
        expected = [value.surprisal.low for value in reference.words(text.lower(), rule)]
        assert found.tolist() == pytest.approx(expected, abs=TOLERANCE_NATS), text


@pytest.mark.parametrize("definition", ["whitespace", "punctuation", "characters"])
def test_spans(tokenizer, definition):
    scorer, reference = random_weights(tokenizer)
    for text in TEXTS:
        frame = scorer.score(text, definition, boundary="none", unit="nats").to_pandas()
        spans = list(zip(frame["start"], frame["end"], strict=True))
        expected = [value.surprisal.low for value in reference.spans(text.lower(), spans)]
        assert frame["surprisal"].tolist() == pytest.approx(expected, abs=TOLERANCE_NATS), text
