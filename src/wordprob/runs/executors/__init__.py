"""Executors score the shards of a run: in this process, in several processes, or on Ray.

Each takes shards and yields what became of them, in any order. A user chooses by ``engine`` and ``workers``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol

from wordprob.runs.run_progress import ShardCallback
from wordprob.runs.settings import Execution
from wordprob.runs.shard_scoring import RunWork, ShardOutcome
from wordprob.runs.shards import Shard

MAX_ATTEMPTS = 2
"""How often a shard is tried before it has failed."""

EXECUTORS = {
    "local": "wordprob.runs.executors.local:LocalExecutor",
    "processes": "wordprob.runs.executors.worker_processes:ProcessExecutor",
    "ray": "wordprob.runs.executors.ray:RayExecutor",
}
"""An executor, and where its class is; the module is imported when the executor is used."""


class Executor(Protocol):
    """Scores shards."""

    def score_shards(
        self, work: RunWork, shards: Sequence[Shard], on_texts_done: ShardCallback | None = None
    ) -> Iterator[ShardOutcome]:
        """Yield one outcome for each shard.

        ``on_texts_done`` is called with the number of texts of the current shard that are done, where an executor
        scores one shard at a time.
        """


def open_executor(execution: Execution) -> Executor:
    """Return the executor for an engine and its workers; raise if what it needs is not there."""
    # Arrow's own allocator keeps the memory it once had, so that a long run would hold a seventh more than a short one.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    name = execution.engine
    if name == "local" and (execution.workers > 1 or execution.gpus_per_worker):
        name = "processes"
    module, class_name = EXECUTORS[name].split(":")
    executor: Executor = getattr(import_module(module), class_name)(execution)
    return executor
