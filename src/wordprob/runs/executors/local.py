"""One process, this one: it holds the model and one shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wordprob.runs.executors import MAX_ATTEMPTS
from wordprob.runs.run_progress import ShardCallback
from wordprob.runs.settings import Execution
from wordprob.runs.shard_scoring import RunWork, ShardOutcome, ShardScorer
from wordprob.runs.shards import Shard


class LocalExecutor:
    """Scores shards one after the other."""

    def __init__(self, execution: Execution) -> None:
        """Take the options that every executor takes; this one has no use for them."""

    def score_shards(
        self, work: RunWork, shards: Sequence[Shard], on_texts_done: ShardCallback | None = None
    ) -> Iterator[ShardOutcome]:
        """Yield an outcome for each shard, in their order."""
        scorer = ShardScorer(work)
        for shard in shards:
            for _ in range(MAX_ATTEMPTS):
                outcome = scorer.attempt(shard, on_texts_done)
                if not outcome.failure:
                    break
            yield outcome
