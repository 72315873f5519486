"""A user's rows with new columns behind them: as a data frame, and as a file of any format."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputWarning, OutputError, WordprobError, first_line
from wordprob.tables.formats.base import Sheet, is_infinite, plain
from wordprob.tables.formats.delimited import SEPARATORS, Delimited
from wordprob.tables.formats.encoding import UTF8
from wordprob.tables.formats.formulas import escape_frame
from wordprob.tables.formats.frame import Frame, with_types
from wordprob.tables.formats.jsonlines import dump, records
from wordprob.tables.formats.parquet import Parquet, arrow_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ExtendedSheet:
    """Rows of a sheet, each with values in new columns.

    Attributes
    ----------
    sheet
        The table that the rows come from.
    rows
        The position in the sheet of each row. A row may occur several times: for each word of its text, or for each
        model.
    added
        The new columns, one value for each of ``rows``.
    """

    sheet: Sheet
    rows: Ints
    added: pd.DataFrame

    def __len__(self) -> int:
        return len(self.rows)

    def frame(self) -> pd.DataFrame:
        """Return the rows with the new columns; text cells become numbers where nothing is lost by it."""
        import pandas as pd

        own = self.sheet.frame()
        if self.sheet.format in SEPARATORS:
            own = with_types(own)
        if not np.array_equal(self.rows, np.arange(len(self.sheet))):
            own = own.iloc[self.rows].reset_index(drop=True)
        return pd.concat([own, self.added.set_axis(own.index)], axis=1)

    def escape_formulas(self, format: str) -> ExtendedSheet:
        """Return the rows for a CSV or TSV file in which no cell is taken for a formula."""
        if isinstance(self.sheet, Delimited) and format == self.sheet.format:
            return ExtendedSheet(self.sheet.escape_formulas(), self.rows, escape_frame(self.added))
        no_columns = self.added.iloc[:, :0]
        return ExtendedSheet(Frame(escape_frame(self.frame())), np.arange(len(self.rows)), no_columns)

    def render(self, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
        """Return the bytes of a file; ``metadata`` goes into a Parquet file.

        In its own format the sheet writes its rows as they were.
        """
        with readable_failures(format):
            return self._render(format, metadata)

    def _render(self, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
        if format == "parquet" and isinstance(self.sheet, Parquet):
            return self.sheet.render_with(self.rows, self.added, metadata)
        if format == self.sheet.format:
            return self.sheet.render(self.rows, self.added)
        return render_frame(self.frame(), format, metadata)


def render_frame(frame: pd.DataFrame, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
    """Return a data frame as the bytes of a file; ``metadata`` goes into a Parquet file.

    Numbers are in full precision; missing ones are empty, and null in JSON.
    """
    with readable_failures(format):
        return _render_frame(frame, format, metadata)


@contextlib.contextmanager
def readable_failures(format: str) -> Iterator[None]:
    """Turn any exception of a writer into an :class:`OutputError` of one line."""
    try:
        yield
    except WordprobError:
        raise
    except Exception as error:
        raise OutputError(
            f"the table cannot be written as {format}: {first_line(error)}. Try another format, for example CSV."
        ) from error


def _render_frame(frame: pd.DataFrame, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
    if format == "parquet":
        return _render_parquet(frame, metadata)
    if format in ("jsonl", "xlsx"):
        announce_infinite(frame, format)
    if format == "jsonl":
        return UTF8.encode("".join(dump(row) + "\n" for row in records(frame)))
    if format == "xlsx":
        from wordprob.tables.formats.excel import workbook

        rows = frame.itertuples(index=False, name=None)
        cells: Any = ([(plain(value), "General") for value in row] for row in rows)
        return workbook("wordprob", list(frame.columns), cells)
    return UTF8.encode(str(_with_json(frame).to_csv(sep=SEPARATORS[format], index=False, lineterminator="\n")))


def announce_infinite(frame: pd.DataFrame, format: str) -> None:
    """Warn that infinite numbers are missing in a file whose format has none."""
    counts = {str(name): sum(map(is_infinite, column.tolist())) for name, column in frame.items()}
    total = sum(counts.values())
    if total:
        named = ", ".join(name for name, count in counts.items() if count)
        numbers = "1 infinite number is" if total == 1 else f"{total} infinite numbers are"
        message = (
            f"{format} has no infinity: {numbers} missing in it, in the columns {named}. CSV and Parquet keep them."
        )
        warnings.warn(message, InputWarning, stacklevel=2)


def _with_json(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame whose lists and objects are written as JSON."""
    import pandas as pd

    nested = [n for n in range(frame.shape[1]) if frame.iloc[:, n].dtype == object]
    frame = frame.copy(deep=False)
    for n in nested:
        cells = [dump(value) if isinstance(value, dict | list) else value for value in frame.iloc[:, n].tolist()]
        column: Any = pd.Series(cells, index=frame.index, dtype=object)
        frame.isetitem(n, column)
    return frame


def _render_parquet(frame: pd.DataFrame, metadata: Mapping[bytes, bytes]) -> bytes:
    import pyarrow.parquet as pq

    table = arrow_table(frame)
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata}), buffer)
    return buffer.getvalue()
