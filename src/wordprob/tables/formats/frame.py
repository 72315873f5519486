"""Data frames that were given from Python, and numbers in frames of strings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.tables.formats.base import Sheet, name_columns

if TYPE_CHECKING:
    import pandas as pd

WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


class Frame(Sheet):
    """A data frame, given from Python; it keeps its index if its rows stay the same."""

    format = "frame"

    def __init__(self, frame: pd.DataFrame, name: str = "the data frame") -> None:
        self.name = name
        self._frame = frame
        self.columns = name_columns(list(frame.columns), name)

    def __len__(self) -> int:
        return len(self._frame)

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        values: list[Any] = self._frame.iloc[:, self.columns.index(column)].tolist()
        return values

    def frame(self) -> pd.DataFrame:
        """Return a copy."""
        return self._frame.copy()

    def select(self, rows: Ints, columns: Sequence[str]) -> Frame:
        """Return some rows and columns."""
        return Frame(self._frame.iloc[rows, [self.columns.index(name) for name in columns]], self.name)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Raise, as a data frame has no file format of its own."""
        raise NotImplementedError


def series_of(values: Sequence[Any]) -> pd.Series:
    """Return values as a column of the type that they share; a text with half a surrogate pair stays an object."""
    import pandas as pd

    objects = pd.Series(values, dtype=object)
    try:
        return objects.infer_objects()
    except UnicodeEncodeError:
        return objects


def with_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn columns of strings into numbers where every cell is written just as the number prints; 007 and 1.50 stay.

    Examples
    --------
    >>> import pandas as pd
    >>> list(with_types(pd.DataFrame({"item": ["1", "2"], "code": ["007", "8"], "rt": ["1.5", ""]})).dtypes.astype(str))
    ['int64', 'str', 'float64']
    """
    if not len(frame.columns):
        return frame
    return frame.assign(**{str(name): _typed(frame[name]) for name in frame.columns})


def _typed(column: pd.Series) -> pd.Series:
    """Return a column of strings as numbers, if all its cells are; empty cells are missing numbers."""
    import pandas as pd

    if not isinstance(column.dtype, pd.StringDtype):
        return column
    filled = column[column != ""]
    if not len(filled):
        return column
    if all(_is_whole_number(cell) for cell in filled):
        complete = len(filled) == len(column)
        return column.astype("int64") if complete else column.where(column != "", None).astype("Int64")
    if all(_is_float(cell) for cell in filled):
        return pd.Series([float(cell) if cell else np.nan for cell in column], index=column.index)
    return column


def _is_whole_number(cell: str) -> bool:
    return WHOLE_NUMBER.fullmatch(cell) is not None and cell != "-0"


def _is_float(cell: str) -> bool:
    """Return True if a cell is spelled as Python would print the number."""
    try:
        return repr(float(cell)) == cell and cell not in ("nan", "inf", "-inf")
    except ValueError:
        return False
