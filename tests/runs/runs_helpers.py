"""What the tests of corpus runs share."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from wordprob import runs

TEXTS = (
    "She saw the mark.",
    "the marker She saw the",
    "She marked the marker.",
    "She saw the mark",
    "the mark saw the mark",
    "saw She saw the marker",
)


def toy_corpus(path: Path, count: int, seed: int = 0) -> Path:
    """Write texts of the toy language, one a line, with a blank one now and then."""
    rng = random.Random(seed)
    lines = ["" if rng.random() < 0.02 else rng.choice(TEXTS) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def parts(folder: Path) -> dict[str, bytes]:
    """Return the finished files of a run, by name."""
    marks = [json.loads(path.read_text()) for path in sorted((folder / "done").glob("*.json"))]
    return {name: (folder / name).read_bytes() for mark in marks for name in mark["files"]}


def rows(folder: Path, kind: str = "words") -> pd.DataFrame:
    """Return a table of a run that is there whole."""
    return pd.concat([pd.read_parquet(path) for path in sorted((folder / kind).glob("*.parquet"))], ignore_index=True)


def same_run(folder: Path, reference: Path) -> None:
    """Judge a run against one that was never interrupted: every text once, every byte of every column the same."""
    assert parts(folder) == parts(reference)
    assert (folder / "errors.jsonl").read_bytes() == (reference / "errors.jsonl").read_bytes()
    errors = [json.loads(line)["text_id"] for line in (folder / "errors.jsonl").read_text().splitlines()]
    names = [*rows(folder, "texts")["text_id"], *errors]
    assert len(names) == len(set(names)) == json.loads((folder / "manifest.json").read_text())["plan"]["records"]
    pd.testing.assert_frame_equal(rows(folder), rows(reference), check_exact=True)
    assert not list(folder.rglob("*.part")), "nothing half-written is left"


def start(*arguments: object, python_path: Path | None = None) -> subprocess.Popen[bytes]:
    """Start ``wordprob run`` in a process of its own."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    paths = [str(python_path)] if python_path else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, source])}
    code = (
        "import sys; from wordprob.runs.engines import ray; ray.OPTIONS.update(object_store_memory=200 << 20); "
        "from wordprob.cli import main; sys.argv[0] = 'wordprob'; main()"
    )
    command = [sys.executable, "-c", code, "run", *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(*arguments: object, python_path: Path | None = None) -> tuple[int, str]:
    """Run it to its end; return the exit code and what it said."""
    process = start(*arguments, python_path=python_path)
    _, said = process.communicate(timeout=180)
    return process.returncode, said.decode()


def kill_after(process: subprocess.Popen[bytes], folder: Path, delay: float) -> bool:
    """Kill a run, without warning, some time after it has begun; ``False`` if it was over before."""
    while not (folder / ".lock").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    over = process.poll() is not None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return not over


def survives(
    command: tuple[object, ...],
    engine: tuple[object, ...],
    moments: int,
    longest: float,
    home: Path,
    reference: Path,
) -> None:
    """Kill at random moments, a new folder whenever a run got through, and judge every run that came to its end."""
    rng, killed, finished = random.Random(moments), 0, 0
    while killed < moments:
        folder = home / f"out{finished}"
        if kill_after(start(*command, *engine, "-o", folder), folder, rng.uniform(0, longest)):
            killed += 1
        elif runs.status(folder).complete:
            same_run(folder, reference)
            finished += 1
    again = ("--resume", folder) if (folder / "manifest.json").exists() else (*command, "-o", folder)
    code, said = finish(*again, *engine)
    assert code == 0, said
    same_run(folder, reference)


POISON = """
import os, signal
import wordprob.models.exact as exact

def encode(self, texts, real=exact.ToyTokenizer.encode):
    for text in texts:
        if "poison" in text:
            marker = os.environ.get("POISON_ONCE")
            if marker is None or not os.path.exists(marker):
                if marker:
                    open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
    return real(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A tokeniser that kills its process when it meets a certain word."""

DELAY = """
import time
import wordprob.models.exact as exact

def encode(self, texts, real=exact.ToyTokenizer.encode):
    time.sleep(0.2)
    return real(self, texts)

exact.ToyTokenizer.encode = encode
"""
"""A tokeniser that takes its time, so that a run is not over before something is done to it."""


def at_start(home: Path, code: str) -> Path:
    """Return a directory for ``PYTHONPATH`` that makes every Python run this at its start."""
    home.mkdir(exist_ok=True)
    (home / "sitecustomize.py").write_text(code)
    return home
