"""The door: files become checked tables, or an error says what is wrong with them and where."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wordprob.errors import EncodingError, InputError, listing, missing_columns
from wordprob.table import format_of
from wordprob.types import Floats

Mask = NDArray[np.bool_]

MISSING = frozenset({"", "NA", "NaN", "nan", "None", "NULL"})
"""What stands for a missing number; in a column of words all of these are words."""


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a TSV, CSV, Parquet or JSON-lines file; the cells of text files stay text until asked to be numbers.

    A word such as ``NA`` or ``null`` must survive the reading, and a number that is none must be found with its row,
    so nothing is guessed here.
    """
    path = Path(path)
    format = format_of(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    if format == "parquet":
        return pd.read_parquet(path)
    try:
        return _read_text(path, format)
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise EncodingError(f"{path} is not UTF-8 near line {line}. Save it as UTF-8 and try again.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {format}: {error}") from error


def _read_text(path: Path, format: str) -> pd.DataFrame:
    path.read_bytes().decode("utf-8")
    if format == "jsonl":
        return pd.read_json(path, lines=True, dtype=False, convert_dates=False)
    frame = pd.read_csv(path, sep="\t" if format == "tsv" else ",", dtype=str, keep_default_na=False)
    # A nameless first column is the row number that pandas and R write.
    return frame.drop(columns=[name for name in frame.columns[:1] if str(name).startswith("Unnamed:")])


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
