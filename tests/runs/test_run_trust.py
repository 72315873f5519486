"""A run's folder may be someone else's: it alone does not make code run that comes with a model."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import tiny_directory
from wordprob import runs
from wordprob.cli import cli
from wordprob.cli.messages import to_flags
from wordprob.errors import OptionError

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
