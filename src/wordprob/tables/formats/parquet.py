"""Parquet files: types and the file's own metadata stay as they are."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, OutputError, first_line
from wordprob.tables.formats.base import Sheet, check_rows, is_missing, name_columns

if TYPE_CHECKING:
    import pandas as pd


class Parquet(Sheet):
    """A Parquet file, as an Arrow table."""

    format = "parquet"

    def __init__(self, name: str, table: Any) -> None:
        self.name = name
        self._table = table
        self.columns = name_columns(table.column_names, name)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        try:
            values: list[Any] = self._table.column(column).to_pylist()
        except Exception as error:  # a date that Python cannot represent, or an unknown time zone
            raise _unreadable(f"{self.name}, column '{column}'", error) from error
        return values

    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame; an index that pandas stored becomes a column again."""
        try:
            frame = self._to_pandas()
        except Exception as error:  # a date that pandas cannot represent
            raise _unreadable(self.name, error) from error
        return frame if len(frame.columns) == len(self.columns) else frame.reset_index()

    def _to_pandas(self) -> pd.DataFrame:
        """Convert the table; where what pandas stored about its types is damaged, the file's own types are enough."""
        try:
            frame: pd.DataFrame = self._table.to_pandas()
        except (ValueError, KeyError, TypeError, LookupError):
            frame = self._table.replace_schema_metadata(None).to_pandas()
        return frame

    def select(self, rows: Ints, columns: Sequence[str]) -> Parquet:
        """Return some rows and columns."""
        return Parquet(self.name, self._table.select(list(columns)).take(rows))

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the rows with the new columns behind them."""
        return self.render_with(rows, added, {})

    def render_with(self, rows: Ints, added: pd.DataFrame, metadata: Mapping[bytes, bytes]) -> bytes:
        """Return the same, with more entries in the file's metadata."""
        import pyarrow.parquet as pq

        table = self._table.take(rows)
        new_columns = arrow_table(added)
        for name in new_columns.column_names:
            table = table.append_column(name, new_columns.column(name))
        own_metadata = self._table.schema.metadata or {}
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({**own_metadata, **metadata}), buffer)
        return buffer.getvalue()


def arrow_table(frame: pd.DataFrame) -> Any:
    """Return a data frame as an Arrow table, without its index; raise if the types in a column differ."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _unwritable(frame, error) from error


def open_parquet(source: str | Path | io.BytesIO, name: str) -> Any:
    """Return a file that is open for reading; raise :class:`InputError` if it is not Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(source)
    except pa.ArrowInvalid as error:
        raise _unreadable(name, error) from error


def read_parquet(data: bytes, name: str) -> Parquet:
    """Read a Parquet file."""
    import pyarrow as pa

    try:
        table = open_parquet(io.BytesIO(data), name).read()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name, error) from error
    sheet = Parquet(name, table)
    check_rows(len(sheet), name)
    return sheet


def _unwritable(frame: pd.DataFrame, error: Exception) -> OutputError:
    """Return the error for a table that Parquet cannot hold, with the column and the first row that does not fit."""
    import pyarrow as pa

    for number, name in enumerate(frame.columns):
        try:
            pa.Array.from_pandas(frame.iloc[:, number])
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as of_column:
            reason = _other_kind(frame.iloc[:, number].tolist()) or first_line(of_column)
            return OutputError(
                f"Parquet cannot hold the column '{name}': {reason}. Make its values of one kind, or write CSV or JSON "
                "lines."
            )
    return OutputError(f"the table cannot be written as Parquet: {first_line(error)}. Write CSV or JSON lines.")


def _other_kind(values: Sequence[Any]) -> str:
    """Return which row holds a value of another type than the rows before it; empty if none does."""
    first_kind = ""
    for row, value in enumerate(values, start=1):
        kind = "" if is_missing(value) else type(value).__name__
        first_kind = first_kind or kind
        if kind and kind != first_kind:
            return f"row {row} holds {value!r:.40} ({kind}), and the rows before it {first_kind}"
    return ""


def _unreadable(name: str, error: Exception) -> InputError:
    """Return the error for a file that is not Parquet, or is damaged."""
    return InputError(f"{name} cannot be read as Parquet: {first_line(error)}. Is the file damaged?")
