"""Excel workbooks: values, types and number formats stay; formulas are written as the values they had."""

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

MAX_ROWS = 1_048_576
"""The rows that an Excel sheet can have."""

Cell = tuple[Any, str]
"""A value and its number format."""


class Excel(Sheet):
    """One sheet of a workbook."""

    format = "xlsx"

    def __init__(self, name: str, title: str, header: Sequence[Any], rows: Sequence[Sequence[Cell]]) -> None:
        self.name = name
        self._title = title
        self._header = header
        self._rows = rows
        self.columns = name_columns(header, name)

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, row: int) -> str:
        """Return the row of the spreadsheet, for messages; the header is row 1."""
        return f"{self.name}, row {row + 2}"

    def cells(self, column: str) -> list[Any]:
        """Return a column's values."""
        index = self.columns.index(column)
        return [row[index][0] for row in self._rows]

    def frame(self) -> pd.DataFrame:
        """Return the values with their types."""
        import pandas as pd

        return pd.DataFrame({name: pd.Series(self.cells(name), dtype=object).infer_objects() for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> Excel:
        """Return some rows and columns."""
        indices = [self.columns.index(name) for name in columns]
        selected = [[self._rows[position][index] for index in indices] for position in rows.tolist()]
        return Excel(self.name, self._title, [self._header[index] for index in indices], selected)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return a workbook with these rows and the new columns behind them."""
        extended_rows = []
        for position, *values in zip(rows.tolist(), *(added[name].tolist() for name in added.columns), strict=True):
            new_cells = [(plain(value), "General") for value in values]
            extended_rows.append([*self._rows[position], *new_cells])
        return workbook(self._title, [*self._header, *added.columns], extended_rows)


def workbook(title: str, header: Sequence[Any], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a workbook of one sheet; text stays text, whatever it begins with."""
    book = package().Workbook()
    sheet = book.active
    sheet.title = title
    for column, name in enumerate(header, start=1):
        _set_cell(sheet.cell(1, column), name, "General")
    for number, row in enumerate(rows, start=2):
        if number > MAX_ROWS:
            raise OutputError(f"Excel holds {MAX_ROWS:,} rows, and there are more; write CSV or Parquet instead.")
        for column, (value, number_format) in enumerate(row, start=1):
            if value is not None and value != "":
                _set_cell(sheet.cell(number, column), value, number_format)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _set_cell(cell: Any, value: Any, number_format: str) -> None:
    try:
        cell.value = value
    except (ValueError, TypeError) as error:
        raise OutputError(
            f"Excel cannot hold {value!r:.60} (cell {cell.coordinate}): {error}. Write CSV or Parquet instead."
        ) from error
    if isinstance(value, str):
        cell.data_type = "s"  # otherwise a word such as '=' would become a formula
    cell.number_format = number_format


def read_excel(data: bytes, name: str, sheet: str | None = None) -> Excel:
    """Read one sheet of a workbook; it must be named where several have content."""
    values = _load(data, name, data_only=True)
    worksheet = values[_choose_sheet(values, name, sheet)]
    rows = [[(cell.value, cell.number_format) for cell in row] for row in worksheet.iter_rows()]
    formulas = _load(data, name, data_only=False)
    _check_formulas(formulas[worksheet.title], rows, name)
    while rows and all(value is None for value, _ in rows[-1]):
        rows.pop()
    if not rows:
        raise InputError(f"{name} is empty; the first row should name the columns.")
    width = max(_width(row) for row in rows)
    check_rows(len(rows) - 1, name)
    header = [value for value, _ in rows[0][:width]]
    return Excel(name, worksheet.title, header, [row[:width] for row in rows[1:]])


def _width(row: Sequence[Cell]) -> int:
    """Return the number of cells up to the last that holds something."""
    filled = [index + 1 for index, (value, _) in enumerate(row) if value is not None]
    return max(filled, default=0)


def _load(data: bytes, name: str, data_only: bool) -> Any:
    """Open a workbook; with ``data_only``, cells with formulas hold the values that were stored."""
    try:
        return package().load_workbook(io.BytesIO(data), data_only=data_only)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{name} cannot be read as an Excel workbook (.xlsx). An old .xls file: open it and save it as .xlsx."
        ) from error


def _choose_sheet(book: Any, name: str, sheet: str | None) -> str:
    """Return the title of the sheet that was named, or of the only one that has content."""
    titles = [worksheet.title for worksheet in book.worksheets]
    if sheet is not None:
        if sheet not in titles:
            hint = did_you_mean(sheet, titles)
            raise InputError(f"{name} has no sheet '{sheet}'. {hint} Its sheets: {', '.join(titles)}.")
        return sheet
    filled = [worksheet.title for worksheet in book.worksheets if _has_content(worksheet)]
    if len(filled) > 1:
        raise InputError(
            f"{name} has {len(filled)} sheets: {', '.join(filled)}. Name one with `sheet`, for example '{filled[0]}'."
        )
    return str(filled[0] if filled else titles[0])


def _has_content(worksheet: Any) -> bool:
    return any(cell.value is not None for row in worksheet.iter_rows() for cell in row)


def _check_formulas(formulas: Any, rows: Sequence[Sequence[Cell]], name: str) -> None:
    """Raise for a formula whose value was never stored, as in a file that no spreadsheet program has opened."""
    for row_with_formulas, row_with_values in zip(formulas.iter_rows(), rows, strict=True):
        for cell, (value, _) in zip(row_with_formulas, row_with_values, strict=True):
            if cell.data_type == "f" and value is None:
                raise InputError(
                    f"{name}, cell {cell.coordinate}: a formula without a value. Open the file in a spreadsheet "
                    "program and save it, so that the values are in it."
                )


def package() -> Any:
    """Return openpyxl; raise :class:`UnsupportedError` if it is not installed."""
    try:
        import openpyxl
    except ImportError as error:
        raise UnsupportedError("Excel files need openpyxl: pip install 'wordprob[excel]'") from error
    return openpyxl
