"""How a table holds its texts: one on each row, or one word on each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from wordprob.errors import AlignmentError, InputError, OptionError
from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing

TEXT_NAMES = ("text", "sentence", "stimulus", "passage", "paragraph", "story_text", "item_text")
WORD_NAMES = ("word", "token", "wort", "mot", "palabra", "parola")
GROUP_NAMES = (
    "participant", "subject", "subj", "list", "text_id", "item", "item_id", "condition", "cond", "sentence_id",
    "sent_id", "sentence", "story", "passage", "trial",
)  # fmt: skip
"""Names, whatever their case, that tell what a column holds when nobody says; of the groups all count."""

TRUE = frozenset({"true", "t", "yes", "y", "1", "_", " "})
FALSE = frozenset({"false", "f", "no", "n", "0", "spaceafter=no", ""})
"""What a column for --space-after may hold; the last of each as spaCy's ``whitespace_`` and CoNLL-U have it."""


@dataclass(frozen=True)
class Layout:
    """The texts of a table.

    Attributes
    ----------
    texts
        What is scored, in the order of the table.
    words
        The words of each text, where they are given.
    rows
        The rows that each text has.
    text_column, word_column, group_by, space_after
        The columns this comes from.
    """

    texts: list[str]
    words: list[list[str]] | None
    rows: list[list[int]]
    text_column: str | None = None
    word_column: str | None = None
    group_by: tuple[str, ...] = ()
    space_after: str | None = None

    @property
    def by_word(self) -> bool:
        """Whether a row is a word."""
        return self.word_column is not None

    def about(self) -> dict[str, str]:
        """Return what goes into the metadata."""
        return {
            "text_column": self.text_column or "",
            "word_column": self.word_column or "",
            "group_by": ",".join(self.group_by),
            "space_after": self.space_after or "",
        }


def lay_out(
    sheet: Sheet,
    text_column: str | None = None,
    word_column: str | None = None,
    group_by: str | Sequence[str] | None = None,
    space_after: str | None = None,
) -> Layout:
    """Find the texts of a table; what is not said is told by the names of its columns."""
    chosen = parse_columns(sheet, group_by)
    if text_column is None and word_column is None:
        text_column, word_column = _detect(sheet)
    sheet.require(*(name for name in (text_column, word_column, *(chosen or ()), space_after) if name is not None))
    if word_column is None:
        if chosen is not None or space_after:
            raise OptionError(
                "--group-by and --space-after are for a word on each row; name that column with --word-column."
            )
        texts = _strings(sheet, str(text_column), blank="")
        return Layout(texts, None, [[n] for n in range(len(sheet))], text_column)
    if text_column is not None and space_after is not None:
        raise OptionError("--text-column says how the words are spaced already; leave --space-after out.")
    groups = _groups(sheet, word_column, text_column) if chosen is None else chosen
    rows = _rows(sheet, groups)
    cells = [cell.strip() for cell in _strings(sheet, word_column)]
    words = [[cells[n] for n in part] for part in rows]
    if text_column is None:
        texts = _join(sheet, words, rows, space_after)
    else:
        texts = _given_texts(sheet, text_column, words, rows)
    return Layout(texts, words, rows, text_column, word_column, groups, space_after)


# --- which columns -------------------------------------------------------------------------------------------------


def _named(sheet: Sheet, names: Iterable[str]) -> list[str]:
    by_name = {name.strip().lower(): name for name in reversed(sheet.columns)}
    return [by_name[name] for name in names if name in by_name]


def _detect(sheet: Sheet) -> tuple[str | None, str | None]:
    texts, words = _named(sheet, TEXT_NAMES), _named(sheet, WORD_NAMES)
    if not texts and not words:
        raise InputError(
            f"cannot tell which column of {sheet.name} holds the texts or words. It has: {', '.join(sheet.columns)}. "
            "Name it with --text-column (a text on each row) or --word-column (a word on each row)."
        )
    both = bool(texts and words)
    if both and not str(sheet.cells(texts[0])[0]).lstrip().startswith(str(sheet.cells(words[0])[0]).strip()):
        return None, words[0]  # a column such as 'sentence' may hold a number
    return (texts[0] if texts else None), (words[0] if words else None)


def _groups(sheet: Sheet, word_column: str, text_column: str | None) -> tuple[str, ...]:
    """Return the columns whose names say that they tell texts apart."""
    found = [name for name in _named(sheet, GROUP_NAMES) if name not in (word_column, text_column)]
    found = [name for name in found if not all(map(_blank, sheet.cells(name)))]
    found += [] if text_column is None else [text_column]
    if not found or len(_rows(sheet, found)) == len(sheet) > 1:
        there = [name for name in sheet.columns if name != word_column]
        raise InputError(
            f"which rows of {sheet.name} make a text? Say it with --group-by, for example --group-by "
            f"{','.join(there[:2]) or 'item'} (columns: {', '.join(sheet.columns)}); with --group-by none the table "
            "is one text."
        )
    return tuple(found)


def parse_columns(sheet: Sheet, given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Read a list of columns, or their names with commas between them; 'none' is the empty list."""
    if given is None or not isinstance(given, str):
        return None if given is None else tuple(given)
    if given in sheet.columns:
        return (given,)
    return () if given == "none" else tuple(name.strip() for name in given.split(",") if name.strip())


def _blank(value: object) -> bool:
    return is_missing(value) or (isinstance(value, str) and not value.strip())


# --- texts ---------------------------------------------------------------------------------------------------------


def _strings(sheet: Sheet, column: str, blank: str | None = None) -> list[str]:
    """Return a column as strings; ``blank`` stands for empty cells, which are an error without it."""
    return [_string(sheet, row, column, value, blank) for row, value in enumerate(sheet.cells(column))]


def _string(sheet: Sheet, row: int, column: str, value: Any, blank: str | None) -> str:
    if _blank(value):
        if blank is not None:
            return blank
        raise InputError(f"{sheet.place(row)}: no word in column '{column}'. Fill the cell, or take the row out.")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InputError(
        f"{sheet.place(row)}: column '{column}' holds {value!r}, which is no text. Store the column as text, written "
        "as people read it."
    )


def _rows(sheet: Sheet, groups: Sequence[str]) -> list[list[int]]:
    """Return the rows of each text: consecutive rows with the same values in ``groups``."""
    columns = [sheet.cells(name) for name in groups]
    for name, cells in zip(groups, columns, strict=True):
        empty = next((n for n, value in enumerate(cells) if _blank(value)), None)
        if empty is not None:
            raise InputError(
                f"{sheet.place(empty)}: no value in '{name}', so its text is not known. Fill the cell on every row "
                "(merged cells hold a value in the first row only)."
            )
    keys = list(zip(*columns, strict=True)) if columns else [()] * len(sheet)
    runs = [list(part) for _, part in groupby(range(len(sheet)), key=keys.__getitem__)]
    seen: dict[tuple[Any, ...], list[int]] = {}
    for run in runs:
        key = keys[run[0]]
        if key in seen:
            named = ", ".join(f"{name} = {value}" for name, value in zip(groups, key, strict=True))
            raise InputError(
                f"{sheet.place(run[0])}: {named} comes again, after other rows; its words before end at "
                f"{sheet.place(seen[key][-1]).removeprefix(sheet.name + ', ')}. If these are different texts, add the "
                "column that tells them apart to --group-by (a participant, say); if it is one text, sort the rows."
            )
        seen[key] = run
    return runs


def _join(sheet: Sheet, words: Sequence[list[str]], rows: Sequence[list[int]], space_after: str | None) -> list[str]:
    if space_after is None:
        return [" ".join(part) for part in words]
    spaced = _spaces(sheet, space_after)
    gaps = [[" " if spaced[n] else "" for n in part[:-1]] + [""] for part in rows]
    return ["".join(word + gap for word, gap in zip(*pair, strict=True)) for pair in zip(words, gaps, strict=True)]


def _spaces(sheet: Sheet, column: str) -> list[bool]:
    values = ["" if is_missing(value) else str(value) for value in sheet.cells(column)]
    marks = [value if value in ("", " ") else value.strip().lower() for value in values]
    blanks = set(marks) <= {"", " "} and " " in marks
    for row, mark in enumerate(marks):
        if (mark not in TRUE and mark not in FALSE) or (not mark and not blanks):
            raise InputError(
                f"{sheet.place(row)}: column '{column}' holds {values[row]!r}; a space after the word is true or false "
                "(or yes/no, 1/0, TRUE/FALSE)."
            )
    return [mark in TRUE for mark in marks]


def _given_texts(sheet: Sheet, column: str, words: Sequence[list[str]], rows: Sequence[list[int]]) -> list[str]:
    """Return the text that every row of a group repeats, and make sure that the words are those of the text."""
    cells = _strings(sheet, column)
    for part, found in zip(rows, words, strict=True):
        for before, after in pairwise(part):
            if cells[before] != cells[after]:
                raise InputError(
                    f"{sheet.place(after)}: the text in '{column}' is not that of the row before, though both rows "
                    "belong together by --group-by."
                )
        _check_words(sheet, cells[part[0]], found, part)
    return [cells[part[0]] for part in rows]


def _check_words(sheet: Sheet, text: str, found: Sequence[str], part: Sequence[int]) -> None:
    """Raise at the first row whose word does not come next in the text."""
    rest = text
    for word, row in zip(found, part, strict=True):
        rest = rest.lstrip()
        if not rest.startswith(word):
            raise AlignmentError(
                f"{sheet.place(row)}: the word is '{word}', but the text goes on with '{rest[:30]}'. The rows must "
                "give every word of the text, in order, as it is spelled there."
            )
        rest = rest[len(word) :]
    if rest.strip():
        raise AlignmentError(
            f"{sheet.place(part[-1])}: the rows end here, but the text goes on with '{rest.strip()[:30]}'."
        )
