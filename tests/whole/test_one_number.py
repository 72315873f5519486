"""One word, one number: what lists next words and what scores texts must agree, first words and `<unk>` included."""

from __future__ import annotations

import functools
import math

import pytest

import wordprob
from conftest import SMALL_TOKENIZERS, TOKENIZERS
from flat_lm import with_start
from random_lm import RandomLM
from small_models import FAMILIES, BigramLM, small_tokenizer
from small_tokenizers import SPACELESS
from wordprob.errors import InputError
from wordprob.studies.check import check_sum

AGREEMENT_NATS = 1e-6
CUT_OFF_LOGIT = -30.0
SEPARATOR_CONTROLS = b"\x1c\x1d\x1e\x1f"
"""White space for Python, but not for Unicode, and so words of their own."""
CONTEXTS = ("", "ab", "ab.", "b ab")
DEFINITIONS = ("whitespace", "punctuation")


def scorer_of(family, seed, spread):
    return wordprob.Scorer(BigramLM(small_tokenizer(family), seed, spread))


def scored(scorer, context, word, definition, column="surprisal"):
    """Return the surprisal of a word (with its separator) after a context, from the whole text, in nats."""
    table = scorer.score(context + word.separator + word.word, definition, unit="nats").to_pandas()
    return float(table[table["word"] == word.word][column].iloc[-1])


@pytest.mark.parametrize("spread", [1.0, 3.0])
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_next_words_and_scored_texts_agree(family, context, definition, spread):
    scorer = scorer_of(family, 3, spread)
    (found,) = scorer.next_words([context], definition, top=12, max_open=3000)
    assert len(found.words) == 12
    for word in found.words:
        assert -math.log(word.probability) == pytest.approx(
            scored(scorer, context, word, definition), abs=AGREEMENT_NATS
        )
    assert math.fsum(word.probability for word in found.words) + found.end <= 1.0 + AGREEMENT_NATS


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_end_is_that_of_scored_texts(family, context, definition):
    scorer = scorer_of(family, 5, 2.0)
    (found,) = scorer.next_words([context], definition, top=2, max_open=300)
    table = scorer.score(context, definition, unit="nats")
    if context:
        assert -math.log(found.end) == pytest.approx(float(table.texts()["end"].iloc[0]), abs=AGREEMENT_NATS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_words_and_end_add_up_to_one(family, context, definition, seed):
    check = check_sum(scorer_of(family, seed, 2.0), context, definition, max_open=300, max_error=1e-5)
    assert check.fault == ""
    assert check.total <= 1.0 + 1e-9
    assert check.unexplained == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("family", ["first", "byte fallback", "unigram", "byte-level"])
def test_all_spellings_agree(family, context):
    scorer = scorer_of(family, 7, 1.5)
    (found,) = scorer.next_words([context], top=3, max_open=3000, spellings="all")
    for word in found.words:
        text = context + word.separator + word.word
        table = scorer.score(text, unit="nats", spellings="all", tolerance=1e-6, max_open=5000).to_pandas()
        low, high = (math.exp(-table[f"surprisal_all_{side}"].iloc[-1]) for side in ("high", "low"))
        assert word.probability <= high * (1.0 + AGREEMENT_NATS)
        assert word.probability_high >= low * (1.0 - AGREEMENT_NATS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["first", "never", "unigram"])
def test_entropies_are_those_of_the_scored_words(family, seed):
    scorer = scorer_of(family, seed, 2.0)
    extras = ["word_entropy_2", "word_entropy_inf"]
    table = scorer.score("ab", "punctuation", unit="nats", extras=extras, max_open=40).to_pandas().iloc[0]
    (found,) = scorer.next_words([""], "punctuation", mass=0.999, max_open=4000)
    known = [*(word.probability for word in found.words), found.end]
    collision = -math.log(math.fsum(p * p for p in known) / math.fsum(known))
    assert table["word_entropy_2_low"] <= collision + 1e-3
    assert table["word_entropy_2_high"] >= collision - 1e-3
    assert table["word_entropy_inf_low"] <= -math.log(max(known)) + AGREEMENT_NATS
    assert table["word_entropy_inf_high"] >= -math.log(max(known)) - AGREEMENT_NATS


# --- every tokeniser at hand, every way to ask ------------------------------------------------------------------------

SENTENCES = ("", "She saw the mark", "No. She saw 書")
"""Contexts: none, an ordinary one, and one that ends in a character for which some tokenisers have only ``<unk>``."""
GIVEN = ("mark", "Marks", "z", "2024", "well-known", "書")
SPACELESS_AT_HAND = [name for name in ("ctrl", "openai-gpt") if name in TOKENIZERS]
WRITE_WHITE_SPACE = [name for name in (*SMALL_TOKENIZERS, *TOKENIZERS) if name not in (*SPACELESS, *SPACELESS_AT_HAND)]
NOT_YET = pytest.mark.xfail(
    raises=InputError, strict=True, reason="next words of tokenisers that leave out white space cannot be listed yet"
)


@pytest.fixture(scope="module")
def random_scorer(tokenizer_of):
    """Open a tokeniser with a model on it under which characters are hardly ever cut off: what is left is exact."""

    @functools.cache
    def opener(name):
        tokenizer = with_start(tokenizer_of(name))
        pieces = enumerate(tokenizer.vocabulary.token_bytes)
        control = [token for token, piece in pieces if set(piece) & set(SEPARATOR_CONTROLS)]
        return wordprob.Scorer(RandomLM(tokenizer, impossible=control, cut_off_logit=CUT_OFF_LOGIT))

    return opener


def assert_one_number(scorer, context, separator, word, definition, expected):
    """Compare what ``score``, ``score_candidates`` and ``spellings`` say about a word."""
    table = scorer.score(context + separator + word, definition, unit="nats").to_pandas()
    assert table["word"].iloc[-1] == word
    found = {"score": float(table["surprisal"].iloc[-1])}
    candidates = scorer.score_candidates(context, [word], definition, unit="nats", separator=separator).to_pandas()
    found["score_candidates"] = float(candidates["surprisal"][0])
    try:
        spellings = scorer.spellings(context, word, definition, unit="nats", separator=separator, max_open=1)
        found["spellings"] = spellings.surprisal
    except InputError as error:
        assert "there are no spellings" in str(error)  # noqa: PT017  (none is fine, another number is not)
    expected = found["score"] if expected is None else expected
    assert found == pytest.approx(dict.fromkeys(found, expected), abs=AGREEMENT_NATS, nan_ok=True), (context, word)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("name", [*WRITE_WHITE_SPACE, *(pytest.param(name, marks=NOT_YET) for name in SPACELESS)])
def test_words_that_are_listed_have_one_number(random_scorer, name, definition):
    scorer = random_scorer(name)
    for context in SENTENCES[:2] if name == "small-unigram" else SENTENCES:
        (found,) = scorer.next_words([context], definition, top=3, max_open=12)
        checked = check_sum(scorer, context, definition, max_open=12).probabilities
        assert found.words
        for word in found.words:
            surprisal = -math.log(word.probability)
            assert_one_number(scorer, context, word.separator, word.word, definition, surprisal)
            if (shown := word.separator + word.word) in checked:
                assert -math.log(checked[shown]) == pytest.approx(surprisal, abs=AGREEMENT_NATS)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("name", [*WRITE_WHITE_SPACE, *SPACELESS, *SPACELESS_AT_HAND])
def test_words_that_are_given_have_one_number(random_scorer, name, definition):
    scorer = random_scorer(name)
    for context in SENTENCES:
        for word in GIVEN if definition == "whitespace" else GIVEN[:4]:
            assert_one_number(scorer, context, " " if context else "", word, definition, None)


@pytest.mark.xfail(raises=InputError, strict=True, reason="words after a context with <unk> cannot be listed yet")
def test_words_after_an_unknown_character_can_be_listed(random_scorer):
    (found,) = random_scorer("small-unigram").next_words([SENTENCES[2]], top=3, max_open=12)
    assert found.words


def test_a_control_character_has_one_number(tokenizer_of):
    scorer = wordprob.Scorer(RandomLM(tokenizer_of("small-gpt2"), cut_off_logit=CUT_OFF_LOGIT))
    assert_one_number(scorer, "", "", "\x1f", "whitespace", None)
