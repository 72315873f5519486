"""Several processes on one machine, each with a model of its own; one that dies is replaced."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from select import select

from wordprob.errors import ModelError, OptionError
from wordprob.processes import Channel, WorkerProcess
from wordprob.runs.executors import MAX_ATTEMPTS
from wordprob.runs.progress import ShardCallback
from wordprob.runs.scoring import RunWork, ShardOutcome, ShardScorer
from wordprob.runs.settings import Execution
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
        self._deaths_in_a_row = 0
        self._max_deaths_in_a_row = 2 * len(devices) + 2

    def outcomes(self) -> Iterator[ShardOutcome]:
        """Score all shards."""
        while self._queue or self._busy:
            self._assign_shards()
            readable, _, _ = select(list(self._busy), [], [])
            for descriptor in readable:
                outcome = self._receive(self._busy.pop(descriptor))
                if outcome is not None:
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

    def _receive(self, worker: _ShardWorker) -> ShardOutcome | None:
        """Receive an answer, or notice a death; return None if the shard is to be tried again."""
        outcome = worker.answer()
        if outcome is None:
            outcome = self._replace(worker)
        else:
            self._waiting.append(worker)
            self._deaths_in_a_row = 0
        self._attempts[outcome.shard] += 1
        if not outcome.failure or self._attempts[outcome.shard] == MAX_ATTEMPTS:
            return outcome
        self._queue.append(worker.shard)
        return None

    def _replace(self, worker: _ShardWorker) -> ShardOutcome:
        """Make room for another worker in place of one that died; return the failure of its shard."""
        how_it_ended = worker.process.join()
        self._unstarted.append(worker.device)
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > self._max_deaths_in_a_row:
            raise ModelError(f"one worker after the other ends, the last {how_it_ended}; the run cannot continue.")
        return ShardOutcome(worker.shard.shard, failure=f"its worker {how_it_ended}")


class _ShardWorker:
    """A worker process, and the shard it was given."""

    def __init__(self, work: RunWork, device: str) -> None:
        threads = str(work.settings.threads)
        environment = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = device
        self.device = device
        self.shard: Shard
        self.process = WorkerProcess("wordprob.runs.executors.processes:serve", environment)
        self._send(work)

    def assign(self, shard: Shard) -> None:
        """Send a shard."""
        self.shard = shard
        self._send(shard)

    def answer(self) -> ShardOutcome | None:
        """Return what became of the shard; None if the process died instead."""
        try:
            outcome: ShardOutcome = self.process.channel.receive()
        except (EOFError, OSError):
            return None
        return outcome

    def _send(self, message: object) -> None:
        try:
            self.process.channel.send(message)
        except OSError:  # the process is dead, which is noticed when it does not answer
            return


def serve(channel: Channel) -> None:
    """Score the shards that come through a channel, until it is closed; runs in a worker process."""
    scorer = ShardScorer(channel.receive())
    while True:
        shard = channel.receive()
        channel.send(scorer.attempt(shard))


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
