"""Ray Data: shards go through ``map_batches`` to actors that hold the model, on one machine or on a cluster.

Each shard is a block of its own, so a shard is what is scheduled, and what is lost when an actor dies. Ray starts the
actor again; the shard is missing from what comes back, and goes into a second round. A shard that is missing from two
rounds has failed. Workers read inputs by themselves; only this process writes.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wordprob.errors import ModelError, OptionError
from wordprob.runs.executors import ATTEMPTS
from wordprob.runs.scoring import Outcome, RunWork, ShardProgress, Worker
from wordprob.runs.settings import Execution
from wordprob.runs.shards import Shard

FRUITLESS = 3
"""Rounds in a row that may break off without a single shard."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
"""Nothing is sent to Ray's makers, and Ray does not talk into our own log."""
OPTIONS: dict[str, Any] = {}
"""Further arguments of ``ray.init`` for a cluster started here, for example ``object_store_memory``."""


class Actor:
    """A worker as Ray Data wants it: called with a batch, here of one shard."""

    def __init__(self, work: RunWork) -> None:
        os.environ["OMP_NUM_THREADS"] = str(work.settings.threads)
        self._worker = Worker(work)

    def __call__(self, batch: Any) -> Any:
        """Score the shards of a batch."""
        import pyarrow as pa

        outcomes = [self._worker.attempt(pickle.loads(shard)) for shard in batch.column("shard").to_pylist()]
        return pa.table({"outcome": pa.array([pickle.dumps(outcome) for outcome in outcomes], pa.large_binary())})


class Ray:
    """Scores shards on Ray."""

    def __init__(self, how: Execution) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise OptionError("--engine ray needs: pip install 'wordprob[ray]'. Or use --engine local.") from error
        self._ray, self._how = ray, how
        self._address = how.ray_address or os.environ.get("RAY_ADDRESS", "")
        _probe(self._address)

    def results(self, work: RunWork, shards: Sequence[Shard], tick: ShardProgress | None = None) -> Iterator[Outcome]:
        """Yield an outcome for each shard, as they come."""
        started = not self._ray.is_initialized()
        if started:
            self._start(work)
        try:
            self._check(work, final=started and not self._address)
            yield from self._rounds(work, shards)
        finally:
            if started:
                self._ray.shutdown()

    def _start(self, work: RunWork) -> None:
        common = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            if self._address:
                self._ray.init(address=self._address, **common)
            else:
                cpus = max(os.cpu_count() or 1, self._how.workers * work.settings.threads)
                self._ray.init(address="local", num_cpus=cpus, include_dashboard=False, **common, **OPTIONS)
        except ConnectionError as error:
            raise OptionError(f"no Ray cluster answers at '{self._address}': {error}") from error

    def _check(self, work: RunWork, final: bool) -> None:
        """See that a worker fits: Ray would wait for room. A cluster that is not ours may still grow."""
        there = self._ray.cluster_resources()
        wants = {"CPU": ("--threads", work.settings.threads), "GPU": ("--gpus-per-worker", self._how.gpus_per_worker)}
        for name, (option, wanted) in wants.items():
            if wanted <= there.get(name, 0):
                continue
            lack = f"a worker wants {wanted:g} {name}s, but the Ray cluster has {there.get(name, 0):g}"
            if final:
                raise OptionError(f"{lack}; use {option} to ask for less.")
            warnings.warn(f"{lack}; waiting for it to grow", stacklevel=2)

    def _rounds(self, work: RunWork, shards: Sequence[Shard]) -> Iterator[Outcome]:
        """Go through the shards, and again through those that did not come back."""
        left = {shard.shard: shard for shard in shards}
        tried: Counter[int] = Counter()
        reasons: dict[int, str] = {}
        fruitless = 0
        while left:
            before, broken = len(left), ""
            try:
                for outcome in self._round(work, list(left.values()), queued=1 if tried else 2):
                    if outcome.failure:
                        reasons[outcome.shard] = outcome.failure
                        continue
                    del left[outcome.shard]
                    yield outcome
            except self._ray.exceptions.RayError as error:
                broken = str(error).strip().splitlines()[0]
            fruitless = fruitless + 1 if broken and len(left) == before else 0
            if fruitless == FRUITLESS:
                raise ModelError(f"Ray gave up {FRUITLESS} times without finishing a shard: {broken}")
            # A round that broke off says nothing about the shards it did not come to.
            tried.update([] if broken else list(left))
            for shard in [shard for shard in left if tried[shard] == ATTEMPTS]:
                del left[shard]
                yield Outcome(shard, failure=reasons.get(shard, f"its worker died {ATTEMPTS} times"))

    def _round(self, work: RunWork, shards: Sequence[Shard], queued: int) -> Iterator[Outcome]:
        data = self._ray.data
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.max_errored_blocks = -1
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        rows = [{"shard": pickle.dumps(shard)} for shard in shards]
        workers = min(self._how.workers, len(rows))
        # Ray will take these arguments by other names from its version 2.64 on.
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
        scored = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Actor,
            fn_constructor_args=(work,),
            batch_size=1,
            batch_format="pyarrow",
            # The next shard waits at the actor, so that it never does. What is tried again is tried alone: an actor
            # that dies takes its queue along, and no shard may fail for its neighbour's sake.
            compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=queued),
            num_cpus=work.settings.threads,
            num_gpus=self._how.gpus_per_worker or None,
            max_restarts=-1,
            max_task_retries=0,
        )
        for batch in scored.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            yield from (pickle.loads(outcome) for outcome in batch.column("outcome").to_pylist())


def _probe(address: str) -> None:
    """Knock at a cluster's address; Ray itself would go on knocking for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise OptionError(f"no Ray cluster answers at '{address}': {error}") from error
