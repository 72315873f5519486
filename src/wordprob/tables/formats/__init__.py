"""Users' tables: CSV, TSV, JSON lines, Parquet, Excel and data frames, read without changing anything in them.

A sheet knows its columns, knows where a row is ("stimuli.csv, line 7"), and is written again in its own format with
new columns behind the old ones. Text formats keep every record as it was written, so quoting, line ends, byte order
mark, leading zeros and the word *NA* stay as they were.

Each format has one module. What a stream of records (:mod:`wordprob.sources`) needs of a format is there as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.errors import InputError, OptionError, WordprobError, first_line
from wordprob.tables.formats.base import Sheet
from wordprob.tables.formats.delimited import SEPARATORS
from wordprob.tables.formats.encoding import decode, read_bytes
from wordprob.tables.formats.extended import ExtendedSheet, render_frame
from wordprob.tables.formats.extensions import EXTENSIONS, FORMATS, format_of
from wordprob.tables.formats.frame import Frame, with_types
from wordprob.tables.formats.parquet import Parquet

if TYPE_CHECKING:
    import pandas as pd

TEXT_FORMATS = ("csv", "tsv", "jsonl")
"""The formats that are plain text."""

__all__ = [
    "EXTENSIONS",
    "FORMATS",
    "SEPARATORS",
    "TEXT_FORMATS",
    "ExtendedSheet",
    "Frame",
    "Parquet",
    "Sheet",
    "decode",
    "format_of",
    "read",
    "read_bytes",
    "render_frame",
    "with_types",
]


def read(
    source: str | Path | bytes | pd.DataFrame,
    format: str | None = None,
    *,
    sheet: str | None = None,
    decimal: str | None = None,
    name: str | None = None,
    encoding: str | None = None,
) -> Sheet:
    """Read a table.

    Parameters
    ----------
    source
        A file, its bytes, or a data frame.
    format
        ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``xlsx``; by default, the one of the file's extension.
    sheet
        The sheet of a workbook, where it has several.
    decimal
        ``.`` or ``,`` for numbers that are added to a CSV or TSV file; by default what the file itself uses.
    name
        What to call the table in messages; the file's name by default.
    encoding
        The encoding of a text file, for example ``cp1252``; detected in its bytes by default.
    """
    if not isinstance(source, str | Path | bytes):
        return Frame(source)
    if isinstance(source, bytes):
        data, name = source, name or "the input"
    else:
        data, name = None, name or str(source)
        format = format or format_of(source)
    if format not in FORMATS:
        raise OptionError(
            f"cannot tell the format of '{name}'. Give it one of the endings {', '.join(EXTENSIONS)}, or name one of "
            f"{', '.join(FORMATS)} with `input_format`."
        )
    if sheet is not None and format != "xlsx":
        raise OptionError(f"`sheet` is for Excel files; {name} is {format}.")
    if encoding is not None and format not in TEXT_FORMATS:
        raise OptionError(f"`encoding` is for text files; {name} is {format}, which has none.")
    reader = _reader(format, sheet, decimal, encoding)
    content = read_bytes(source) if data is None else data  # type: ignore[arg-type]
    try:
        return reader(content, name)
    except WordprobError:
        raise
    except Exception as error:  # parsers raise all kinds of exceptions for a damaged file
        raise InputError(f"{name} cannot be read as {format}: {first_line(error)}. Is the file damaged?") from error


def _reader(format: str, sheet: str | None, decimal: str | None, encoding: str | None) -> Callable[[bytes, str], Sheet]:
    """Return the function that makes a sheet from a file's bytes and its name."""
    if format == "parquet":
        from wordprob.tables.formats.parquet import read_parquet

        return read_parquet
    if format == "jsonl":
        from wordprob.tables.formats.jsonlines import read_jsonlines

        return lambda data, name: read_jsonlines(data, name, encoding)
    if format == "xlsx":
        from wordprob.tables.formats.excel import read_excel

        return lambda data, name: read_excel(data, name, sheet)
    from wordprob.tables.formats.delimited import read_delimited

    return lambda data, name: read_delimited(data, name, format, decimal, encoding)
