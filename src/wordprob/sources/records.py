"""A record: one text of a source, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wordprob.tables.formats.encoding import decode_record

SHOWN_CHARACTERS = 40
"""How much of a value is quoted in a reason."""


class Record(NamedTuple):
    """A text, or why there is none.

    Attributes
    ----------
    id, text
        The text and its name.
    number
        Counts the records of a source from 1; in a file of lines it is the line.
    problem
        Empty for a text. Otherwise a class of problem: ``encoding``, ``format``, ``too long``, ``empty``, ``id`` or
        ``file``.
    reason
        What the problem is, in words.
    source
        The name of the source.
    """

    id: str
    text: str
    number: int
    problem: str = ""
    reason: str = ""
    source: str = ""


@dataclass(frozen=True)
class ReadOptions:
    """What to take from a record.

    Attributes
    ----------
    text_column, id_column
        The columns of texts and ids in tables. Without the latter, ids are made from the file's name and the number.
    max_characters
        Longer texts are left out, and never held in memory completely; ``None`` keeps all.
    """

    text_column: str = "text"
    id_column: str | None = None
    max_characters: int | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [name for name in (self.text_column, self.id_column) if name is not None]

    @property
    def too_long(self) -> str:
        """The reason for leaving out a text that is too long."""
        return f"longer than {self.max_characters} characters; raise `max_characters` to take it"


def record_from_bytes(record_id: str, number: int, data: bytes) -> Record:
    """Return the record that bytes in UTF-8 make, or one that says what is wrong with them."""
    text, reason = decode_record(data)
    return Record(record_id, text, number, "encoding" if reason else "", reason)


def record_from_row(default_id: str, number: int, row: Mapping[str, Any], options: ReadOptions) -> Record:
    """Return the record that a row of a table makes.

    Parameters
    ----------
    default_id
        The id of a record whose row has none.
    number
        The number of the record.
    row
        The row's values, by column.
    options
        The columns of texts and ids.
    """
    record_id = default_id if options.id_column is None else row.get(options.id_column)
    if record_id is None or str(record_id) == "":
        return Record(default_id, "", number, "id", f"no id in '{options.id_column}'")
    record_id = str(record_id)
    text = row.get(options.text_column)
    if isinstance(text, bytes):
        return record_from_bytes(record_id, number, text)
    if text is None and options.text_column in row:
        return Record(record_id, "", number, "empty", f"'{options.text_column}' is null")
    if not isinstance(text, str):
        return Record(record_id, "", number, "format", _no_text(row, options.text_column))
    if _has_surrogate(text) or _has_surrogate(record_id):
        reason = "not UTF-8, or half a surrogate pair, which is not a character"
        return Record(default_id, "", number, "encoding", reason)
    return Record(record_id, text, number)


def _no_text(row: Mapping[str, Any], column: str) -> str:
    """Return the reason for a row that has no text in its column."""
    if column in row:
        value = repr(row[column])[:SHOWN_CHARACTERS]
        return f"no text in '{column}', but {value}. Specify another `text_column`"
    return f"no text in '{column}', only {', '.join(map(str, row))}. Specify another `text_column`"


def _has_surrogate(value: str) -> bool:
    """Return True for text with half a surrogate pair, which is how bytes that are not UTF-8 are read as well."""
    return not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
