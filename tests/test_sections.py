"""One long text in sections gives what it gives whole."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import wordprob
from conftest import shared
from distributions import next_log_probs
from wordprob import Scorer
from wordprob.models.protocol import Scores
from wordprob.scoring import long_text as sections
from wordprob.scoring import scorer


class Bigrams:
    """A model that looks at nothing but the last token, so that no window changes what it says."""

    metadata = {"model": "bigrams"}  # noqa: RUF012
    max_tokens = 65
    batch_tokens = 512

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocabulary.size

    @cache  # noqa: B019
    def after(self, last):
        logits = np.random.default_rng(last).normal(size=self.vocab_size) * 3
        return logits - np.log(np.exp(logits).sum())

    def score(self, requests, atoms):
        for n, request in enumerate(requests):
            rows = [self.after(int(i)) for i in request.ids[request.first :]]
            mass = np.array([np.bincount(atoms.atom_of_token, np.exp(row), len(atoms.labels)) for row in rows])
            target = [row[i] for row, i in zip(rows, request.ids[request.first + 1 :], strict=False)]
            chosen = zip((request.gather - request.first).tolist(), request.chosen.tolist(), strict=True)
            gathered = [np.log(np.exp(rows[j][request.lists[k]]).sum()) for j, k in chosen]
            with np.errstate(divide="ignore"):
                yield n, Scores(np.array(target), np.log(mass), np.array(gathered))


@pytest.fixture
def long():
    return shared("data/text/austen_pride.txt").read_text(encoding="utf-8")[3000:9000]


@pytest.fixture
def small(monkeypatch):
    """Let sections begin at a few hundred characters."""
    monkeypatch.setattr(scorer, "BATCHES", 1)
    monkeypatch.setattr(scorer, "FIRST", 1)
    monkeypatch.setattr(sections, "WINDOWS", 1)


@pytest.mark.parametrize("name", ["gpt-neox", "llama2", "mistral-7b-v0.1"])
@pytest.mark.parametrize("words", ["whitespace", "punctuation"])
@pytest.mark.parametrize("readers", [0, 1])
def test_sections_are_the_text(name, words, readers, long, small, monkeypatch, tokenizer_of):
    texts = ["Short.", long, "", "Another short one.", long[:1500] + "“No – she said.”"]
    model = Scorer(Bigrams(tokenizer_of(name)))
    cut = model._parts(*_arguments(model, texts, words))
    assert sum(part.goes_on for part in cut) > 8
    found = model.score(texts, words, unit="nats", readers=readers)
    monkeypatch.setattr(scorer, "sections", lambda document, *_: [scorer.Part([document])])
    whole = model.score(texts, words, unit="nats")
    left, right = (table.to_pandas().drop(columns="context_tokens") for table in (found, whole))
    pd.testing.assert_frame_equal(left, right, rtol=1e-10)
    pd.testing.assert_frame_equal(found.texts(), whole.texts(), rtol=1e-9, atol=1e-8)
    assert found.texts()["conservation"].abs().max() < 1e-8
    assert found.texts()["n_words"][1] == len(left[left["text_id"] == 1]) > 900
    assert (left["word"] == [texts[t][a:b] for t, a, b in zip(left.text_id, left.start, left.end, strict=True)]).all()


def test_every_word_of_a_section_has_its_context(long, small, tokenizer_of):
    model = Scorer(Bigrams(tokenizer_of("llama2")))
    for least in (5, 32, 60):
        context = model.score(long, min_context=least).to_pandas()["context_tokens"]
        assert context[60:].min() >= least
        assert context.max() < 64


def test_values_are_those_of_the_window_alone(long, small, load_shared, monkeypatch):
    """What a real model says about a word depends on the tokens it saw, not on where a section began."""
    model = load_shared("stories15M")
    monkeypatch.setattr(model.model, "max_tokens", 48)
    assert len(model._parts(*_arguments(model, [long[:3000]], "whitespace"))) > 3
    table = model.score(long[:3000], unit="nats")
    frame = table.to_pandas()
    assert np.array_equal(frame["after"][:-1], frame["before"][1:]), "one boundary between two words"
    assert table.texts()["log_prob_words"][0] == pytest.approx(-frame["surprisal"].sum(), abs=1e-3)
    assert table.texts()["n_scored"][0] == len(frame)
    tokens = model.model.tokenizer.encode([long[:3000]])[0]
    start = model.model.tokenizer.vocabulary.start
    low = np.cumsum(frame["n_tokens"]) - frame["n_tokens"]
    for n in range(100, len(frame), 97):
        seen = slice(low[n] - frame["context_tokens"][n], low[n] + frame["n_tokens"][n])
        ids = tokens.ids[seen].tolist()
        rows = next_log_probs(model.model, [[start, *ids[:k]] for k in range(len(ids))])
        naive = -sum(rows[k][ids[k]] for k in range(frame["context_tokens"][n], len(ids)))
        assert frame["surprisal_naive"][n] == pytest.approx(naive, abs=1e-3)


def test_what_cannot_be_cut_stays_whole(long, small):
    model = wordprob.load("exact:bow")
    assert len(model._parts(*_arguments(model, [long], "whitespace"))) == 1


def test_a_text_that_fits_is_one_window(long, small, tokenizer_of):
    model = Scorer(Bigrams(tokenizer_of("gpt2")))
    model.model.max_tokens = 4096
    assert model.score(long).to_pandas()["context_tokens"].is_monotonic_increasing
    rule = r"regex:\w+( \w+)?"
    assert len(model._parts(*_arguments(model, [long], rule))) == 1, "a word may go on over a space"


def _arguments(model, texts, words):
    documents = scorer._documents(texts, None)
    rule, located = scorer._definition(words, documents)
    return documents, rule, located, scorer.Settings(model._one.start, model._one.room), model.model.batch_tokens
