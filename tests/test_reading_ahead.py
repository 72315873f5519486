"""Pages: many texts at once give what each gives alone; extras; readers in processes of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import wordprob
from conftest import shared
from distributions import next_log_probs
from wordprob.core.text import Document
from wordprob.errors import InputError, ModelError, OptionError
from wordprob.scoring import ahead, scorer
from wordprob.scoring import prepare as reader
from wordprob.scoring import worker_pool as readers

TEXTS = ["She saw the mark.", "", "the marker?", "She's marked the mark. She saw the mark?", "   ", "the"] * 3


@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
@pytest.mark.parametrize("rule", ["whitespace", "punctuation", r"regex:\w+|[^\w\s]"])
def test_texts_on_a_page_do_not_touch_each_other(family, rule, monkeypatch):
    model = wordprob.load(f"exact:{family}")
    together = model.score(TEXTS, rule, extras=["entropy", "rank"])
    monkeypatch.setattr(scorer, "TEXTS", 1)
    alone = model.score(TEXTS, rule, extras=["entropy", "rank"])
    pd.testing.assert_frame_equal(together.to_pandas(), alone.to_pandas(), rtol=1e-12)
    pd.testing.assert_frame_equal(together.texts(), alone.texts(), rtol=1e-12)


def test_entropy_and_rank_are_those_of_the_next_token():
    model = wordprob.load("exact:bow")
    frame = model.score("She saw the mark", unit="nats", extras=["entropy", "rank"]).to_pandas()
    ids = model.model.tokenizer.encode(["She saw the mark"])[0].ids.tolist()
    for n, row in frame.iterrows():
        p = model.model.distribution([0, *ids[:n]])
        assert row["entropy"] == pytest.approx(-sum(x * np.log(x) for x in p if x > 0), abs=1e-12)
        assert row["rank"] == 1 + sum(p > p[ids[n]])
    bits = model.score("She saw the mark", extras=["entropy"]).to_pandas()
    assert np.allclose(bits["entropy"] * np.log(2), frame["entropy"])
    assert "entropy" not in model.score("She saw the mark").to_pandas()
    with pytest.raises(OptionError, match="no further column is called 'entropie'. Did you mean"):
        model.score("the mark", extras=["entropie"])


def test_entropy_and_rank_of_a_real_model_are_those_of_its_distributions(load_shared):
    model = load_shared("stories15M")
    text = 'Once upon a time there was a little girl. She said, "Oh!"'
    frame = model.score(text, unit="nats", extras=["entropy", "rank"]).to_pandas()
    start, ids = model.model.tokenizer.vocabulary.start, model.model.tokenizer.encode([text])[0].ids.tolist()
    firsts = np.cumsum([0, *frame["n_tokens"]])[:-1].tolist()
    prefixes = [[start, *ids[:n]] for n in firsts]
    for k, logs in enumerate(next_log_probs(model.model, prefixes)):
        assert frame["entropy"][k] == pytest.approx(-np.sum(np.exp(logs) * logs), abs=1e-4)
        assert frame["rank"][k] == 1 + np.sum(logs > logs[ids[firsts[k]]] + 1e-6)


def test_entropy_is_missing_where_the_word_is(load_shared):
    frame = load_shared("fiction-bow").score('"No." And', "punctuation", extras=["entropy", "rank"]).to_pandas()
    assert (frame["entropy"].isna() == frame["surprisal_naive"].isna()).all()
    assert frame["rank"].isna().any()


@pytest.mark.parametrize("family", ["bow-joined", "eow", "eow-unmarked"])
def test_readers_in_processes_of_their_own_give_the_same(monkeypatch, family):
    monkeypatch.setattr(scorer, "TEXTS", 4)
    model, told = wordprob.load(f"exact:{family}"), []
    options = {"words": "punctuation", "extras": ["entropy", "rank"]}
    here = model.score(TEXTS, **options)
    there = model.score(TEXTS, **options, readers=2, progress=lambda *done: told.append(done))
    pd.testing.assert_frame_equal(here.to_pandas(), there.to_pandas())
    pd.testing.assert_frame_equal(here.texts(), there.texts())
    assert told[-1] == (len(TEXTS), len(TEXTS))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_real_tokeniser_reads_in_a_process_of_its_own(load_shared, monkeypatch):
    model = load_shared("stories15M")
    monkeypatch.setattr(model.model, "max_tokens", 48)
    texts = ["Once upon a time.", "No?", "", "the end of it " * 30]
    here, there = model.score(texts), model.score(texts, readers=1)
    pd.testing.assert_frame_equal(here.to_pandas(), there.to_pandas(), rtol=1e-5)


def test_what_goes_wrong_while_others_read_is_told_here(monkeypatch):
    model = wordprob.load("exact:bow")
    monkeypatch.setattr(model.model, "tokenizer", Troubled(model.model.tokenizer))
    with pytest.raises(InputError, match="it will not be read"):
        model.score(["the mark", "the trouble"], readers=1)
    monkeypatch.setattr(model.model, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.score(["the mark"], readers=1)


class Troubled:
    """A tokeniser that refuses a text."""

    def __init__(self, real):
        self.real, self.vocabulary = real, real.vocabulary

    def encode(self, texts):
        if any("trouble" in text for text in texts):
            raise InputError("it will not be read")
        return self.real.encode(texts)


def test_readers_start_by_themselves_only_where_they_pay(monkeypatch):
    monkeypatch.setattr(readers.os, "cpu_count", lambda: 16)
    assert readers.worthwhile(32768, 10**8) == readers.MOST
    assert readers.worthwhile(32768, 1000) == 0, "starting them takes longer"
    assert readers.worthwhile(512, 10**8) == 0, "a CPU is busy enough"
    monkeypatch.setattr(readers.os, "cpu_count", lambda: 2)
    assert readers.worthwhile(32768, 10**8) == 1, "one core is the model's"
    model, started = wordprob.load("exact:bow"), []
    monkeypatch.setattr(scorer, "served", lambda *arguments: started.append(arguments[5]) or iter([]))
    monkeypatch.setattr(readers, "FAST", 1)
    monkeypatch.setattr(readers, "MUCH", 1)
    with pytest.raises(ValueError, match="zip"):
        model.score(["the mark"], readers=None)
    assert started == [1]
    monkeypatch.setattr(readers, "MUCH", 100)
    assert len(model.score(["the mark"], readers=None)) == 2


def test_nothing_to_read():
    assert len(wordprob.load("exact:bow").score([], readers=2)) == 0
    assert len(wordprob.load("exact:bow").score(["", " "], readers=2)) == 0


def test_a_reader_that_dies_is_an_error_not_a_wait(monkeypatch):
    model = wordprob.load("exact:bow")
    monkeypatch.setattr(readers, "read", _die)
    with pytest.raises(ModelError, match="a process that reads texts died.*--readers"):
        model.score(["the mark"], readers=1)


def _die(_):
    import os

    os._exit(3)


def test_windows_of_a_page_are_those_of_the_text_alone(load_shared, monkeypatch):
    """Long and short texts side by side: every word has its context, and the same value as alone."""
    model = load_shared("fiction-bow")
    monkeypatch.setattr(model.model, "max_tokens", 24)
    long = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")[:600]
    texts = ["Once upon a time", long, "the end.", long[:300]]
    together = model.score(texts, "punctuation", unit="nats").to_pandas()
    for n, text in enumerate(texts):
        alone = model.score(text, "punctuation", unit="nats").to_pandas()
        rows = together[together["text_id"] == n].reset_index(drop=True)
        assert np.allclose(rows["surprisal"], alone["surprisal"], atol=1e-4, rtol=0, equal_nan=True)
        assert rows["context_tokens"].tolist() == alone["context_tokens"].tolist()
    assert together["context_tokens"].max() < 24


@pytest.mark.parametrize("name", ["fiction-bow", "gemma", "qwen2_5"])
@pytest.mark.parametrize("rule", ["whitespace", "punctuation"])
def test_what_is_remembered_of_words_does_not_change_what_is_said(tokenizer_of, name, rule, monkeypatch):
    """A word met again is known by its looks; readers that know none, or that mix them up, say the same."""
    text = shared("data/text/austen_pride.txt").read_text(encoding="utf-8")[2000:8000]
    page = ahead.Page([Document(n, line) for n, line in enumerate(text.split("\n")) if line.strip()])
    tokenizer = tokenizer_of(name)

    def told(times=1):
        found = reader.Reader(tokenizer, tokenizer.vocabulary.size, wordprob.core.words.define(rule))
        reading = [found.read(page) for _ in range(times)][-1]
        branches = reading.branches
        ids = [branches.ids[k] if k >= 0 else () for k in branches.lists]
        return branches.boundaries, branches.rows, ids, reading.sets.tolist()

    expected = told()
    assert told(times=2) == expected
    monkeypatch.setattr(reader, "_MIX", np.zeros_like(reader._MIX))
    assert told(times=2) == expected, "all looks have the same hash"
    monkeypatch.setattr(reader, "_looks", lambda _, words, __: reader.Looks(np.full(len(words), -1), [], words[:0]))
    assert told() == expected, "every word is asked about by itself"


def test_a_word_without_value_has_one_reason_and_the_right_one():
    model = wordprob.load("exact:bow")
    frame = model.score("She She saw").to_pandas()
    assert frame["note"].tolist() == ["", "probability zero", "what comes before it has probability zero"]


def test_without_a_start_token_that_is_the_reason(load_shared):
    model = wordprob.load(shared("models/fiction-bow"), bos="none")
    frame = model.score("She saw it").to_pandas()
    assert frame["note"].tolist() == ["no start-of-text token: choose one with bos", "", ""]
    assert frame["surprisal"].isna().tolist() == [True, False, False]
