"""Ray Data: shards go through ``map_batches`` to actors that hold the model, on one machine or on a cluster.

Each shard is a block of its own, so a shard is what is scheduled, and what is lost when an actor dies. Ray starts the
actor again; the shard is missing from what comes back, and goes into a second round. A shard that is missing from two
rounds has failed. An actor that hangs ends itself; one that the system has stopped is silent, and is killed. Workers
read inputs by themselves; only this process writes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import pickle
import signal
import socket
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from wordprob.errors import ModelError, OptionError
from wordprob.processes import SAFE_PATH
from wordprob.runs.executors import MAX_ATTEMPTS
from wordprob.runs.executors.heartbeat import Watchdog
from wordprob.runs.executors.ray_heartbeat import send_beats, watch_workers
from wordprob.runs.run_progress import ShardCallback
from wordprob.runs.settings import Execution
from wordprob.runs.shard_scoring import RunWork, ShardOutcome, ShardScorer
from wordprob.runs.shards import Shard

MAX_FRUITLESS_ROUNDS = 3
"""Rounds in a row that may break off without a single shard."""

CONNECTION_TIMEOUT_SECONDS = 5

QUIET_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
"""Ray sends no usage statistics, and writes nothing into our log."""

INIT_OPTIONS: dict[str, Any] = {}
"""Further arguments of ``ray.init`` for a cluster started here, for example ``object_store_memory``."""


class ShardActor:
    """A worker as Ray Data calls it: with a batch, here of one shard."""

    def __init__(self, work: RunWork, counter: Any) -> None:
        send_beats(counter, work.execution.worker_timeout)
        os.environ["OMP_NUM_THREADS"] = str(work.settings.threads)
        self._scorer = ShardScorer(work)
        self._watchdog = Watchdog(work.execution.worker_timeout)

    def __call__(self, batch: Any) -> Any:
        """Score the shards of a batch."""
        import pyarrow as pa

        outcomes = []
        for pickled in batch.column("shard").to_pylist():
            with self._watchdog.busy():
                outcome = self._scorer.attempt(pickle.loads(pickled), self._watchdog.meter.texts_done)
            outcomes.append(pickle.dumps(outcome))
        return pa.table({"outcome": pa.array(outcomes, pa.large_binary())})


class RayExecutor:
    """Scores shards on Ray."""

    def __init__(self, execution: Execution) -> None:
        os.environ.update({**SAFE_PATH, **QUIET_ENVIRONMENT, **os.environ})
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise OptionError(
                "the engine ray needs a package: pip install 'wordprob[ray]'. Or use the engine local."
            ) from error
        self._ray = ray
        self._execution = execution
        self._address = execution.ray_address or os.environ.get("RAY_ADDRESS", "")
        _check_reachable(self._address)

    def score_shards(
        self, work: RunWork, shards: Sequence[Shard], on_texts_done: ShardCallback | None = None
    ) -> Iterator[ShardOutcome]:
        """Yield an outcome for each shard, as they come."""
        starts_here = not self._ray.is_initialized()
        try:
            if starts_here:
                self._connect(work)
            self._check_resources(work, can_grow=bool(self._address) or not starts_here)
            yield from self._all_rounds(work, shards)
        finally:
            if starts_here:
                self._ray.shutdown()

    def _connect(self, work: RunWork) -> None:
        """Join the cluster at the address, or start one on this machine."""
        common = {"logging_level": logging.ERROR, "log_to_driver": False, "job_config": _job_config(self._ray)}
        with _same_sigterm_handler():
            if self._address:
                try:
                    self._ray.init(address=self._address, **common)
                except ConnectionError as error:
                    raise OptionError(f"no Ray cluster answers at '{self._address}': {error}") from error
            else:
                cpus = max(os.cpu_count() or 1, self._execution.workers * work.settings.threads)
                self._start(num_cpus=cpus, **common, **INIT_OPTIONS)

    def _start(self, **options: Any) -> None:
        """Start Ray on this machine, and for this machine alone: whoever reaches its ports can run code."""
        try:
            with _loopback_only(self._ray):
                self._ray.init(address="local", include_dashboard=False, **options)
        except Exception as error:  # whatever keeps it from starting: ports, memory, a full disk
            reason = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
            raise ModelError(
                f"Ray could not be started: {reason}. Check the free disk space and memory, or use the engine local."
            ) from error
        address = str(self._ray.util.get_node_ip_address())
        if not ipaddress.ip_address(address).is_loopback:
            warnings.warn(f"this version of Ray listens at {address}: others on the network may reach it", stacklevel=2)

    def _check_resources(self, work: RunWork, can_grow: bool) -> None:
        """Raise if a worker does not fit, because Ray would wait for ever; warn if the cluster may still grow."""
        available = self._ray.cluster_resources()
        self._check_resource(available, "CPU", "threads", work.settings.threads, can_grow)
        self._check_resource(available, "GPU", "gpus_per_worker", self._execution.gpus_per_worker, can_grow)

    def _check_resource(
        self, available: dict[str, float], resource: str, option: str, wanted: float, can_grow: bool
    ) -> None:
        count = available.get(resource, 0)
        if wanted <= count:
            return
        message = f"a worker needs {wanted:g} {resource}s, but the Ray cluster has {count:g}"
        if not can_grow:
            raise OptionError(f"{message}; specify a smaller {option}.")
        warnings.warn(f"{message}; waiting for it to grow", stacklevel=2)

    # --- rounds ---

    def _all_rounds(self, work: RunWork, shards: Sequence[Shard]) -> Iterator[ShardOutcome]:
        """Score the shards, then once more those that did not come back."""
        remaining = {shard.shard: shard for shard in shards}
        attempts: Counter[int] = Counter()
        failures: dict[int, str] = {}
        fruitless_rounds = 0
        while remaining:
            count_before = len(remaining)
            broken_off = ""
            # The next shard waits at its actor, so that the actor never waits. What is tried again is tried alone: an
            # actor that dies loses its queue too, and no shard may fail because of another.
            queue_length = 1 if attempts else 2
            try:
                with watch_workers(self._ray, work.execution.worker_timeout) as counter:
                    for outcome in self._round(work, list(remaining.values()), queue_length, counter):
                        if outcome.failure:
                            failures[outcome.shard] = outcome.failure
                            continue
                        del remaining[outcome.shard]
                        yield outcome
            except self._ray.exceptions.RayError as error:
                broken_off = str(error).strip().splitlines()[0]
            is_fruitless = bool(broken_off) and len(remaining) == count_before
            fruitless_rounds = fruitless_rounds + 1 if is_fruitless else 0
            if fruitless_rounds == MAX_FRUITLESS_ROUNDS:
                raise ModelError(f"Ray gave up {fruitless_rounds} times without finishing a shard: {broken_off}")
            if not broken_off:  # a round that broke off says nothing about the shards it did not reach
                attempts.update(list(remaining))
            for shard in [shard for shard in remaining if attempts[shard] == MAX_ATTEMPTS]:
                del remaining[shard]
                yield ShardOutcome(shard, failure=failures.get(shard, f"its worker died {MAX_ATTEMPTS} times"))

    def _round(self, work: RunWork, shards: Sequence[Shard], queue_length: int, counter: Any) -> Iterator[ShardOutcome]:
        """Send shards through Ray Data, and yield the outcomes that come back."""
        self._configure_ray_data()
        data = self._ray.data
        rows = [{"shard": pickle.dumps(shard)} for shard in shards]
        workers = min(self._execution.workers, len(rows))
        scored = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            ShardActor,
            fn_constructor_args=(work, counter),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=queue_length),
            num_cpus=work.settings.threads,
            num_gpus=self._execution.gpus_per_worker or None,
            max_restarts=-1,
            max_task_retries=0,
        )
        for batch in scored.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for pickled in batch.column("outcome").to_pylist():
                yield pickle.loads(pickled)

    def _configure_ray_data(self) -> None:
        context = self._ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.max_errored_blocks = -1  # a shard whose actor died must not end the round
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        # From its version 2.64 on, Ray takes the arguments of actors by other names.
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")


class _NoDirectories(list[str]):
    """A list that stays empty."""

    def extend(self, _: Iterable[str]) -> None:
        """Add nothing."""


def _job_config(ray: Any) -> Any:
    """Return the configuration of a job whose workers import nothing from the current directory.

    Ray would put that directory, and that of the script, first on the module path of its workers.
    """
    config = ray.job_config.JobConfig()
    config._py_driver_sys_path = _NoDirectories()
    return config


@contextlib.contextmanager
def _loopback_only(ray: Any) -> Iterator[None]:
    """Let Ray listen at the loopback address only, as it does by default on other systems than Linux."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def _same_sigterm_handler() -> Iterator[None]:
    """Keep what SIGTERM does: Ray replaces it by a handler that ends the process without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as stop:  # Ray's own handler, while Ray starts
        if stop.code == signal.SIGTERM and callable(before):
            before(signal.SIGTERM, None)
        raise
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise if nothing answers at a cluster's address; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECTION_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise OptionError(f"no Ray cluster answers at '{address}': {error}") from error
