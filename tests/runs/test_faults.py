"""Faults of the machine: tried again, told in one line, and never taken for a fault of a text."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runs_helpers import (
    BROKEN_DEVICE,
    HANG,
    SOURCE,
    TEXTS,
    TIMEOUT_SECONDS,
    assert_same_run,
    at_startup,
    call_command,
    children,
    done_count,
    finish_run,
    needs_proc,
    read_shards,
    start_run,
    toy_corpus,
    wait_until,
)
from wordprob import runs
from wordprob.errors import InputError, OutputError
from wordprob.models.exact import ToyTokenizer
from wordprob.runs.executors import heartbeat
from wordprob.runs.shard_scoring import is_machine_fault
from wordprob.sources import readers

TOY = {"model": "exact:bow", "threads": 1}
FLAGS = ("--model", "exact:bow", "--threads", 1, "--shard-texts", 10)


@pytest.fixture
def corpus(tmp_path):
    return toy_corpus(tmp_path / "corpus.txt", 60)


@pytest.fixture
def faulty(monkeypatch):
    """Let the tokeniser raise an error for texts with a word, so many times, or for ever."""

    def begin(word, error, times=10**9):
        left = [times]

        def encode(self, texts, real=ToyTokenizer.encode):
            if left[0] and any(word in text for text in texts):
                left[0] -= 1
                raise error
            return real(self, texts)

        monkeypatch.setattr(ToyTokenizer, "encode", encode)
        return left

    return begin


# --- the machine or the text -----------------------------------------------------------------------------------------

CUDA = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronous")


@pytest.mark.parametrize("shard_texts", [1, 3])
def test_a_fault_of_the_device_is_tried_again(tmp_path, faulty, shard_texts):
    """Also where it meets a shard of one text, which could be taken for the one at fault."""
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS[:3]))
    left = faulty("marker", CUDA, times=1)
    status = runs.run(tmp_path / "corpus.txt", tmp_path / "out", **TOY, shard_texts=shard_texts)
    assert left == [0], "the fault has come"
    assert (status.complete, status.texts, status.errors, status.failed) == (True, 3, {}, {})


def test_a_worker_whose_device_is_broken_is_replaced(tmp_path, monkeypatch):
    """After such a fault a process can score nothing any more; a new one can."""
    (tmp_path / "corpus.txt").write_text("She saw the fault\n" + "\n".join(TEXTS))
    monkeypatch.setenv("FAULT_ONCE", str(tmp_path / "fault"))
    flags = (*FLAGS[:-1], 1, "--workers", 2)
    startup = at_startup(tmp_path / "startup", BROKEN_DEVICE)
    code, stderr = finish_run(tmp_path / "corpus.txt", *flags, "-o", tmp_path / "out", startup=startup)
    assert (tmp_path / "fault").exists()
    assert code == 0, stderr
    status = runs.status(tmp_path / "out")
    assert (status.complete, status.texts, status.errors, status.failed) == (True, 7, {}, {})


@pytest.mark.parametrize("error", [CUDA, MemoryError(), OSError(errno.EIO, "Input/output error")], ids=str)
def test_a_fault_that_stays_fails_the_shard_and_not_the_text(tmp_path, faulty, monkeypatch, error):
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS[:3]))
    real = ToyTokenizer.encode
    faulty("marked", error)
    status = runs.run(tmp_path / "corpus.txt", tmp_path / "out", **TOY, shard_texts=1)
    assert (status.done, list(status.failed), status.errors) == (2, [2], {})
    monkeypatch.setattr(ToyTokenizer, "encode", real)
    assert runs.resume(tmp_path / "out").texts == 3


def test_a_broken_scorer_is_told_from_a_bad_text(tmp_path, faulty):
    """An unknown error: the text is at fault if another can be scored, and the machine if none can."""
    (tmp_path / "corpus.txt").write_text("She saw the mark")
    faulty("She", RuntimeError("cannot tokenise this"))
    status = runs.run(tmp_path / "corpus.txt", tmp_path / "bad text", **TOY)
    assert (status.complete, status.errors) == (True, {"scoring": 1})
    faulty("", RuntimeError("the library is broken"))
    status = runs.run(tmp_path / "corpus.txt", tmp_path / "broken", **TOY)
    assert (status.done, status.errors) == (0, {})
    assert "the library is broken; another text ('the') cannot be scored either" in status.failed[0]


def test_errors_of_devices_are_recognised():
    for message in (
        "CUDA error: device-side assert triggered",
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
        "CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
        "MPS backend out of memory",
        "HIP error: invalid device function",
    ):
        assert is_machine_fault(RuntimeError(message)), message
    for error in (RuntimeError("index out of range"), ValueError("CUDA error"), KeyError("x")):
        assert not is_machine_fault(error)


def test_texts_that_could_not_be_scored_are_tried_again_on_request(tmp_path, faulty, monkeypatch, corpus):
    corpus.write_text(corpus.read_text() + "She saw the poison\n")
    real = ToyTokenizer.encode
    faulty("poison", RuntimeError("cannot tokenise this"))
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10)
    monkeypatch.setattr(ToyTokenizer, "encode", real)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/words").iterdir()}
    assert runs.resume(tmp_path / "out").errors["scoring"] == 1, "not by itself"
    code, _, said = call_command("run", "--resume", tmp_path / "out", "--retry-errors")
    assert code == 0, said
    assert "scoring" not in runs.status(tmp_path / "out").errors
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/words").iterdir()}
    assert [path.name for path in after if after[path] != before.get(path)] == ["000006.parquet"]
    runs.run(corpus, tmp_path / "reference", **TOY, shard_texts=10)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def test_a_retry_that_is_killed_leaves_the_shard_not_done(tmp_path, faulty, monkeypatch):
    """The old mark is gone before a file of the shard is replaced."""
    (tmp_path / "corpus.txt").write_text("She saw the mark\nShe saw the poison\n")
    real = ToyTokenizer.encode
    faulty("poison", RuntimeError("cannot tokenise this"))
    runs.run(tmp_path / "corpus.txt", tmp_path / "out", **TOY)
    monkeypatch.setattr(ToyTokenizer, "encode", real)
    replace = Path.replace

    def die(self, target):
        if self.name.startswith("000000.parquet") and self.parent.name == "texts":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        runs.resume(tmp_path / "out", retry_errors=True)
    monkeypatch.setattr(Path, "replace", replace)
    assert runs.status(tmp_path / "out").done == 0
    assert runs.resume(tmp_path / "out").texts == 2


def test_what_failed_before_comes_last(tmp_path, corpus, faulty):
    """Shards that fail whenever they are tried must not keep a run from reaching the others."""
    faulty("She saw", MemoryError(), times=2)
    order = []
    runs.run(corpus, tmp_path / "out", **TOY, shard_texts=10)
    for mark in sorted((tmp_path / "out/done").iterdir())[3:]:
        mark.unlink()
    status = runs.resume(tmp_path / "out", watch=lambda progress: order.append(sorted_done(tmp_path / "out")))
    assert status.complete
    assert order[0] == [1, 2, 3], "shard 0 failed at first"
    assert 0 in order[-1]
    assert all(0 not in done for done in order if len(done) < 6)


def sorted_done(folder):
    return sorted(int(path.stem) for path in (folder / "done").glob("*.json"))


# --- workers that hang -----------------------------------------------------------------------------------------------


@pytest.fixture
def hanging_corpus(corpus):
    lines = corpus.read_text().split("\n")
    lines[25] = "She saw the hang"
    corpus.write_text("\n".join(lines))
    return corpus


def test_a_worker_that_hangs_is_replaced(hanging_corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("HANG_ONCE", str(tmp_path / "hung"))
    startup = at_startup(tmp_path / "startup", HANG)
    flags = (*FLAGS, "--workers", 2, "--worker-timeout", 2)
    code, stderr = finish_run(hanging_corpus, *flags, "-o", tmp_path / "out", startup=startup)
    assert (tmp_path / "hung").exists()
    assert code == 0, stderr
    runs.run(hanging_corpus, tmp_path / "reference", **TOY, shard_texts=10)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def test_a_shard_that_always_hangs_has_failed(hanging_corpus, tmp_path):
    startup = at_startup(tmp_path / "startup", HANG)
    flags = (*FLAGS, "--workers", 2, "--worker-timeout", 2)
    code, stderr = finish_run(hanging_corpus, *flags, "-o", tmp_path / "out", startup=startup)
    assert code == 1
    assert "shard 2: its worker gave no sign of work for 2 seconds" in stderr
    assert runs.status(tmp_path / "out").done == 5


@needs_proc
def test_a_worker_that_the_system_stopped_is_replaced(hanging_corpus, tmp_path, monkeypatch):
    """The worker that hangs at a text, for longer than this test, is stopped: it cannot say anything any more."""
    monkeypatch.setenv("HANG_ONCE", str(tmp_path / "hung"))
    startup = at_startup(tmp_path / "startup", HANG)
    flags = (*FLAGS, "--workers", 2, "--worker-timeout", 3)
    process = start_run(hanging_corpus, *flags, "-o", tmp_path / "out", startup=startup)
    wait_until((tmp_path / "hung").exists)
    for worker in children(process.pid):
        os.kill(worker, signal.SIGSTOP)
    _, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, stderr.decode()
    assert runs.status(tmp_path / "out").complete


@needs_proc
def test_a_run_that_is_suspended_keeps_its_workers(tmp_path):
    """Ctrl-Z, or a laptop that sleeps: nobody was silent for longer than the others were there to listen."""
    corpus = toy_corpus(tmp_path / "corpus.txt", 6000)
    process = start_run(corpus, *FLAGS, "--workers", 2, "--worker-timeout", 2, "-o", tmp_path / "out")
    wait_until(lambda: done_count(tmp_path / "out") >= 3)
    workers = children(process.pid)
    everyone = [process.pid, *workers]
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    done_before = done_count(tmp_path / "out")
    time.sleep(4)
    for pid in everyone:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: done_count(tmp_path / "out") > done_before + 5)
    assert children(process.pid) == workers
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert runs.status(tmp_path / "out").failed == {}


def test_work_is_told_from_waiting():
    """In a process of its own, as threads that other tests left behind may be at work in this one."""
    program = """
import time
from wordprob.runs.executors.heartbeat import WorkMeter

meter = WorkMeter()
meter.has_worked()
time.sleep(0.5)
assert not meter.has_worked(), "only waits"
end = time.process_time() + 0.05
while time.process_time() < end:
    pass
assert meter.has_worked(), "uses the processor"
time.sleep(0.3)
meter.texts_done()
assert meter.has_worked(), "finishes texts"
"""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert process.returncode == 0, process.stderr


def test_a_watchdog_ends_a_process_that_hangs_while_it_is_busy():
    program = (
        "import time; from wordprob.runs.executors.heartbeat import Watchdog\n"
        "watchdog = Watchdog(0.4); time.sleep(1.5)\n"
        "print('it was not busy', flush=True)\n"
        "with watchdog.busy(): time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert process.stdout == "it was not busy\n"
    assert process.returncode == heartbeat.HUNG_EXIT_CODE


# --- disks -----------------------------------------------------------------------------------------------------------


def start_without_disk(*arguments):
    """Run a command whose every write into a file fails, as on a disk that is full."""

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [sys.executable, "-c", "from wordprob.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, env=environment, preexec_fn=no_room, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )


def test_no_room_at_the_start(corpus, tmp_path):
    ended = start_without_disk("run", corpus, *FLAGS, "-o", tmp_path / "out")
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "could not be written: File too large" in ended.stderr
    assert runs.run(corpus, tmp_path / "out", **TOY).complete, "and with room it begins"


@pytest.mark.parametrize("call", ["write_text", "mkdir", "fsync"])
def test_a_full_disk_at_the_start(corpus, tmp_path, monkeypatch, call):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    real = Path.mkdir

    def mkdir(self, *arguments, **options):
        return full() if self.name == "texts" else real(self, *arguments, **options)

    monkeypatch.setattr(os if call == "fsync" else Path, call, mkdir if call == "mkdir" else full)
    with pytest.raises(OutputError, match=r"could not be written: No space left on device.* make room"):
        runs.run(corpus, tmp_path / "out", **TOY)
    monkeypatch.undo()
    assert runs.run(corpus, tmp_path / "out", **TOY).complete


def test_a_disk_that_cannot_be_read_is_no_damaged_file(corpus, tmp_path, monkeypatch):
    """An error of the system while the corpus is planned must not look like the end of a file."""

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")
        yield

    monkeypatch.setattr(readers, "numbered_lines", fail)
    with pytest.raises(InputError, match=r"corpus.txt cannot be read: Input/output error. Try again"):
        runs.run(corpus, tmp_path / "out", **TOY)
    assert not (tmp_path / "out/manifest.json").exists()


# --- inputs that are not whole ---------------------------------------------------------------------------------------


@pytest.fixture
def truncated(tmp_path):
    rng = random.Random(0)
    data = gzip.compress("".join(f"{rng.choice(TEXTS)} {rng.random()}\n" for _ in range(2000)).encode())
    path = tmp_path / "corpus.txt.gz"
    path.write_bytes(data[: len(data) // 2])
    return path


def test_a_truncated_input_is_told(truncated, tmp_path):
    code, _, said = call_command("run", truncated, "-o", tmp_path / "out", "--model", "exact:bow", "--threads", 1)
    assert code == 3
    lines = said.splitlines()
    assert lines[0].startswith("wordprob: corpus.txt.gz: the file cannot be read on: Compressed file ended before")
    assert "what comes after is not in the run" in lines[0], "before the scoring begins"
    assert "all that could be read is scored, but not every input could be read to its end" in said
    assert "damaged    corpus.txt.gz: the file cannot be read on" in said
    status = runs.status(tmp_path / "out")
    assert status.texts == len(read_shards(tmp_path / "out", "texts")) > 100
    assert status.errors == {"file": 1}
    assert call_command("run", "--resume", tmp_path / "out")[0] == 3, "as often as it is asked"
    assert call_command("verify", tmp_path / "out")[0] == 3


def test_repeated_ids_are_told(tmp_path):
    rows = [{"id": name, "text": TEXTS[0]} for name in ("a", "b", "a", "c", "c", "c")]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, said = call_command(
        "run", tmp_path / "corpus.jsonl", "-o", tmp_path / "out", "--id-column", "id", "--model", "exact:bow"
    )
    assert code == 0
    assert "wordprob: 5 texts share their id with another: a; c" in said
    status = runs.status(tmp_path / "out")
    assert (status.texts_with_repeated_ids, list(status.repeated_ids), status.texts) == (5, ["a", "c"], 6)
    assert "ids        5 texts share their id with another: a, c" in call_command("status", tmp_path / "out")[1]
    runs.run(tmp_path / "corpus.jsonl", tmp_path / "numbered", **TOY)
    assert runs.status(tmp_path / "numbered").texts_with_repeated_ids == 0


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_an_unclosed_quote_loses_no_rows(tmp_path):
    """`run` and `score` read a table by the same rules: where rows would be swallowed, both say so."""
    (tmp_path / "corpus.csv").write_text('id,text\n1,the mark\n2,"the marker\n3,She saw\n4,saw\n5,the "mark"\n')
    code, _, said = call_command("run", tmp_path / "corpus.csv", "-o", tmp_path / "out", "--model", "exact:bow")
    assert code == 1
    assert "corpus.csv, line 3: the quotation marks do not match" in said
    assert not (tmp_path / "out/manifest.json").exists()
    code, _, said = call_command("score", tmp_path / "corpus.csv", "--text-column", "text", "--model", "exact:bow")
    assert code == 1
    assert "corpus.csv, line 3: the quotation marks do not match" in said
