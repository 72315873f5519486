"""How each kind of source is read: a record at a time, from any record on, whatever is wrong with a record.

Every reader yields ``(record, offset)``, where ``offset`` is the byte at which the next record begins; a plain file can
be read on from there. What is compressed has no such place, and is read through from the beginning.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from wordprob.errors import InputError, did_you_mean
from wordprob.sources import hub
from wordprob.sources.discovery import Source

BOM = b"\xef\xbb\xbf"
BATCH = 128
"""Rows of a Parquet file in hand at a time."""
ENDLESS = 1 << 60
PIECE = 1 << 20


class Record(NamedTuple):
    """A text, or why there is none.

    ``number`` counts the records of its source from 1: in a file of lines it is the line. ``problem`` is empty for a
    text; otherwise it is a kind of trouble (``encoding``, ``format``, ``too long``, ``empty``, ``id`` or ``file``), and
    ``reason`` a sentence.
    """

    id: str
    text: str
    number: int
    problem: str = ""
    reason: str = ""
    source: str = ""


Place = tuple[Record, int]


@dataclass(frozen=True)
class ReadOptions:
    """What to take from a record.

    Attributes
    ----------
    text_column, id_column
        The columns of texts and ids in tables; without the latter, ids are made from the file's name and the number.
    max_characters
        Longer texts are not kept, nor ever held in memory whole; ``None`` keeps all.
    """

    text_column: str = "text"
    id_column: str | None = None
    max_characters: int | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [name for name in (self.text_column, self.id_column) if name is not None]


def read(source: Source, how: ReadOptions, number: int = 0, offset: int = 0) -> Iterator[Place]:
    """Yield the records of a source after the first ``number``, each with the offset of the one after it.

    ``offset`` is where record ``number`` begins, as an earlier reading told; 0 where it did not.
    """
    readers: dict[str, Callable[[Source, ReadOptions, int, int], Iterator[Place]]] = {
        "lines": _lines,
        "whole": _whole,
        "jsonl": _jsonl,
        "csv": _delimited,
        "tsv": _delimited,
        "parquet": _parquet,
        "hub": _hub,
    }
    return _to_the_end(source, readers[source.kind](source, how, number, offset), number)


def _to_the_end(source: Source, places: Iterator[Place], number: int) -> Iterator[Place]:
    """Turn a file that breaks off into a last record that says so."""
    try:
        for place in places:
            number = place[0].number
            yield place[0]._replace(source=source.name), place[1]
    except FileNotFoundError as error:
        raise InputError(f"no such file: {source.path}") from error
    except PermissionError as error:
        raise InputError(f"{source.path} cannot be read: no permission.") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = f"the file cannot be read on: {error}"
        yield Record(f"{source.name}:{number + 1}", "", number + 1, "file", reason, source.name), 0


# --- bytes -----------------------------------------------------------------------------------------------------------


def _open(source: Source) -> IO[bytes]:
    path = Path(source.path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    if source.compression == ".zst":
        import pyarrow as pa

        return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")))
    how: dict[str, Any] = {"": Path.open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast("IO[bytes]", how[source.compression](path, "rb"))


def _raw_lines(file: IO[bytes], offset: int, longest: int) -> Iterator[tuple[bytes | None, int]]:
    """Yield each line and where the next begins; ``None`` for one that is too long, which is passed over in pieces."""
    while line := file.readline(longest):
        offset += len(line)
        if len(line) == longest and not line.endswith(b"\n"):
            while piece := file.readline(PIECE):
                offset += len(piece)
                if piece.endswith(b"\n"):
                    break
            yield None, offset
        else:
            yield line, offset


def _from(source: Source, file: IO[bytes], how: ReadOptions, number: int, offset: int, slack: int) -> Iterator[Any]:
    """Yield ``number, line, offset`` from a record on, by seeking where a file allows it."""
    begin = offset if offset and not source.compression else 0
    if begin:
        file.seek(begin)
    lines = _raw_lines(file, begin, _longest(how, slack))
    for n, (line, after) in enumerate(lines, start=number + 1 if begin else 1):
        if n > number:
            yield n, line.removeprefix(BOM) if line is not None and n == 1 else line, after


def _longest(how: ReadOptions, slack: int) -> int:
    """Return how many bytes a line may have, if a character takes ``slack`` at most."""
    return ENDLESS if how.max_characters is None else slack * how.max_characters + PIECE


def _decode(data: bytes) -> tuple[str, str]:
    """Return the text, or what is wrong with its bytes."""
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"not UTF-8: byte {error.start} of the record is 0x{data[error.start]:02X}"


def _too_long(how: ReadOptions) -> str:
    return f"longer than {how.max_characters} characters; raise --max-characters to take it"


# --- texts -----------------------------------------------------------------------------------------------------------


def _lines(source: Source, how: ReadOptions, number: int, offset: int) -> Iterator[Place]:
    with _open(source) as file:
        for n, line, after in _from(source, file, how, number, offset, 4):
            name = f"{source.name}:{n}"
            if line is None:
                yield Record(name, "", n, "too long", _too_long(how)), after
                continue
            text, wrong = _decode(line.removesuffix(b"\n").removesuffix(b"\r"))
            yield Record(name, text, n, "encoding" if wrong else "", wrong), after


def _whole(source: Source, how: ReadOptions, number: int, _: int) -> Iterator[Place]:
    if number:
        return
    with _open(source) as file:
        data = file.read(-1 if how.max_characters is None else 4 * how.max_characters + 4)
    if how.max_characters is not None and len(data) > 4 * how.max_characters + 3:
        yield Record(source.name, "", 1, "too long", _too_long(how)), 0
        return
    text, wrong = _decode(data.removeprefix(BOM))
    yield Record(source.name, text, 1, "encoding" if wrong else "", wrong), 0


# --- tables ----------------------------------------------------------------------------------------------------------


def _record(source: Source, how: ReadOptions, number: int, row: dict[str, Any]) -> Record:
    """Make a record from a row of a table."""
    own = f"{source.name}:{number}"
    name = own if how.id_column is None else row.get(how.id_column)
    if name is None or str(name) == "":
        return Record(own, "", number, "id", f"no id in '{how.id_column}'")
    text = row.get(how.text_column)
    if isinstance(text, bytes):
        text, wrong = _decode(text)
        return Record(str(name), text, number, "encoding" if wrong else "", wrong)
    if text is None and how.text_column in row:
        return Record(str(name), "", number, "empty", f"'{how.text_column}' is null")
    if not isinstance(text, str):
        there = f"only {', '.join(map(str, row))}" if how.text_column not in row else f"but {text!r:.40}"
        reason = f"no text in '{how.text_column}', {there}. Give another --text-column"
        return Record(str(name), "", number, "format", reason)
    for value in (text, str(name)):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            return Record(own, "", number, "encoding", "not UTF-8, or half a surrogate pair, which is no character")
    return Record(str(name), text, number)


def _jsonl(source: Source, how: ReadOptions, number: int, offset: int) -> Iterator[Place]:
    with _open(source) as file:
        # A character may take twelve bytes of JSON: two escapes of six.
        for n, line, after in _from(source, file, how, number, offset, 12):
            yield _json_record(source, how, n, line), after


def _json_record(source: Source, how: ReadOptions, number: int, line: bytes | None) -> Record:
    own = f"{source.name}:{number}"
    if line is None:
        return Record(own, "", number, "too long", _too_long(how))
    text, wrong = _decode(line)
    if wrong:
        return Record(own, "", number, "encoding", wrong)
    if not text.strip():
        return Record(own, "", number)
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Record(own, "", number, "format", f"not JSON: {getattr(error, 'msg', error)}")
    if not isinstance(row, dict):
        return Record(own, "", number, "format", f"not a JSON object but {type(row).__name__}")
    return _record(source, how, number, row)


def _delimited(source: Source, how: ReadOptions, number: int, offset: int) -> Iterator[Place]:
    csv.field_size_limit(min(ENDLESS, how.max_characters or ENDLESS))
    with _open(source) as file:
        lines = _Decoded(file, _longest(how, 4))
        rows = csv.reader(lines, delimiter="\t" if source.kind == "tsv" else ",")
        header = next(rows, [])
        require(header, how.columns, source.path)
        begin = number if offset and not source.compression else 0
        if begin:
            lines.seek(offset)
        n = begin
        while True:
            n += 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                reason = f"{error}; {_too_long(how)}, or look for a quotation mark that is not closed"
                record = Record(f"{source.name}:{n}", "", n, "too long", reason)
            else:
                record = _row_record(source, how, n, header, row)
            if n > number:
                yield record, lines.offset


def _row_record(source: Source, how: ReadOptions, number: int, header: Sequence[str], row: Sequence[str]) -> Record:
    if not row:
        return Record(f"{source.name}:{number}", "", number)
    if len(row) != len(header):
        reason = f"{len(row)} cells where the header has {len(header)}"
        return Record(f"{source.name}:{number}", "", number, "format", reason)
    return _record(source, how, number, dict(zip(header, row, strict=True)))


class _Decoded:
    """Lines for the CSV reader, which know where they end; bytes that are no UTF-8 become surrogates, found later."""

    def __init__(self, file: IO[bytes], longest: int) -> None:
        self._file, self._longest = file, longest
        self.offset = 0
        self._lines = _raw_lines(file, 0, longest)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        begin = self.offset
        line, self.offset = next(self._lines)
        if line is None:
            raise csv.Error("line too long")
        return (line if begin else line.removeprefix(BOM)).decode("utf-8", "surrogateescape")

    def seek(self, offset: int) -> None:
        """Go on from a byte."""
        self._file.seek(offset)
        self.offset = offset
        self._lines = _raw_lines(self._file, offset, self._longest)


def _parquet(source: Source, how: ReadOptions, number: int, _: int) -> Iterator[Place]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(source.path).is_file():
        raise InputError(f"no such file: {source.path}")
    try:
        file = pq.ParquetFile(source.path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{source.path} is no Parquet file: {str(error).splitlines()[0]}") from error
    with file:
        require(file.schema_arrow.names, how.columns, source.path)
        before = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if before + rows > number:
                try:
                    yield from _row_group(source, how, file, group, before, number)
                except pa.ArrowException as error:
                    raise OSError(str(error).splitlines()[0]) from error
            before += rows


def _row_group(source: Source, how: ReadOptions, file: Any, group: int, before: int, number: int) -> Iterator[Place]:
    for batch in file.iter_batches(batch_size=BATCH, row_groups=[group], columns=how.columns):
        skipped = max(0, min(number - before, batch.num_rows))
        for n, row in enumerate(batch.slice(skipped).to_pylist(), start=before + skipped + 1):
            yield _record(source, how, n, row), 0
        before += batch.num_rows


def _hub(source: Source, how: ReadOptions, number: int, _: int) -> Iterator[Place]:
    for n, row in enumerate(hub.rows(source.path, number), start=number + 1):
        if n == number + 1:
            require(list(row), how.columns, source.path)
        record = _record(source, how, n, dict(row))
        yield record._replace(text=hub.clean(record.text)), 0


def require(there: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raise, unless all ``columns`` are there; say which is not, and what is."""
    for option, name in zip(("--text-column", "--id-column"), columns, strict=False):
        if name not in there:
            raise InputError(f"{where} has no column '{name}'. {did_you_mean(name, there)} Choose one with {option}.")
