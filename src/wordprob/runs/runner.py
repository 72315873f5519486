"""A run from beginning to end: plan or go on, score what is left, and say what came of it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wordprob.runs.atomic_io import locked
from wordprob.runs.executors import Executor, open_executor
from wordprob.runs.manifest import check_unchanged, plan, sources_of
from wordprob.runs.run_directory import RunDirectory
from wordprob.runs.scoring import Outcome, RunWork
from wordprob.runs.settings import Execution, RunSettings, default_threads
from wordprob.runs.shards import Shard
from wordprob.runs.status import Status, status
from wordprob.sources import Source, find

WRITERS = 4
"""Shards that are written at the same time."""


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
        Words scored since this start, and for how long.
    shown
        Texts done, those of the shard in hand included.
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

    @classmethod
    def planning(cls, read: int) -> RunProgress:
        """Return the progress of a run that still reads its corpus: ``of`` is 0, as nobody knows yet."""
        return cls(records=0, of=0, shards=0, of_shards=0, words=0, errors=0, shown=read)

    @property
    def words_per_second(self) -> float:
        """Words scored in a second, since this start."""
        return self.new_words / self.seconds if self.seconds else 0.0


RunCallback = Callable[[RunProgress], None]


def run(
    inputs: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    engine: str = "local",
    workers: int = 1,
    gpus_per_worker: float = 0.0,
    strict: bool = False,
    ray_address: str | None = None,
    watch: RunCallback | None = None,
    **settings: Any,
) -> Status:
    r"""Score a corpus into a folder; the same call goes on where an earlier one stopped.

    Parameters
    ----------
    inputs
        Files, folders, globs, or ``hf:NAME[:CONFIG][:SPLIT]``.
    output
        The folder of the run.
    engine, workers, gpus_per_worker, strict, ray_address
        How, as in :class:`wordprob.runs.Execution`; they may change from one start to the next.
    watch
        Called with a :class:`RunProgress` whenever there is some.
    **settings
        What, as in :class:`wordprob.runs.Settings`: ``model``, ``words``, ``unit``, ``text_column``, …

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     _ = Path(home, "corpus.txt").write_text("She saw the mark\nthe marker\n")
    ...     run(Path(home, "corpus.txt"), Path(home, "out"), model="exact:bow").words
    6
    """
    how = Execution(engine, workers, gpus_per_worker, strict, ray_address)
    found = find([inputs] if isinstance(inputs, str | Path) else inputs, settings.get("whole_file", False))
    folder = RunDirectory(output)
    kept = folder.manifest()["settings"] if folder.exists else {}
    threads = {"threads": kept.get("threads", default_threads(workers))}
    given = {name: value for name, value in settings.items() if name != "threads" or value is not None}
    asked = RunSettings.of({**threads, **given}).at_home()
    opened = open_executor(how)
    folder.prepare()
    with locked(folder.path):
        if folder.exists:
            check_unchanged(folder.manifest(), asked, found, folder.path)
        else:
            folder.begin(*plan(found, asked, lambda read: watch(RunProgress.planning(read)) if watch else None))
        _score(folder, asked, found, opened, how.strict, watch)
    return status(folder.path)


def resume(
    output: str | Path,
    *,
    engine: str = "local",
    workers: int = 1,
    gpus_per_worker: float = 0.0,
    strict: bool = False,
    ray_address: str | None = None,
    watch: RunCallback | None = None,
) -> Status:
    """Go on with a run that stopped, as its manifest says.

    Parameters
    ----------
    output
        The folder of the run.
    engine, workers, gpus_per_worker, strict, ray_address, watch
        As for :func:`run`.
    """
    how = Execution(engine, workers, gpus_per_worker, strict, ray_address)
    folder = RunDirectory(output).require()
    manifest = folder.manifest()
    settings, sources = RunSettings.of(manifest["settings"]), sources_of(manifest)
    opened = open_executor(how)
    with locked(folder.path):
        check_unchanged(manifest, settings, sources, folder.path)
        _score(folder, settings, sources, opened, how.strict, watch)
    return status(folder.path)


def _score(
    folder: RunDirectory,
    settings: RunSettings,
    sources: list[Source],
    engine: Executor,
    strict: bool,
    watch: RunCallback | None,
) -> None:
    folder.open()
    # A branch of the hub may have moved since; every start takes the commit it had when the run began.
    settings = replace(settings, revision=folder.manifest()["model"].get("commit") or settings.revision)
    shards, done = folder.shards(), folder.done()
    left = [shard for shard in shards if shard.shard not in done]
    follow = _Follow(shards, done.values(), watch)
    try:
        with contextlib.closing(_outcomes(engine, RunWork(settings, sources, strict), left, follow)) as outcomes:
            _settle_all(folder, outcomes, follow)
    finally:
        with contextlib.suppress(OSError):
            folder.collect_errors()


def _settle_all(folder: RunDirectory, outcomes: Iterable[Outcome], follow: _Follow) -> None:
    """Put outcomes into the folder while the next are made: a disk that is slow to sync keeps no model waiting."""
    with ThreadPoolExecutor(WRITERS) as writers:
        pending: deque[Future[Outcome]] = deque()
        for outcome in outcomes:
            if outcome.stop is not None:
                raise outcome.stop
            pending.append(writers.submit(_settle, folder, outcome))
            while pending and (pending[0].done() or len(pending) > 2 * WRITERS):
                follow.settled(pending.popleft().result())
        for settled in pending:
            follow.settled(settled.result())


def _outcomes(engine: Executor, work: RunWork, left: list[Shard], follow: _Follow) -> Generator[Outcome, None, None]:
    yield from engine.results(work, left, follow.tick) if left else ()


def _settle(folder: RunDirectory, outcome: Outcome) -> Outcome:
    if outcome.part is not None:
        folder.keep(outcome.part)
    else:
        folder.fail(outcome.shard, outcome.failure)
    return outcome


class _Follow:
    """Keeps count, and tells whoever watches."""

    def __init__(self, shards: list[Shard], done: Iterable[Mapping[str, Any]], watch: RunCallback | None) -> None:
        marks = list(done)
        self._watch = watch
        self._begin = time.perf_counter()
        self._progress = RunProgress(
            records=sum(mark["records"] for mark in marks),
            of=sum(shard.records for shard in shards),
            shards=len(marks),
            of_shards=len(shards),
            words=sum(mark["words"] for mark in marks),
            errors=sum(sum(mark["errors"].values()) for mark in marks),
        )
        self.tick(0)

    def tick(self, texts: int) -> None:
        """Tell that some texts of the shard in hand are done."""
        self._progress.shown = self._progress.records + texts
        self._progress.seconds = time.perf_counter() - self._begin
        if self._watch is not None:
            self._watch(self._progress)

    def settled(self, outcome: Outcome) -> None:
        """Count a shard."""
        progress = self._progress
        if outcome.part is None:
            progress.failed += 1
        else:
            facts = outcome.part.facts
            progress.shards += 1
            progress.records += facts["records"]
            progress.words += facts["words"]
            progress.new_words += facts["words"]
            progress.errors += sum(facts["errors"].values())
        self.tick(0)
