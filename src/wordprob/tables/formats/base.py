"""What all sheets have in common: named columns, rows with a place in their file, and output with more columns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, missing_columns
from wordprob.tables.formats.encoding import UTF8, Encoding

if TYPE_CHECKING:
    import pandas as pd

UNNAMED = "Unnamed: "
"""How the name of a column without a name begins, as in pandas; its header stays empty in files."""


class Sheet(ABC):
    """A user's table as it came; nothing in it is ever rewritten.

    Attributes
    ----------
    name
        What to call the table in messages, for example the file's name.
    format
        ``csv``, ``tsv``, ``jsonl``, ``parquet``, ``xlsx`` or ``frame``.
    columns
        The names of its columns.
    encoding
        How its text is stored, and is written again.
    """

    name: str
    format: str
    columns: tuple[str, ...]
    encoding: Encoding = UTF8

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
        """Return some rows and columns as a sheet of the same format."""

    @abstractmethod
    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return, in the sheet's own format, the rows at these positions with new columns behind them."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages; for example "stimuli.csv, line 7"."""
        return f"{self.name}, row {row + 1}"

    def require(self, *columns: str) -> None:
        """Raise :class:`InputError` unless the table has all these columns."""
        require_columns(self.name, columns, self.columns)


def require_columns(table: str, wanted: Iterable[str], present: Iterable[object], advice: str = "") -> None:
    """Raise :class:`InputError` unless a table has all wanted columns; ``advice`` says what to do."""
    message = missing_columns(table, wanted, present)
    if message:
        raise InputError(f"{message} {advice}".rstrip())


def name_columns(header: Sequence[object], where: str) -> tuple[str, ...]:
    """Return the column names of a header; nameless ones get a number, names that occur twice are an error."""
    names = ["" if name is None else str(name) for name in header]
    repeated = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if repeated:
        numbers = ", ".join(str(n + 1) for n, name in enumerate(names) if name == repeated[0])
        raise InputError(
            f"{where} has more than one column called '{repeated[0]}' (columns {numbers}). Give each a name of its own."
        )
    return tuple(name if name.strip() else f"{UNNAMED}{n}" for n, name in enumerate(names))


def check_rows(count: int, where: str) -> None:
    """Raise for a table without rows."""
    if not count:
        raise InputError(f"{where} has column names but no rows.")


def is_missing(value: object) -> bool:
    """Return True for None, NaN, and what pandas has for missing values of other types; never for a string."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str | int):
        return False
    return str(value) in ("<NA>", "NaT")


def is_infinite(value: object) -> bool:
    """Return True for an infinite number."""
    return isinstance(value, float) and math.isinf(value)


def write_number(value: object, decimal: str = ".") -> str:
    """Return a value as a text file has it: numbers in full precision, missing ones empty."""
    if is_missing(value):
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value)).replace(".", decimal)
    return str(value)


def plain_values(column: pd.Series) -> list[Any]:
    """Return the values of a column as JSON and spreadsheets can hold them; see :func:`plain`."""
    values: list[Any] = column.tolist()
    if isinstance(column.dtype, np.dtype):
        if column.dtype.kind in "iub":  # numpy's whole numbers cannot be missing
            return values
        if column.dtype.kind == "f":
            return [value if math.isfinite(value) else None for value in values]
    return [plain(value) for value in values]


def plain(value: object) -> Any:
    """Return a value as JSON and spreadsheets can hold it: None for a number that is missing or not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
