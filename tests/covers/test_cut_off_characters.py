"""Characters that a token cuts off are read on as far as the error that is allowed demands."""

from __future__ import annotations

import numpy as np
import pytest

import flat_lm
from flat_lm import FlatLM
from wordprob import Scorer
from wordprob.core import words
from wordprob.core.atoms import atoms_of
from wordprob.core.characters import END
from wordprob.covers.events import CutOffTokens
from wordprob.models.protocol import Capabilities

TEXTS = ["a 'b'.", "זה ”ס“"]
EXACT = 1e-6


class CountingLM(FlatLM):
    """Counts the questions that go beyond the texts."""

    n_asked = 0

    def open(self, requests, atoms, states=None):
        self.n_asked += len(requests)
        return super().open(requests, atoms, states)


@pytest.fixture(scope="module")
def model(tokenizer_of):
    """A model under which cut-off characters matter everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat_lm, "LIGHT", -2.0)
        return CountingLM(tokenizer_of("small-gpt2"))


@pytest.fixture
def score(model):
    """Score texts with the error that is allowed; return the surprisal of every word, and how much was asked."""

    def scored(definition, error):
        model.n_asked = 0
        model.capabilities = Capabilities(precision_nats=error)
        frame = Scorer(model).score(TEXTS, definition, unit="nats").to_pandas()
        return frame["surprisal"].to_numpy(), model.n_asked

    return scored


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_the_error_of_a_word_is_no_larger_than_allowed(score, definition):
    exact, n_exact = score(definition, EXACT)
    asked, differences = [n_exact], []
    for error in (1e-4, 1e-3, 1e-2, 0.1):
        found, n_asked = score(definition, error)
        differences.append(np.abs(found - exact).max())
        assert differences[-1] <= error + EXACT
        asked.append(n_asked)
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < asked[0]
    assert max(differences) > 1e-6, "something was left open"


@pytest.mark.parametrize("definition", ["whitespace", "punctuation"])
def test_nothing_is_asked_where_any_error_is_allowed(score, definition):
    found, n_asked = score(definition, 1e9)
    assert n_asked == 0
    assert np.isfinite(found).all()


def test_what_ends_a_word_whatever_it_becomes_is_not_read_on(tokenizer_of):
    vocabulary, rule = tokenizer_of("small-gpt2").vocabulary, words.define("punctuation")
    atoms = atoms_of(vocabulary, rule)
    tokens = CutOffTokens(vocabulary, rule, atoms)
    ending = frozenset({"punctuation", "open", "apostrophe", "space", END})
    sure, cut_off = tokens.next_tokens(b"\xf0\x9f", ending)
    after_emoji = {tokens.bytes_of(token): token for token in (*sure.tolist(), *cut_off)}
    assert after_emoji[b"\x98"] in sure, "every character of U+1F600 to U+1F63F is a symbol"
    assert after_emoji[b"\x84"] in cut_off, "some of U+1F100 to U+1F13F are digits"
