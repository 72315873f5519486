"""Runs that are killed: nothing is lost, nothing is there twice, and no digit changes."""

from __future__ import annotations

import os
import signal

import pytest

from runs_helpers import (
    HOLD,
    POISON,
    TIMEOUT_SECONDS,
    assert_same_run,
    at_startup,
    children,
    done_count,
    finish_run,
    is_alive,
    kill_and_resume,
    needs_proc,
    start_run,
    toy_corpus,
    wait_until,
)
from wordprob import runs

TOY = ("--model", "exact:bow", "--threads", 1, "--shard-texts", 10)
SETTINGS = {"model": "exact:bow", "threads": 1, "shard_texts": 10}
TWO_WORKERS = ("--workers", 2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus in which one text lets a run wait, where :data:`HOLD` is in effect."""
    path = toy_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt", 300)
    lines = path.read_text().split("\n")
    lines[155] = "She saw the hold"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def reference(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "out"
    assert runs.run(corpus, folder, **SETTINGS).complete
    return folder


def test_one_process_killed_and_resumed(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY), (), 3, tmp_path, reference)


def test_several_processes_killed_and_resumed(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY), TWO_WORKERS, 2, tmp_path, reference)


@pytest.mark.audit
@pytest.mark.slow
def test_one_process_killed_many_times(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY), (), 30, tmp_path, reference)


@pytest.mark.audit
@pytest.mark.slow
def test_several_processes_killed_many_times(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY), TWO_WORKERS, 20, tmp_path, reference)


# --- a run that waits in the middle ----------------------------------------------------------------------------------


@pytest.fixture
def held_run(corpus, tmp_path, monkeypatch):
    """A run with two workers, some shards done, that does not end before its ``release`` is called."""
    monkeypatch.setenv("HOLD_UNTIL", str(tmp_path / "released"))
    startup = at_startup(tmp_path / "startup", HOLD)
    process = start_run(corpus, *TOY, *TWO_WORKERS, "-o", tmp_path / "out", startup=startup)
    wait_until(lambda: done_count(tmp_path / "out") >= 5)
    process.release = (tmp_path / "released").touch
    yield process
    process.kill()
    process.wait()


@needs_proc
def test_workers_of_a_killed_run_end(held_run):
    workers = children(held_run.pid)
    assert len(workers) == 2
    held_run.kill()
    held_run.communicate()
    wait_until(lambda: not any(is_alive(worker) for worker in workers))


@needs_proc
def test_killed_workers_are_replaced(held_run, reference, tmp_path):
    for worker in children(held_run.pid):
        os.kill(worker, signal.SIGKILL)
    held_run.release()
    _, stderr = held_run.communicate(timeout=TIMEOUT_SECONDS)
    assert held_run.returncode == 0, stderr.decode()
    assert_same_run(tmp_path / "out", reference)


def test_a_terminated_run_ends_cleanly_and_can_be_resumed(held_run, reference, tmp_path):
    held_run.send_signal(signal.SIGTERM)
    _, stderr = held_run.communicate(timeout=TIMEOUT_SECONDS)
    assert held_run.returncode == 130, stderr.decode()
    assert b"finished shards are kept. Resume with: wordprob run --resume" in stderr
    assert b"Traceback" not in stderr
    assert not runs.status(tmp_path / "out").complete
    runs.resume(tmp_path / "out")
    assert_same_run(tmp_path / "out", reference)


# --- a text that kills the worker that reads it ----------------------------------------------------------------------


@pytest.fixture
def poisoned_corpus(corpus, tmp_path):
    lines = corpus.read_text().split("\n")[:100]
    lines[55] = "She saw the poison"
    path = tmp_path / "poisoned.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def poison(tmp_path):
    return at_startup(tmp_path / "startup", POISON)


def test_a_shard_whose_worker_dies_is_tried_again(poisoned_corpus, poison, tmp_path, monkeypatch):
    monkeypatch.setenv("POISON_ONCE", str(tmp_path / "died"))
    code, stderr = finish_run(poisoned_corpus, *TOY, *TWO_WORKERS, "-o", tmp_path / "out", startup=poison)
    assert (tmp_path / "died").exists()
    assert code == 0, stderr
    runs.run(poisoned_corpus, tmp_path / "reference", **SETTINGS)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def test_a_shard_whose_worker_dies_twice_has_failed(poisoned_corpus, poison, tmp_path):
    code, stderr = finish_run(poisoned_corpus, *TOY, *TWO_WORKERS, "-o", tmp_path / "out", startup=poison)
    assert code == 1
    assert "shard 5: its worker was killed (signal 9), perhaps because memory ran out" in stderr
    status = runs.status(tmp_path / "out")
    assert (status.done, status.shards, list(status.failed)) == (9, 10, [5]), "the others were scored"
    status = runs.resume(tmp_path / "out")
    assert status.failed == {}
    assert status.complete, "without the poison the shard can be scored"


def test_a_run_whose_workers_all_die_stops(poison, tmp_path):
    """Every text kills its worker: after some deaths in a row the run stops, rather than try every shard."""
    (tmp_path / "corpus.txt").write_text("She saw the poison\n" * 40)
    arguments = (tmp_path / "corpus.txt", *TOY[:-1], 1, *TWO_WORKERS, "-o", tmp_path / "out")
    code, stderr = finish_run(*arguments, startup=poison)
    assert code == 1
    assert "one worker after the other fails, and the run cannot continue" in stderr
    assert "The last time, its worker was killed (signal 9)" in stderr
    assert runs.status(tmp_path / "out").done == 0
