"""Where the table of a command goes (a file, the screen or a pipe), and what is printed on standard error."""

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
from wordprob.errors import OptionError, OutputError, counted
from wordprob.tables.files import (
    FORMATS,
    STANDARD_OUTPUT,
    check_distinct,
    check_output,
    is_same_file,
    is_stream,
    sidecar,
    write_whole,
)
from wordprob.tables.formats import FORMATS as TABLE_FORMATS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from wordprob.scoring.results import WordTable

MAX_REASONS = 5
"""Reasons for missing values that are listed one by one."""

BINARY_FORMATS = ("parquet", "xlsx")

CONSERVATION_TOLERANCE_NATS = 1e-3
"""How far the words of a text and its tokens may be apart before a warning is printed."""


# --- flags ------------------------------------------------------------------------------------------------------------


def output_options(function: Function) -> Function:
    """Add the flags that say where the words of plain texts go."""
    return _output_options(FORMATS)(function)


def table_output_options(function: Function) -> Function:
    """Add the same flags for tables, which may be Excel files too."""
    return _output_options(TABLE_FORMATS)(function)


def _output_options(formats: Mapping[str, str]) -> Callable[[Function], Function]:
    options = (
        click.option(
            "-o", "--output", type=click.Path(path_type=Path), help="File to write; its ending determines the format."
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice([*formats, "table"]),
            help="Format, whatever the ending; table is for the screen.",
        ),
        click.option("--force", is_flag=True, help="Replace output files that exist."),
        click.option(
            "--escape-formulas",
            is_flag=True,
            help="In CSV and TSV, put ' before cells that begin with = + - @, which spreadsheets take for formulas.",
        ),
    )
    return lambda function: with_options(function, options)


# --- checks before any work is done -----------------------------------------------------------------------------------


def check_destination(
    output: Path | None, format_: str | None, force: bool, formats: Mapping[str, str] = FORMATS
) -> None:
    """Raise, before a model is loaded, if the table cannot go where it should."""
    if output is None or str(output) == STANDARD_OUTPUT:
        if format_ in BINARY_FORMATS and (output is None or sys.stdout.isatty()):
            raise OptionError(f"{format_} cannot go to the screen or a pipe; name a file with -o.")
        return
    if format_ == "table":
        raise OptionError(f"the format table is for the screen; for a file use {', '.join(formats)}.")
    _, chosen = check_output(output, format_, force, formats, with_sidecar=True)
    if chosen == "xlsx":
        from wordprob.tables.formats.excel import package

        package()


def keep_input(file: Path | None, output: Path | None, *further_outputs: Path | None) -> None:
    """Raise if a file that will be written is the input, or if two results would be written to the same file.

    Parameters
    ----------
    file
        The input, if it is a file.
    output
        The table that will be written, with its metadata beside it.
    *further_outputs
        Other files that will be written.
    """
    written = [path for path in further_outputs if path is not None]
    if output is not None and not is_stream(output):
        written += [output, sidecar(output)]
    check_distinct(written)
    if file is None or not file.exists():
        return
    for path in written:
        if not is_stream(path) and is_same_file(path, file):
            raise OutputError(
                f"{path} is the input; nothing was done. Choose another output file, so that your input is kept."
            )


# --- progress ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(total: int, description: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    from tqdm import tqdm

    silent = not sys.stderr.isatty()
    with tqdm(total=total, desc=description or None, unit="text", disable=silent, leave=False) as bar:

        def advance(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        yield advance


# --- results ----------------------------------------------------------------------------------------------------------


def emit(
    table: WordTable, output: Path | None, format_: str | None, force: bool, escape_formulas: bool = False
) -> None:
    """Write or print a table, then summarise it on standard error."""
    if output is not None and str(output) != STANDARD_OUTPUT:
        table.write(output, format_, force, escape_formulas=escape_formulas)
    elif format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(pretty(table))
    else:
        data = table.render(format_ or table.text_format, escape_formulas)
        write_whole(Path(STANDARD_OUTPUT), lambda temporary: temporary.write_bytes(data))
    summarise(table, output)


def pretty(table: WordTable) -> str:
    """Return the table for a screen: three decimals, the unit in the header, columns of notes only if there are any."""
    frame = table.to_pandas().drop(columns=["start", "end"], errors="ignore")
    empty_notes = [name for name in frame.columns if str(name).endswith("note") and not frame[name].any()]
    frame = frame.drop(columns=empty_notes).rename(columns={"surprisal": f"surprisal ({table.unit})"})
    return str(frame.round(3).to_string(index=False, na_rep="—", col_space=4))


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure; print one warning if the installed fonts lack some of its letters."""
    from wordprob.analysis import outputs

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs.write_image(path, figure)
    n_missing = sum("missing from font" in str(warning.message) for warning in caught)
    if n_missing:
        letters = f"{counted(n_missing, 'letter')} {'has' if n_missing == 1 else 'have'}"
        warn([f"{letters} no glyph in the installed fonts; install a font such as Noto Sans CJK"])


def inform(line: str) -> None:
    """Print a line about what is being done, on a terminal only."""
    if line and sys.stderr.isatty():
        click.echo(line, err=True)


def warn(remarks: Sequence[str]) -> None:
    """Print warnings on standard error, in a pipe too."""
    context = click.get_current_context(silent=True)
    command = None if context is None else context.command
    for remark in remarks:
        click.echo(f"wordprob: {to_flags(remark, command)}", err=True)


def summarise(table: WordTable, output: Path | None) -> None:
    """Print where the table went, on a terminal, and what is missing from it, everywhere."""
    texts = table.texts()
    if output is not None:
        inform(f"{counted(table.n_words, 'word')} of {counted(len(texts), 'text')} in {table.unit}: {output}")
    warn([*_missing_values(table.missing(), table.n_words), *_texts_without_value(texts)])
    difference = texts["conservation"].abs().max()
    if difference > CONSERVATION_TOLERANCE_NATS:
        warn([f"words and tokens of a text differ by {difference:.2g} nats; please report this"])


def _texts_without_value(texts: pd.DataFrame) -> list[str]:
    """Return a warning if texts that are not empty have no word with a value, so that they count in no total."""
    without_value = (texts["n_scored"] == 0) & texts["log_prob_words"].isna()
    count = int((without_value & (texts["n_characters"] > 0)).sum())
    has = "has" if count == 1 else "have"
    return [f"{count} of {counted(len(texts), 'text')} {has} no word with a value: left out of totals"] if count else []


def _missing_values(counts: Mapping[str, int], n_words: int) -> list[str]:
    """Return a warning for each reason why words have no value, the most frequent first."""
    reasons = sorted(counts.items(), key=lambda item: -item[1])
    warnings_ = [
        f"{count} of {counted(n_words, 'word')} {'has' if count == 1 else 'have'} no value: {note or 'no reason given'}"
        for note, count in reasons[:MAX_REASONS]
    ]
    n_others = sum(count for _, count in reasons[MAX_REASONS:])
    if n_others:
        warnings_.append(f"{n_others} more have none, for other reasons; the column note has them")
    return warnings_


def visible(text: str) -> str:
    """Return a text with signs for white space."""
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
