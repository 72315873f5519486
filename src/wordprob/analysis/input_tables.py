"""Files become checked tables, or an error says what is wrong with them and where."""

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
from wordprob.errors import InputError, OptionError, counted, listing, missing_columns
from wordprob.tables import formats
from wordprob.tables.columns import to_long
from wordprob.tables.files import sidecar
from wordprob.tables.formats.base import UNNAMED
from wordprob.tables.formats.delimited import Delimited

Mask = NDArray[np.bool_]

WORD_KEYS = ["text_id", "word_id"]
"""The columns that identify a word."""

ESTIMATES = {"corrected": "surprisal", "naive": "surprisal_naive", "all": "surprisal_all"}
"""The estimates that studies compare, and the column of each in a scored table."""

MISSING = frozenset({"", "NA", "NaN", "nan", "None", "NULL"})
"""Cells that mean a missing number; in a column of words, all of these are words."""

DECIMAL_COMMA_NUMBER = re.compile(r"-?\d+(?:,\d+)?(?:[eE][-+]?\d+)?")


def read_table(path: str | Path, sheet: str | None = None) -> pd.DataFrame:
    """Read a TSV, CSV, Parquet, JSON-lines or Excel file; cells of text files stay text; :func:`numbers` converts.

    Nothing is guessed here: a word such as ``NA`` or ``null`` must stay a word, and a cell that is not a number must be
    reported with its row.
    """
    table = formats.read(path, sheet=sheet)
    frame = table.frame()
    if isinstance(table, Delimited) and table.dialect.decimal == ",":
        frame = frame.apply(_with_decimal_points)
    # A nameless first column is the row number that pandas and R write.
    return frame.drop(columns=[name for name in frame.columns[:1] if str(name).startswith(UNNAMED)])


def _with_decimal_points(column: pd.Series) -> pd.Series:
    """Write decimal commas as points in a column that holds nothing but numbers."""
    only_numbers = all(value in MISSING or DECIMAL_COMMA_NUMBER.fullmatch(value) for value in column)
    return column.str.replace(",", ".") if only_numbers else column


def read_scored(path: str | Path, sheet: str | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a scored table and its metadata.

    Columns with a prefix are added under their usual names. Several models are returned in the long shape, with a
    column ``model``, even if the table has them side by side.
    """
    frame = read_table(path, sheet)
    metadata = read_metadata(path)
    prefix = str(metadata.get("prefix", ""))
    prefixed = [str(name) for name in frame.columns if prefix and str(name).startswith(prefix)]
    frame = frame.assign(**{name.removeprefix(prefix): frame[name] for name in prefixed})
    return to_long(frame, list(metadata.get("models", {}))), metadata


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata next to a table or inside it; empty for a table that wordprob did not write."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        stored = (pq.read_schema(path).metadata or {}).get(b"wordprob", b"{}")
    else:
        stored = sidecar(path).read_bytes() if sidecar(path).is_file() else b"{}"
    metadata: dict[str, Any] = json.loads(stored)
    return metadata


def pair(given: str) -> tuple[str, str]:
    """Return the column and the value of ``COLUMN=VALUE``."""
    column, equals, value = given.partition("=")
    if not equals:
        raise OptionError(f"'{given}' does not name a column and a value; write both, for example structure=active")
    return column.strip(), value.strip()


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise unless ``frame`` has all ``columns``; the message names the missing ones and those that exist."""
    message = missing_columns(where, columns, frame.columns)
    if message:
        raise InputError(message)


def numbers(frame: pd.DataFrame, column: str, where: str) -> Floats:
    """Return a column as numbers, missing ones as NaN; raise with the rows that hold something else."""
    if pd.api.types.is_numeric_dtype(frame[column]):
        return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    converted = []
    not_numbers = []
    for row, value in enumerate(frame[column].tolist(), start=1):
        number = _number(value)
        converted.append(number)
        if number is None:
            not_numbers.append(f"row {row}: {value!r}")
    if not_numbers:
        what = counted(len(not_numbers), "value that is not a number", "values that are not numbers")
        raise InputError(f"{where}: column '{column}' holds {what}: {listing(not_numbers)}.")
    return np.array(converted, dtype=np.float64)


def _number(value: object) -> float | None:
    """Return a cell as a number, NaN for a missing one, ``None`` for anything else."""
    if value is None or value is pd.NA or str(value).strip() in MISSING:
        return float("nan")
    try:
        # Python's own conversion is exact to the last bit; pandas' fast parser is not.
        return float(str(value))
    except ValueError:
        return None


def check_times(times: Floats, column: str, where: str) -> None:
    """Raise unless there are times and they differ."""
    known = times[np.isfinite(times)]
    if not len(known):
        raise InputError(f"{where}: column '{column}' holds no times at all.")
    if np.all(known == known[0]):
        raise InputError(
            f"{where}: all {len(known)} times in column '{column}' are {known[0]:g}; there is nothing to predict. "
            "Specify the right column as `time_column`."
        )
