"""Tables whose cells have types: Parquet and data frames."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, check_rows, name_columns

if TYPE_CHECKING:
    import pandas as pd

WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")


class Parquet(Sheet):
    """A Parquet file, as Arrow has it; types and the file's own metadata stay."""

    format = "parquet"

    def __init__(self, name: str, table: Any) -> None:
        self.name, self._table = name, table
        self.columns = name_columns(table.column_names, name)

    @classmethod
    def of(cls, frame: pd.DataFrame, name: str) -> Parquet:
        """Make one of a data frame, without its index."""
        import pyarrow as pa

        return cls(name, pa.Table.from_pandas(frame, preserve_index=False))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        found: list[Any] = self._table.column(column).to_pylist()
        return found

    def frame(self) -> pd.DataFrame:
        """Return the table as pandas has it; an index that pandas stored is a column again."""
        found: pd.DataFrame = self._table.to_pandas()
        return found if len(found.columns) == len(self.columns) else found.reset_index()

    def select(self, rows: Ints, columns: Sequence[str]) -> Parquet:
        """Return some rows and columns."""
        return Parquet(self.name, self._table.select(list(columns)).take(rows))

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the rows with the new columns behind them."""
        return self.render_with(rows, added, {})

    def render_with(self, rows: Ints, added: pd.DataFrame, metadata: Mapping[bytes, bytes]) -> bytes:
        """Do the same with more entries in the file's metadata."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table, more = self._table.take(rows), pa.Table.from_pandas(added, preserve_index=False)
        for name in more.column_names:
            table = table.append_column(name, more.column(name))
        kept = self._table.schema.metadata or {}
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({**kept, **metadata}), buffer)
        return buffer.getvalue()


def read_parquet(data: bytes, name: str) -> Parquet:
    """Read a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} cannot be read as Parquet: {error}") from error
    found = Parquet(name, table)
    check_rows(len(found), name)
    return found


class Frame(Sheet):
    """A data frame, given from Python; its index stays where the rows do."""

    format = "frame"

    def __init__(self, frame: pd.DataFrame, name: str = "the data frame") -> None:
        self.name, self._frame = name, frame
        self.columns = name_columns(list(frame.columns), name)

    def __len__(self) -> int:
        return len(self._frame)

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        found: list[Any] = self._frame.iloc[:, self.columns.index(column)].tolist()
        return found

    def frame(self) -> pd.DataFrame:
        """Return a copy."""
        return self._frame.copy()

    def select(self, rows: Ints, columns: Sequence[str]) -> Frame:
        """Return some rows and columns."""
        return Frame(self._frame.iloc[rows, [self.columns.index(name) for name in columns]], self.name)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Frames have no file of their own."""
        raise NotImplementedError


def with_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn columns of strings into numbers where every cell is written just as the number prints; 007 and 1.50 stay.

    Examples
    --------
    >>> import pandas as pd
    >>> list(with_types(pd.DataFrame({"item": ["1", "2"], "code": ["007", "8"], "rt": ["1.5", ""]})).dtypes.astype(str))
    ['int64', 'str', 'float64']
    """
    return frame.assign(**{str(name): _typed(frame[name]) for name in frame.columns}) if len(frame.columns) else frame


def _typed(column: pd.Series) -> pd.Series:
    import pandas as pd

    if not isinstance(column.dtype, pd.StringDtype):
        return column
    known = column[column != ""]
    if not len(known):
        return column
    if all(WHOLE.fullmatch(cell) and cell != "-0" for cell in known):
        return column.astype("int64") if len(known) == len(column) else column.where(column != "", None).astype("Int64")
    if all(_is_float(cell) for cell in known):
        return pd.Series([float(cell) if cell else np.nan for cell in column], index=column.index)
    return column


def _is_float(cell: str) -> bool:
    try:
        return repr(float(cell)) == cell and cell not in ("nan", "inf", "-inf")
    except ValueError:
        return False
