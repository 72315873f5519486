"""CSV and TSV: every record is kept as it was written, and comes out with more cells at its end."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, check_rows, name_columns, write_number
from wordprob.tables.formats.encoding import decode, encode

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {"csv": (",", ";", "\t"), "tsv": ("\t", ";", ",")}
"""What may stand between cells, the likeliest first; European Excel writes semicolons into .csv files."""

NAMES = {",": "comma", ";": "semicolon", "\t": "tab"}
NEWLINE = re.compile(r"\r\n|\n|\r")
EXCEL_HINT = re.compile(r'"?sep=(.)"?\r?\n')
POINT, COMMA = re.compile(r"-?\d+\.\d+"), re.compile(r"-?\d+,\d+")


@dataclass(frozen=True)
class Dialect:
    """How a file is written."""

    delimiter: str
    quoted: bool = True
    encoding: str = "utf-8"
    newline: str = "\n"
    decimal: str = "."
    preamble: str = ""
    """A first line for Excel that names the delimiter."""

    def cell(self, value: object) -> str:
        """Return one cell as it goes into the file."""
        text = write_number(value, self.decimal)
        if not self.quoted:
            return re.sub(r"[\t\r\n]", " ", text)
        if any(mark in text for mark in (self.delimiter, '"', "\n", "\r")):
            return '"' + text.replace('"', '""') + '"'
        return text

    def line(self, values: Sequence[object]) -> str:
        """Return cells as one record, without its line end."""
        return self.delimiter.join(self.cell(value) for value in values)


@dataclass(frozen=True)
class Record:
    """One row: its cells, its text without the line end, and the line it begins on."""

    cells: list[str]
    raw: str
    line: int


class Delimited(Sheet):
    """A CSV or TSV file."""

    def __init__(self, name: str, format: str, dialect: Dialect, header: Record, records: Sequence[Record]) -> None:
        self.name, self.format, self.dialect = name, format, dialect
        self._header, self._records = header, records
        self.columns = name_columns(header.cells, name)

    def __len__(self) -> int:
        return len(self._records)

    def place(self, row: int) -> str:
        """Say which line a row is on."""
        return f"{self.name}, line {self._records[row].line}"

    def cells(self, column: str) -> list[Any]:
        """Return a column's strings."""
        at = self.columns.index(column)
        return [record.cells[at] for record in self._records]

    def frame(self) -> pd.DataFrame:
        """Return the table, all strings."""
        import pandas as pd

        return pd.DataFrame({name: pd.Series(self.cells(name), dtype=str) for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> Delimited:
        """Return some rows and columns, written anew in the same dialect."""
        at = [self.columns.index(name) for name in columns]

        def taken(record: Record) -> Record:
            cells = [record.cells[n] for n in at]
            return Record(cells, self.dialect.line(cells), record.line)

        chosen = [taken(self._records[row]) for row in rows.tolist()]
        return Delimited(self.name, self.format, self.dialect, taken(self._header), chosen)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the records as they were, each with the new cells behind it."""
        dialect = self.dialect
        head = dialect.delimiter.join([self._header.raw, *(dialect.cell(name) for name in added.columns)])
        columns = [[dialect.cell(value) for value in added[name].tolist()] for name in added.columns]
        lines = [
            dialect.delimiter.join((self._records[row].raw, *cells))
            for row, *cells in zip(rows.tolist(), *columns, strict=True)
        ]
        return encode(
            dialect.preamble + "".join(f"{line}{dialect.newline}" for line in (head, *lines)), dialect.encoding
        )


def read_delimited(data: bytes, name: str, format: str, decimal: str | None = None) -> Delimited:
    """Read a CSV or TSV file; delimiter, quoting, line ends and decimal mark are found by looking."""
    text, encoding = decode(data, name)
    preamble = ""
    if hint := EXCEL_HINT.match(text):
        preamble, text = hint.group(), text[hint.end() :]
    if not text.strip():
        raise InputError(f"{name} is empty; its first line should name the columns.")
    first = preamble.count("\n")
    delimiter = hint.group(1) if hint else _delimiter(text, format)
    quoted = not _bare_quotes(text, delimiter)
    records = _records(text, delimiter, quoted, name, first)
    header, rows = records[0], records[1:]
    _check_widths(header, rows, name, delimiter)
    check_rows(len(rows), name)
    ending = NEWLINE.search(text)
    dialect = Dialect(delimiter, quoted, encoding, ending.group() if ending else "\n", decimal or ".", preamble)
    found = Delimited(name, format, dialect, header, rows)
    if decimal is None and delimiter == ";":
        found.dialect = replace(dialect, decimal=_decimal(rows))
    return found


def _delimiter(text: str, format: str) -> str:
    """Return the likeliest delimiter that the header has; of several, the first that makes all rows alike."""
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    there = [mark for mark in DELIMITERS[format] if mark in header]
    for mark in there if len(there) > 1 else ():
        try:
            records = _records(text, mark, not _bare_quotes(text, mark), "", 0)
        except InputError:
            continue
        if len({len(record.cells) for record in records}) == 1:
            return mark
    return there[0] if there else DELIMITERS[format][0]


def _bare_quotes(text: str, delimiter: str) -> bool:
    """Say whether quotation marks are plain characters: a TSV with a cell that is nothing but one.

    Read as quoting, such a cell would swallow the lines up to the next one without a word. A header whose names are
    quoted says that they are not.
    """
    if delimiter != "\t" or '"' not in text:
        return False
    lines = [line.split("\t") for line in NEWLINE.split(text) if line]
    proper = re.compile(r'"(?:[^"]|"")*"')
    if len({len(cells) for cells in lines}) > 1 or any(proper.fullmatch(name) for name in lines[0]):
        return False
    return any(cell.startswith('"') and not proper.fullmatch(cell) for cells in lines for cell in cells)


def _records(text: str, delimiter: str, quoted: bool, name: str, first: int) -> list[Record]:
    """Cut a text into records; a quoted cell may go over several lines."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            taken.append(line)
            yield line

    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(
        lines(), delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=True
    )
    found = []
    try:
        for cells in reader:
            raw = "".join(taken)
            begin = first + reader.line_num - len(taken) + 1
            taken.clear()
            if cells:
                found.append(Record(cells, raw.rstrip("\r\n"), begin))
    except csv.Error as error:
        begin = first + reader.line_num - len(taken) + 1
        raise InputError(
            f"{name}, line {begin}: the quotation marks do not match ({error}). In CSV a quotation mark inside a cell "
            'is doubled and the cell quoted: """Yes,"" she said."'
        ) from None
    return found


def _check_widths(header: Record, rows: Sequence[Record], name: str, delimiter: str) -> None:
    width = len(header.cells)
    wrong = [record for record in rows if len(record.cells) != width]
    if not wrong:
        return
    if len(wrong) == len(rows) and all(len(record.cells) == width + 1 for record in rows):
        raise InputError(
            f"{name}: every row has {width + 1} cells but the header names {width} columns. If R wrote the file, leave "
            "the row names out: write.csv(d, 'stimuli.csv', row.names = FALSE)"
        )
    worst, mark = wrong[0], NAMES.get(delimiter, delimiter)
    more = f" ({len(wrong)} such lines in all)" if len(wrong) > 1 else ""
    raise InputError(
        f"{name}, line {worst.line}: {len(worst.cells)} cells where the header names {width} columns{more}. Cells are "
        f"separated by a {mark}; one that holds a {mark} itself must be quoted."
    )


def _decimal(rows: Sequence[Record]) -> str:
    """Tell the decimal mark of a file with semicolons: a comma, as Excel and read.csv2 have it, or a point."""
    cells = [cell for record in rows[:1000] for cell in record.cells]
    points, commas = (sum(bool(form.fullmatch(cell)) for cell in cells) for form in (POINT, COMMA))
    return "." if points > commas else ","
