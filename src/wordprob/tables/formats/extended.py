"""A user's rows with new columns behind them: as a data frame, and as a file of any format."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.tables.formats.base import Sheet, plain
from wordprob.tables.formats.delimited import SEPARATORS
from wordprob.tables.formats.frame import with_types
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

    def render(self, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
        """Return the bytes of a file; ``metadata`` goes into a Parquet file.

        In its own format the sheet writes its rows as they were.
        """
        if format == "parquet" and isinstance(self.sheet, Parquet):
            return self.sheet.render_with(self.rows, self.added, metadata)
        if format == self.sheet.format:
            return self.sheet.render(self.rows, self.added)
        return render_frame(self.frame(), format, metadata)


def render_frame(frame: pd.DataFrame, format: str, metadata: Mapping[bytes, bytes]) -> bytes:
    """Return a data frame as the bytes of a file; ``metadata`` goes into a Parquet file.

    Numbers are in full precision; missing ones are empty, and null in JSON.
    """
    if format == "parquet":
        return _render_parquet(frame, metadata)
    if format == "jsonl":
        from wordprob.tables.formats.jsonlines import dump, records

        return "".join(dump(row) + "\n" for row in records(frame)).encode("utf-8")
    if format == "xlsx":
        from wordprob.tables.formats.excel import workbook

        rows = frame.itertuples(index=False, name=None)
        cells: Any = ([(plain(value), "General") for value in row] for row in rows)
        return workbook("wordprob", list(frame.columns), cells)
    return str(frame.to_csv(sep=SEPARATORS[format], index=False, lineterminator="\n")).encode("utf-8")


def _render_parquet(frame: pd.DataFrame, metadata: Mapping[bytes, bytes]) -> bytes:
    import pyarrow.parquet as pq

    table = arrow_table(frame)
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata}), buffer)
    return buffer.getvalue()
