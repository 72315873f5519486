"""A run from beginning to end: plan it or resume it, score the shards that remain, and return its status."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wordprob.errors import InputError, WordprobError
from wordprob.runs.atomic_io import locked
from wordprob.runs.executors import Executor, open_executor
from wordprob.runs.manifest import check_named_again, check_unchanged, notes, plan_run, settings_in, sources_in
from wordprob.runs.run_directory import RunDirectory
from wordprob.runs.run_progress import ProgressTracker, RunCallback, RunProgress
from wordprob.runs.settings import Execution, RunSettings, default_threads
from wordprob.runs.shard_scoring import RunWork, ShardOutcome
from wordprob.runs.shards import Shard, cut_into_shards, plan_checksum
from wordprob.runs.status import Status, status
from wordprob.sources import Source, find

WRITER_THREADS = 4
"""Shards that are written at the same time."""


def run(
    inputs: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    watch: RunCallback | None = None,
    **options: Any,
) -> Status:
    r"""Score a corpus into a folder; the same call resumes a run that stopped.

    Parameters
    ----------
    inputs
        Files, folders, globs, or ``hf:NAME[:CONFIG][:SPLIT]``.
    output
        The folder of the run.
    watch
        Called with a :class:`RunProgress` whenever there is progress.
    **options
        How the run is executed, as in :class:`wordprob.runs.Execution`: ``engine``, ``workers``, ``gpus_per_worker``,
        ``strict``, ``retry_errors``, ``worker_timeout``, ``ray_address``, ``readers``; these may change from one start
        to the next. And the settings that decide the numbers, as in :class:`wordprob.runs.RunSettings`: ``model``,
        ``words``, ``unit``, ``extras``, ``text_column``, …

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     _ = Path(home, "corpus.txt").write_text("She saw the mark\nthe marker\n")
    ...     run(Path(home, "corpus.txt"), Path(home, "out"), model="exact:bow").words
    6
    """
    execution = Execution.pick(options)
    settings = {name: value for name, value in options.items() if name not in Execution.names()}
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    sources = find(inputs, settings.get("whole_file", False))
    directory = RunDirectory(output)
    if settings.get("threads") is None:
        settings["threads"] = _threads(directory, execution.workers)
    run_settings = RunSettings.from_dict(settings).with_absolute_model_path()
    _check_model_can_score(run_settings)
    executor = open_executor(execution)
    is_new = directory.prepare()
    with locked(directory.path):
        if directory.exists:
            check_unchanged(directory.manifest(), run_settings, sources, directory.path)
        else:
            try:
                _begin(directory, run_settings, sources, watch)
            except BaseException:
                directory.discard(is_new)
                raise
        _score_remaining(directory, RunWork(run_settings, sources, execution), executor, watch)
    return status(directory.path)


def resume(
    output: str | Path,
    *,
    watch: RunCallback | None = None,
    model: str | None = None,
    trust_remote_code: bool | None = None,
    model_kwargs: str | Mapping[str, Any] | None = None,
    **execution_options: Any,
) -> Status:
    """Continue a run that stopped, with the settings in its manifest.

    Parameters
    ----------
    output
        The folder of the run.
    watch
        As for :func:`run`.
    model, trust_remote_code, model_kwargs
        The address of a server, that code of the model may run, and further arguments for loading it, if the run was
        begun with these. The manifest alone does not decide them: it may be someone else's.
    **execution_options
        How the run is executed, as in :class:`wordprob.runs.Execution`.
    """
    execution = Execution.from_dict(execution_options)
    directory = RunDirectory(output).require()
    manifest = directory.manifest()
    settings = settings_in(manifest, directory.path)
    named = {"model": model, "trust_remote_code": trust_remote_code or None, "model_kwargs": model_kwargs}
    check_named_again(settings, named, directory.path)
    _check_model_can_score(settings)
    sources = sources_in(manifest)
    executor = open_executor(execution)
    with locked(directory.path):
        check_unchanged(manifest, settings, sources, directory.path)
        _score_remaining(directory, RunWork(settings, sources, execution), executor, watch)
    return status(directory.path)


def _check_model_can_score(settings: RunSettings) -> None:
    """Raise, before anything is planned, if the model cannot do what the settings ask for."""
    from wordprob.scoring.capability_checks import check_scoring_before_loading

    check_scoring_before_loading(settings.model, settings.scoring)


def _threads(directory: RunDirectory, workers: int) -> int:
    """Return the threads of each worker where none are specified: as before, or the cores divided by the workers."""
    settings = directory.manifest()["settings"] if directory.exists else {}
    return int(settings.get("threads") or default_threads(workers))


def _begin(
    directory: RunDirectory, settings: RunSettings, sources: Sequence[Source], callback: RunCallback | None
) -> None:
    """Plan a run and write down its plan and manifest."""

    def on_records_read(count: int) -> None:
        if callback is not None:
            callback(RunProgress.planning(count))

    shards, manifest = plan_run(sources, settings, on_records_read)
    directory.begin(shards, manifest)


# --- scoring ---------------------------------------------------------------------------------------------------------


def _score_remaining(directory: RunDirectory, work: RunWork, executor: Executor, callback: RunCallback | None) -> None:
    """Score the shards that are not done, and put them into the folder."""
    directory.open()
    shards = _plan(directory, work)
    done = _finished_marks(directory, shards, work.execution.retry_errors)
    failed = directory.failed()
    remaining = [shard for shard in shards if shard.shard not in done]
    remaining.sort(key=lambda shard: shard.shard in failed)  # what failed before must not keep the rest from its turn
    tracker = ProgressTracker(shards, done.values(), callback, notes(directory.manifest()))
    outcomes = _outcomes(executor, _pinned(work, directory), remaining, tracker)
    try:
        with contextlib.closing(outcomes):  # ends the workers, whatever happens here
            _write_all(directory, outcomes, tracker)
            directory.collect_errors()
    except BaseException:
        with contextlib.suppress(WordprobError):  # the first error is the one to report
            directory.collect_errors()
        raise


def _plan(directory: RunDirectory, work: RunWork) -> list[Shard]:
    """Return the plan; one that was lost is made again, if the inputs still give the same."""
    if not directory.has_plan:
        shards = list(cut_into_shards(work.sources, work.settings))
        if plan_checksum(shards) != directory.manifest()["plan"]["sha256"]:
            raise InputError(
                f"{directory.path} has no plan, and the inputs do not give the one that the run was begun with. "
                "Restore the inputs, or begin a new run in another folder."
            )
        directory.write_plan(shards)
    return directory.shards()


def _finished_marks(directory: RunDirectory, shards: Sequence[Shard], retry_errors: bool) -> dict[int, dict[str, Any]]:
    """Return the marks of the shards that need not be scored."""

    def is_finished(mark: dict[str, Any]) -> bool:
        return mark["key"] == shards[mark["shard"]].key and not (retry_errors and "scoring" in mark["errors"])

    return {shard: mark for shard, mark in directory.done().items() if is_finished(mark)}


def _pinned(work: RunWork, directory: RunDirectory) -> RunWork:
    """Return the work with the commit that the model had when the run began: a branch on the hub may have moved."""
    commit = directory.manifest()["model"].get("commit")
    if not commit:
        return work
    return RunWork(work.settings.with_revision(commit), work.sources, work.execution, work.settings.model.model)


def _outcomes(
    executor: Executor, work: RunWork, shards: Sequence[Shard], tracker: ProgressTracker
) -> Generator[ShardOutcome, None, None]:
    if shards:
        yield from executor.score_shards(work, shards, tracker.texts_done)


def _write_all(directory: RunDirectory, outcomes: Iterable[ShardOutcome], tracker: ProgressTracker) -> None:
    """Write outcomes in threads while the next are made: a disk that is slow to sync keeps no model waiting."""
    with ThreadPoolExecutor(WRITER_THREADS) as writers:
        pending: deque[Future[ShardOutcome]] = deque()
        for outcome in outcomes:
            if outcome.fatal_error is not None:
                raise outcome.fatal_error
            pending.append(writers.submit(_write, directory, outcome))
            while pending and (pending[0].done() or len(pending) > 2 * WRITER_THREADS):
                _count(tracker, pending.popleft().result())
        for written in pending:
            _count(tracker, written.result())


def _write(directory: RunDirectory, outcome: ShardOutcome) -> ShardOutcome:
    if outcome.result is not None:
        directory.add(outcome.result)
    else:
        directory.add_failure(outcome.shard, outcome.failure)
    return outcome


def _count(tracker: ProgressTracker, outcome: ShardOutcome) -> None:
    if outcome.result is not None:
        tracker.shard_done(outcome.result.summary)
    else:
        tracker.shard_failed()
