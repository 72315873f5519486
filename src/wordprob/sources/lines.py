"""Lines of plain and compressed files, each with the byte offset at which the next one begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from wordprob.errors import InputError
from wordprob.sources.discovery import Source
from wordprob.sources.records import ReadOptions
from wordprob.tables.formats.compression import open_file
from wordprob.tables.formats.encoding import UTF8_MARK

MAX_UTF8_BYTES = 4
"""The most bytes that a character takes in UTF-8."""

MAX_JSON_BYTES = 12
"""The most bytes that a character takes in JSON: two escapes of six."""

PIECE_BYTES = 1 << 20
"""How much of a line that is too long is read at a time; also what a line may have besides its text."""

UNLIMITED = 1 << 60

LETTERS = re.compile(rb'[^",;\t\r\n]+')
"""What does not matter for where the cells and rows of a table end."""


class NumberedLine(NamedTuple):
    """A line, its number from 1, and where the next begins; the line is ``None`` if it is too long to be held."""

    number: int
    data: bytes | None
    next_offset: int


def open_source(source: Source) -> IO[bytes]:
    """Open a file for reading, decompressed."""
    path = Path(source.path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    return open_file(path)


def longest_line(options: ReadOptions, bytes_per_character: int) -> int:
    """Return the bytes that a line may have, if a character takes so many at most."""
    if options.max_characters is None:
        return UNLIMITED
    return bytes_per_character * options.max_characters + PIECE_BYTES


def raw_lines(file: IO[bytes], offset: int, max_bytes: int) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line and the offset of the next; ``None`` for a line that is too long, which is skipped in pieces."""
    while line := file.readline(max_bytes):
        offset += len(line)
        if len(line) < max_bytes or line.endswith(b"\n"):
            yield line, offset
            continue
        while piece := file.readline(PIECE_BYTES):
            offset += len(piece)
            if piece.endswith(b"\n"):
                break
        yield None, offset


def numbered_lines(source: Source, skip: int, offset: int, max_bytes: int) -> Iterator[NumberedLine]:
    """Yield the lines of a file after the first ``skip``.

    ``offset`` is where the line after those begins, 0 if unknown. A plain file is read from there; a compressed one
    has to be read from its beginning.
    """
    begin = 0 if source.compression else offset
    with open_source(source) as file:
        if begin:
            file.seek(begin)
        first_number = skip + 1 if begin else 1
        for number, (line, next_offset) in enumerate(raw_lines(file, begin, max_bytes), start=first_number):
            if number > skip:
                if number == 1 and line is not None:
                    line = line.removeprefix(UTF8_MARK)
                yield NumberedLine(number, line, next_offset)


class DecodedLines:
    """Lines for the csv module that know their offset; bytes that are not UTF-8 become surrogates, found later.

    A row that is too long is passed on without its letters: enough for the csv module to find where the row ends, and
    not too much to be held in memory.
    """

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._row_bytes = 0
        self._line = 0
        self.offset = 0
        self.row_is_too_long = False
        self.row_line = 1
        """The number of the line on which the row begins; it is not known, and 0, after a ``seek``."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        is_first = self.offset == 0
        line = b"".join(self._pieces())
        if not line:
            raise StopIteration
        if is_first:
            line = line.removeprefix(UTF8_MARK)
        self._line += 1
        return line.decode("utf-8", "surrogateescape")

    def _pieces(self) -> Iterator[bytes]:
        """Yield the next line in pieces, of which those beyond the longest row have no letters."""
        while piece := self._file.readline(PIECE_BYTES):
            self.offset += len(piece)
            self._row_bytes += len(piece)
            self.row_is_too_long = self.row_is_too_long or self._row_bytes > self._max_bytes
            yield LETTERS.sub(b"x", piece) if self.row_is_too_long else piece
            if piece.endswith(b"\n"):
                return

    def begin_row(self) -> None:
        """Take note that the next line begins a row."""
        self._row_bytes = 0
        self.row_is_too_long = False
        self.row_line = self._line + 1 if self.row_line else 0

    def seek(self, offset: int) -> None:
        """Continue from a byte offset."""
        self._file.seek(offset)
        self.offset = offset
        self.row_line = 0
