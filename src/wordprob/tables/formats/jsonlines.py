"""JSON lines: every object is kept as it was written, and comes out with more keys at its end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.tables.formats.base import Sheet, plain
from wordprob.tables.formats.encoding import decode

if TYPE_CHECKING:
    import pandas as pd


class JsonLines(Sheet):
    """A file with a JSON object on each line."""

    format = "jsonl"

    def __init__(self, name: str, raws: Sequence[str], lines: Sequence[int], rows: Sequence[dict[str, Any]]) -> None:
        self.name, self._raws, self._lines, self._rows = name, raws, lines, rows
        self.columns = tuple(dict.fromkeys(key for row in rows for key in row))

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, row: int) -> str:
        """Say which line a row is on."""
        return f"{self.name}, line {self._lines[row]}"

    def cells(self, column: str) -> list[Any]:
        """Return a key's values; None where an object has no such key."""
        return [row.get(column) for row in self._rows]

    def frame(self) -> pd.DataFrame:
        """Return the objects as rows, their values as JSON has them."""
        import pandas as pd

        return pd.DataFrame({name: pd.Series(self.cells(name), dtype=object).infer_objects() for name in self.columns})

    def select(self, rows: Ints, columns: Sequence[str]) -> JsonLines:
        """Return some objects and keys."""
        at = rows.tolist()
        chosen = [{key: self._rows[n][key] for key in columns if key in self._rows[n]} for n in at]
        return JsonLines(self.name, [dump(row) for row in chosen], [self._lines[n] for n in at], chosen)

    def render(self, rows: Ints, added: pd.DataFrame) -> bytes:
        """Return the objects as they were, each with the new keys behind its own."""
        lines = []
        for row, *values in zip(rows.tolist(), *(added[name].tolist() for name in added.columns), strict=True):
            more = dump(dict(zip(added.columns, map(plain, values), strict=True)))
            head = self._raws[row].rstrip().removesuffix("}").rstrip()
            lines.append(f"{head}{'' if head == '{' else ', '}{more.removeprefix('{')}\n")
        return "".join(lines).encode("utf-8")


def dump(row: dict[str, Any]) -> str:
    """Return an object on one line; dates and the like as text."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False, default=str)


def read_jsonlines(data: bytes, name: str) -> JsonLines:
    """Read a file with a JSON object on each line."""
    text, _ = decode(data, name)
    if text.lstrip().startswith("["):
        raise InputError(f"{name} is one JSON list; write an object on each line: jq -c '.[]' '{name}' > rows.jsonl")
    raws, lines, rows = [], [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            raws.append(line.strip())
            lines.append(number)
            rows.append(_object(line, f"{name}, line {number}"))
    if not rows:
        raise InputError(f"{name} is empty; it should have a JSON object on each line.")
    found = JsonLines(name, raws, lines, rows)
    if not found.columns:
        raise InputError(f"{name}: its objects have no keys.")
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error.msg} (character {error.pos + 1}).") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: a {type(row).__name__} where an object {{…}} should be.")
    return row
