"""Every spelling of a word: the search against sums over all token sequences, and against a dynamic programme."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wordprob
from all_sequences import AllSequences
from brute_force import contexts_over
from flat_lm import FlatLM
from wordprob.core.words import define
from wordprob.models.exact import ExactLM
from wordprob.models.leaky import LeakyLM
from wordprob.models.toy_tokenizer import ToyTokenizer

EXHAUSTED = {"spellings": "all", "tolerance": 1e-13, "max_open": 100_000, "unit": "nats"}
LEAKY_TEXTS = [
    "the mark",
    "the marker's mark.",
    "marked... the era",
    " ma ther",
    "the  mark",
    "rk",
    "he'sa mark. .ark",
    "markmarkmark ed",
]
TOLERANCES_BITS = (math.inf, 3.0, 0.3, 0.01, 1e-4)


@pytest.fixture(scope="module")
def leaky():
    return wordprob.Scorer(LeakyLM())


def columns(table):
    frame = table.to_pandas()
    return frame["surprisal_all_low"].to_numpy(), frame["surprisal_all"].to_numpy(), frame["surprisal_all_high"]


# --- the leaky model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
@pytest.mark.parametrize("text", LEAKY_TEXTS)
def test_an_exhausted_search_is_the_truth(leaky, text, definition):
    table = leaky.score(text, definition, **EXHAUSTED).to_pandas()
    truth = leaky.model.truth(text, definition)
    assert table["word"].tolist() == [word for word, _ in truth]
    np.testing.assert_allclose(np.exp(-table["surprisal_all"]), [p for _, p in truth], rtol=1e-12, atol=0)
    np.testing.assert_allclose(table["surprisal_all_low"], table["surprisal_all"], atol=1e-11)


@pytest.mark.parametrize("tolerance", TOLERANCES_BITS)
@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_the_truth_is_inside_every_interval(leaky, definition, tolerance):
    for text in LEAKY_TEXTS:
        table = leaky.score(text, definition, spellings="all", tolerance=tolerance, max_open=5000)
        low, found, high = columns(table)
        truth = [-math.log2(p) for _, p in leaky.model.truth(text, definition)]
        assert (low - 1e-12 <= truth).all()
        assert (truth <= found + 1e-12).all()
        assert (found == high).all()
        assert (found - low <= tolerance + 1e-12).all()


def test_all_spellings_are_never_less_likely_than_the_tokenizers_own(leaky):
    for text in LEAKY_TEXTS:
        table = leaky.score(text, "punctuation", spellings="all", tolerance=math.inf).to_pandas()
        assert (table["surprisal_all"] <= table["surprisal"] + 1e-12).all()


@pytest.mark.parametrize("context", ["the mark", "the ma", "mark.", "he"])
def test_the_next_characters_and_the_end_add_up(leaky, context):
    alphabet = sorted(set("".join(piece.decode() for piece in leaky.model.tokenizer.vocabulary.token_bytes)))
    texts = [context + character for character in alphabet]
    spans = [[(0, len(context)), (len(context), len(context) + 1)] for _ in texts]
    table = leaky.score(texts, spans, boundary="none", **EXHAUSTED).to_pandas()
    after = table[table["word_id"] == 1]
    end = leaky.model.distribution(leaky.model.tokenizer.ids(context)[-1])[1] * np.exp(after["before"].iloc[0])
    assert math.fsum(np.exp(-after["surprisal_all"])) + end == pytest.approx(1.0, abs=1e-12)


class ShortWords(LeakyLM):
    """Inside a word, each token comes later in the vocabulary than the one before: words are of finitely many kinds."""

    def __init__(self, tokenizer, seed):
        super().__init__(tokenizer, seed)
        pieces = self.tokenizer.vocabulary.token_bytes
        for last in range(2, self.vocab_size):
            for token in range(2, last + 1):
                if not pieces[last].endswith(b" ") and not pieces[token].startswith(b" "):
                    self._logits[last, token] = -np.inf
        # White space comes one at a time, and not before the end of a text.
        spaces = [token for token, piece in enumerate(pieces) if piece.endswith(b" ")]
        for last in spaces:
            self._logits[last, 1] = -np.inf
            for token in range(2, self.vocab_size):
                if pieces[token].startswith(b" "):
                    self._logits[last, token] = -np.inf

    def next_words(self, last):
        """Return everything that can come after a token: a space and a word."""
        found = set()

        def grow(text, token):
            for following, piece in self._pieces():
                longer = text + piece
                if self.distribution(token)[following] == 0 or not longer.startswith(" "):
                    continue  # it cannot follow, or would go on with the word before
                word_end = longer.find(" ", 1)
                if word_end > 0:
                    found.add(longer[:word_end])
                else:
                    found.update({longer} - {" "})
                    grow(longer, following)

        grow("", last)
        return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_the_next_words_and_the_end_add_up(seed):
    tokenizer = ToyTokenizer(r" ?[\w.]+|\s", ("a", "ab", " a", " ab", "b", "ba ", "k"))
    scorer = wordprob.Scorer(ShortWords(tokenizer, seed))
    for context in ("a", "a b", "ab"):
        last = tokenizer.ids(context)[-1]
        following = scorer.model.next_words(last)
        table = scorer.score([context + word for word in following], **EXHAUSTED).to_pandas()
        values = table[table["word_id"] == len(context.split())]["surprisal_all"]
        assert len(values) == len(following) > 10
        end = scorer.model.distribution(last)[1] / scorer.model.boundary_mass(context, last, "whitespace", "")
        assert math.fsum(np.exp(-values)) + end == pytest.approx(1.0, abs=1e-12)


# --- against a sum over all token sequences ---------------------------------------------------------------------------

CONTEXTS = contexts_over("abc .")
PIECES = st.lists(st.text("abc .", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)
DEFINITIONS = ("whitespace", "punctuation", "characters")


@settings(deadline=None, max_examples=60)
@given(PIECES, st.text("abc .", min_size=1, max_size=9), st.integers(0, 1000), st.sampled_from(DEFINITIONS))
def test_random_languages(pieces, text, seed, definition):
    tokenizer = ToyTokenizer(r" ?[abc]+|[.]+ ?|\s", (*pieces, *"abc. "))
    scorer = wordprob.Scorer(LeakyLM(tokenizer, seed))
    reference = AllSequences(tokenizer, lambda ids: scorer.model.distribution(ids[-1]), prune=0, contexts=CONTEXTS)
    compare(scorer, reference, text, definition)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
def test_families_of_tokenizers(family, definition):
    tokenizer = ExactLM.bigram(family, longest=1).tokenizer
    scorer = wordprob.Scorer(LeakyLM(tokenizer))
    reference = AllSequences(tokenizer, lambda ids: scorer.model.distribution(ids[-1]), prune=0)
    for text in ("She saw the mark.", "the marker's?", "mark? She", "saw"):
        compare(scorer, reference, text, definition)


TEXTS = ["It's a dax.", '"No?" (he) is...', "naïve — ok", "A cat's\n\nhat"]
CUT_OFF_TOLERANCE_NATS = 1e-4
"""Cut-off characters after the word before are read on only where they have some mass."""


def slow(*cases):
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(
    ("name", "definition", "texts"),
    [
        ("gpt2", "whitespace", TEXTS[:2]),
        ("fiction-eow", "punctuation", TEXTS[:2]),
        ("llama2", "whitespace", TEXTS[3:]),
        *slow(("qwen2_5", "punctuation", TEXTS), ("gpt2", "punctuation", TEXTS), ("llama2", "punctuation", TEXTS)),
        *slow(("gpt2", "characters", TEXTS[:1]), ("fiction-eow", "characters", TEXTS[:1])),
    ],
)
def test_real_tokenizers(tokenizer_of, name, definition, texts):
    model = FlatLM(tokenizer_of(name))
    reference = AllSequences(model.tokenizer, probabilities(model), prune=1e-7)
    for text in texts:
        compare(wordprob.Scorer(model), reference, text, definition, CUT_OFF_TOLERANCE_NATS, search_bits=1e-3)


def probabilities(model):
    """Return p(next id) as a function of ids."""

    def distribution(ids):
        logits = model.logits(list(ids))
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return distribution


def compare(scorer, reference, text, definition, tolerance=1e-11, search_bits=1e-13):
    table = scorer.score(text, definition, **EXHAUSTED | {"tolerance": search_bits}).to_pandas()
    rule = None if definition == "characters" else define(definition)
    expected = reference.all_words(text, define(definition).segment(text), rule)
    for row, value in zip(table.itertuples(), expected, strict=True):
        assert value.surprisal.low - tolerance <= row.surprisal_all, (text, row.word, value)
        assert row.surprisal_all_low <= value.surprisal.high + tolerance, (text, row.word, value)
        assert row.surprisal_all - row.surprisal_all_low <= search_bits
