"""How each format is read as a stream: one record at a time, from any record on, whatever is wrong with a record.

Every reader yields ``(record, offset)``, where ``offset`` is the byte at which the next record begins. A plain file can
be read from there. A compressed file has no such offset, and is read from its beginning.
"""

from __future__ import annotations

import csv
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from wordprob.errors import InputError
from wordprob.sources import hub_datasets
from wordprob.sources.discovery import Source
from wordprob.sources.lines import (
    MAX_JSON_BYTES,
    MAX_UTF8_BYTES,
    UNLIMITED,
    DecodedLines,
    longest_line,
    numbered_lines,
    open_source,
)
from wordprob.sources.records import ReadOptions, Record, record_from_bytes, record_from_row
from wordprob.tables.formats.base import require_columns
from wordprob.tables.formats.delimited import (
    find_delimiter,
    has_bare_quotes,
    quotes_problem,
    strict_reader,
    width_problem,
)
from wordprob.tables.formats.encoding import UTF8_MARK, decode_record
from wordprob.tables.formats.jsonlines import parse_object
from wordprob.tables.formats.parquet import open_parquet

BATCH_ROWS = 128
"""Rows of a Parquet file that are in memory at a time."""

CARRIAGE_RETURN = (
    "a carriage return that ends no line. If lines end with carriage returns alone, convert them: "
    "tr '\\r' '\\n' < old.csv > new.csv"
)

RecordWithOffset = tuple[Record, int]
"""A record, and the byte at which the next one begins; 0 where there is no such byte."""


def read(source: Source, options: ReadOptions, skip: int = 0, offset: int = 0) -> Iterator[RecordWithOffset]:
    """Yield the records of a source, each with the offset of the next.

    Parameters
    ----------
    source
        What to read.
    options
        What to take from each record.
    skip
        How many records to leave out at the beginning.
    offset
        Where the record after those begins, as an earlier reading returned it; 0 if unknown.
    """
    number = skip
    try:
        for record, next_offset in READERS[source.kind](source, options).records(skip, offset):
            number = record.number
            yield record._replace(source=source.name), next_offset
    except FileNotFoundError as error:
        raise InputError(f"no such file: {source.path}") from error
    except PermissionError as error:
        raise InputError(f"{source.path} cannot be read: no permission.") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system failed, not the file
            raise InputError(f"{source.path} cannot be read: {error.strerror}. Try again once it can.") from error
        # The file is damaged or breaks off. What comes before that was read; the last record says so.
        number += 1
        reason = f"the file cannot be read on: {error}"
        yield Record(f"{source.name}:{number}", "", number, "file", reason, source.name), 0


class RecordReader(ABC):
    """Reads the records of one source."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self.source = source
        self.options = options

    @abstractmethod
    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield the records after the first ``skip``, of which the next begins at ``offset`` if that is known."""

    def default_id(self, number: int) -> str:
        """Return the id of a record that has none of its own."""
        return f"{self.source.name}:{number}"

    def from_row(self, number: int, row: Mapping[str, Any]) -> Record:
        """Return the record that a row of a table makes."""
        return record_from_row(self.default_id(number), number, row, self.options)

    def problem(self, number: int, problem: str, reason: str) -> Record:
        """Return a record that has no text."""
        return Record(self.default_id(number), "", number, problem, reason)

    def blank(self, number: int) -> Record:
        """Return the record of an empty line."""
        return Record(self.default_id(number), "", number)

    def require_columns(self, present: Sequence[str]) -> None:
        """Raise unless the columns of texts and ids are present."""
        names = ("text_column", "id_column")
        for option, column in zip(names, self.options.columns, strict=False):
            require_columns(self.source.path, [column], present, f"Choose one with `{option}`.")


class TextLines(RecordReader):
    """A text on each line."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield a record for each line."""
        max_bytes = longest_line(self.options, MAX_UTF8_BYTES)
        for number, line, next_offset in numbered_lines(self.source, skip, offset, max_bytes):
            if line is None:
                record = self.problem(number, "too long", self.options.too_long)
            else:
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                record = record_from_bytes(self.default_id(number), number, text)
            yield record, next_offset


class WholeFile(RecordReader):
    """A file that is one text."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield the only record; its id is the name of the file."""
        if skip:
            return
        name = self.source.name
        most = self.options.max_characters
        max_bytes = UNLIMITED if most is None else MAX_UTF8_BYTES * most + len(UTF8_MARK)
        with open_source(self.source) as file:
            data = file.read() if most is None else file.read(max_bytes + 1)
        if len(data) > max_bytes:
            yield Record(name, "", 1, "too long", self.options.too_long), 0
        else:
            yield record_from_bytes(name, 1, data.removeprefix(UTF8_MARK)), 0


class JsonLinesRecords(RecordReader):
    """A JSON object on each line."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield a record for each line."""
        max_bytes = longest_line(self.options, MAX_JSON_BYTES)
        for number, line, next_offset in numbered_lines(self.source, skip, offset, max_bytes):
            yield self._record(number, line), next_offset

    def _record(self, number: int, line: bytes | None) -> Record:
        if line is None:
            return self.problem(number, "too long", self.options.too_long)
        text, reason = decode_record(line)
        if reason:
            return self.problem(number, "encoding", reason)
        if not text.strip():
            return self.blank(number)
        try:
            row = parse_object(text)
        except InputError as error:
            return self.problem(number, "format", str(error))
        return self.from_row(number, row)


class DelimitedRecords(RecordReader):
    """CSV or TSV with a header, by the same rules as a table that is read whole."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield a record for each row; the header is read even where the rest is read from an offset."""
        with open_source(self.source) as file:
            lines = DecodedLines(file, longest_line(self.options, MAX_UTF8_BYTES))
            rows, header = self._open(lines)
            number = 0
            if offset and not self.source.compression:
                lines.seek(offset)
                number = skip
            while (row := self._next_row(lines, rows)) is not None:
                number += 1
                if number > skip:
                    yield self._record(number, header, row, lines.row_is_too_long), lines.offset

    def _open(self, lines: DecodedLines) -> tuple[Iterator[list[str]], list[str]]:
        """Return the rows, and the header, which was read already."""
        first_line = next(lines, "")
        delimiter = find_delimiter(first_line, self.source.kind)
        quoted = delimiter != "\t" or not _has_bare_quotes(self.source, self.options)
        rows = strict_reader(chain([first_line], lines), delimiter, quoted)
        header = self._parse(lines, rows) or []
        self.require_columns(header)
        return rows, header

    def _next_row(self, lines: DecodedLines, rows: Iterator[list[str]]) -> list[str] | None:
        lines.begin_row()
        return self._parse(lines, rows)

    def _parse(self, lines: DecodedLines, rows: Iterator[list[str]]) -> list[str] | None:
        """Return the next row, None at the end; raise where quotation marks do not match: rows would be lost."""
        try:
            return next(rows, None)
        except csv.Error as error:
            place = f", line {lines.row_line}" if lines.row_line else ""
            problem = CARRIAGE_RETURN if "new-line character" in str(error) else quotes_problem(error)
            raise InputError(f"{self.source.path}{place}: {problem}") from None

    def _record(self, number: int, header: Sequence[str], row: Sequence[str], is_too_long: bool) -> Record:
        if not row:
            return self.blank(number)
        most = self.options.max_characters or UNLIMITED
        if is_too_long or any(len(cell) > most for cell in row):
            return self.problem(number, "too long", self.options.too_long)
        if len(row) != len(header):
            return self.problem(number, "format", width_problem(row, header))
        return self.from_row(number, dict(zip(header, row, strict=True)))


def _has_bare_quotes(source: Source, options: ReadOptions) -> bool:
    """Return True if the quotation marks of a TSV do not quote, which only the whole file can tell."""
    stat = Path(source.path).stat()
    return _has_bare_quotes_cached(source, options, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1024)
def _has_bare_quotes_cached(source: Source, options: ReadOptions, _size: int, _modified: int) -> bool:
    def read_lines() -> Iterator[str]:
        with open_source(source) as file:
            lines = DecodedLines(file, longest_line(options, MAX_UTF8_BYTES))
            for line in lines:
                lines.begin_row()
                yield line

    return has_bare_quotes(read_lines)


class ParquetRecords(RecordReader):
    """A Parquet file; row groups before the first wanted record are not read."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield a record for each row."""
        import pyarrow as pa

        if not Path(self.source.path).is_file():
            raise InputError(f"no such file: {self.source.path}")
        with open_parquet(self.source.path, self.source.path) as file:
            self.require_columns(file.schema_arrow.names)
            rows_before = 0
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if rows_before + n_rows > skip:
                    try:
                        yield from self._row_group(file, group, rows_before, skip)
                    except pa.ArrowException as error:
                        raise OSError(str(error).splitlines()[0]) from error
                rows_before += n_rows

    def _row_group(self, file: Any, group: int, rows_before: int, skip: int) -> Iterator[RecordWithOffset]:
        batches = file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=self.options.columns)
        for batch in batches:
            n_skipped = max(0, min(skip - rows_before, batch.num_rows))
            first_number = rows_before + n_skipped + 1
            for number, row in enumerate(batch.slice(n_skipped).to_pylist(), start=first_number):
                yield self.from_row(number, row), 0
            rows_before += batch.num_rows


class HubRecords(RecordReader):
    """A Hugging Face data set, fetched as it is read."""

    def records(self, skip: int, offset: int) -> Iterator[RecordWithOffset]:
        """Yield a record for each row."""
        for number, row in enumerate(hub_datasets.rows(self.source.path, skip), start=skip + 1):
            if number == skip + 1:
                self.require_columns(list(row))
            record = self.from_row(number, row)
            yield record._replace(text=hub_datasets.clean(record.text)), 0


READERS: dict[str, type[RecordReader]] = {
    "lines": TextLines,
    "whole": WholeFile,
    "jsonl": JsonLinesRecords,
    "csv": DelimitedRecords,
    "tsv": DelimitedRecords,
    "parquet": ParquetRecords,
    "hub": HubRecords,
}
"""How each kind of source is read."""
