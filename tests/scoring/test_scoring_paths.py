"""Every way to score gives the same table: one step after another, threads, processes, sections, runs, the server."""

from __future__ import annotations

import json
import urllib.request

import numpy as np
import pandas as pd
import pytest

import wordprob
from made_up_text import book
from random_lm import RandomLM
from tolerances import float32_log_prob_tolerance
from wordprob import Scorer, WordTable, runs
from wordprob.core.words import define
from wordprob.errors import InputError, ModelError
from wordprob.options import ScoringOptions
from wordprob.scoring import chunks, worker_pool
from wordprob.scoring import scorer as scorer_module
from wordprob.scoring.open_model import score_chunk
from wordprob.scoring.passages import Chunk, passages_of

TEXTS = ["She saw the mark.", "", "the marker?", "She's marked the mark. She saw the mark?", "   ", "the"] * 3
FAMILIES = ("bow-joined", "eow-unmarked")
OPTIONS = {"words": "punctuation", "unit": "nats", "extras": ("token_entropy", "token_rank")}
ALL_SPELLINGS = {"words": "punctuation", "unit": "nats", "extras": ("prefixes_opened",), "spellings": "all"}


def one_step_after_another(scorer, texts, options=OPTIONS):
    """The sequential path itself, without threads."""
    settings = scorer.settings(ScoringOptions(**options))
    chunk = Chunk(passages_of(texts))
    batch = score_chunk(scorer.model, scorer.preparer(define(options["words"])), chunk, settings)
    return WordTable.build([batch], {}, options["unit"], options["extras"])


def assert_same(table, expected, rtol=0.0):
    pd.testing.assert_frame_equal(table.to_pandas(), expected.to_pandas(), rtol=rtol, atol=0)
    pd.testing.assert_frame_equal(table.texts(), expected.texts(), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_and_processes_take_the_same_path(family, monkeypatch):
    scorer = wordprob.load(f"exact:{family}")
    expected = one_step_after_another(scorer, TEXTS)
    assert_same(scorer.score(TEXTS, **OPTIONS), expected)
    monkeypatch.setattr(scorer_module, "SMALL_CHUNK_CHARACTERS_PER_BATCH_TOKEN", 0)
    assert_same(scorer.score(TEXTS, **OPTIONS), expected)
    monkeypatch.setattr(chunks, "MAX_TEXTS_PER_CHUNK", 4)
    assert_same(scorer.score(TEXTS, **OPTIONS), expected)
    assert_same(scorer.score(TEXTS, **OPTIONS, readers=2), expected)


@pytest.mark.parametrize("readers", [0, 2])
def test_all_spellings_take_the_same_path(readers, monkeypatch):
    scorer = wordprob.load("exact:leaky")
    texts = ["the mark's era.", "", "marked ther", "   ", "he"] * 2
    expected = one_step_after_another(scorer, texts, ALL_SPELLINGS)
    assert expected.to_pandas()["prefixes_opened"].sum() > 10
    monkeypatch.setattr(chunks, "MAX_TEXTS_PER_CHUNK", 4)
    assert_same(scorer.score(texts, **ALL_SPELLINGS, readers=readers), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_takes_the_same_path(family, tmp_path):
    """Shards of a few texts, merged again; blank texts are not in a run."""
    texts = [text for text in TEXTS if text.strip()]
    (tmp_path / "corpus.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    runs.run(tmp_path / "corpus.txt", tmp_path / "run", model=f"exact:{family}", shard_texts=4, **OPTIONS)
    runs.merge(tmp_path / "run", tmp_path / "words.parquet")
    merged = pd.read_parquet(tmp_path / "words.parquet").drop(columns="text_id")
    expected = one_step_after_another(wordprob.load(f"exact:{family}"), texts).to_pandas().drop(columns="text_id")
    pd.testing.assert_frame_equal(merged, expected, check_dtype=False)


def test_the_server_takes_the_same_path(start_server):
    asked = {"texts": TEXTS, "model": "exact:bow", **OPTIONS, "extras": list(OPTIONS["extras"])}
    request = urllib.request.Request(
        start_server() + "api/score", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        rows = pd.DataFrame(json.load(answer)["words"])
    expected = one_step_after_another(wordprob.load("exact:bow"), TEXTS).to_pandas()
    assert rows.columns.tolist() == expected.columns.tolist()
    for column in ("surprisal", "before", "after", "token_entropy", "token_rank"):
        finite = expected[column].replace([np.inf, -np.inf], np.nan)  # JSON has no infinity
        assert np.array_equal(rows[column].astype(float), finite, equal_nan=True), column


@pytest.mark.parametrize("readers", [0, 1])
def test_continuations_take_the_same_path(readers):
    scorer = wordprob.load("exact:bow-joined")
    rests = ["mark.", "marker?", "mark", "mark. She saw the mark?"]
    table = scorer.score_continuations("She saw the", rests, **OPTIONS, readers=readers)
    whole = one_step_after_another(scorer, [f"She saw the {rest}" for rest in rests]).to_pandas()
    after_context = whole[whole["start"] > len("She saw the")].reset_index(drop=True)
    columns = [
        "word",
        "n_tokens",
        "surprisal",
        "surprisal_naive",
        "before",
        "after",
        "token_entropy",
        "token_rank",
        "note",
    ]
    pd.testing.assert_frame_equal(table.to_pandas()[columns], after_context[columns])


@pytest.mark.parametrize("readers", [0, 1])
def test_sections_of_a_long_text_take_the_same_path(readers, monkeypatch, tokenizer_of):
    """With a model whose memory fits into the overlap of windows, sections change nothing."""
    text = book(6000)
    tokenizer = tokenizer_of("small-gpt-neox")
    # Cut-off characters have much mass under a random model, and reading all of them on takes long.
    cut_off = [token for token, piece in enumerate(tokenizer.vocabulary.token_bytes) if not piece.isascii()]
    scorer = Scorer(RandomLM(tokenizer, max_tokens=65, impossible=cut_off))
    expected = one_step_after_another(scorer, [text])
    monkeypatch.setattr(scorer_module, "CHARACTERS_PER_BATCH_TOKEN", 1)
    monkeypatch.setattr("wordprob.scoring.long_text.SECTION_CHARACTERS_PER_WINDOW_TOKEN", 1)
    table = scorer.score(text, **OPTIONS, readers=readers)
    same = [column for column in expected.to_pandas() if column != "context_tokens"]
    pd.testing.assert_frame_equal(table.to_pandas()[same], expected.to_pandas()[same], rtol=1e-10)


# --- texts that are scored together do not touch each other ---------------------------------------------------------


@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
@pytest.mark.parametrize("definition", ["whitespace", "punctuation", r"regex:\w+|[^\w\s]"])
def test_texts_together_give_what_each_gives_alone(family, definition, monkeypatch):
    scorer = wordprob.load(f"exact:{family}")
    together = scorer.score(TEXTS, definition, extras=["token_entropy", "token_rank"])
    monkeypatch.setattr(chunks, "MAX_TEXTS_PER_CHUNK", 1)
    alone = scorer.score(TEXTS, definition, extras=["token_entropy", "token_rank"])
    assert_same(together, alone, rtol=1e-12)


def test_windows_of_a_text_do_not_depend_on_its_neighbours(load_model, monkeypatch):
    """Long and short texts side by side: every word has its context, and the same value as alone."""
    scorer = load_model("small-bow")
    monkeypatch.setattr(scorer.model, "max_tokens", 24)
    long = book(600)
    texts = ["Once upon a time", long, "the end.", long[:300]]
    together = scorer.score(texts, "punctuation", unit="nats").to_pandas()
    for n, text in enumerate(texts):
        alone = scorer.score(text, "punctuation", unit="nats").to_pandas()
        rows = together[together["text_id"] == n].reset_index(drop=True)
        assert np.allclose(rows["surprisal"], alone["surprisal"], atol=1e-3, rtol=0, equal_nan=True)
        assert rows["context_tokens"].tolist() == alone["context_tokens"].tolist()
    assert together["context_tokens"].max() < 24


# --- worker processes -------------------------------------------------------------------------------------------------


def test_progress_of_worker_processes(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_TEXTS_PER_CHUNK", 4)
    reported = []
    wordprob.load("exact:bow").score(TEXTS, readers=2, progress=lambda *counts: reported.append(counts))
    assert reported[-1] == (len(TEXTS), len(TEXTS))
    assert reported == sorted(reported)


def test_a_real_tokenizer_and_windows_in_a_worker_process(load_model, monkeypatch):
    scorer = load_model("small-llama2")
    monkeypatch.setattr(scorer.model, "max_tokens", 48)
    texts = ["Once upon a time.", "No?", "", "the end of it " * 30]
    # The windows of the last text begin alike: this process runs that once, the worker has it run in full.
    rounding = float32_log_prob_tolerance(scorer.model)
    pd.testing.assert_frame_equal(
        scorer.score(texts, readers=1).to_pandas(), scorer.score(texts).to_pandas(), rtol=1e-4, atol=rounding
    )


def test_a_pattern_in_a_worker_process():
    scorer = wordprob.load("exact:bow")
    assert_same(scorer.score(TEXTS, r"regex:[\w']+", readers=1), scorer.score(TEXTS, r"regex:[\w']+"))


class RefusingTokenizer:
    """A tokenizer that refuses a text."""

    def __init__(self, real):
        self.real, self.vocabulary = real, real.vocabulary

    def encode(self, texts):
        if any("trouble" in text for text in texts):
            raise InputError("it will not be read")
        return self.real.encode(texts)


def test_errors_in_a_worker_process_are_raised_here(monkeypatch):
    scorer = wordprob.load("exact:bow")
    monkeypatch.setattr(scorer.model, "tokenizer", RefusingTokenizer(scorer.model.tokenizer))
    with pytest.raises(InputError, match="it will not be read"):
        scorer.score(["the mark", "the trouble"], readers=1)
    monkeypatch.setattr(scorer.model, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        scorer.score(["the mark"], readers=1)


def die(_):
    import os

    os._exit(3)


def test_a_worker_process_that_dies_is_an_error(monkeypatch):
    monkeypatch.setattr(worker_pool, "WORKER", f"{__name__}:die")
    with pytest.raises(ModelError, match="a process that reads texts died.*readers"):
        wordprob.load("exact:bow").score(["the mark"], readers=1)


def test_worker_processes_start_by_themselves_only_where_they_pay(monkeypatch):
    monkeypatch.setattr(worker_pool.os, "cpu_count", lambda: 16)
    assert worker_pool.useful_workers(32768, 10**8) == worker_pool.MAX_USEFUL_WORKERS
    assert worker_pool.useful_workers(32768, 1000) == 0, "starting them takes longer"
    assert worker_pool.useful_workers(512, 10**8) == 0, "a CPU is busy enough"
    monkeypatch.setattr(worker_pool.os, "cpu_count", lambda: 2)
    assert worker_pool.useful_workers(32768, 10**8) == 1, "one core is the model's"
    started = []
    monkeypatch.setattr(scorer_module, "useful_workers", lambda *given: started.append(given) or 0)
    scorer = wordprob.load("exact:bow")
    scorer.score(["the mark"], readers=None)
    assert started == [(scorer.model.batch_tokens, len("the mark"))]


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_words_in_worker_processes(texts):
    assert len(wordprob.load("exact:bow").score(texts, readers=2)) == 0
