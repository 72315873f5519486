"""Tokenizers that drop white space, mark the ends of words, or read another text than the one that is given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from flat_lm import FlatLM
from random_lm import RandomLM
from small_models import FAMILIES, BigramLM, small_tokenizer
from wordpiece import WordPiece
from wordprob import Scorer


@pytest.fixture(scope="module")
def flat(tokenizer_of):
    """Open a tokenizer with a flat model on it."""
    scorers = {}

    def opener(name):
        if name not in scorers:
            scorers[name] = Scorer(FlatLM(tokenizer_of(name)))
        return scorers[name]

    return opener


def surprisals(scorer, texts, words="whitespace"):
    return scorer.score(texts, words, unit="nats").to_pandas()["surprisal"].to_numpy()


# --- ends of words that are marked ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small-openai-gpt", "small-ctrl"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation", r"regex:\S+"])
def test_values_do_not_depend_on_other_texts_or_words(flat, name, definition):
    """Whether a mark stands for white space depends on the character before it, for each word by itself."""
    texts = ["(", "one two", "' '", "- three", "a"]
    together = surprisals(flat(name), texts, definition)
    alone = np.concatenate([surprisals(flat(name), [text], definition) for text in texts])
    assert np.allclose(together, alone, rtol=0, atol=1e-12)
    assert np.allclose(surprisals(flat(name), texts[::-1], definition)[0], alone[-1], rtol=0, atol=1e-12)


def test_a_mark_stands_for_white_space_after_a_letter_wherever_it_is(flat):
    frame = flat("small-openai-gpt").score(["- one two", "one - two"], unit="nats").to_pandas()
    after_letters = frame[frame["word"].isin(["one", "two"])]["after"]
    assert (after_letters < 0.2).all()


# --- white space at the beginning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["whitespace", "punctuation", "characters"])
@pytest.mark.parametrize(
    ("name", "spaces"),
    [("small-openai-gpt", (" ", "\n", "\t ")), ("small-ctrl", (" ", "  ")), ("small-unigram", (" ",))],
)
def test_white_space_that_leaves_no_trace_changes_nothing(flat, name, spaces, definition):
    """A text with it has the same tokens as one without, so it is the same event."""
    scorer = flat(name)
    without = surprisals(scorer, ["line up"], definition)
    for space in spaces:
        assert np.allclose(surprisals(scorer, [space + "line up"], definition), without, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["small-llama2", "small-gpt2"])
def test_white_space_that_has_tokens_is_a_condition_of_its_own(flat, name):
    frame = flat(name).score(["line", "  line"], unit="nats").to_pandas()
    masses = np.exp(-frame["before"].to_numpy())
    assert 0.0 < masses[1] != masses[0]
    assert masses.sum() <= 1.0 + 2e-5, "no text begins in both ways; each mass is known to 1e-5"


def test_a_text_may_begin_with_every_piece_that_does_not_go_on_with_a_word():
    model = RandomLM(WordPiece())
    vocabulary = model.tokenizer.vocabulary
    logits = model.logits([vocabulary.start])
    probabilities = np.exp(logits - np.logaddexp.reduce(logits))
    pieces = vocabulary.spaced & np.array([bool(piece) for piece in vocabulary.token_bytes])
    mass = probabilities[: vocabulary.size][pieces].sum() + probabilities[[*vocabulary.ends, vocabulary.unknown]].sum()
    frame = Scorer(model).score(["the mark", "  (the", "it"], unit="nats").to_pandas()
    first_words = frame[frame["word_id"] == 0]
    assert np.allclose(first_words["before"], -np.log(mass), rtol=0, atol=1e-12)


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_an_unknown_token_ends_the_word_before_it_and_begins_a_text(definition):
    """As any WordPiece token without ``##`` does; checked by adding up every token that may follow."""
    model = RandomLM(WordPiece())
    vocabulary = model.tokenizer.vocabulary

    def mass(prefix, may_follow):
        logits = model.logits(prefix)
        chosen = [i for i, token in enumerate(vocabulary.tokens) if may_follow(token)]
        return np.logaddexp.reduce(logits[chosen]) - np.logaddexp.reduce(logits)

    ids = [vocabulary.start, *model.tokenizer.ids("the mark it")]
    begins_word = {"[UNK]", "[END]"} | {t for t in vocabulary.tokens if t[0] not in "#[" and t not in ".,"}
    ends_word = begins_word | ({".", ","} if definition == "punctuation" else set())
    begins_text = begins_word | {".", ","}
    masses = [mass(ids[:1], begins_text.__contains__)]
    masses += [mass(ids[: n + 1], ends_word.__contains__) for n in (1, 2, 3)]
    frame = Scorer(model).score("the mark it", definition, unit="nats").to_pandas()
    assert np.allclose(-frame["before"], masses[:-1], rtol=0, atol=1e-12)
    assert np.allclose(-frame["after"], masses[1:], rtol=0, atol=1e-12)


# --- texts that are read as others ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("small-openai-gpt", "Line Up", "line up"),
        ("small-openai-gpt", "Él va", "el va"),
        ("small-bow", "see a▁b", "see a b"),
        ("small-eow", "see a▁b", "see a b"),
    ],
)
def test_characters_have_the_values_of_the_text_that_is_read(flat, name, given, read):
    """Otherwise the tokens that could go on are compared with a text that no token holds."""
    frame = flat(name).score(given, "characters", unit="nats").to_pandas()
    expected = flat(name).score(read, "characters", unit="nats").to_pandas()
    assert (frame["surprisal"] >= 0.0).all()
    if len(frame) == len(expected):
        assert np.allclose(frame["surprisal"], expected["surprisal"], rtol=0, atol=1e-12)
    assert frame["surprisal"].sum() == pytest.approx(expected["surprisal"].sum(), abs=1e-9)
    changed = frame["word"].isin(list("LUÉ▁"))
    assert frame["note"][changed].str.startswith("read by the tokeniser as").all()


# --- every spelling of a text that is read as another one -------------------------------------------------------------


class LowerCase:
    """A tokeniser that reads texts in lower case."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary

    def encode(self, texts):
        lower = [text.lower() for text in texts]
        return [
            dataclasses.replace(tokens, exact=tokens.exact and text == as_read)
            for tokens, text, as_read in zip(self._tokenizer.encode(lower), texts, lower, strict=True)
        ]

    def cut(self, text, place):
        return self._tokenizer.cut(text, place)


@pytest.mark.parametrize("family", FAMILIES)
def test_all_spellings_are_those_of_the_text_as_it_is_read(family):
    scorer = Scorer(BigramLM(LowerCase(small_tokenizer(family)), seed=2, spread=2.0))
    options = {"spellings": "all", "tolerance": 1e-6, "max_open": 2000, "unit": "nats"}
    columns = ["surprisal", "surprisal_all", "surprisal_all_low", "surprisal_all_high"]
    given, as_read = (scorer.score(text, **options).to_pandas() for text in ("AB. Aba b", "ab. aba b"))
    assert given[columns].notna().all(axis=None)
    np.testing.assert_allclose(given[columns], as_read[columns], rtol=0, atol=1e-12)
    assert given["note"].str.contains("read by the tokeniser as 'ab.'")[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_next_words_are_those_after_the_context_as_it_is_read(family):
    scorer = Scorer(BigramLM(LowerCase(small_tokenizer(family)), seed=2, spread=2.0))
    given, as_read = scorer.next_words(["b AB", "b ab"], top=5, max_open=400)
    assert given.context == "b AB"
    assert [(word.word, word.probability) for word in given.words] == [
        (word.word, pytest.approx(word.probability, abs=1e-12)) for word in as_read.words
    ]
    assert given.end == pytest.approx(as_read.end, abs=1e-12)
