"""``wordprob run``: score a corpus into a folder, and resume runs that stopped."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from wordprob import runs
from wordprob.cli.options import model_options, options_of, scoring_options
from wordprob.cli.output import warn
from wordprob.cli.status import describe
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.runs import CorpusOptions, Execution, RunProgress, RunSettings
from wordprob.runs.manifest import NAMED_AGAIN

LOG_INTERVAL_SECONDS = 30.0
INTERRUPTED_EXIT_CODE = 130
INCOMPLETE_EXIT_CODE = 3
"""All that could be read was scored, but an input could not be read to its end."""


@click.command()
@click.argument("inputs", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--resume", "resumed", type=click.Path(path_type=Path), help="Resume the run in this folder.")
@scoring_options("readers")
@options_of(CorpusOptions, "corpus")
@options_of(Execution, "execution")
@model_options
def run(
    inputs: tuple[str, ...],
    output: Path | None,
    resumed: Path | None,
    scoring: ScoringOptions,
    corpus: CorpusOptions,
    execution: Execution,
    model: ModelOptions,
) -> None:
    """Score a corpus of any size into a folder.

    INPUTS are files (.txt with a text on each line, .jsonl, .csv, .tsv, .parquet; .gz, .bz2, .xz and .zst too),
    folders, globs, or hf:NAME[:CONFIG][:SPLIT]. The same command again, or --resume, continues a run that stopped,
    for whatever reason. A text that cannot be scored is listed in errors.jsonl, and the rest is scored; if a file
    cannot be read to its end, the exit code is 3. Words are found by a rule; --words list:FILE is for wordprob score.

    \b
    Examples:
      wordprob run corpus/*.parquet -o out --model smollm2-135m
      wordprob run corpus -o out --model pythia-410m --engine ray --workers 8 --gpus-per-worker 1
      wordprob status out
      wordprob run --resume out
      wordprob run --resume out --retry-errors
      wordprob merge out -o all.parquet
    """
    _check_arguments(inputs, output, resumed)
    folder = Path(str(resumed or output))
    _stop_on_sigterm()
    try:
        with _display() as watch:
            if resumed is not None:
                named = {name: getattr(model, name) for name in NAMED_AGAIN if _is_given(name)}
                status = runs.resume(folder, **execution.to_dict(), watch=watch, **named)
            else:
                settings = RunSettings(model, scoring, corpus).to_dict()
                status = runs.run(list(inputs), folder, **execution.to_dict(), watch=watch, **settings)
    except KeyboardInterrupt:
        begun = (folder / "manifest.json").is_file()
        advice = f"finished shards are kept. Resume with: wordprob run --resume {folder}"
        click.echo(
            f"wordprob: stopped; {advice if begun else 'the run had not begun, and nothing was written.'}", err=True
        )
        sys.exit(INTERRUPTED_EXIT_CODE)
    click.echo(describe(status), err=True)
    if status.failed:
        sys.exit(1)
    if status.damaged_inputs:
        sys.exit(INCOMPLETE_EXIT_CODE)


def _check_arguments(inputs: tuple[str, ...], output: Path | None, resumed: Path | None) -> None:
    """Raise, unless there are inputs and an output, or a run to resume without settings of its own."""
    begins = bool(inputs) and output is not None and resumed is None
    resumes = not inputs and output is None and resumed is not None
    if not begins and not resumes:
        raise click.UsageError("give INPUTS and -o FOLDER, or --resume FOLDER: wordprob run corpus.txt -o out")
    if not resumes:
        return
    for name in click.get_current_context().params:
        if _is_given(name) and name not in ("resumed", *NAMED_AGAIN, *Execution.names()):
            raise click.UsageError(f"--{name.replace('_', '-')} is set by the run's manifest; leave it out.")


def _is_given(name: str) -> bool:
    """Return True if the user typed an option."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _stop_on_sigterm() -> None:
    """Treat SIGTERM, which schedulers send, like Ctrl-C: workers are ended, and finished shards are kept."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


# --- progress --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _display() -> Iterator[Callable[[RunProgress], None]]:
    """Show a bar on a terminal, and elsewhere a line now and then."""
    if not sys.stderr.isatty():
        yield _Log()
        return
    notes = _Notes()
    from tqdm import tqdm

    with tqdm(unit="text", leave=False, dynamic_ncols=True) as bar:

        def show(progress: RunProgress) -> None:
            with bar.external_write_mode():
                notes.show(progress)
            if progress.of and bar.total is None:
                bar.reset(progress.of)
                bar.initial = progress.records
            bar.set_postfix_str(_describe_progress(progress), refresh=False)
            bar.update(progress.shown - bar.n)

        yield show


class _Notes:
    """Prints what the user should know about the inputs, once."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, progress: RunProgress) -> None:
        if not self._shown:
            warn(progress.notes)
        self._shown = self._shown or bool(progress.notes)


class _Log:
    """Writes a line to standard error when a run begins, now and then, and when it ends."""

    def __init__(self) -> None:
        self._next_line = 0.0
        self._notes = _Notes()

    def __call__(self, progress: RunProgress) -> None:
        self._notes.show(progress)
        ended = bool(progress.of) and progress.shards + progress.failed == progress.of_shards
        if time.monotonic() < self._next_line and not ended:
            return
        self._next_line = time.monotonic() + LOG_INTERVAL_SECONDS
        timestamp = time.strftime("%Y-%m-%d %H:%M:%S")
        texts = f"{progress.shown}/{progress.of}" if progress.of else progress.shown
        click.echo(f"{timestamp} {texts} texts, {_describe_progress(progress)}", err=True)


def _describe_progress(progress: RunProgress) -> str:
    if not progress.of:
        return "planning"
    remaining = progress.of_shards - progress.shards - progress.failed
    phrases = [f"{progress.words_per_second:,.0f} words/s", f"shards: {progress.shards} done, {remaining} left"]
    if progress.failed:
        phrases.append(f"{progress.failed} failed")
    if progress.errors:
        phrases.append(f"{progress.errors} not scorable")
    return ", ".join(phrases)
