"""How far a run is, and the callbacks that hear about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wordprob.runs.shards import Shard


@dataclass
class RunProgress:
    """How far a run is.

    Attributes
    ----------
    records, of
        Texts done, bad ones included, and in all; ``of`` is 0 while the corpus is still read to plan the run.
    shards, of_shards, failed
        Shards done, in all, and failed.
    words, errors
        Words scored and texts not scored, since this start and before it.
    new_words, seconds
        Words scored since this start, and the time since then.
    shown
        Texts done, those of the unfinished shard included.
    notes
        What the user should know from the start: inputs that are damaged, ids that are repeated.
    """

    records: int
    of: int
    shards: int
    of_shards: int
    words: int
    errors: int
    failed: int = 0
    new_words: int = 0
    seconds: float = 0.0
    shown: int = 0
    notes: Sequence[str] = ()

    @classmethod
    def planning(cls, records_read: int) -> RunProgress:
        """Return the progress of a run that still reads its corpus: ``of`` is 0, as it is not known yet."""
        return cls(records=0, of=0, shards=0, of_shards=0, words=0, errors=0, shown=records_read)

    @property
    def words_per_second(self) -> float:
        """Words scored in a second, since this start."""
        return self.new_words / self.seconds if self.seconds else 0.0


RunCallback = Callable[[RunProgress], None]
"""Called as a run goes on."""

ShardCallback = Callable[[int], None]
"""Called with the number of texts of the current shard that are done."""


class ProgressTracker:
    """Counts what a run has done, and calls its callback.

    Parameters
    ----------
    shards
        The plan of the run.
    done_marks
        The marks of the shards that were done before this start.
    callback
        Called whenever there is progress.
    notes
        What the user should know from the start.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        done_marks: Iterable[Mapping[str, Any]],
        callback: RunCallback | None,
        notes: Sequence[str] = (),
    ) -> None:
        marks = list(done_marks)
        self._callback = callback
        self._start = time.perf_counter()
        self._progress = RunProgress(
            records=sum(mark["records"] for mark in marks),
            of=sum(shard.records for shard in shards),
            shards=len(marks),
            of_shards=len(shards),
            words=sum(mark["words"] for mark in marks),
            errors=sum(sum(mark["errors"].values()) for mark in marks),
            notes=notes,
        )
        self.texts_done(0)

    def texts_done(self, texts: int) -> None:
        """Report that some texts of the current shard are done."""
        self._progress.shown = self._progress.records + texts
        self._progress.seconds = time.perf_counter() - self._start
        if self._callback is not None:
            self._callback(self._progress)

    def shard_done(self, summary: Mapping[str, Any]) -> None:
        """Count a shard whose files are written and marked."""
        self._progress.shards += 1
        self._progress.records += summary["records"]
        self._progress.words += summary["words"]
        self._progress.new_words += summary["words"]
        self._progress.errors += sum(summary["errors"].values())
        self.texts_done(0)

    def shard_failed(self) -> None:
        """Count a shard that failed."""
        self._progress.failed += 1
        self.texts_done(0)
