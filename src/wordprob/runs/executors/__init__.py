"""Engines: who scores the shards. Each takes shards and yields what became of them, in any order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol

from wordprob.runs.scoring import Outcome, RunWork, ShardProgress
from wordprob.runs.settings import Execution
from wordprob.runs.shards import Shard

ATTEMPTS = 2
"""How often a shard is tried: when its worker dies, once more."""

HOMES = {
    "local": "wordprob.runs.executors.local:Local",
    "processes": "wordprob.runs.executors.processes:Processes",
    "ray": "wordprob.runs.executors.ray:Ray",
}


class Executor(Protocol):
    """Scores shards."""

    def results(self, work: RunWork, shards: Sequence[Shard], tick: ShardProgress | None = None) -> Iterator[Outcome]:
        """Yield one outcome for each shard; ``tick`` is told, where it can be, how many texts of a shard are done."""


def open_executor(how: Execution) -> Executor:
    """Return the engine that was asked for; what it needs must be there.

    Arrow, here and in workers, is told to use the system's memory: its own allocator keeps what it once had, so that a
    long run would hold a seventh more than a short one.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    name = "processes" if how.engine == "local" and (how.workers > 1 or how.gpus_per_worker) else how.engine
    module, kind = HOMES[name].split(":")
    engine: Executor = getattr(import_module(module), kind)(how)
    return engine
