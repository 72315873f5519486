"""Excel workbooks: values, types and number formats stay; formulas are written as the values they had."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import (
    InputError,
    InputWarning,
    OutputError,
    UnsupportedError,
    WordprobError,
    did_you_mean,
    first_line,
)
from wordprob.tables.formats.base import Sheet, check_rows, name_columns, plain
from wordprob.tables.formats.encoding import describe_character
from wordprob.tables.formats.frame import series_of

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_CELL_CHARACTERS = 32_767
"""The rows and columns that an Excel sheet can have, and the characters of a cell."""

MAX_WHOLE_NUMBER = 10**15
"""Excel keeps fifteen digits of a number."""

UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML, and so a workbook, cannot hold."""

ESCAPED = re.compile("_x(0009|000[Aa]|000[Dd]|005[Ff])_")
"""How a workbook writes tabs, line ends and underscores where XML would not keep them."""

MERGED = re.compile(rb'<(?:\w+:)?mergeCell ref="([^"]+)"')
MAX_MERGED_NAMED = 3
PIECE_BYTES = 1 << 20

WRITE_OTHERWISE = "write CSV or Parquet instead."

MAX_CELLS = 10_000_000
LEAST_SHARE_FILLED = 0.01
"""A sheet with more cells than this must hold something in at least this share of them."""

Cell = tuple[Any, str]
"""A value and its number format."""

EMPTY_CELL: Cell = (None, "General")


class ErrorValue(str):
    """What a cell shows instead of a value that cannot be computed, for example ``#N/A``."""


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

        return pd.DataFrame({name: series_of(self.cells(name)) for name in self.columns})

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


# --- writing ----------------------------------------------------------------------------------------------------------


def workbook(title: str, header: Sequence[Any], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a workbook of one sheet; text stays text, whatever it begins with."""
    if len(header) > MAX_COLUMNS:
        raise OutputError(f"Excel holds {MAX_COLUMNS:,} columns, and there are {len(header):,}; {WRITE_OTHERWISE}")
    book = package().Workbook()
    sheet = book.active
    sheet.title = title
    for column, name in enumerate(header, start=1):
        _set_cell(sheet.cell(1, column), name, "General")
    for number, row in enumerate(rows, start=2):
        if number > MAX_ROWS:
            raise OutputError(f"Excel holds {MAX_ROWS:,} rows, and there are more; {WRITE_OTHERWISE}")
        for column, (value, number_format) in enumerate(row, start=1):
            if value is not None and value != "":
                _set_cell(sheet.cell(number, column), value, number_format)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _set_cell(cell: Any, value: Any, number_format: str) -> None:
    """Put a value into a cell; raise :class:`OutputError` for one that Excel cannot hold."""
    if isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER:
        value = str(value)  # as a number it would lose its last digits
    is_error = isinstance(value, ErrorValue)
    if isinstance(value, str):
        value = re.sub(f"_(?={ESCAPED.pattern[1:]})", "_x005F_", value).replace("\r", "_x000D_")
        _check_text(value, cell.coordinate)
    try:
        cell.value = value
    except (ValueError, TypeError) as error:
        raise _cannot_hold(cell.coordinate, f"{value!r:.60}", first_line(error)) from error
    if isinstance(value, str):
        cell.data_type = "e" if is_error else "s"  # otherwise a word such as '=' would become a formula
    cell.number_format = number_format


def _check_text(text: str, coordinate: str) -> None:
    """Raise for a text that a cell cannot hold; openpyxl would cut a long one off without a word."""
    unwritable = UNWRITABLE.search(text)
    if unwritable:
        raise _cannot_hold(coordinate, describe_character(unwritable[0]).rstrip(","), "")
    if len(text) > MAX_CELL_CHARACTERS:
        reason = f"a cell may have {MAX_CELL_CHARACTERS:,}"
        raise _cannot_hold(coordinate, f"a text of {len(text):,} characters", reason)


def _cannot_hold(coordinate: str, what: str, reason: str) -> OutputError:
    explanation = f": {reason}" if reason else ""
    return OutputError(f"Excel cannot hold {what} (cell {coordinate}){explanation}; {WRITE_OTHERWISE}")


# --- reading ----------------------------------------------------------------------------------------------------------


def read_excel(data: bytes, name: str, sheet: str | None = None) -> Excel:
    """Read one sheet of a workbook; it must be named where several have content."""
    try:
        return _read(data, name, sheet)
    except WordprobError:
        raise
    except Exception as error:  # a damaged file: openpyxl passes on the exceptions of its parsers
        raise InputError(
            f"{name} cannot be read as an Excel workbook (.xlsx): {first_line(error)}. Is the file damaged? An old "
            ".xls file: open it and save it as .xlsx."
        ) from error


def _read(data: bytes, name: str, sheet: str | None) -> Excel:
    values = _load(data, data_only=True)
    title = _choose_sheet(values, name, sheet)
    formulas = _load(data, data_only=False)
    formulas._date_formats = set()  # so that numbers that are formatted as dates, but are not valid ones, can be read
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Cell .* is marked as a date")
        rows = _rows(values[title], formulas[title], name)
    if not rows:
        raise InputError(f"{name} is empty; the first row should name the columns.")
    width = max(map(len, rows))
    _check_size(rows, width, name)
    check_rows(len(rows) - 1, name)
    _announce_merged(values[title], name)
    empty_row = [EMPTY_CELL] * width
    padded = [row + empty_row[len(row) :] if row else empty_row for row in rows]
    return Excel(name, title, [value for value, _ in padded[0]], padded[1:])


def _load(data: bytes, data_only: bool) -> Any:
    """Open a workbook; with ``data_only``, cells with formulas hold the values that were stored.

    Opened for reading only, a sheet gives the cells that are stored, and not all those between them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and other things that a table does not need
        return package().load_workbook(io.BytesIO(data), read_only=True, data_only=data_only)


def _rows(values: Any, formulas: Any, name: str) -> list[list[Cell]]:
    """Return the rows up to the last that holds something, each up to its last cell that does."""
    rows: list[list[Cell]] = []
    n_filled = 0
    for value_row, formula_row in zip(_stored_rows(values), _stored_rows(formulas), strict=True):
        _check_formulas(value_row, formula_row, name)
        row = [_cell(value, formula) for value, formula in zip(value_row, formula_row, strict=True)]
        while row and row[-1][0] is None:
            row.pop()
        rows.append(row)
        if row:
            n_filled = len(rows)
    return rows[:n_filled]


def _cell(cell: Any, formula: Any) -> Cell:
    """Return what a cell holds."""
    value = cell.value
    if cell.data_type == "e":
        value = formula.value if formula.data_type == "n" else ErrorValue(value)
    elif isinstance(value, str):
        value = ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    return value, cell.number_format or "General"


def _announce_merged(worksheet: Any, name: str) -> None:
    """Warn that merged cells are apart in the result."""
    merged: list[str] = []
    with worksheet._get_source() as source:
        rest = b""
        while piece := source.read(PIECE_BYTES):
            merged += [match[1].decode() for match in MERGED.finditer(rest + piece)]
            rest = piece[piece.rfind(b"<") :]
    if merged:
        listed = ", ".join(merged[:MAX_MERGED_NAMED]) + (", …" if len(merged) > MAX_MERGED_NAMED else "")
        message = (
            f"{name} has merged cells ({listed}): only the first of each has a value, and none is merged in the result."
        )
        warnings.warn(message, InputWarning, stacklevel=2)


def _stored_rows(worksheet: Any) -> Iterator[Sequence[Any]]:
    """Yield the rows of a sheet; what the file says about its size is not believed."""
    worksheet.reset_dimensions()
    return iter(worksheet.iter_rows())


def _check_size(rows: Sequence[Sequence[Cell]], width: int, name: str) -> None:
    """Raise for a sheet that is nearly empty and too large to hold with all its empty cells."""
    n_cells = len(rows) * width
    if n_cells <= MAX_CELLS or sum(map(len, rows)) > n_cells * LEAST_SHARE_FILLED:
        return
    from openpyxl.utils import get_column_letter

    widest = max(range(len(rows)), key=lambda number: len(rows[number]))
    far = dict.fromkeys((f"{get_column_letter(width)}{widest + 1}", f"{get_column_letter(len(rows[-1]))}{len(rows)}"))
    raise InputError(
        f"{name} has {len(rows):,} rows and {width:,} columns, nearly all of them empty: cell {' and cell '.join(far)} "
        "lies far from the others. Delete its row or column, or copy the table to a file of its own."
    )


def _choose_sheet(book: Any, name: str, sheet: str | None) -> str:
    """Return the title of the sheet that was named, or of the only one that has content."""
    titles = [worksheet.title for worksheet in book.worksheets]
    if sheet is not None and sheet not in titles:
        hint = did_you_mean(sheet, titles)
        raise InputError(f"{name} has no sheet '{sheet}'. {hint} Its sheets: {', '.join(titles)}.")
    filled = [worksheet.title for worksheet in book.worksheets if _has_content(worksheet)]
    if sheet is not None:
        others = [title for title in filled if title != sheet]
        if others:
            message = f"{name}: only the sheet '{sheet}' is read; the result will not have {', '.join(others)}."
            warnings.warn(message, InputWarning, stacklevel=2)
        return sheet
    if len(filled) > 1:
        raise InputError(
            f"{name} has {len(filled)} sheets: {', '.join(filled)}. Name one with `sheet`, for example '{filled[0]}'."
        )
    return str(filled[0] if filled else titles[0])


def _has_content(worksheet: Any) -> bool:
    return any(cell.value is not None for row in _stored_rows(worksheet) for cell in row)


def _check_formulas(value_row: Sequence[Any], formula_row: Sequence[Any], name: str) -> None:
    """Raise for a formula whose value was never stored, as in a file that no spreadsheet program has opened."""
    for value, formula in zip(value_row, formula_row, strict=True):
        if formula.data_type == "f" and value.value is None:
            raise InputError(
                f"{name}, cell {formula.coordinate}: a formula without a value. Open the file in a spreadsheet "
                "program and save it, so that the values are in it."
            )


def package() -> Any:
    """Return openpyxl; raise :class:`UnsupportedError` if it is not installed."""
    try:
        import openpyxl
    except ImportError as error:
        raise UnsupportedError("Excel files need openpyxl: pip install 'wordprob[excel]'") from error
    return openpyxl
