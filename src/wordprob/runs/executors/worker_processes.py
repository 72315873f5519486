"""Several processes on one machine, each with a model of its own; one that dies, hangs or breaks is replaced."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from select import select

from wordprob.errors import ModelError, OptionError
from wordprob.processes import Channel, WorkerProcess
from wordprob.runs.executors import MAX_ATTEMPTS
from wordprob.runs.executors.heartbeat import START_SECONDS, SignOfWork, WorkMeter, interval_seconds, send_signs
from wordprob.runs.run_progress import ShardCallback
from wordprob.runs.settings import Execution
from wordprob.runs.shard_scoring import RunWork, ShardOutcome, ShardScorer
from wordprob.runs.shards import Shard


class ProcessExecutor:
    """Gives shards to worker processes as they become free."""

    def __init__(self, execution: Execution) -> None:
        if execution.gpus_per_worker:
            self._devices = assign_gpus(execution.workers, execution.gpus_per_worker, visible_gpus())
        else:
            self._devices = [""] * execution.workers

    def score_shards(
        self, work: RunWork, shards: Sequence[Shard], on_texts_done: ShardCallback | None = None
    ) -> Iterator[ShardOutcome]:
        """Yield an outcome for each shard, as they come."""
        pool = _ShardWorkerPool(work, shards, self._devices)
        try:
            yield from pool.outcomes()
        finally:
            pool.stop()


class _ShardWorkerPool:
    """The processes of one run: some busy, some waiting for a shard, some not started yet.

    Parameters
    ----------
    work
        What every worker must know.
    shards
        What is to be scored.
    devices
        For each worker, the GPUs it may see; empty for those that are visible here.
    """

    def __init__(self, work: RunWork, shards: Sequence[Shard], devices: Sequence[str]) -> None:
        self._work = work
        self._queue = deque(shards)
        self._unstarted = deque(devices)
        self._waiting: list[_ShardWorker] = []
        self._busy: dict[int, _ShardWorker] = {}
        """By the descriptor of their channel, as ``select`` returns it."""
        self._attempts: Counter[int] = Counter()
        self._failures_in_a_row = 0
        self._max_failures_in_a_row = 2 * len(devices) + 2

    def outcomes(self) -> Iterator[ShardOutcome]:
        """Score all shards."""
        while self._queue or self._busy:
            self._assign_shards()
            for descriptor in self._wait():
                worker = self._busy[descriptor]
                outcome = worker.outcome()
                if outcome is None:  # only a sign of work
                    continue
                del self._busy[descriptor]
                if self._is_final(worker, outcome):
                    yield outcome

    def stop(self) -> None:
        """End all processes."""
        workers = [*self._busy.values(), *self._waiting]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()

    def _assign_shards(self) -> None:
        while self._queue and (self._waiting or self._unstarted):
            worker = self._free_worker()
            worker.assign(self._queue.popleft())
            self._busy[worker.process.channel.fileno()] = worker

    def _free_worker(self) -> _ShardWorker:
        """Return a worker that waits for a shard, or start one."""
        if self._waiting:
            return self._waiting.pop()
        return _ShardWorker(self._work, self._unstarted.popleft())

    def _wait(self) -> list[int]:
        """Wait a little; return the descriptors of the workers that have answered, died, or hang."""
        interval = interval_seconds(self._work.execution.worker_timeout)
        start = time.monotonic()
        readable, _, _ = select(list(self._busy), [], [], interval)
        # Not more than the interval: if this process was stopped for an hour, its workers were not silent for an hour.
        waited = min(time.monotonic() - start, interval)
        for descriptor, worker in self._busy.items():
            worker.silent_seconds = 0.0 if descriptor in readable else worker.silent_seconds + waited
        return [number for number, worker in self._busy.items() if number in readable or worker.hangs]

    def _is_final(self, worker: _ShardWorker, outcome: ShardOutcome) -> bool:
        """Decide what to do with a worker that has answered; return False if its shard is to be tried again."""
        if outcome.failure:
            self._replace(worker, outcome.failure)
        else:
            self._waiting.append(worker)
            self._failures_in_a_row = 0
        self._attempts[outcome.shard] += 1
        if not outcome.failure or self._attempts[outcome.shard] == MAX_ATTEMPTS:
            return True
        self._queue.append(worker.shard)
        return False

    def _replace(self, worker: _ShardWorker, failure: str) -> None:
        """Make room for a new worker in place of one that failed, in whatever way: a broken device stays broken."""
        worker.process.kill()
        self._unstarted.append(worker.device)
        self._failures_in_a_row += 1
        if self._failures_in_a_row > self._max_failures_in_a_row:
            raise ModelError(
                f"one worker after the other fails, and the run cannot continue. The last time, {failure}."
            )


class _ShardWorker:
    """A worker process, and the shard it was given."""

    def __init__(self, work: RunWork, device: str) -> None:
        threads = str(work.settings.threads)
        environment = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = device
        self.device = device
        self.shard: Shard
        self.silent_seconds = 0.0
        """How long it has given no sign of work."""
        self._has_started = False
        self._timeout_seconds = work.execution.worker_timeout
        self.process = WorkerProcess("wordprob.runs.executors.worker_processes:serve", environment)
        self.process.channel.limit_waiting(max(self._timeout_seconds, START_SECONDS))
        self._send(work)

    @property
    def hangs(self) -> bool:
        """Whether it has been silent for too long."""
        limit = self._timeout_seconds if self._has_started else max(self._timeout_seconds, START_SECONDS)
        return self.silent_seconds >= limit

    def assign(self, shard: Shard) -> None:
        """Send a shard."""
        self.shard = shard
        self.silent_seconds = 0.0
        self._send(shard)

    def outcome(self) -> ShardOutcome | None:
        """Return what became of the shard, or of the worker; None for a sign of work."""
        if self.hangs:
            return self._hung()
        try:
            message: ShardOutcome | SignOfWork = self.process.channel.receive()
        except TimeoutError:
            return self._hung()
        except (EOFError, OSError):
            return ShardOutcome(self.shard.shard, failure=f"its worker {self.process.join()}")
        self._has_started = True
        return None if isinstance(message, SignOfWork) else message

    def _hung(self) -> ShardOutcome:
        reason = f"its worker gave no sign of work for {max(self.silent_seconds, self._timeout_seconds):.0f} seconds"
        return ShardOutcome(self.shard.shard, failure=reason)

    def _send(self, message: object) -> None:
        try:
            self.process.channel.send(message)
        except OSError:  # the process is dead, which is noticed when it does not answer
            return


def serve(channel: Channel) -> None:
    """Score the shards that come through a channel, until it is closed; runs in a worker process."""
    work: RunWork = channel.receive()
    scorer = ShardScorer(work)
    meter = WorkMeter()
    send_signs(channel, meter, work.execution.worker_timeout)
    while True:
        shard = channel.receive()
        channel.send(scorer.attempt(shard, meter.texts_done))


# --- GPUs ------------------------------------------------------------------------------------------------------------


def visible_gpus() -> list[str]:
    """Return the GPUs of this machine that may be used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip()]
    from wordprob.models.devices import count_gpus

    return [str(index) for index in range(count_gpus())]


def assign_gpus(workers: int, gpus_per_worker: float, gpus: Sequence[str]) -> list[str]:
    """Return, for each worker, the GPUs it may see.

    Examples
    --------
    >>> assign_gpus(4, 0.5, ["0", "1"]), assign_gpus(2, 2, ["0", "1", "2", "3"])
    (['0', '0', '1', '1'], ['0,1', '2,3'])
    """
    workers_per_group = int(1 / gpus_per_worker) if gpus_per_worker < 1 else 1
    group_size = max(1, int(gpus_per_worker))
    places = []
    for first in range(0, len(gpus) - group_size + 1, group_size):
        group = ",".join(gpus[first : first + group_size])
        places += [group] * workers_per_group
    if len(places) < workers:
        advice = f"use {len(places)} workers or fewer" if places else "leave gpus_per_worker out to use the processor"
        raise OptionError(
            f"{workers} workers with {gpus_per_worker:g} GPUs each do not fit on the {len(gpus)} GPUs here; {advice}."
        )
    return places[:workers]
