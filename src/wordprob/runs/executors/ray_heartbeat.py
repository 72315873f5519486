"""Heartbeats of workers on Ray: a process that the system has stopped cannot end itself, so others must notice.

Every worker beats from a thread, whether it is busy or not. The beats are counted by a small actor of their own, which
the process that started the run asks. A worker that has not beaten for too long is killed where it runs; Ray then
starts another.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wordprob.runs.executors.heartbeat import interval_seconds

ANSWER_SECONDS = 30
"""How long to wait for the actor that counts, or for a worker to be killed."""


class WorkerPlace(NamedTuple):
    """Where a worker runs: on which node of the cluster, and as which process."""

    node: str
    pid: int


class BeatCounter:
    """Counts the beats of each worker; runs as an actor."""

    def __init__(self) -> None:
        self._beats: dict[WorkerPlace, int] = {}

    def beat(self, worker: WorkerPlace) -> None:
        """Count one beat of a worker."""
        self._beats[worker] = self._beats.get(worker, 0) + 1

    def beats(self) -> dict[WorkerPlace, int]:
        """Return the beats of each worker."""
        return self._beats


def send_beats(counter: Any, timeout_seconds: float) -> None:
    """Beat from a thread of a worker, for as long as its process runs."""
    import ray

    worker = WorkerPlace(ray.get_runtime_context().get_node_id(), os.getpid())

    def send() -> None:
        with contextlib.suppress(Exception):  # the counter is gone: the run has ended
            while True:
                counter.beat.remote(worker)
                time.sleep(interval_seconds(timeout_seconds))

    threading.Thread(target=send, daemon=True).start()


class SilenceMeter:
    """Measures for how long each worker has been silent, while somebody listened.

    Time in which nobody listened does not count, so that a run that was suspended as a whole keeps its workers.

    Examples
    --------
    >>> meter = SilenceMeter(timeout_seconds=20)
    >>> worker = WorkerPlace("node", 7)
    >>> [meter.silent_workers({worker: beats}, seconds=10) for beats in (1, 2, 2, 2)]
    [[], [], [], [WorkerPlace(node='node', pid=7)]]
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._beats: dict[WorkerPlace, int] = {}
        self._silent_seconds: dict[WorkerPlace, float] = {}

    def silent_workers(self, beats: Mapping[WorkerPlace, int], seconds: float) -> list[WorkerPlace]:
        """Return the workers that have just been silent for too long, after so many more seconds of listening."""
        for worker, count in beats.items():
            has_beaten = count != self._beats.get(worker)
            self._silent_seconds[worker] = 0.0 if has_beaten else self._silent_seconds[worker] + seconds
        self._beats = dict(beats)
        before = self._timeout_seconds
        return [worker for worker in beats if before <= self._silent_seconds[worker] < before + seconds]


@contextlib.contextmanager
def watch_workers(ray: Any, timeout_seconds: float) -> Iterator[Any]:
    """Watch workers from a thread, and kill those that are silent; yields the actor that they send their beats to."""
    counter = ray.remote(BeatCounter).options(num_cpus=0).remote()
    stopped = threading.Event()

    def watch() -> None:
        meter = SilenceMeter(timeout_seconds)
        interval = interval_seconds(timeout_seconds)
        while not stopped.wait(interval):
            with contextlib.suppress(ray.exceptions.RayError):  # no answer this time
                beats = ray.get(counter.beats.remote(), timeout=ANSWER_SECONDS)
                for worker in meter.silent_workers(beats, interval):
                    _kill(ray, worker)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield counter
    finally:
        stopped.set()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(counter)


def _kill(ray: Any, worker: WorkerPlace) -> None:
    """Kill a worker from its own node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(worker.node, soft=False)
    task = ray.remote(kill_worker).options(num_cpus=0, scheduling_strategy=there)
    ray.get(task.remote(worker.pid), timeout=ANSWER_SECONDS)


def kill_worker(pid: int) -> None:
    """Kill a worker process of Ray on this machine; do nothing if its number belongs to another program by now."""
    with contextlib.suppress(OSError):
        has_proc = Path("/proc/self").exists()
        if not has_proc or b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
