"""All spellings with tokenisers whose tokens leave out white space, judged by writing down every token sequence.

The text of a sequence is what it is read as: where a pre-token ends, there is white space if writers put it there.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import wordprob
from enumeration import EndingLM, Enumeration, Sequence
from flat_lm import with_start
from random_lm import RandomLM
from small_tokenizers import SPACELESS, small_tokenizer
from wordprob.core.words import define
from wordprob.models.huggingface.tokenizer import HFTokenizer

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
BERT = pre_tokenizers.BertPreTokenizer()
RUNS = pre_tokenizers.Split(Regex(r"\p{L}+|[^\s\p{L}]+"), "removed", invert=True)
WORDS = pre_tokenizers.WhitespaceSplit()
JOINS = [("a", "b</w>"), ("a", "b"), (".", ".</w>"), (".", "."), ("b", ".</w>"), ("b", ".")]
SPLITS_MARKS = ("split </w>", "runs </w>", "split ##")
FAMILIES = (*SPLITS_MARKS, "words </w>")
DEFINITIONS = ("whitespace", "punctuation")
CONTEXTS = ("", "ab", "ab.", "b a", "a..")
EXHAUSTED = 100_000
EXACT = 1e-9


@functools.cache
def tokenizer_of_family(family):
    """Return a tokeniser with a few tokens that marks ends (``</w>``) or continuations (``##``)."""
    splitter = {"split": BERT, "runs": RUNS, "words": WORDS}[family.split()[0]]
    if family.endswith("##"):
        pieces = [mark + piece for piece in ("a", "b", ".", ",", "ab", "b.") for mark in ("", "##")]
        made = Tokenizer(models.WordPiece(numbered(pieces), unk_token="<unk>"))
    else:
        pieces = [piece + mark for piece in "ab.," for mark in ("", "</w>")] + ["".join(pair) for pair in JOINS]
        made = Tokenizer(models.BPE(numbered(pieces), JOINS, unk_token="<unk>", end_of_word_suffix="</w>"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), splitter
    return HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL))


def numbered(pieces):
    return {piece: number for number, piece in enumerate([*SPECIAL.values(), *pieces])}


class ReadTexts(Enumeration):
    """The texts of a model as they are read; the tokeniser may close a pre-token before a comma, or not."""

    following = "ab .,"

    def _sequence(self, ids, probability):
        vocabulary, text, ends = self._model.tokenizer.vocabulary, "", []
        names = [vocabulary.tokens[token] for token in ids]
        if vocabulary.convention == "##" and names and names[0].startswith("##"):
            return None  # no text begins so
        for number, token in enumerate(ids):
            piece = self._pieces[token].decode()
            text += " " * self._has_space(text, piece, names[:number], names[number]) + piece
            ends.append(len(text))
        return Sequence(text, probability, ids, tuple(ends))

    def _has_space(self, text, piece, before, name):
        """A mark follows what it follows; a letter begins a word, if a pre-token ended before it."""
        if not text:
            return False
        vocabulary = self._model.tokenizer.vocabulary
        if vocabulary.convention == "##":
            return not name.startswith("##") and piece[0] not in ".,"
        return before[-1].endswith("</w>") and (vocabulary.mark_is_space or piece[0] not in ".,")


@functools.cache
def judged(family, definition):
    """Return a scorer on a tiny model, and all of its texts."""
    model = EndingLM(tokenizer_of_family(family))
    return wordprob.Scorer(model), ReadTexts(model, define(definition))


def words_after(truth, context):
    """Return likely words after a context, and the likeliest that hold marks."""
    own = {word: truth.own(context, word) for word in truth.next_words(context)}
    likely = sorted((word for word, p in own.items() if p > 0), key=lambda word: -own[word])
    return {word: own[word] for word in [*likely[:6], *[word for word in likely if "." in word][:4]]}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_spellings_are_all_sequences(family, definition, context):
    scorer, truth = judged(family, definition)
    if not truth.own_mass(context):
        pytest.skip("the tokeniser reads this context as another text")
    words = words_after(truth, context)
    assert words
    for word, own in words.items():
        every = -math.log(truth.every(context, word))
        for max_open in (1, 3, EXHAUSTED):
            options = {"spellings": "all", "tolerance": 1e-12, "max_open": max_open}
            row = scorer.score(context + word, definition, unit="nats", **options).to_pandas().iloc[-1]
            assert row["surprisal"] == pytest.approx(-math.log(own), abs=EXACT)
            assert row["surprisal_all"] <= row["surprisal"] + EXACT
            assert row["surprisal_all_low"] - EXACT <= every <= row["surprisal_all_high"] + EXACT, (context, word)
        assert row["surprisal_all"] == pytest.approx(every, abs=EXACT), (context, word)


@pytest.mark.parametrize("family", FAMILIES)
def test_spans_are_all_sequences_that_begin_so(family):
    scorer, truth = judged(family, "whitespace")
    texts = math.fsum(each.probability for each in truth.sequences)
    options = {"boundary": "none", "unit": "nats", "spellings": "all", "tolerance": 1e-12, "max_open": EXHAUSTED}
    for span in ("a", "ab", "ab.", "b..", "ba", "."):
        mass = math.fsum(each.probability for each in truth.sequences if each.text.startswith(span))
        row = scorer.score(span, "whitespace", **options).to_pandas().iloc[-1]
        assert row["surprisal_all"] == pytest.approx(-math.log(mass / texts), abs=EXACT)


@pytest.mark.parametrize("family", FAMILIES)
def test_other_spellings_count(family):
    """The texts are not all written in one way."""
    _, truth = judged(family, "whitespace")
    differences = [truth.every("", word) - own for word, own in words_after(truth, "").items()]
    assert np.max(differences) > 1e-4


@functools.cache
def small_scorer(name):
    return wordprob.Scorer(RandomLM(with_start(small_tokenizer(name)), cut_off_logit=-30.0))


@pytest.mark.parametrize("definition", [*DEFINITIONS, r"regex:\w+", "characters"])
@pytest.mark.parametrize("name", SPACELESS)
def test_every_word_has_an_interval_or_a_note(name, definition):
    texts = [
        'She saw the mark on the wall. (He said no...) It\'s 2024; well-known, "yes." ☃ end',
        "a\nb mark; ;x say;;",
    ]
    table = small_scorer(name).score(texts, definition, spellings="all", max_open=4).to_pandas()
    known = table["surprisal_all"].notna()
    assert known.sum() > 15
    assert table["note"][~known].str.contains("other spellings are not known").all()
    assert (table["surprisal_all"] <= table["surprisal"] + EXACT)[known].all()
    assert (table["surprisal_all_low"] <= table["surprisal_all"] + EXACT)[known].all()


@pytest.mark.parametrize(("name", "mark"), [("small-openai-gpt", "</w>"), ("small-bert", "##"), ("small-ctrl", "@@")])
def test_spellings_are_shown_with_their_marks(name, mark):
    found = small_scorer(name).spellings("She saw the", "marks.", max_open=30)
    assert len({spelling.tokens for spelling in found.spellings}) == len(found.spellings) > 1
    assert any(mark in token for spelling in found.spellings for token in spelling.tokens)
    assert any(spelling.is_own for spelling in found.spellings)


def test_a_word_that_cannot_be_written_says_so():
    with pytest.raises(wordprob.errors.InputError, match="there are no spellings .* other spellings are not known"):
        small_scorer("small-bert").spellings("She saw the", "☃")
