"""Parquet files: types and the file's own metadata stay as they are."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, check_rows, name_columns

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
        values: list[Any] = self._table.column(column).to_pylist()
        return values

    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame; an index that pandas stored becomes a column again."""
        frame: pd.DataFrame = self._table.to_pandas()
        return frame if len(frame.columns) == len(self.columns) else frame.reset_index()

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
    """Return a data frame as an Arrow table, without its index."""
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


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


def _unreadable(name: str, error: Exception) -> InputError:
    """Return the error for a file that is not Parquet, or is damaged."""
    reason = str(error).strip().splitlines()[0]
    return InputError(f"{name} cannot be read as Parquet: {reason}")
