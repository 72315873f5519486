"""How many modules a reader must know to follow one text: those whose functions run when it is scored."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

MOST_IN_PYTHON = 35
MOST_ON_THE_COMMAND_LINE = 60
"""They only ever become smaller."""

TRACED = """
import sys
import threading
from pathlib import Path

import wordprob

ROOT = str(Path(wordprob.__file__).parent)
entered = set()
importing = threading.local()


def trace(frame, event, _):
    code = frame.f_code
    if code.co_name == "<module>":  # what runs when a module is imported does not count
        importing.depth = getattr(importing, "depth", 0) + {"call": 1, "return": -1}.get(event, 0)
    is_function = code.co_flags & CO_OPTIMIZED
    if event == "call" and is_function and code.co_filename.startswith(ROOT) and not getattr(importing, "depth", 0):
        entered.add(Path(code.co_filename).relative_to(ROOT).as_posix())


def run(function):
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        function()
    except SystemExit as error:
        assert not error.code, error.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print("\\n".join(sorted(entered)))
"""

IN_PYTHON = """
scorer = wordprob.load("exact:bow")
run(lambda: scorer.score("She saw the mark"))
"""

ON_THE_COMMAND_LINE = """
from wordprob.cli import main

sys.argv = ["wordprob", "score", sys.argv[1], "--model", "exact:bow", "-o", sys.argv[2]]
run(main)
"""


def modules_entered(code, *arguments):
    """Return the modules of the package whose functions are called by a program."""
    program = TRACED.replace("CO_OPTIMIZED", str(inspect.CO_OPTIMIZED)) + code
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("known", ["scoring/scorer.py", "scoring/passages.py", "core/equation.py", "options.py"])
def test_the_path_of_a_text_is_traced(known):
    assert known in modules_entered(IN_PYTHON)


def test_scoring_a_text_enters_few_modules():
    found = modules_entered(IN_PYTHON)
    assert len(found) <= MOST_IN_PYTHON, "\n".join(found)


def test_scoring_a_file_enters_few_modules(tmp_path):
    (tmp_path / "texts.txt").write_text("She saw the mark\n", encoding="utf-8")
    found = modules_entered(ON_THE_COMMAND_LINE, tmp_path / "texts.txt", tmp_path / "scored.csv")
    assert "cli/score.py" in found
    assert len(found) <= MOST_ON_THE_COMMAND_LINE, "\n".join(found)
