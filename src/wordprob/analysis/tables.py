"""The door: files become checked tables, or an error says what is wrong with them and where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError, listing, missing_columns
from wordprob.tables import formats as sheets
from wordprob.tables.files import sidecar
from wordprob.tables.formats.base import UNNAMED
from wordprob.tables.formats.delimited import Delimited

Mask = NDArray[np.bool_]

MISSING = frozenset({"", "NA", "NaN", "nan", "None", "NULL"})
"""What stands for a missing number; in a column of words all of these are words."""

COMMAS = re.compile(r"-?\d+(?:,\d+)?(?:[eE][-+]?\d+)?")


def read_table(path: str | Path, sheet: str | None = None) -> pd.DataFrame:
    """Read a TSV, CSV, Parquet, JSON-lines or Excel file; cells of text files stay text until asked to be numbers.

    A word such as ``NA`` or ``null`` must survive the reading, and a number that is none must be found with its row,
    so nothing is guessed here.
    """
    opened = sheets.read(path, sheet=sheet)
    frame = opened.frame()
    if isinstance(opened, Delimited) and opened.dialect.decimal == ",":
        frame = frame.apply(_with_points)
    # A nameless first column is the row number that pandas and R write.
    return frame.drop(columns=[name for name in frame.columns[:1] if str(name).startswith(UNNAMED)])


def _with_points(column: pd.Series) -> pd.Series:
    """Write decimal commas as points in a column that holds nothing but numbers."""
    numbers = all(value in MISSING or COMMAS.fullmatch(value) for value in column)
    return column.str.replace(",", ".") if numbers else column


def read_scored(path: str | Path, sheet: str | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a scored table and its metadata; columns that were given a prefix are also there by their usual names."""
    frame, about = read_table(path, sheet), read_metadata(path)
    prefix = str(about.get("prefix", ""))
    named = [name for name in frame.columns if prefix and str(name).startswith(prefix)]
    return frame.assign(**{str(name).removeprefix(prefix): frame[name] for name in named}), about


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return what wordprob wrote beside a table or into it; nothing for a table of other origin."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        stored = (pq.read_schema(path).metadata or {}).get(b"wordprob", b"{}")
    else:
        stored = sidecar(path).read_bytes() if sidecar(path).is_file() else b"{}"
    found: dict[str, Any] = json.loads(stored)
    return found


def pair(given: str) -> tuple[str, str]:
    """Read ``COLUMN=VALUE``."""
    column, equals, value = given.partition("=")
    if not equals:
        raise OptionError(f"'{given}' names no column and value; write both, for example structure=active")
    return column.strip(), value.strip()


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise, unless ``frame`` has all ``columns``; say which are missing and what is there."""
    if message := missing_columns(where, columns, frame.columns):
        raise InputError(message)


def numbers(frame: pd.DataFrame, column: str, where: str) -> Floats:
    """Return a column as numbers, missing ones as NaN; name the rows that hold something else."""
    if pd.api.types.is_numeric_dtype(frame[column]):
        return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    values = frame[column].tolist()
    found = [_number(value) for value in values]
    wrong = [(row, value) for row, (value, number) in enumerate(zip(values, found, strict=True)) if number is None]
    if wrong:
        raise InputError(
            f"{where}: column '{column}' holds {len(wrong)} values that are not numbers: "
            f"{listing(f'row {row + 1}: {value!r}' for row, value in wrong)}."
        )
    return np.array(found, dtype=np.float64)


def _number(value: object) -> float | None:
    if value is None or value is pd.NA or str(value).strip() in MISSING:
        return float("nan")
    try:
        # Python's own conversion is exact to the last bit; pandas' fast parser is not.
        return float(str(value))
    except ValueError:
        return None


def check_times(times: Floats, column: str, where: str) -> None:
    """Raise, unless there are times and they differ."""
    known = times[np.isfinite(times)]
    if not len(known):
        raise InputError(f"{where}: column '{column}' holds no times at all.")
    if np.all(known == known[0]):
        raise InputError(
            f"{where}: all {len(known)} times in column '{column}' are {known[0]:g}; there is nothing to predict. "
            "Name the right column with --time-column."
        )
