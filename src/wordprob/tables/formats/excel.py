"""Excel workbooks: values, types and number formats stay; formulas come out as the values they had."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, OutputError, UnsupportedError, did_you_mean
from wordprob.tables.formats.base import Sheet, check_rows, name_columns, plain

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1_048_576

Cell = tuple[Any, str]
"""A value and its number format."""


class Excel(Sheet):
    """One sheet of a workbook."""

    format = "xlsx"

    def __init__(self, name: str, title: str, header: Sequence[Any], rows: Sequence[Sequence[Cell]]) -> None:
        self.name, self._title, self._header, self._rows = name, title, header, rows
        self.columns = name_columns(header, name)

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, row: int) -> str:
        """Say which row of the spreadsheet it is; the header is row 1."""
        return f"{self.name}, row {row + 2}"

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        at = self.columns.index(column)
        return [row[at][0] for row in self._rows]

    def frame(self) -> pd.DataFrame:
        """Return the values with their types."""
        import pandas as pd

        return pd.DataFrame({name: pd.Series(self.cells(name), dtype=object).infer_objects() for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> Excel:
        """Return some rows and columns."""
        at = [self.columns.index(name) for name in columns]
        chosen = [[self._rows[row][n] for n in at] for row in rows.tolist()]
        return Excel(self.name, self._title, [self._header[n] for n in at], chosen)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return a workbook with these rows and the new columns behind them."""
        more = [added[name].tolist() for name in added.columns]
        lines = (
            [*self._rows[row], *((plain(value), "General") for value in values)]
            for row, *values in zip(rows.tolist(), *more, strict=True)
        )
        return workbook(self._title, [*self._header, *added.columns], lines)


def workbook(title: str, header: Sequence[Any], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a workbook of one sheet; text stays text, whatever it begins with."""
    made = package().Workbook()
    sheet = made.active
    sheet.title = title
    for n, name in enumerate(header, start=1):
        _put(sheet.cell(1, n), name, "General")
    for number, row in enumerate(rows, start=2):
        if number > MOST_ROWS:
            raise OutputError(f"Excel holds {MOST_ROWS:,} rows, and there are more; write CSV or Parquet instead.")
        for n, (value, form) in enumerate(row, start=1):
            if value is not None and value != "":
                _put(sheet.cell(number, n), value, form)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def _put(cell: Any, value: Any, form: str) -> None:
    try:
        cell.value = value
    except (ValueError, TypeError) as error:
        raise OutputError(
            f"Excel cannot hold {value!r:.60} (cell {cell.coordinate}): {error}. Write CSV or Parquet instead."
        ) from error
    if isinstance(value, str):
        cell.data_type = "s"  # or a word such as '=' would become a formula
    cell.number_format = form


def read_excel(data: bytes, name: str, sheet: str | None = None) -> Excel:
    """Read one sheet of a workbook; which one must be said where several hold something."""
    books = [_load(data, name, values) for values in (True, False)]
    found = books[0][_choose(books[0], name, sheet)]
    rows = [[(cell.value, cell.number_format) for cell in row] for row in found.iter_rows()]
    _check_formulas(books[1][found.title], rows, name)
    while rows and all(value is None for value, _ in rows[-1]):
        rows.pop()
    if not rows:
        raise InputError(f"{name} is empty; the first row should name the columns.")
    width = max(n + 1 for row in rows for n, (value, _) in enumerate(row) if value is not None)
    check_rows(len(rows) - 1, name)
    return Excel(name, found.title, [value for value, _ in rows[0][:width]], [row[:width] for row in rows[1:]])


def _load(data: bytes, name: str, values: bool) -> Any:
    try:
        return package().load_workbook(io.BytesIO(data), data_only=values)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{name} cannot be read as an Excel workbook (.xlsx). An old .xls file: open it and save it as .xlsx."
        ) from error


def _choose(book: Any, name: str, sheet: str | None) -> str:
    titles = [found.title for found in book.worksheets]
    if sheet is not None:
        if sheet not in titles:
            hint = did_you_mean(sheet, titles)
            raise InputError(f"{name} has no sheet '{sheet}'. {hint} Its sheets: {', '.join(titles)}.")
        return sheet
    filled = [
        found.title for found in book.worksheets if any(c.value is not None for r in found.iter_rows() for c in r)
    ]
    if len(filled) > 1:
        raise InputError(f"{name} has {len(filled)} sheets: {', '.join(filled)}. Say which: --sheet '{filled[0]}'")
    return str(filled[0] if filled else titles[0])


def _check_formulas(formulas: Any, rows: Sequence[Sequence[Cell]], name: str) -> None:
    """Raise for a formula whose value was never stored, as in a file that no spreadsheet program has opened."""
    for number, row in enumerate(formulas.iter_rows()):
        for n, cell in enumerate(row):
            if cell.data_type == "f" and rows[number][n][0] is None:
                raise InputError(
                    f"{name}, cell {cell.coordinate}: a formula without a value. Open the file in a spreadsheet "
                    "program and save it, so that the values are in it."
                )


def package() -> Any:
    """Return openpyxl, or say how to install it."""
    try:
        import openpyxl
    except ImportError as error:
        raise UnsupportedError("Excel files need openpyxl: pip install 'wordprob[excel]'") from error
    return openpyxl
