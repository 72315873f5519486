"""A run's folder may be someone else's: it alone reaches no code, no server and no key."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import tiny_directory
from completions_server import KEY, serving
from wordprob import runs
from wordprob.cli import cli
from wordprob.cli.messages import to_flags
from wordprob.errors import OptionError
from wordprob.runs.atomic_io import read_json, write_json

CODE = """
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM


class MineConfig(LlamaConfig):
    model_type = "mine"


class Mine(LlamaForCausalLM):
    config_class = MineConfig

    def __init__(self, config):
        super().__init__(config)
        Path({marker!r}).touch()
"""


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a run that was begun with trust, and the file that appears when the model's code runs."""
    model = tiny_directory.make(tmp_path / "model")
    marker = tmp_path / "ran"
    auto_map = {"AutoConfig": "mine.MineConfig", "AutoModelForCausalLM": "mine.Mine"}
    tiny_directory.change_config(model, model_type="mine", architectures=["Mine"], auto_map=auto_map)
    (model / "mine.py").write_text(CODE.format(marker=str(marker)))
    (tmp_path / "corpus.txt").write_text("the mark\nthe name\n")
    runs.run(tmp_path / "corpus.txt", tmp_path / "out", model=str(model), trust_remote_code=True, shard_texts=1)
    assert marker.exists()
    marker.unlink()
    (tmp_path / "out/done/000001.json").unlink()
    return tmp_path / "out", marker


def test_resuming_asks_for_trust_again(folder):
    output, marker = folder
    assert json.loads((output / "manifest.json").read_text())["settings"]["trust_remote_code"] is True
    with pytest.raises(OptionError, match="code that comes with the model .* set `trust_remote_code` again") as error:
        runs.resume(output)
    assert not marker.exists()
    assert "set --trust-remote-code again" in to_flags(str(error.value), cli.get_command(None, "run"))
    assert runs.resume(output, trust_remote_code=True).shards == 2
    assert marker.exists()


def test_the_command_asks_for_trust_again(folder):
    output, marker = folder
    refused = CliRunner().invoke(cli, ["run", "--resume", str(output)])
    assert isinstance(refused.exception, OptionError)
    assert not marker.exists()
    agreed = CliRunner().invoke(cli, ["run", "--resume", str(output), "--trust-remote-code"])
    assert agreed.exit_code == 0, agreed.output
    assert marker.exists()


# --- a manifest that somebody changed, with a checksum that is right -------------------------------------------------


@pytest.fixture
def changed(tmp_path):
    """Return a function that changes settings in the manifest of a run that has a shard left, and its folder."""
    model = tiny_directory.make(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("the mark\nthe name\n")
    output = tmp_path / "out"
    runs.run(tmp_path / "corpus.txt", output, model=str(model), shard_texts=1)
    (output / "done/000001.json").unlink()

    def change(**settings):
        manifest = read_json(output / "manifest.json")
        write_json(output / "manifest.json", {**manifest, "settings": {**manifest["settings"], **settings}})
        return output

    return change


def test_the_address_of_a_server_is_named_again(changed, monkeypatch):
    monkeypatch.setenv("WORDPROB_API_KEY", KEY)
    with serving() as server:
        address = f"openai:toy@{server.url}"
        output = changed(model=address, tokenizer="exact:leaky")
        with pytest.raises(OptionError, match=f"sends its texts to {address}, with the key .* set `model` again, to"):
            runs.resume(output)
        refused = CliRunner().invoke(cli, ["run", "--resume", str(output)])
        assert isinstance(refused.exception, OptionError)
        with pytest.raises(OptionError, match=f"`model` is https://api.example.org/v1, but .* begun with {address}"):
            runs.resume(output, model="https://api.example.org/v1")
        assert server.requests == []
        assert server.headers == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"weights_only": False},
        {"attn_implementation": "owner/kernels", "allow_all_kernels": True},
        {"use_kernels": True},
        {"token": "hf_secret"},
        {"proxies": {"https": "http://elsewhere"}},
    ],
)
def test_arguments_that_no_manifest_may_hold(changed, arguments):
    output = changed(model_kwargs=arguments)
    not_allowed = list(arguments)[-1]
    for named in (None, arguments):
        with pytest.raises(
            OptionError, match=f"the manifest of .*out cannot .* has '{not_allowed}', which is not allowed"
        ):
            runs.resume(output, model_kwargs=named)


def test_arguments_for_loading_are_named_again(changed):
    """The same JSON in another way of writing is the same."""
    output = changed(model_kwargs={"attn_implementation": "eager"})
    expected = r"""loads its model with {"attn_implementation": "eager"}, .* set `model_kwargs` again, to {"attn"""
    with pytest.raises(OptionError, match=expected):
        runs.resume(output)
    with pytest.raises(OptionError, match="but the run in .* was begun with"):
        runs.resume(output, model_kwargs={"attn_implementation": "sdpa"})
    arguments = ["run", "--resume", str(output), "--model-kwargs", '{"attn_implementation":"eager"}']
    resumed = CliRunner().invoke(cli, arguments)
    assert resumed.exit_code == 0, resumed.output


def test_a_run_with_arguments_is_resumed_by_the_same_command(tmp_path):
    model = tiny_directory.make(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("the mark\n")
    arguments = ["run", str(tmp_path / "corpus.txt"), "-o", str(tmp_path / "out"), "--model", str(model)]
    arguments += ["--model-kwargs", '{"attn_implementation": "eager"}']
    for _ in range(2):
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
