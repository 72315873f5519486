"""What every kind of sheet is: named columns, rows with a place in their file, a way out with more columns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

UNNAMED = "Unnamed: "
"""What a column without a name goes by, as in pandas; its header stays empty in files."""


class Sheet(ABC):
    """A user's table as it came: nothing in it is ever rewritten.

    Attributes
    ----------
    name
        The file's name, or what else to call it in messages.
    format
        ``csv``, ``tsv``, ``jsonl``, ``parquet``, ``xlsx`` or ``frame``.
    columns
        The names of its columns.
    """

    name: str
    format: str
    columns: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def cells(self, column: str) -> list[Any]:
        """Return the values of a column; text files give strings."""

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame; cells of text files are strings."""

    @abstractmethod
    def select(self, rows: Ints, columns: Sequence[str]) -> Sheet:
        """Return some rows and columns as a sheet of the same kind."""

    @abstractmethod
    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return, in the sheet's own format, the rows at these positions with new columns behind them."""

    def place(self, row: int) -> str:
        """Say where a row is, for messages."""
        return f"{self.name}, row {row + 1}"

    def require(self, *columns: str) -> None:
        """Raise, unless all columns are there; say which are not and what is."""
        missing = [name for name in columns if name not in self.columns]
        if not missing:
            return
        hint = did_you_mean(missing[0], self.columns)
        near = "" if hint.startswith("Known") else f" {hint}"
        raise InputError(
            f"{self.name} has no column {', '.join(map(repr, missing))}.{near} It has: {', '.join(self.columns)}."
        )


def name_columns(header: Sequence[object], where: str) -> tuple[str, ...]:
    """Return the column names of a header; nameless ones get a number, names that occur twice are an error."""
    names = ["" if name is None else str(name) for name in header]
    twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if twice:
        places = ", ".join(str(n + 1) for n, name in enumerate(names) if name == twice[0])
        raise InputError(
            f"{where} has more than one column called '{twice[0]}' (columns {places}). Give each a name of its own."
        )
    return tuple(name if name.strip() else f"{UNNAMED}{n}" for n, name in enumerate(names))


def check_rows(count: int, where: str) -> None:
    """Raise for a table without rows."""
    if not count:
        raise InputError(f"{where} has column names but no rows.")


def is_missing(value: object) -> bool:
    """Say whether a value is None or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("<NA>", "NaT")


def write_number(value: object, decimal: str = ".") -> str:
    """Return a value for a text file: numbers in full precision, missing ones empty."""
    if is_missing(value):
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value)).replace(".", decimal)
    return str(value)


def plain(value: object) -> Any:
    """Return a value as JSON and spreadsheets can hold it; what is not finite has no form there."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
