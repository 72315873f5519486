"""One word, one number: what lists next words and what scores texts must agree, first words and `<unk>` included."""

from __future__ import annotations

import math

import pytest

import wordprob
from conftest import TOKENIZERS
from flat_lm import FlatLM
from small_models import FAMILIES, BigramLM, small_tokenizer
from wordprob.studies.check import check_sum

AGREEMENT_NATS = 1e-6
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


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name not in ("ctrl", "openai-gpt")])
def test_real_tokenizers_agree(name, tokenizer_of):
    scorer = wordprob.Scorer(FlatLM(tokenizer_of(name)))
    for context in ("", "She saw the mark"):
        (found,) = scorer.next_words([context], top=4, max_open=12)
        for word in found.words:
            expected = scored(scorer, context, word, "whitespace")
            assert -math.log(word.probability) == pytest.approx(expected, abs=AGREEMENT_NATS)
