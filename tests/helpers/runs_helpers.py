"""Helpers that the tests of corpus runs share."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

import audit
from made_up_text import book
from wordprob import runs
from wordprob.cli import main

TEXTS = (
    "She saw the mark.",
    "the marker She saw the",
    "She marked the marker.",
    "She saw the mark",
    "the mark saw the mark",
    "saw She saw the marker",
)
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, which only Linux has")
SOURCE = Path(__file__).resolve().parents[2] / "src"
TIMEOUT_SECONDS = 300
"""Far more than anything here takes, on any machine: what is waited for longer will never come."""


# --- corpora and results ---------------------------------------------------------------------------------------------


def toy_corpus(path: Path, count: int, seed: int = 0) -> Path:
    """Write texts of the toy language, one a line, some of them blank."""
    rng = random.Random(seed)
    lines = ["" if rng.random() < 0.02 else rng.choice(TEXTS) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def real_corpus(path: Path, count: int) -> Path:
    """Write a few lines of a book, one text a line."""
    lines = [line for line in book(200 * (count + 4)).splitlines() if 70 < len(line) < 300]
    path.write_text("\n".join(lines[:count]), encoding="utf-8")
    return path


def finished_files(folder: Path) -> dict[str, bytes]:
    """Return the files of the finished shards of a run, by name."""
    contents = {}
    for mark in sorted((folder / "done").glob("[0-9]*.json")):
        for name in json.loads(mark.read_text())["files"]:
            contents[name] = (folder / name).read_bytes()
    return contents


def read_shards(folder: Path, kind: str = "words") -> pd.DataFrame:
    """Return all rows of a complete run."""
    paths = sorted((folder / kind).glob("*.parquet"))
    return pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)


def assert_same_run(folder: Path, reference: Path) -> None:
    """Compare a run with one that was never interrupted: every text once, and every byte of every file the same."""
    assert finished_files(folder) == finished_files(reference)
    assert (folder / "errors.jsonl").read_bytes() == (reference / "errors.jsonl").read_bytes()
    errors = [json.loads(line)["text_id"] for line in (folder / "errors.jsonl").read_text().splitlines()]
    text_ids = [*read_shards(folder, "texts")["text_id"], *errors]
    records = json.loads((folder / "manifest.json").read_text())["plan"]["records"]
    assert len(text_ids) == len(set(text_ids)) == records
    pd.testing.assert_frame_equal(read_shards(folder), read_shards(reference), check_exact=True)
    assert not list(folder.rglob("*.part")), "a half-written file is left"


def call_command(*arguments: object) -> tuple[int, str, str]:
    """Call the command line through its real entry point; return the exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["wordprob", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


# --- runs in processes of their own ----------------------------------------------------------------------------------

SMALL_RAY = """
import sys
from wordprob.cli import main
from wordprob.runs.executors import ray

ray.INIT_OPTIONS.update(object_store_memory=200 << 20)
sys.argv[0] = "wordprob"
main()
"""
"""The command line, with a Ray that takes little memory."""


def start_run(*arguments: object, startup: Path | None = None) -> subprocess.Popen[bytes]:
    """Start ``wordprob run``; ``startup`` is what :func:`at_startup` returned."""
    paths = [str(SOURCE)] if startup is None else [str(startup), str(SOURCE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", SMALL_RAY, "run", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish_run(*arguments: object, startup: Path | None = None) -> tuple[int, str]:
    """Run ``wordprob run`` to its end; return the exit code and standard error."""
    process = start_run(*arguments, startup=startup)
    _, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
    return process.returncode, stderr.decode()


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def done_count(folder: Path) -> int:
    """Return how many shards are marked as done."""
    return len(list((folder / "done").glob("*.json")))


def children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def is_alive(process: int) -> bool:
    """Return True if a process runs."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- killing ---------------------------------------------------------------------------------------------------------


def kill_and_resume(
    command: Sequence[object], executor: Sequence[object], kills: int, home: Path, reference: Path
) -> None:
    """Kill a run at random moments, start it again each time, and compare it with the reference in the end.

    A moment is a number of shards done since the start, and a little time more: so it comes on a slow machine as on a
    fast one. A run that ends before its moment is compared, and another begins.
    """
    rng = random.Random(kills + audit.SEED)
    folder = home / "out"
    killed = 0
    while killed < kills:
        shards_until_kill = rng.randint(0, 6) if killed else 2
        process = start_run(*command, *executor, "-o", folder)
        if _kill_after_shards(process, folder, shards_until_kill, rng):
            killed += 1
        if (folder / "manifest.json").exists() and runs.status(folder).complete:
            assert finished_files(folder) == finished_files(reference)
            runs.resume(folder)  # it may have been killed after its last shard, before it had collected the errors
            assert_same_run(folder, reference)
            folder = home / f"out after {killed} kills"
    begun = (folder / "manifest.json").exists()
    arguments = ("--resume", folder) if begun else (*command, "-o", folder)
    code, stderr = finish_run(*arguments, *executor)
    assert code == 0, stderr
    assert_same_run(folder, reference)
    how = "one process" if not executor else " ".join(map(str, executor))
    audit.record(f"runs killed and resumed ({how})", {"the same, byte for byte": kills})


def _kill_after_shards(process: subprocess.Popen[bytes], folder: Path, shards: int, rng: random.Random) -> bool:
    """Kill a run when it has done so many shards more than before; return False if it ended earlier."""
    done_before = done_count(folder)

    def moment_has_come() -> bool:
        locked = (folder / ".lock").exists()
        return process.poll() is not None or (locked and done_count(folder) - done_before >= shards)

    wait_until(moment_has_come)
    time.sleep(rng.uniform(0, 0.05 if shards else 1))  # without a shard: while it starts, plans, or loads its model
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return was_running


# --- code that every process of a run executes at its start ----------------------------------------------------------

POISON = """
import os, signal
import wordprob.models.exact as exact

def encode(self, texts, original=exact.ToyTokenizer.encode):
    for text in texts:
        if "poison" in text:
            marker = os.environ.get("POISON_ONCE")
            if marker is None or not os.path.exists(marker):
                if marker:
                    open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
    return original(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A tokeniser that kills its process when it meets the word poison; only once if POISON_ONCE names a file."""

HOLD = """
import os, time
import wordprob.models.exact as exact

def encode(self, texts, original=exact.ToyTokenizer.encode):
    while any("hold" in text for text in texts) and not os.path.exists(os.environ["HOLD_UNTIL"]):
        time.sleep(0.02)
    return original(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A tokeniser that waits at the word hold until the file HOLD_UNTIL exists, so that a run cannot end before."""


BROKEN_DEVICE = """
import os
import wordprob.models.exact as exact

broken = False

def encode(self, texts, original=exact.ToyTokenizer.encode):
    global broken
    if any("fault" in text for text in texts) and not os.path.exists(os.environ["FAULT_ONCE"]):
        open(os.environ["FAULT_ONCE"], "w").close()
        broken = True
    if broken:
        raise RuntimeError("CUDA error: device-side assert triggered")
    return original(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A device that fails at the word fault, once, and then for every text of the same process, as a GPU does."""

HANG = """
import os, threading
import wordprob.models.exact as exact

def encode(self, texts, original=exact.ToyTokenizer.encode):
    marker = os.environ.get("HANG_ONCE")
    if any("hang" in text for text in texts) and not (marker and os.path.exists(marker)):
        if marker:
            open(marker, "w").close()
        threading.Event().wait()
    return original(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A tokeniser that waits for ever at the word hang; only once if HANG_ONCE names a file."""


def at_startup(folder: Path, code: str) -> Path:
    """Return a directory for ``PYTHONPATH`` that makes every Python run this code at its start."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code)
    return folder
