"""Killed without warning, again and again: nothing is lost, nothing is there twice, no digit changes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from runs_helpers import DELAY, POISON, at_start, finish, same_run, start, survives, toy_corpus

from wordprob import runs

TOY = ("--model", "exact:bow", "--threads", 1)
MOMENTS = 14
"""For one process, and six more for several."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return toy_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt", 1200)


@pytest.fixture(scope="module")
def reference(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "out"
    assert runs.run(corpus, folder, model="exact:bow", threads=1, shard_texts=20).complete
    return folder


def test_one_process(corpus, reference, tmp_path):
    survives((corpus, *TOY, "--shard-texts", 20), (), MOMENTS, 1.5, tmp_path, reference)


def test_several_processes(corpus, reference, tmp_path):
    survives((corpus, *TOY, "--shard-texts", 20), ("--workers", 2), 20 - MOMENTS, 2.5, tmp_path, reference)


def _slowly(corpus, tmp_path):
    command = (corpus, *TOY, "--shard-texts", 20, "--workers", 2, "-o", tmp_path / "out")
    return start(*command, python_path=at_start(tmp_path / "site", DELAY))


def test_workers_of_a_killed_run_end(corpus, tmp_path):
    process = _slowly(corpus, tmp_path)
    workers = _children(process.pid, 2)
    process.kill()
    process.communicate()
    for _ in range(100):
        if not any(_alive(worker) for worker in workers):
            return
        time.sleep(0.1)
    pytest.fail("a worker goes on without its run")


def test_killed_workers_are_replaced(corpus, reference, tmp_path):
    process = _slowly(corpus, tmp_path)
    for worker in _children(process.pid, 2):
        time.sleep(0.3)
        os.kill(worker, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    same_run(tmp_path / "out", reference)


def _children(parent: int, count: int) -> list[int]:
    for _ in range(500):
        listed = Path(f"/proc/{parent}/task/{parent}/children")
        if not listed.exists():
            pytest.skip("needs /proc/PID/task/PID/children, which is not here")
        found = [int(child) for child in listed.read_text().split()]
        if len(found) == count:
            return found
        time.sleep(0.02)
    raise AssertionError("the workers did not start")


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- a text that kills whoever reads it ------------------------------------------------------------------------------


@pytest.fixture
def with_poison(corpus, tmp_path):
    lines = corpus.read_text().split("\n")[:200]
    lines[105] = "She saw the poison"
    path = tmp_path / "poisoned.txt"
    path.write_text("\n".join(lines))
    return path


def test_a_shard_is_redone_once(with_poison, tmp_path, monkeypatch):
    """The worker dies of its shard the first time, not the second."""
    monkeypatch.setenv("POISON_ONCE", str(tmp_path / "died"))
    command = (with_poison, *TOY, "--shard-texts", 20, "--workers", 2, "-o", tmp_path / "out")
    code, said = finish(*command, python_path=at_start(tmp_path / "site", POISON))
    assert (tmp_path / "died").exists()
    assert code == 0, said
    runs.run(with_poison, tmp_path / "reference", model="exact:bow", threads=1, shard_texts=20)
    same_run(tmp_path / "out", tmp_path / "reference")


def test_but_not_twice(with_poison, tmp_path):
    command = (with_poison, *TOY, "--shard-texts", 20, "--workers", 2, "-o", tmp_path / "out")
    code, said = finish(*command, python_path=at_start(tmp_path / "site", POISON))
    assert code == 1
    assert "shard 5: its worker was killed (signal 9), perhaps because memory ran out" in said
    found = runs.status(tmp_path / "out")
    assert (found.done, found.shards, list(found.failed)) == (9, 10, [5]), "the others went on"
    code, _ = finish("--resume", tmp_path / "out")
    assert code == 0
    assert runs.status(tmp_path / "out").failed == {}
    assert runs.status(tmp_path / "out").complete, "without the poison it goes through"


def test_a_scheduler_that_asks_politely(corpus, reference, tmp_path):
    process = _slowly(corpus, tmp_path)
    _children(process.pid, 2)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said.decode()
    assert b"finished shards are kept. Go on with: wordprob run --resume" in said
    assert b"Traceback" not in said
    runs.resume(tmp_path / "out")
    same_run(tmp_path / "out", reference)
