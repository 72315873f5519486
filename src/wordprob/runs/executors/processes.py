"""Several processes on one machine, each with a model of its own; one that dies is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError, OptionError
from wordprob.runs.executors import ATTEMPTS
from wordprob.runs.scoring import Outcome, RunWork, ShardProgress
from wordprob.runs.settings import Execution
from wordprob.runs.shards import Shard

GRACE = 10
"""Seconds a process has to end before it is killed."""


class Processes:
    """Hands shards to processes as they become free."""

    def __init__(self, how: Execution) -> None:
        self._devices = share_out(how.workers, how.gpus_per_worker, visible()) if how.gpus_per_worker else [""]
        self._workers = how.workers

    def results(self, work: RunWork, shards: Sequence[Shard], tick: ShardProgress | None = None) -> Iterator[Outcome]:
        """Yield an outcome for each shard, as they come."""
        pool = _Pool(work, shards, [self._devices[n % len(self._devices)] for n in range(self._workers)])
        try:
            yield from pool.run()
        finally:
            pool.stop()


class _Pool:
    """The processes of one run: some busy, some waiting for the next shard, some still to be started."""

    def __init__(self, work: RunWork, shards: Sequence[Shard], devices: Sequence[str]) -> None:
        self._work = work
        self._queue = deque(shards)
        self._unstarted = deque(devices)
        self._waiting: list[_Process] = []
        self._busy: dict[Any, _Process] = {}
        self._tried: Counter[int] = Counter()
        self._deaths_in_a_row = 0
        self._patience = 2 * len(devices) + 2

    def run(self) -> Iterator[Outcome]:
        while self._queue or self._busy:
            self._hand_out()
            for connection in wait(list(self._busy)):
                if (outcome := self._receive(self._busy.pop(connection))) is not None:
                    yield outcome

    def _hand_out(self) -> None:
        while self._queue and (self._waiting or self._unstarted):
            process = self._waiting.pop() if self._waiting else _Process(self._work, self._unstarted.popleft())
            process.give(self._queue.popleft())
            self._busy[process.connection] = process

    def _receive(self, process: _Process) -> Outcome | None:
        """Take an answer, or notice a death; ``None`` when the shard is to be tried once more."""
        shard, outcome = process.shard, process.answer()
        if outcome is None:
            outcome = Outcome(shard.shard, failure=f"its worker {process.end()}")
            self._unstarted.append(process.device)
            self._deaths_in_a_row += 1
        else:
            self._waiting.append(process)
            self._deaths_in_a_row = 0
        if self._deaths_in_a_row > self._patience:
            raise ModelError(f"one worker after the other ends, the last {process.end()}; the run cannot go on so.")
        self._tried[shard.shard] += 1
        if not outcome.failure or self._tried[shard.shard] == ATTEMPTS:
            return outcome
        self._queue.append(shard)
        return None

    def stop(self) -> None:
        processes = [*self._busy.values(), *self._waiting]
        for process in processes:
            process.dismiss()
        for process in processes:
            process.end()


class _Process:
    """A worker process, at the other end of a pipe."""

    def __init__(self, work: RunWork, device: str) -> None:
        self.device = device
        self.shard: Shard
        self.connection, theirs = Pipe()
        home = str(Path(__file__).resolve().parents[3])
        threads = str(work.settings.threads)
        env = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
        if device:
            env["CUDA_VISIBLE_DEVICES"] = device
        command = [sys.executable, "-m", "wordprob.runs.executors.worker", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env)
        theirs.close()
        self._send(work)

    def give(self, shard: Shard) -> None:
        """Hand over a shard; one that is dead already is noticed when it does not answer."""
        self.shard = shard
        self._send(shard)

    def _send(self, thing: object) -> None:
        try:
            self.connection.send(thing)
        except OSError:
            return

    def answer(self) -> Outcome | None:
        """Return what it answered; ``None`` if it died instead."""
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            return None
        return outcome

    def dismiss(self) -> None:
        """Let it go, whatever it is doing."""
        self.connection.close()
        self._process.terminate()

    def end(self) -> str:
        """Wait for its end, and say what that was."""
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code == -signal.SIGKILL:
            return "was killed (signal 9), perhaps because memory ran out"
        return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


# --- GPUs ------------------------------------------------------------------------------------------------------------


def visible() -> list[str]:
    """Return the GPUs of this machine that may be used."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name.strip()]
    from wordprob.models.devices import count_gpus

    return [str(n) for n in range(count_gpus())]


def share_out(workers: int, per_worker: float, gpus: Sequence[str]) -> list[str]:
    """Return, for each worker, the GPUs it may see.

    Examples
    --------
    >>> share_out(4, 0.5, ["0", "1"]), share_out(2, 2, ["0", "1", "2", "3"])
    (['0', '0', '1', '1'], ['0,1', '2,3'])
    """
    per_gpu = int(1 / per_worker) if per_worker < 1 else 1
    width = max(1, int(per_worker))
    groups = [",".join(gpus[n : n + width]) for n in range(0, len(gpus) - width + 1, width)]
    places = [group for group in groups for _ in range(per_gpu)]
    if len(places) < workers:
        advice = (
            f"use --workers {len(places)} or less" if places else "leave --gpus-per-worker out to use the processor"
        )
        raise OptionError(
            f"{workers} workers with {per_worker:g} GPUs each do not fit on the {len(gpus)} GPUs here; {advice}."
        )
    return places[:workers]
