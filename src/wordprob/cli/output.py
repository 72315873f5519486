"""Where a command's table goes: a file, the screen or a pipe; and what is said beside it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import Function
from wordprob.errors import OptionError
from wordprob.table import FORMATS, NUMBERS, UNITS, check_output

if TYPE_CHECKING:
    from wordprob.table import WordTable


def output_options(function: Function) -> Function:
    """Add the options that say what comes out and where it goes."""
    for option in reversed(
        (
            click.option(
                "-u",
                "--unit",
                type=click.Choice(list(UNITS)),
                default="bits",
                show_default=True,
                help="Unit of surprisal.",
            ),
            click.option(
                "-o", "--output", type=click.Path(path_type=Path), help="Write here; the ending picks the format."
            ),
            click.option(
                "--format",
                "format_",
                type=click.Choice([*FORMATS, "table"]),
                help="Format, whatever the ending; table is for the screen.",
            ),
            click.option("--force", is_flag=True, help="Replace output files that exist."),
        )
    ):
        function = option(function)
    return function


def check_destination(output: Path | None, format_: str | None, force: bool) -> None:
    """Make sure, before a model is loaded, that the table can go where it should."""
    if output is None:
        if format_ == "parquet":
            raise OptionError("parquet cannot go to the screen or a pipe; name a file with -o.")
    elif format_ == "table":
        raise OptionError(f"the format table is for the screen; for a file use {', '.join(FORMATS)}.")
    else:
        check_output(output, format_, force)


@contextlib.contextmanager
def progress(total: int, what: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, and nothing elsewhere."""
    from tqdm import tqdm

    silent = not sys.stderr.isatty()
    with tqdm(total=total, desc=what or None, unit="text", disable=silent, leave=False) as bar:

        def advance(done: int, _: int) -> None:
            bar.update(done - bar.n)

        yield advance


def emit(table: WordTable, output: Path | None, format_: str | None, force: bool) -> None:
    """Write or show a table, and report on it."""
    if output is not None:
        table.write(output, format_, force)
    elif format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(pretty(table))
    else:
        click.echo(table.to_text(format_ or "tsv"), nl=False)
    report(table, output)


def pretty(table: WordTable) -> str:
    """Return the table for a screen: three decimals, the unit in the header, notes only where there are some."""
    frame = table.to_pandas().drop(columns=["start", "end"])
    if not frame["note"].any():
        frame = frame.drop(columns="note")
    return str(
        frame.rename(columns={"surprisal": f"surprisal ({table.unit})"})
        .round(dict.fromkeys((*NUMBERS, f"surprisal ({table.unit})"), 3))
        .to_string(index=False, na_rep="—", col_space=4)
    )


def report(table: WordTable, output: Path | None) -> None:
    """Say on standard error what was done and what is missing; nothing in a pipe unless something is missing."""
    texts, missing = table.texts(), table.missing()
    if output is not None and sys.stderr.isatty():
        click.echo(f"{len(table)} words of {len(texts)} texts in {table.unit}: {output}", err=True)
    for note, count in sorted(missing.items(), key=lambda item: -item[1]):
        click.echo(f"wordprob: {count} of {len(table)} words have no value: {note}", err=True)
    worst = texts["conservation"].abs().max()
    if worst > 1e-3:
        click.echo(f"wordprob: words and tokens of a text differ by {worst:.2g} nats; please report this", err=True)
