"""A run takes the options of a model and of scoring, and they reach every shard."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import wordprob
from made_up_text import book
from runs_helpers import assert_same_run, read_shards, real_corpus, toy_corpus
from wordprob import runs
from wordprob.cli.run import run as run_command
from wordprob.core.words import define
from wordprob.errors import OptionError
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.runs import Execution, RunSettings
from wordprob.scoring import loading
from wordprob.tables.schema import EXTRAS

TOY = {"model": "exact:bow", "threads": 1, "shard_texts": 10}


@pytest.fixture
def small_model(load_model, monkeypatch):
    """A real model that is loaded once for all tests; runs in this process get it whatever they ask for."""
    scorer = load_model("small-llama2")
    monkeypatch.setattr(loading, "load", lambda **_: scorer)
    return scorer


@pytest.fixture
def corpus(tmp_path):
    return toy_corpus(tmp_path / "corpus.txt", 40)


# --- the same options everywhere -------------------------------------------------------------------------------------


def test_the_command_has_a_flag_for_every_option():
    flags = {name for parameter in run_command.params for name in parameter.opts}
    names = {*ModelOptions.names(), *ScoringOptions.names(), *Execution.names(), *EXTRAS} - {"extras", "estimators"}
    names = {name.removeprefix("token_") for name in names}  # --entropy token
    assert {f"--{name.replace('_', '-')}" for name in names} <= flags


def test_settings_are_flat_and_complete():
    values = RunSettings.from_dict({"model": "exact:bow", "extras": ("token_rank",)}).to_dict()
    assert values["extras"] == ["token_rank"]
    assert {*ModelOptions.names(), *ScoringOptions.names()} - set(values) == {"readers"}
    assert RunSettings.from_dict(json.loads(json.dumps(values))).to_dict() == values


# --- options of scoring ----------------------------------------------------------------------------------------------


def test_entropy_and_rank_reach_shards_and_merged_tables(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, extras=["token_entropy", "token_rank"], unit="nats")
    texts = {f"corpus.txt:{n}": line for n, line in enumerate(corpus.read_text().splitlines(), start=1) if line}
    table = wordprob.load("exact:bow").score(
        list(texts.values()), ids=list(texts), unit="nats", extras=["token_entropy", "token_rank"]
    )
    words = read_shards(tmp_path / "out")
    pd.testing.assert_frame_equal(words, table.to_pandas(), check_dtype=False, rtol=1e-12)
    merged = wordprob.WordTable.read(runs.merge(tmp_path / "out", tmp_path / "all.tsv")).to_pandas()
    assert merged.columns.tolist() == words.columns.tolist()
    pd.testing.assert_frame_equal(
        merged[["token_entropy", "token_rank"]], words[["token_entropy", "token_rank"]], check_dtype=False
    )


def test_entropy_and_rank_are_flags_of_the_command(corpus, tmp_path):
    arguments = [str(corpus), "-o", str(tmp_path / "out"), "--model", "exact:bow", "--entropy", "--rank"]
    run_command.main(arguments, standalone_mode=False)
    assert {"token_entropy", "token_rank"} <= set(read_shards(tmp_path / "out").columns)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["extras"] == ["token_entropy", "token_rank"]


def test_min_context_reaches_the_scorer(tmp_path, small_model):
    text = " ".join(book(6000).split()[:400])  # longer than the model's context of 256 tokens
    (tmp_path / "corpus.txt").write_text(text, encoding="utf-8")
    runs.run(tmp_path / "corpus.txt", tmp_path / "out", **TOY, min_context=200, unit="nats")
    expected = small_model.score([text], min_context=200, unit="nats").to_pandas()
    words = read_shards(tmp_path / "out")
    assert words["context_tokens"].tolist() == expected["context_tokens"].tolist()
    assert words["context_tokens"].tail(100).min() >= 200
    # Another number of threads may change the last digits of float32 sums: 1e-4 nats is what a value may depend on.
    assert words["surprisal"].tolist() == pytest.approx(expected["surprisal"].tolist(), abs=1e-4, nan_ok=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_readers_change_no_byte(corpus, tmp_path, workers):
    """Reader processes, also of workers that are processes themselves."""
    runs.run(corpus, tmp_path / "reference", **TOY)
    runs.run(corpus, tmp_path / "out", **TOY, workers=workers, readers=1)
    assert_same_run(tmp_path / "out", tmp_path / "reference")
    assert runs.resume(tmp_path / "out", readers=2).complete


def test_a_list_of_words_is_refused(corpus, tmp_path):
    with pytest.raises(OptionError, match=r"a run finds the words of any text by a rule; use whitespace, punctuation"):
        runs.run(corpus, tmp_path / "out", **TOY, words="list:words.txt")
    with pytest.raises(OptionError, match="writes its word definition into its manifest"):
        runs.run(corpus, tmp_path / "out", **TOY, words=define("whitespace"))
    assert not (tmp_path / "out").exists()


def test_an_unknown_column_is_refused(corpus, tmp_path):
    with pytest.raises(OptionError, match="called 'entropi'. Did you mean word_entropy or token_entropy"):
        runs.run(corpus, tmp_path / "out", **TOY, extras=["entropi"])


# --- options of the model --------------------------------------------------------------------------------------------


def test_options_of_the_model_reach_the_loader(corpus, tmp_path, monkeypatch):
    options = {"bos": "none", "compile": True, "dtype": "float32"}
    opened = {}

    def load(model, original=loading.load, **given):
        opened.update(given)
        return original(model)

    monkeypatch.setattr(loading, "load", load)
    runs.run(corpus, tmp_path / "out", **TOY, **options)
    assert options.items() <= opened.items()


# --- manifests -------------------------------------------------------------------------------------------------------


def test_readers_may_change_between_starts(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY)
    assert runs.run(corpus, tmp_path / "out", **TOY, readers=1, workers=2).complete
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert "readers" not in settings


@pytest.mark.usefixtures("small_model")
def test_threads_are_given_back(tmp_path):
    """A run in this process limits PyTorch to its own number of threads, and no longer than it scores."""
    import torch

    corpus = real_corpus(tmp_path / "corpus.txt", 1)
    before = torch.get_num_threads()
    during = set()

    def watch(_):
        during.add(torch.get_num_threads())

    runs.run(corpus, tmp_path / "out", model="exact:bow", threads=before + 1, watch=watch)
    assert during == {before, before + 1}
    assert torch.get_num_threads() == before


def test_entropy_and_rank_of_words_reach_shards(corpus, tmp_path):
    runs.run(corpus, tmp_path / "out", **TOY, extras=["word_entropy", "word_rank"], unit="nats")
    words = read_shards(tmp_path / "out")
    assert words["word_entropy"].notna().any()
    assert {"word_entropy_se", "word_entropy_low", "word_rank_low", "word_rank_high"} <= set(words.columns)
