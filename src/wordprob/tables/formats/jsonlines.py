"""JSON lines: every object is kept as it was written, and is written again with more keys at its end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, plain_values
from wordprob.tables.formats.encoding import UTF8, Encoding, decode
from wordprob.tables.formats.frame import series_of

if TYPE_CHECKING:
    import pandas as pd


class JsonLines(Sheet):
    """A file with a JSON object on each line."""

    format = "jsonl"

    def __init__(
        self,
        name: str,
        raws: Sequence[str],
        lines: Sequence[int],
        rows: Sequence[dict[str, Any]],
        encoding: Encoding = UTF8,
    ) -> None:
        self.name = name
        self.encoding = encoding
        self._raws = raws
        self._lines = lines
        self._rows = rows
        self.columns = tuple(dict.fromkeys(key for row in rows for key in row))

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, row: int) -> str:
        """Return the line that a row is on, for messages."""
        return f"{self.name}, line {self._lines[row]}"

    def cells(self, column: str) -> list[Any]:
        """Return a key's values; None where an object has no such key."""
        return [row.get(column) for row in self._rows]

    def frame(self) -> pd.DataFrame:
        """Return the objects as rows, their values as JSON has them."""
        import pandas as pd

        return pd.DataFrame({name: series_of(self.cells(name)) for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> JsonLines:
        """Return some objects and keys."""
        lines = [self._lines[position] for position in rows.tolist()]
        selected = []
        for position in rows.tolist():
            row = self._rows[position]
            selected.append({key: row[key] for key in columns if key in row})
        ends = [_line_end(self._raws[position]) for position in rows.tolist()]
        raws = [dump(row) + end for row, end in zip(selected, ends, strict=True)]
        return JsonLines(self.name, raws, lines, selected, self.encoding)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the objects as they were, each with the new keys behind its own."""
        lines = []
        for position, new_keys in zip(rows.tolist(), records(added), strict=True):
            raw = self._raws[position]
            own = raw.rstrip().removesuffix("}").rstrip()
            comma = "" if own.lstrip() == "{" else ", "
            new = dump(new_keys).removeprefix("{")
            lines.append(f"{own}{comma}{new}{_line_end(raw)}")
        return self.encoding.encode("".join(lines), self.name)


def _line_end(raw: str) -> str:
    """Return the line end of a line; the last line of a file may have none, and gets one."""
    return "\r\n" if raw.endswith("\r\n") or raw.endswith("\r") else "\n"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a data frame as JSON can hold them: a number that is missing or infinite is ``None``."""
    names = [str(name) for name in frame.columns]
    columns = [plain_values(frame.iloc[:, n]) for n in range(len(names))]
    if not columns:
        return [{} for _ in range(len(frame))]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def dump(row: dict[str, Any] | list[Any]) -> str:
    """Return an object on one line; values that JSON has no type for, such as dates, are written as text."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False, default=str)


def parse_object(line: str) -> dict[str, Any]:
    """Return the JSON object on a line; raise :class:`InputError` with the reason if there is none.

    Examples
    --------
    >>> parse_object("[1]")
    Traceback (most recent call last):
    wordprob.errors.InputError: not a JSON object but list
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} (character {error.pos + 1})") from None
    except (ValueError, RecursionError) as error:  # a number of too many digits, or objects too deep in each other
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"not a JSON object but {type(row).__name__}")
    return row


def read_jsonlines(data: bytes, name: str, encoding: str | None = None) -> JsonLines:
    """Read a file with a JSON object on each line."""
    text, found_encoding = decode(data, name, encoding)
    if text.lstrip().startswith("["):
        raise InputError(f"{name} is one JSON list; write an object on each line: jq -c '.[]' '{name}' > rows.jsonl")
    raws, numbers, rows = [], [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            raws.append(line)
            numbers.append(number)
            rows.append(_row(line, f"{name}, line {number}"))
    if not rows:
        raise InputError(f"{name} is empty; it should have a JSON object on each line.")
    sheet = JsonLines(name, raws, numbers, rows, found_encoding)
    if not sheet.columns:
        raise InputError(f"{name}: its objects have no keys.")
    return sheet


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        return parse_object(line)
    except InputError as error:
        raise InputError(f"{where}: {error}.") from None
