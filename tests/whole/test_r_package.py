"""The R package in ``r/``: built, checked, installed into a library of its own, and its tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
TESTS = SOURCE / "r/tests/wordprob.R"
TIMEOUT_SECONDS = 500


def run_r(*command: object, cwd: Path, **variables: str) -> str:
    """Run a command of R; return what it printed, or fail with that."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE / "src"),
        "WORDPROB_COMMAND": f"{sys.executable} -m wordprob",
        **variables,
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The built package, and a library that it is installed in."""
    if shutil.which("R") is None or shutil.which("Rscript") is None:
        pytest.skip("needs R, which is not installed")
    folder = tmp_path_factory.mktemp("r")
    shutil.copytree(SOURCE / "r", folder / "wordprob")
    run_r("R", "CMD", "build", "wordprob", cwd=folder)
    (built,) = folder.glob("wordprob_*.tar.gz")
    (folder / "library").mkdir()
    run_r("R", "CMD", "INSTALL", "-l", folder / "library", built, cwd=folder)
    return built, folder / "library"


def test_its_own_tests(package, tmp_path):
    _, library = package
    assert "all tests passed" in run_r("Rscript", TESTS, cwd=tmp_path, R_LIBS=str(library))


def test_letters_survive_a_locale_without_them(package, tmp_path):
    _, library = package
    assert "all tests passed" in run_r("Rscript", TESTS, cwd=tmp_path, R_LIBS=str(library), LC_ALL="C")


def test_the_example_of_the_documentation(package, tmp_path):
    _, library = package
    out = run_r("Rscript", SOURCE / "examples/package.R", "exact:bow", cwd=tmp_path, R_LIBS=str(library))
    assert "4    1   mark 400     2.184" in out


def test_without_the_command(package, tmp_path):
    _, library = package
    code = 'library(wordprob); tryCatch(wp_score("the mark"), error = function(e) cat(conditionMessage(e)))'
    empty = {"WORDPROB_COMMAND": "", "PATH": "/usr/bin:/bin", "R_USER_DATA_DIR": str(tmp_path)}
    out = run_r(shutil.which("Rscript"), "-e", code, cwd=tmp_path, R_LIBS=str(library), **empty)
    assert "the command wordprob is not installed. Install it with wp_install()" in out


def test_an_environment_is_made(package, tmp_path):
    """pip is replaced: nothing is fetched."""
    _, library = package
    environment = tmp_path / "environment"
    fake = tmp_path / "python3"
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi\n'
        'if [ "$2" = pip ]; then echo "$@" > "$(dirname "$0")/asked"; touch "$(dirname "$0")/wordprob"; fi\n'
    )
    fake.chmod(0o755)
    code = f'library(wordprob); cat(wp_install("{environment}", python = "{fake}", upgrade = TRUE))'
    out = run_r("Rscript", "-e", code, cwd=tmp_path, R_LIBS=str(library))
    assert f"{environment}/bin/wordprob" in out
    assert (environment / "bin/asked").read_text() == "-m pip install --upgrade wordprob[models]\n"
    fake.write_text("#!/bin/sh\necho no room left >&2\nexit 1\n")
    shutil.rmtree(environment)
    failing = f'wp_install("{environment}", "{fake}")'
    code = f"library(wordprob); tryCatch({failing}, error = function(e) cat(conditionMessage(e)))"
    out = run_r("Rscript", "-e", code, cwd=tmp_path, R_LIBS=str(library))
    assert "the Python environment could not be made:\nno room left" in out


def test_version_and_licence_are_those_of_the_project(package):
    from wordprob import __version__

    description = (SOURCE / "r/DESCRIPTION").read_text()
    assert f"Version: {__version__}\n" in description
    assert "License: MIT + file LICENSE" in description


@pytest.mark.slow
def test_r_cmd_check(package, tmp_path):
    built, _ = package
    out = run_r("R", "CMD", "check", "--no-manual", built, cwd=tmp_path, _R_CHECK_FORCE_SUGGESTS_="false")
    assert out.rstrip().endswith("Status: OK"), out
