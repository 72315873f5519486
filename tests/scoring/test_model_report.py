"""``wordprob models --check`` and :func:`wordprob.model_report`: what a model is like, and faults that are found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tiny_directory
import wordprob
from random_lm import RandomLM
from wordprob.cli import cli
from wordprob.models import open_tokenizer
from wordprob.models.protocol import Scores
from wordprob.scoring.model_report import check_language_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tiny_directory.make(tmp_path_factory.mktemp("report") / "tiny")


def test_the_report_of_a_directory(directory):
    report = wordprob.model_report(directory)
    assert report.passed
    assert report.facts["class"] == "LlamaForCausalLM"
    assert report.facts["family"] == "bow"
    assert report.facts["start"] == "<|endoftext|>"
    assert report.facts["end"] == ["<|endoftext|>"]
    assert report.facts["context_tokens"] == 256
    weights = sum(tensor.nbytes for tensor in wordprob.load(directory).model.network.parameters())
    assert report.facts["memory_mib"] == pytest.approx(weights / 2**20, abs=0.06)
    assert (report.facts["dtype"], report.facts["device"]) == ("float32", "cpu")
    assert report.facts["tokens_per_second"] > 0
    assert report.shortcuts["shared contexts"] == "run once"


def test_the_command(directory):
    shown = CliRunner().invoke(cli, ["models", "--check", str(directory), "--dtype", "bfloat16"])
    assert shown.exit_code == 0, shown.output
    assert "tiny (LlamaForCausalLM)" in shown.output
    assert "bfloat16" in shown.output
    assert "256 tokens" in shown.output
    assert "\nNO" not in shown.output
    as_json = CliRunner().invoke(cli, ["models", "--check", "exact:eow", "--json"])
    assert json.loads(as_json.stdout)["passed"] is True
    unknown = CliRunner().invoke(cli, ["models", "--check", "gtp2"])
    assert unknown.exit_code != 0


def replaced(scores, **changes):
    return Scores(**{name: changes.get(name, getattr(scores, name)) for name in Scores.__dataclass_fields__})


class LosesMass(RandomLM):
    """A tenth of every class of tokens is lost."""

    def score(self, requests, atoms):
        for number, scores in super().score(requests, atoms):
            yield number, replaced(scores, mass=scores.mass + np.log(0.9))


class DependsOnBatch(RandomLM):
    """Values are others in a batch."""

    def score(self, requests, atoms):
        for number, scores in super().score(requests, atoms):
            yield number, replaced(scores, target=scores.target - 0.01 * len(requests))


class ForgetsContext(RandomLM):
    """Going on from a context gives the values of another row."""

    def open(self, requests, atoms, states=None):
        for number, scores in super().open(requests, atoms, states):
            yield number, replaced(scores, target=np.roll(scores.target, 1))


@pytest.mark.parametrize(
    ("model", "faults"),
    [
        (RandomLM, []),
        (LosesMass, ["classes of tokens add up to one"]),
        (DependsOnBatch, ["log p of a token is that of the full softmax", "a text has the same values in a batch",
                          "going on from a context gives what the whole text gives"]),
        (ForgetsContext, ["going on from a context gives what the whole text gives"]),
    ],
)  # fmt: skip
def test_faults_are_found(model, faults):
    checks = check_language_model(model(open_tokenizer("exact:bow")))
    assert [check.name for check in checks if not check.passed] == faults


def test_a_fault_is_an_exit_code(monkeypatch):
    broken = LosesMass(open_tokenizer("exact:bow"))
    monkeypatch.setattr("wordprob.scoring.loading.open_model", lambda _: broken)
    shown = CliRunner().invoke(cli, ["models", "--check", "exact:bow"])
    assert shown.exit_code == 1
    assert "NO   classes of tokens add up to one" in shown.output
    assert "This is a fault" in shown.output
