"""Where results are written: whole or not at all, and nothing that is there is lost."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

import wordprob
from wordprob.errors import OutputError
from wordprob.tables.files import check_output, replacing, write_whole

SCORED = wordprob.load("exact:bow").score(["She saw", "the mark"])
EXACT = ["--model", "exact:bow"]


def command(*arguments: str, cwd: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wordprob", *arguments], cwd=cwd, text=True, check=False, **{"stderr": -1, **options}
    )


def write_text(path: Path, text: str = "new") -> None:
    write_whole(path, lambda temporary: temporary.write_text(text))


# --- what is at the path ----------------------------------------------------------------------------------------------


def test_a_device_is_written_into():
    before = Path(os.devnull).stat()
    SCORED.write(os.devnull)
    after = Path(os.devnull).stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)
    assert not Path(os.devnull + ".meta.json").exists()


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    SCORED.write(pipe)
    reader.join(timeout=30)
    assert read == [SCORED.render("csv")]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.csv"]


def test_standard_output_is_written_into(tmp_path):
    done = command("score", "--text", "She saw", "-o", "-", "--format", "csv", *EXACT, cwd=tmp_path, stdout=-1)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("text_id,word_id,word")
    done = command("score", "--text", "She saw", "-o", "/dev/stdout", *EXACT, cwd=tmp_path, stdout=-1)
    assert done.stdout.startswith("text_id\tword_id\tword")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "real.tsv", tmp_path / "link.tsv"
    target.write_text("old")
    link.symlink_to(target)
    SCORED.write(link, force=True)
    assert link.is_symlink()
    assert target.read_bytes() == SCORED.render("tsv")
    assert [path.name for path in target.parent.iterdir()] == ["real.tsv"]


def test_a_link_to_nothing_makes_its_target(tmp_path):
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "new.txt")
    with pytest.raises(OutputError, match="exists already"):
        check_output(link, "txt", False, {"txt": ".txt"})
    write_text(link)
    assert link.is_symlink()
    assert (tmp_path / "new.txt").read_text() == "new"


def test_a_link_to_itself_is_refused(tmp_path):
    link = tmp_path / "link.txt"
    link.symlink_to(link)
    with pytest.raises(OutputError, match="leads back to itself"):
        write_text(link)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_stay(tmp_path, mode):
    path = tmp_path / "private.txt"
    path.write_text("old")
    path.chmod(mode)
    write_text(path)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_usual_permissions(tmp_path):
    write_text(tmp_path / "new.txt")
    (tmp_path / "plain.txt").write_text("as any program makes it")
    assert (tmp_path / "new.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def test_long_names_and_impossible_names(tmp_path):
    write_text(tmp_path / ("n" * 250 + ".txt"))
    with pytest.raises(OutputError, match="could not be written: File name too long"):
        check_output(tmp_path / ("n" * 300 + ".tsv"))


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"old\.txt could not be written: No space left on device\.$"):
        write_whole(path, fail)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("old.txt", "old")]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, which is not here")
def test_a_place_that_takes_no_files_is_refused_at_once(tmp_path):
    with pytest.raises(OutputError, match=r"/proc/x\.csv"):
        check_output("/proc/x.csv")
    done = command("score", "--text", "She saw", "-o", "/proc/x.csv", *EXACT, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("wordprob: /proc/x.csv c")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which is not here")
@pytest.mark.parametrize("arguments", [["--help"], ["score", "--text", "She saw", *EXACT], ["models"]])
def test_a_full_disk_behind_standard_output(tmp_path, arguments):
    with Path("/dev/full").open("w") as full:
        done = command(*arguments, cwd=tmp_path, stdout=full)
    assert done.stderr.startswith("wordprob: standard output could not be written")
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
    assert done.returncode == 1


# --- other files of the user ------------------------------------------------------------------------------------------


def test_metadata_that_exists_stays(tmp_path):
    kept = tmp_path / "scored.tsv.meta.json"
    kept.write_text("mine")
    with pytest.raises(OutputError, match=r"scored\.tsv\.meta\.json exists already; nothing was done"):
        SCORED.write(tmp_path / "scored.tsv")
    assert kept.read_text() == "mine"
    assert not (tmp_path / "scored.tsv").exists()
    SCORED.write(tmp_path / "scored.parquet")
    SCORED.write(tmp_path / "scored.tsv", force=True)
    assert json.loads(kept.read_text())["unit"] == "bits"


def test_metadata_that_is_the_input_stays(tmp_path):
    text = "She saw\n"
    kept = tmp_path / "a.tsv.meta.json"
    kept.write_text(text)
    for force in ([], ["--force"]):
        done = command("score", kept.name, "-o", "a.tsv", *force, *EXACT, cwd=tmp_path)
        assert done.returncode == 1
        assert "a.tsv.meta.json" in done.stderr
        assert kept.read_text() == text
    assert not (tmp_path / "a.tsv").exists()


@pytest.mark.parametrize("summary", ["a.tsv", "./a.tsv", "a.tsv.meta.json"])
def test_two_results_in_one_file_are_refused(tmp_path, summary):
    arguments = ["score", "--text", "She saw", "-o", "a.tsv", "--texts-output", summary, *EXACT]
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "are one file" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_results_in_one_device_are_fine(tmp_path):
    arguments = ["score", "--text", "She saw", "-o", os.devnull, "--texts-output", os.devnull, *EXACT]
    assert command(*arguments, cwd=tmp_path).returncode == 0


def test_a_scored_table_comes_back(tmp_path):
    path = SCORED.write(tmp_path / "scored.csv")
    pd.testing.assert_frame_equal(wordprob.WordTable.read(path).to_pandas(), SCORED.to_pandas(), check_dtype=False)


def test_files_get_their_names_together(tmp_path):
    """Of several files, none is replaced before all are written; after an error nothing is left of the new ones."""
    (tmp_path / "a").write_text("old")

    def write_and_fail():
        with contextlib.ExitStack() as stack:
            stack.enter_context(replacing(tmp_path / "a")).write_text("new")
            stack.enter_context(replacing(tmp_path / "b")).write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_a_durable_file_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(sorted(path.name for path in tmp_path.iterdir())))
    with replacing(tmp_path / "a", tmp_path / "a.part", durable=True) as partial:
        partial.write_text("new")
    assert synced == [["a.part"]]
    assert (tmp_path / "a").read_text() == "new"
