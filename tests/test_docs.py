"""The docs cannot go stale: what they name exists, what exists is named, and their examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from wordprob.cli import COMMANDS, cli
from wordprob.table import COLUMNS, TEXT_COLUMNS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def everything() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_documented(command):
    text = everything()
    assert f"`wordprob {command}`" in text
    found = cli.get_command(None, command)
    for option in found.params:
        longest = max(option.opts, key=len)
        if longest.startswith("--") and longest != "--help":
            assert f"`{longest}`" in text, f"{command} {longest}"


@pytest.mark.parametrize("column", [*COLUMNS, *TEXT_COLUMNS])
def test_every_column_is_documented(column):
    assert f"| `{column}` |" in (ROOT / "docs/reference.md").read_text(encoding="utf-8")


def test_options_in_the_docs_exist():
    known = {o for name in COMMANDS for p in cli.get_command(None, name).params for o in p.opts} | {
        "--help",
        "--version",
    }
    for page in PAGES:
        for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.splitlines():
                if kind == "" and line.startswith("wordprob "):
                    used = set(re.findall(r"(?<!\S)--[a-z-]+", line.split("#")[0]))
                    assert used <= known, line


def _commands() -> list[str]:
    """Commands in the docs that need no model but the toy."""
    lines = [
        line.split("#")[0].strip()
        for p in PAGES
        for k, b in BLOCK.findall(p.read_text(encoding="utf-8"))
        for line in b.splitlines()
    ]
    return sorted({line for line in lines if re.match(r"wordprob (models|tokenizer exact|.*--model exact)", line)})


@pytest.mark.parametrize("line", _commands())
def test_commands_in_the_docs_run(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli, shlex.split(line)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def _python() -> list[tuple[str, str]]:
    return [(p.name, b) for p in PAGES for k, b in BLOCK.findall(p.read_text(encoding="utf-8")) if k == "python"]


@pytest.mark.parametrize(("page", "block"), _python(), ids=lambda v: v if len(v) < 20 else "block")
def test_python_in_the_docs_runs(page, block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "smollm2" in block:  # the toy stands in for it here; tests/test_smollm2.py runs the real one
        block = block.replace("smollm2-135m", "exact:bow")
    exec(compile(block, page, "exec"), {})
    if page == "equation.md":
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert rows == [
            ["She", "0.60", "0.60"],
            ["saw", "0.46", "0.46"],
            ["the", "0.60", "0.60"],
            ["mark", "0.40", "1.00"],
        ]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|png))\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
