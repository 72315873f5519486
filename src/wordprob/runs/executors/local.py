"""One process, this one: no more memory than the model and a shard."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from wordprob.runs.executors import ATTEMPTS
from wordprob.runs.scoring import Outcome, RunWork, ShardProgress, Worker
from wordprob.runs.settings import Execution
from wordprob.runs.shards import Shard


class Local:
    """Scores shards one after the other."""

    def __init__(self, how: Execution) -> None:
        self._how = how

    def results(self, work: RunWork, shards: Sequence[Shard], tick: ShardProgress | None = None) -> Iterator[Outcome]:
        """Yield an outcome for each shard."""
        worker, threads = Worker(work), _threads()
        try:
            for shard in shards:
                outcome = worker.attempt(shard, tick)
                for _ in range(1, ATTEMPTS if outcome.failure else 1):
                    outcome = worker.attempt(shard, tick)
                yield outcome
        finally:
            if threads is not None and "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(threads)


def _threads() -> int | None:
    """Return how many threads torch uses for others in this process, to give them back."""
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
