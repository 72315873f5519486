"""The public face: names, laziness, the registry of models."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wordprob
from wordprob.errors import UnknownModelError
from wordprob.models.registry import BACKENDS, CATALOGUE, resolve


def test_exported_names():
    assert wordprob.__all__ == [
        "ScoredTable",
        "Scorer",
        "WordTable",
        "WordprobError",
        "__version__",
        "load",
        "score_table",
    ]
    for name in wordprob.__all__:
        assert getattr(wordprob, name) is not None
    assert set(wordprob.__all__) <= set(dir(wordprob))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = wordprob.nope


def test_importing_is_light():
    code = "import sys, wordprob; assert not {'torch', 'transformers', 'pandas', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


PAPER = {
    "gpt2-small": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "pythia-70m": "EleutherAI/pythia-70m",
    "pythia-160m": "EleutherAI/pythia-160m",
    "pythia-410m": "EleutherAI/pythia-410m",
    "pythia-1.4b": "EleutherAI/pythia-1.4b",
    "pythia-2.8b": "EleutherAI/pythia-2.8b",
    "pythia-6.9b": "EleutherAI/pythia-6.9b",
    "pythia-12b": "EleutherAI/pythia-12b",
}


@pytest.mark.parametrize(("name", "hub"), PAPER.items())
def test_the_papers_models_by_their_right_names(name, hub):
    assert resolve(name) == ("hf", hub)


def test_every_short_name_has_a_backend():
    for name, entry in CATALOGUE.items():
        assert resolve(name)[0] == entry.backend in BACKENDS
        assert entry.licence


def test_names_directories_and_files(tmp_path):
    assert resolve(tmp_path) == ("hf", str(tmp_path))
    assert resolve("owner/name") == ("hf", "owner/name")
    assert resolve("meta-llama/Llama-3.2-1B")[0] == "hf", "no model is refused by its name"
    assert resolve("exact") == ("exact", "bow")
    (tmp_path / "m.gguf").touch()
    assert resolve(tmp_path / "m.gguf")[0] == "gguf"
    with pytest.raises(UnknownModelError, match=r"pythia-1\.4b"):
        resolve("pythia-14b")


def test_a_hub_model_out_of_reach_says_so(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(wordprob.WordprobError, match="could not be loaded"):
        wordprob.load("owner/no-such-model")
