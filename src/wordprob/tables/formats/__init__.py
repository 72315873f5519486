"""Users' tables: CSV, TSV, JSON lines, Parquet, Excel and data frames, read without changing anything in them.

A sheet knows its columns, says where a row is ("stimuli.csv, line 7"), and comes out again in its own format with new
columns behind the old ones. Text formats keep every record as it was written, so quoting, line ends, byte order
mark, leading zeros and the word *NA* are as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, OptionError
from wordprob.tables.files import FORMATS
from wordprob.tables.formats.base import Sheet
from wordprob.tables.formats.encoding import decode, read_bytes
from wordprob.tables.formats.typed import Frame, Parquet, with_types

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ENDINGS", "FORMATS", "Frame", "Parquet", "Sheet", "decode", "format_of", "joined", "read", "read_bytes"]
__all__ += ["render", "with_types"]

FORMATS = {**FORMATS, "xlsx": ".xlsx"}
"""The formats of tables, and the endings of their files."""

ENDINGS = {ending: name for name, ending in FORMATS.items()} | {".ndjson": "jsonl", ".tab": "tsv"}
FOREIGN = {
    ".xls": "is an old Excel file; save it as .xlsx",
    ".ods": "is an OpenDocument sheet; save it as .xlsx or CSV",
    ".numbers": "is a Numbers file; export it as .xlsx or CSV",
    ".json": "is JSON; write an object on each line (.jsonl)",
    ".sav": "is an SPSS file; export it as CSV",
    ".rds": "is an R file; write.csv(d, 'stimuli.csv', row.names = FALSE) makes a CSV",
    ".rdata": "is an R file; write.csv(d, 'stimuli.csv', row.names = FALSE) makes a CSV",
}
"""Files that people have and that are not read, with what to do instead."""


def format_of(path: str | Path) -> str | None:
    """Tell a table's format by its file's ending; None for anything else, which is text."""
    ending = Path(path).suffix.lower()
    if ending in FOREIGN:
        raise InputError(f"{Path(path).name} {FOREIGN[ending]}.")
    return ENDINGS.get(ending)


def read(
    source: str | Path | bytes | pd.DataFrame,
    format: str | None = None,
    *,
    sheet: str | None = None,
    decimal: str | None = None,
    name: str | None = None,
) -> Sheet:
    """Read a table.

    Parameters
    ----------
    source
        A file, its bytes, or a data frame.
    format
        ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``xlsx``; by the file's ending if not given.
    sheet
        The sheet of a workbook, where it has several.
    decimal
        ``.`` or ``,`` for numbers that are added to a CSV or TSV file; by default what the file itself uses.
    name
        What to call the table in messages; the file's name by default.
    """
    if not isinstance(source, str | Path | bytes):
        return Frame(source)
    named = name or (str(source) if isinstance(source, str | Path) else "the input")
    format = format or (format_of(source) if isinstance(source, str | Path) else None)
    if format not in FORMATS:
        raise OptionError(
            f"cannot tell the format of '{named}'. Give it one of the endings {', '.join(ENDINGS)}, or name one of "
            f"{', '.join(FORMATS)} with --input-format."
        )
    if sheet is not None and format != "xlsx":
        raise OptionError(f"--sheet is for Excel files; {named} is {format}.")
    data = source if isinstance(source, bytes) else read_bytes(source)
    return _reader(format, sheet, decimal)(data, named)


def _reader(format: str, sheet: str | None, decimal: str | None) -> Callable[[bytes, str], Sheet]:
    if format == "parquet":
        from wordprob.tables.formats.typed import read_parquet

        return read_parquet
    if format == "jsonl":
        from wordprob.tables.formats.jsonlines import read_jsonlines

        return read_jsonlines
    if format == "xlsx":
        from wordprob.tables.formats.excel import read_excel

        return lambda data, name: read_excel(data, name, sheet)
    from wordprob.tables.formats.delimited import read_delimited

    return lambda data, name: read_delimited(data, name, format, decimal)


def joined(sheet: Sheet, rows: Ints, added: pd.DataFrame) -> pd.DataFrame:
    """Return a sheet's rows at these positions with new columns, as a data frame.

    Text cells become numbers where nothing is lost by it.
    """
    import pandas as pd

    own = with_types(sheet.frame()) if sheet.format in ("csv", "tsv") else sheet.frame()
    if not np.array_equal(rows, np.arange(len(sheet))):
        own = own.iloc[rows].reset_index(drop=True)
    return pd.concat([own, added.set_axis(own.index)], axis=1)


def render(sheet: Sheet, rows: Ints, added: pd.DataFrame, format: str, metadata: dict[bytes, bytes]) -> bytes:
    """Return a sheet's rows with new columns as a file's bytes; ``metadata`` goes into a Parquet file."""
    if format == "parquet":
        if not isinstance(sheet, Parquet):
            whole = joined(sheet, rows, added)
            sheet, rows, added = Parquet.of(whole, sheet.name), np.arange(len(whole)), whole[[]]
        return sheet.render_with(rows, added, metadata)
    if format == sheet.format:
        return sheet.render(rows, added)
    return _render_frame(joined(sheet, rows, added), format)


def _render_frame(frame: pd.DataFrame, format: str) -> bytes:
    if format == "jsonl":
        from wordprob.tables.formats.base import plain
        from wordprob.tables.formats.jsonlines import dump

        rows = zip(*(map(plain, frame[name].tolist()) for name in frame.columns), strict=True)
        return "".join(dump(dict(zip(frame.columns, row, strict=True))) + "\n" for row in rows).encode("utf-8")
    if format == "xlsx":
        from wordprob.tables.formats.base import plain
        from wordprob.tables.formats.excel import workbook

        cells: Any = ([(plain(value), "General") for value in row] for row in frame.itertuples(index=False, name=None))
        return workbook("wordprob", list(frame.columns), cells)
    separator = {"tsv": "\t", "csv": ","}[format]
    return str(frame.to_csv(sep=separator, index=False, lineterminator="\n")).encode("utf-8")
