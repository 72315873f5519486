"""Where a command's table goes: a file, the screen or a pipe; and what is said beside it."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.messages import to_flags
from wordprob.cli.options import Function, with_options
from wordprob.errors import OptionError, OutputError
from wordprob.tables.files import FORMATS, check_output
from wordprob.tables.formats import FORMATS as SHEET_FORMATS
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wordprob.tables.result import WordTable

REASONS = 5
"""Reasons that are listed for missing values."""

BINARY = ("parquet", "xlsx")
"""Formats that are no text."""


def _output_options(formats: Mapping[str, str]) -> Callable[[Function], Function]:
    options = (
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
            type=click.Choice([*formats, "table"]),
            help="Format, whatever the ending; table is for the screen.",
        ),
        click.option("--force", is_flag=True, help="Replace output files that exist."),
    )
    return lambda function: with_options(function, options)


def output_options(function: Function) -> Function:
    """Add the options that say what comes out and where it goes."""
    return _output_options(FORMATS)(function)


def sheet_output_options(function: Function) -> Function:
    """Add the same for tables, which may be Excel files as well."""
    return _output_options(SHEET_FORMATS)(function)


def check_destination(
    output: Path | None, format_: str | None, force: bool, formats: Mapping[str, str] = FORMATS
) -> None:
    """Make sure, before a model is loaded, that the table can go where it should."""
    if output is None:
        if format_ in BINARY:
            raise OptionError(f"{format_} cannot go to the screen or a pipe; name a file with -o.")
    elif format_ == "table":
        raise OptionError(f"the format table is for the screen; for a file use {', '.join(formats)}.")
    elif check_output(output, format_, force, formats)[1] == "xlsx":
        from wordprob.tables.formats.excel import package

        package()


def keep_input(file: Path | None, *outputs: Path | None) -> None:
    """Refuse to write over what is read."""
    for output in outputs:
        if file is not None and output is not None and output.exists() and file.exists() and output.samefile(file):
            raise OutputError(f"{output} is the input; nothing was done. Write to another file, so that yours stays.")


@contextlib.contextmanager
def progress(total: int, what: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, and nothing elsewhere."""
    from tqdm import tqdm

    silent = not sys.stderr.isatty()
    with tqdm(total=total, desc=what or None, unit="text", disable=silent, leave=False) as bar:

        def advance(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        yield advance


def emit(table: WordTable, output: Path | None, format_: str | None, force: bool) -> None:
    """Write or show a table, and report on it."""
    if output is not None:
        table.write(output, format_, force)
    elif format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(pretty(table))
    else:
        click.echo(table.to_text(format_) if format_ else table.to_text(), nl=False)
    report(table, output)


def pretty(table: WordTable) -> str:
    """Return the table for a screen: three decimals, the unit in the header, notes only where there are some."""
    frame = table.to_pandas().drop(columns=["start", "end"], errors="ignore")
    notes = [name for name in frame.columns if str(name).endswith("note") and not frame[name].any()]
    shown = frame.drop(columns=notes).rename(columns={"surprisal": f"surprisal ({table.unit})"}).round(3)
    return str(shown.to_string(index=False, na_rep="—", col_space=4))


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure, and say in one line if letters are missing from the fonts."""
    from wordprob.analysis import outputs

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs.write_image(path, figure)
    if lost := sum("missing from font" in str(warning.message) for warning in caught):
        say("", [f"{lost} letters have no form in the fonts installed here; a font such as Noto Sans CJK has more"])


def say(line: str, remarks: Sequence[str] = ()) -> None:
    """Say on a terminal what is being done; warnings are said everywhere."""
    if line and sys.stderr.isatty():
        click.echo(line, err=True)
    for remark in remarks:
        click.echo(f"wordprob: {to_flags(remark)}", err=True)


def report(table: WordTable, output: Path | None) -> None:
    """Say on standard error what was done and what is missing; nothing in a pipe unless something is missing."""
    texts, missing = table.texts(), table.missing()
    if output is not None and sys.stderr.isatty():
        click.echo(f"{len(table)} words of {len(texts)} texts in {table.unit}: {output}", err=True)
    reasons = sorted(missing.items(), key=lambda item: -item[1])
    for note, count in reasons[:REASONS]:
        click.echo(f"wordprob: {count} of {len(table)} words have no value: {note or 'no reason given'}", err=True)
    if rest := sum(count for _, count in reasons[REASONS:]):
        click.echo(f"wordprob: {rest} more have none, for other reasons; the column note has them", err=True)
    worst = texts["conservation"].abs().max()
    if worst > 1e-3:
        click.echo(f"wordprob: words and tokens of a text differ by {worst:.2g} nats; please report this", err=True)
