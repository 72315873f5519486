"""Worker processes: started, talked to and ended in one way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from wordprob.processes import WorkerProcess

HERE = __name__


def echo(channel):
    while True:
        channel.send(channel.receive())


def report_environment(channel):
    channel.send(os.environ.get("WORDPROB_TEST", ""))


def wait_for_ever(channel):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel.send("ready")
    while True:
        signal.pause()


def talk_from_two_threads(channel):
    def send(letter):
        for number in range(200):
            channel.send((letter, number, letter * 50_000))

    other = threading.Thread(target=send, args=("b",))
    other.start()
    send("a")
    other.join()


def break_off(channel):
    """Send the beginning of a message, and nothing more."""
    channel._socket.sendall(b"\0" * 7)
    threading.Event().wait()


def test_several_threads_may_send():
    worker = WorkerProcess(f"{HERE}:talk_from_two_threads")
    received = [worker.channel.receive() for _ in range(400)]
    for letter in "ab":
        assert [n for name, n, text in received if name == letter and text == letter * 50_000] == list(range(200))
    worker.join()


def test_a_message_that_breaks_off_is_not_waited_for_for_ever():
    worker = WorkerProcess(f"{HERE}:break_off")
    worker.channel.limit_waiting(0.5)
    assert worker.channel.poll(60)
    with pytest.raises(TimeoutError):
        worker.channel.receive()
    worker.kill()


def test_objects_and_arrays_come_back_as_they_were():
    worker = WorkerProcess(f"{HERE}:echo")
    arrays = {"ints": np.arange(10), "floats": np.zeros((3, 0)), "empty": np.zeros(0)}
    for message in ("text", None, [1, (2, "x")], {"a": b"\0" * 100_000}):
        worker.channel.send(message)
        assert worker.channel.receive() == message
    worker.channel.send(arrays)
    for name, array in worker.channel.receive().items():
        assert np.array_equal(array, arrays[name])
        assert array.shape == arrays[name].shape
    assert worker.running
    assert worker.join() == "ended with exit code 0"
    assert not worker.running


def test_variables_of_a_worker():
    worker = WorkerProcess(f"{HERE}:report_environment", {"WORDPROB_TEST": "yes"})
    assert worker.channel.receive() == "yes"
    with pytest.raises(EOFError):
        worker.channel.receive()
    worker.join()


def test_nothing_arrives_in_time():
    worker = WorkerProcess(f"{HERE}:echo")
    assert not worker.channel.poll(0.01)
    worker.channel.send("x")
    assert worker.channel.poll(60)
    worker.kill()
    assert not worker.running


def test_a_worker_that_does_not_end_is_killed():
    worker = WorkerProcess(f"{HERE}:wait_for_ever")
    assert worker.channel.receive() == "ready"
    assert "was killed (signal 9)" in worker.join(grace_seconds=0.1)


def test_how_a_worker_ended_is_told():
    worker = WorkerProcess(f"{HERE}:echo")
    worker.channel.send("x")
    worker.channel.receive()
    worker.terminate()
    assert worker.join() == f"was ended by signal {int(signal.SIGTERM)}"


def test_a_worker_ends_when_the_process_that_started_it_is_gone():
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from wordprob.processes import WorkerProcess; "
        f"w = WorkerProcess('{HERE}:wait_for_ever'); w.channel.receive(); print(w.pid, flush=True); os._exit(0)"
    )
    started = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    worker = int(started.stdout)
    for _ in range(600):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{worker}/stat").read_text(encoding="utf-8").split()[2]
        if state == "Z":  # it has ended, and nobody waited for it yet
            return
        signal.sigtimedwait([], 0.1)
    pytest.fail("the worker is still there")
