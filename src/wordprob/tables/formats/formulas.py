"""Cells that a spreadsheet program would take for formulas: ``=1+1``, ``+1``, ``-x``, ``@SUM(A1)``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")


def escape_formula(cell: str) -> str:
    """Return a cell with an apostrophe before it, which makes it text, if it would be taken for a formula.

    Examples
    --------
    >>> [escape_formula(cell) for cell in ("=1+1", "-dash", "-1.5", "word")]
    ["'=1+1", "'-dash", '-1.5', 'word']
    """
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def escape_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame whose names and texts are escaped; numbers stay."""
    escaped = frame.copy()
    for number, dtype in enumerate(frame.dtypes):
        if getattr(dtype, "kind", "O") not in "iufb":
            values = [escape_formula(value) if isinstance(value, str) else value for value in frame.iloc[:, number]]
            escaped.isetitem(number, values)
    return escaped.set_axis([escape_formula(str(name)) for name in frame.columns], axis=1)
