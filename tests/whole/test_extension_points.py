"""What CONTRIBUTING promises: an estimator, a column, an option, a word definition and a backend, each in one place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType

import click
import numpy as np
import pytest
from click.testing import CliRunner

import wordprob
from random_lm import RandomLM
from wordprob.cli.options import options_of
from wordprob.core.characters import END, SPACE
from wordprob.core.equation import ESTIMATORS, Estimator, register_estimator
from wordprob.core.words import DEFINITIONS, CharacterClassDefinition, register_definition
from wordprob.models import open_tokenizer
from wordprob.models.protocol import STATISTICS
from wordprob.models.registry import BACKENDS, register_backend
from wordprob.options import Options, option
from wordprob.tables.schema import EXTRA_COLUMNS, Column, register_column

TEXT = "She saw the mark."


def test_an_estimator(monkeypatch):
    monkeypatch.setattr("wordprob.core.equation.ESTIMATORS", ESTIMATORS.copy())
    monkeypatch.setattr("wordprob.scoring.estimate.ESTIMATORS", wordprob.core.equation.ESTIMATORS)
    register_estimator(
        Estimator(
            "per_token", "mean surprisal of the word's tokens", lambda terms: -terms.token_log_prob / terms.n_tokens
        )
    )
    table = wordprob.load("exact:bow").score(TEXT, "punctuation", estimators=["per_token"]).to_pandas()
    assert np.allclose(table["surprisal_per_token"], table["surprisal_naive"] / table["n_tokens"])
    assert table.columns.tolist().index("surprisal_per_token") < table.columns.tolist().index("note")
    with pytest.raises(wordprob.WordprobError, match="no estimator is called 'per_tokens'. Did you mean per_token"):
        wordprob.load("exact:bow").score(TEXT, estimators=["per_tokens"])


def test_a_column(monkeypatch):
    monkeypatch.setitem(STATISTICS, "largest", lambda log_probs, _: log_probs.max(axis=-1))
    column = Column(
        "best", "surprisal of the most probable token", lambda batch: -batch.statistics["largest"], True, ("largest",)
    )
    register_column(column)
    try:
        scorer = wordprob.Scorer(RandomLM(open_tokenizer("exact:bow")))
        frame = scorer.score(TEXT, extras=["best"], unit="nats").to_pandas()
        ids = scorer.model.tokenizer.encode([TEXT])[0].ids.tolist()
        logits = scorer.model.logits([scorer.model.tokenizer.vocabulary.start])
        assert frame["best"][0] == pytest.approx(-(logits - np.log(np.exp(logits).sum())).max())
        assert len(ids) >= len(frame)
    finally:
        del EXTRA_COLUMNS["best"]


def test_an_option():
    @dataclass(frozen=True)
    class Loudness(Options):
        volume: int = option(3, "How loud.", minimum=1)
        shout: bool = option(False, "Shout.")

    @click.command()
    @options_of(Loudness, "loudness")
    def speak(loudness):
        click.echo(f"{loudness.volume} {loudness.shout}")

    runner = CliRunner()
    assert runner.invoke(speak, []).output == "3 False\n"
    assert runner.invoke(speak, ["--volume", "5", "--shout"]).output == "5 True\n"
    assert runner.invoke(speak, ["--volume", "0"]).exit_code == 2
    assert "How loud." in runner.invoke(speak, ["--help"]).output


def test_a_word_definition(monkeypatch):
    class Hyphens(CharacterClassDefinition):
        name = "hyphens"

        def ends_word(self, left, word, following):
            return following in (SPACE, END, "hyphen") or word.endswith("-")

    monkeypatch.setattr("wordprob.core.words.DEFINITIONS", DEFINITIONS.copy())
    register_definition("hyphens", lambda argument: Hyphens())
    scorer = wordprob.Scorer(RandomLM(open_tokenizer("exact:bow")))
    by_name, by_object = scorer.score("a mark-mark", "hyphens"), scorer.score("a mark-mark", Hyphens())
    assert by_name.to_pandas()["word"].tolist() == ["a", "mark", "-", "mark"]
    assert by_object.to_pandas().equals(by_name.to_pandas())


def test_a_backend(monkeypatch):
    backend = ModuleType("toy_backend")
    backend.load = lambda source, options: RandomLM(open_tokenizer(f"exact:{source}"))
    backend.load_tokenizer = lambda source, options: open_tokenizer(f"exact:{source}")
    backend.describe = lambda source, options: {"backend": "toy", "source": source}
    monkeypatch.setitem(sys.modules, "toy_backend", backend)
    monkeypatch.setattr("wordprob.models.registry.BACKENDS", BACKENDS.copy())
    register_backend("toy", "toy_backend")
    table = wordprob.load("toy:eow").score(TEXT)
    assert table.to_pandas()["surprisal"].notna().all()
    assert table.metadata["model"] == "toy:eow"
