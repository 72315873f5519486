"""``wordprob run``: a corpus into a folder, killed and resumed at will."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.options import model_options
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    from wordprob.runs import RunProgress, Status

EVERY = 30.0
"""Seconds between lines of a log."""
HOW = ("engine", "workers", "gpus_per_worker", "strict", "ray_address")


@click.command()
@click.argument("inputs", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--resume", "resumed", type=click.Path(path_type=Path), help="Go on with the run in this folder.")
@click.option(
    "-w", "--words", default="whitespace", show_default=True, help="whitespace, punctuation or regex:PATTERN."
)
@click.option(
    "-u", "--unit", type=click.Choice(list(UNITS)), default="bits", show_default=True, help="Unit of surprisal."
)
@click.option(
    "--min-context", type=click.IntRange(min=1), help="Tokens before each word in texts longer than the context."
)
@click.option("--text-column", default="text", show_default=True, help="Column of the texts, in tables.")
@click.option("--id-column", help="Column of the ids; by default an id is the file's name and the record's number.")
@click.option("--whole-file", is_flag=True, help="Take each text file as one text, not one text a line.")
@click.option("--max-characters", default=1_000_000, show_default=True, help="Longer texts are not scored.")
@click.option("--shard-texts", default=2000, show_default=True, help="Texts in a shard, at most.")
@click.option("--shard-characters", default=250_000, show_default=True, help="A shard with so many is full.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Who does the work: processes here, or Ray.",
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Copies of the model.")
@click.option("--gpus-per-worker", type=float, default=0.0, help="GPUs of each worker; 0.5 lets two share one.")
@click.option("--threads", type=click.IntRange(min=1), help="Processor threads of each worker; cores / workers.")
@click.option("--ray-address", help="A Ray cluster to join, for example auto; otherwise Ray starts here.")
@click.option("--strict", is_flag=True, help="Stop at the first text that cannot be scored.")
@model_options
def run(inputs: tuple[str, ...], output: Path | None, resumed: Path | None, **options: Any) -> None:
    """Score a corpus of any size into a folder.

    INPUTS are files (.txt with a text on each line, .jsonl, .csv, .tsv, .parquet; .gz, .bz2, .xz and .zst too),
    folders, globs, or hf:NAME[:CONFIG][:SPLIT]. The same command again, or --resume, goes on where a run stopped,
    whatever stopped it. A text that cannot be scored is listed in errors.jsonl, and the rest is scored.

    \b
    Examples:
      wordprob run corpus/*.parquet -o out --model smollm2-135m
      wordprob run corpus -o out --model pythia-410m --engine ray --workers 8 --gpus-per-worker 1
      wordprob status out
      wordprob run --resume out
      wordprob merge out -o all.parquet
    """
    if (resumed is None) == (not inputs) or (resumed is None) == (output is None):
        raise click.UsageError("give INPUTS and -o FOLDER, or --resume FOLDER: wordprob run corpus.txt -o out")
    from wordprob import runs

    how = {name: options.pop(name) for name in HOW}
    folder = Path(str(resumed or output))
    if resumed is not None:
        _only_how()
    _terminable()
    try:
        with _display() as watch:
            if resumed is not None:
                found = runs.resume(folder, **how, watch=watch)
            else:
                found = runs.run(list(inputs), folder, **how, watch=watch, **options)
    except KeyboardInterrupt:
        click.echo(f"wordprob: stopped; finished shards are kept. Go on with: wordprob run --resume {folder}", err=True)
        sys.exit(130)
    _summarise(found)


def _only_how() -> None:
    """Refuse options that a resumed run has from its manifest."""
    context = click.get_current_context()
    free = {*HOW, "resumed", "output", "inputs"}
    for name in context.params:
        if name not in free and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is settled by the run's manifest; leave it out.")


def _terminable() -> None:
    """Let a polite end (a scheduler's SIGTERM) be one: workers are let go, and what is done is kept."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


# --- what is shown ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _display() -> Iterator[Callable[[RunProgress], None]]:
    """Show a bar on a terminal, and a line of a log now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _Log()
        return
    from tqdm import tqdm

    with tqdm(unit="text", leave=False, dynamic_ncols=True) as bar:

        def show(progress: RunProgress) -> None:
            if progress.of and bar.total is None:
                bar.reset(progress.of)
                bar.initial = progress.records
            bar.set_postfix_str(_state(progress), refresh=False)
            bar.update(progress.shown - bar.n)

        yield show


class _Log:
    """Writes a line to standard error when a run begins, now and then, and when it ends."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: RunProgress) -> None:
        last = bool(progress.of) and progress.shards + progress.failed == progress.of_shards
        if time.monotonic() >= self._next or last:
            self._next = time.monotonic() + EVERY
            stamp = time.strftime("%Y-%m-%d %H:%M:%S")
            of = f"{progress.shown}/{progress.of}" if progress.of else progress.shown
            click.echo(f"{stamp} {of} texts, {_state(progress)}", err=True)


def _state(progress: RunProgress) -> str:
    if not progress.of:
        return "planning"
    left = progress.of_shards - progress.shards - progress.failed
    parts = [f"{progress.words_per_second:,.0f} words/s", f"shards: {progress.shards} done, {left} left"]
    parts += [f"{progress.failed} failed"] if progress.failed else []
    parts += [f"{progress.errors} not scorable"] if progress.errors else []
    return ", ".join(parts)


def _summarise(found: Status) -> None:
    from wordprob.cli.status import describe

    click.echo(describe(found), err=True)
    if found.failed:
        sys.exit(1)
