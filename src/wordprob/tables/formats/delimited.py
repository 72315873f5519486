"""CSV and TSV: every row is kept as it was written, and is written again with more cells at its end."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, check_rows, name_columns, write_number
from wordprob.tables.formats.encoding import UTF8, Encoding, decode
from wordprob.tables.formats.formulas import escape_formula

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {"csv": ",", "tsv": "\t"}
"""What stands between the cells of files that we write, and of corpora that are read as a stream."""

DELIMITERS = {"csv": (",", ";", "\t"), "tsv": ("\t", ";", ",")}
"""What may separate the cells of a user's table, the most likely first; European Excel writes semicolons."""

DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
NEWLINE = re.compile(r"\r\n|\n|\r")
NEWLINE_AT_END = re.compile(r"(?:\r\n|\n|\r)?\Z")
BLANK_LINES = re.compile(r"[\r\n]+")
EXCEL_HINT = re.compile(r'"?sep=(.)"?\r?\n')
QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
DECIMAL_POINT = re.compile(r"-?\d+\.\d+")
DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
MAX_CELL_CHARACTERS = 2**31 - 1
"""The most that the csv module can hold in a cell."""

DECIMAL_SAMPLE_ROWS = 1000
"""Rows that are looked at to tell the decimal mark."""


@dataclass(frozen=True)
class DelimitedDialect:
    """How a file is written."""

    delimiter: str
    quoted: bool = True
    encoding: Encoding = UTF8
    newline: str = "\n"
    decimal: str = "."
    preamble: str = ""
    """What comes before the header: a line that names the delimiter to Excel, blank lines."""

    def cell(self, value: object) -> str:
        """Return one cell as it goes into the file."""
        text = write_number(value, self.decimal)
        if not self.quoted:
            return re.sub(r"[\t\r\n]", " ", text)
        if any(mark in text for mark in (self.delimiter, '"', "\n", "\r")):
            return '"' + text.replace('"', '""') + '"'
        return text

    def line(self, values: Sequence[object]) -> str:
        """Return cells as one row, without its line end."""
        return self.delimiter.join(self.cell(value) for value in values)


@dataclass(frozen=True)
class DelimitedRow:
    """A row: its cells, its text, the line end behind it, the line it begins on, and the blank lines after it."""

    cells: list[str]
    raw: str
    newline: str
    line: int
    blank_lines: str = ""


class Delimited(Sheet):
    """A CSV or TSV file."""

    def __init__(
        self, name: str, format: str, dialect: DelimitedDialect, header: DelimitedRow, rows: Sequence[DelimitedRow]
    ) -> None:
        self.name = name
        self.format = format
        self.dialect = dialect
        self.encoding = dialect.encoding
        self._header = header
        self._rows = rows
        self.columns = name_columns(header.cells, name)

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, row: int) -> str:
        """Return the line that a row begins on, for messages."""
        return f"{self.name}, line {self._rows[row].line}"

    def cells(self, column: str) -> list[Any]:
        """Return a column's strings."""
        index = self.columns.index(column)
        return [row.cells[index] for row in self._rows]

    def frame(self) -> pd.DataFrame:
        """Return the table, all strings."""
        import pandas as pd

        return pd.DataFrame({name: pd.Series(self.cells(name), dtype=str) for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> Delimited:
        """Return some rows and columns, written again in the same dialect."""
        indices = [self.columns.index(name) for name in columns]

        def select_cells(row: DelimitedRow) -> DelimitedRow:
            cells = [row.cells[index] for index in indices]
            return DelimitedRow(cells, self.dialect.line(cells), row.newline, row.line)

        selected = [select_cells(self._rows[position]) for position in rows.tolist()]
        return Delimited(self.name, self.format, self.dialect, select_cells(self._header), selected)

    def escape_formulas(self) -> Delimited:
        """Return the table with an apostrophe before each cell that a spreadsheet would take for a formula."""
        return Delimited(
            self.name,
            self.format,
            self.dialect,
            self._escaped(self._header),
            [self._escaped(row) for row in self._rows],
        )

    def _escaped(self, row: DelimitedRow) -> DelimitedRow:
        cells = [escape_formula(cell) for cell in row.cells]
        return row if cells == row.cells else replace(row, cells=cells, raw=self.dialect.line(cells))

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the rows as they were, each with the new cells behind it."""
        dialect = self.dialect
        new_names = [dialect.cell(name) for name in added.columns]
        new_columns = [[dialect.cell(value) for value in added[name].tolist()] for name in added.columns]
        lines = [self._extend(self._header, new_names), self._header.blank_lines]
        last_of_row = {position: n for n, position in enumerate(rows.tolist())}  # a row may be written several times
        for n, (position, *new_cells) in enumerate(zip(rows.tolist(), *new_columns, strict=True)):
            row = self._rows[position]
            lines.append(self._extend(row, new_cells) + (row.blank_lines if n == last_of_row[position] else ""))
        return dialect.encoding.encode(dialect.preamble + "".join(lines), self.name)

    def _extend(self, row: DelimitedRow, new_cells: Sequence[str]) -> str:
        """Return a row as it was, with new cells before its line end; the last row of a file may have none."""
        return self.dialect.delimiter.join([row.raw, *new_cells]) + (row.newline or self.dialect.newline)


def read_delimited(
    data: bytes, name: str, format: str, decimal: str | None = None, encoding: str | None = None
) -> Delimited:
    """Read a CSV or TSV file; delimiter, quoting, line ends and decimal mark are detected in its content."""
    text, found_encoding = decode(data, name, encoding)
    preamble = ""
    excel_hint = EXCEL_HINT.match(text)
    if excel_hint:
        preamble = excel_hint.group()
        text = text[excel_hint.end() :]
    blank_lines = BLANK_LINES.match(text)
    if blank_lines:
        preamble += blank_lines.group()
        text = text[blank_lines.end() :]
    if not text.strip():
        raise InputError(f"{name} is empty; its first line should name the columns.")
    delimiter = excel_hint.group(1) if excel_hint else find_delimiter(text, format)
    quoted = not _has_bare_quotes(text, delimiter)
    header, *rows = _split_rows(text, delimiter, quoted, name, len(NEWLINE.findall(preamble)))
    _check_widths(header, rows, name, delimiter)
    check_rows(len(rows), name)
    if decimal is None:
        decimal = _decimal_mark(rows) if delimiter == ";" else "."
    dialect = DelimitedDialect(delimiter, quoted, found_encoding, header.newline or "\n", decimal, preamble)
    return Delimited(name, format, dialect, header, rows)


def find_delimiter(text: str, format: str) -> str:
    """Return the most likely delimiter that the header has; of several, the first that makes all rows equally long."""
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    candidates = [delimiter for delimiter in DELIMITERS[format] if delimiter in header]
    if not candidates:
        return DELIMITERS[format][0]
    if len(candidates) > 1:
        for delimiter in candidates:
            if _makes_equal_rows(text, delimiter):
                return delimiter
    return candidates[0]


def _makes_equal_rows(text: str, delimiter: str) -> bool:
    """Return True if all rows have the same number of cells with this delimiter."""
    try:
        rows = _split_rows(text, delimiter, not _has_bare_quotes(text, delimiter), "", 0)
    except InputError:
        return False
    return len({len(row.cells) for row in rows}) == 1


def _has_bare_quotes(text: str, delimiter: str) -> bool:
    """Return True if quotation marks are ordinary characters in a text; see :func:`has_bare_quotes`."""
    return delimiter == "\t" and '"' in text and has_bare_quotes(lambda: io.StringIO(text, newline=""))


def has_bare_quotes(read_lines: Callable[[], Iterable[str]]) -> bool:
    """Return True if quotation marks are ordinary characters: in a TSV with a cell that has an unmatched one.

    Read as quoting, such a cell would silently include the lines up to the next quotation mark. A header whose names
    are quoted shows that quotation marks do quote.

    Parameters
    ----------
    read_lines
        Returns the lines of a TSV, each time from the first.
    """
    width = 0
    has_unmatched = False
    for line in read_lines():
        cells = line.rstrip("\r\n").split("\t")
        if cells == [""]:
            continue
        if not width:
            width = len(cells)
            if any(QUOTED_CELL.fullmatch(name) for name in cells):
                return False
        if len(cells) != width:
            return False
        has_unmatched = has_unmatched or any(_is_unmatched(cell) for cell in cells)
    if has_unmatched and width == 1:
        # With one column, lines of equal length do not show that no cell continues in the next line.
        return not _is_quoted_throughout(read_lines())
    return has_unmatched


def _is_unmatched(cell: str) -> bool:
    return cell.startswith('"') and QUOTED_CELL.fullmatch(cell) is None


def _is_quoted_throughout(lines: Iterable[str]) -> bool:
    """Return True if every quotation mark of a single column is one of quoting."""
    try:
        for _ in strict_reader(lines, "\t", quoted=True):
            pass
    except csv.Error:
        return False
    return True


def _split_rows(text: str, delimiter: str, quoted: bool, name: str, lines_before: int) -> list[DelimitedRow]:
    """Split a text into rows; a quoted cell may extend over several lines."""
    lines_of_row: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            lines_of_row.append(line)
            yield line

    reader = strict_reader(lines(), delimiter, quoted)
    rows: list[DelimitedRow] = []
    try:
        for cells in reader:
            raw = "".join(lines_of_row)
            first_line = lines_before + reader.line_num - len(lines_of_row) + 1
            lines_of_row.clear()
            if not cells and rows and len(rows[0].cells) == 1:
                cells = [""]  # in a table of one column, a blank line is an empty cell
            if cells:
                text_of_row = NEWLINE_AT_END.sub("", raw)
                rows.append(DelimitedRow(cells, text_of_row, raw[len(text_of_row) :], first_line))
            elif rows:
                rows[-1] = replace(rows[-1], blank_lines=rows[-1].blank_lines + raw)
    except csv.Error as error:
        first_line = lines_before + reader.line_num - len(lines_of_row) + 1
        raise InputError(f"{name}, line {first_line}: {quotes_problem(error)}") from None
    return rows


def strict_reader(lines: Iterable[str], delimiter: str, quoted: bool) -> Any:
    """Return the reader of the csv module as all tables are read: quotation marks that do not match are an error."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)


def quotes_problem(error: csv.Error) -> str:
    """Return what is wrong with a row that :func:`strict_reader` cannot read, and what to do."""
    return (
        f"the quotation marks do not match ({error}). In CSV a quotation mark inside a cell is doubled and the cell "
        'quoted: """Yes,"" she said."'
    )


def _check_widths(header: DelimitedRow, rows: Sequence[DelimitedRow], name: str, delimiter: str) -> None:
    """Raise unless every row has as many cells as the header."""
    width = len(header.cells)
    wrong = [row for row in rows if len(row.cells) != width]
    if not wrong:
        return
    if len(wrong) == len(rows) and all(len(row.cells) == width + 1 for row in rows):
        raise InputError(
            f"{name}: every row has {width + 1} cells but the header names {width} columns. If R wrote the file, leave "
            "the row names out: write.csv(d, 'stimuli.csv', row.names = FALSE)"
        )
    mark = DELIMITER_NAMES.get(delimiter, delimiter)
    more = f" ({len(wrong)} such lines in all)" if len(wrong) > 1 else ""
    raise InputError(
        f"{name}, line {wrong[0].line}: {width_problem(wrong[0].cells, header.cells)}{more}. Cells are separated by a "
        f"{mark}; one that holds a {mark} itself must be quoted."
    )


def width_problem(cells: Sequence[str], header: Sequence[str]) -> str:
    """Return what is wrong with a row that has more or fewer cells than the header."""
    return f"{len(cells)} cells where the header names {len(header)} columns"


def _decimal_mark(rows: Sequence[DelimitedRow]) -> str:
    """Return the decimal mark of a file with semicolons: a comma, as Excel and read.csv2 have it, or a point."""
    n_points = 0
    n_commas = 0
    for row in rows[:DECIMAL_SAMPLE_ROWS]:
        n_points += sum(DECIMAL_POINT.fullmatch(cell) is not None for cell in row.cells)
        n_commas += sum(DECIMAL_COMMA.fullmatch(cell) is not None for cell in row.cells)
    return "." if n_points > n_commas else ","
