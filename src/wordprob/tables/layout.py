"""How a table holds its texts: a text on each row, or a word on each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any

import regex

from wordprob.errors import AlignmentError, InputError, OptionError
from wordprob.options import TableLayout
from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing
from wordprob.tables.grouping import GROUP_COLUMN_NAMES, Grouping, columns_called, consecutive, is_blank, rows_of_texts
from wordprob.tables.marks import UNSPACED, Span, read_marks

TEXT_COLUMN_NAMES = ("text", "sentence", "stimulus", "passage", "paragraph", "story_text", "item_text")
WORD_COLUMN_NAMES = ("word", "token", "wort", "mot", "palabra", "parola")
"""Names, in any case, that show what a column holds when it is not specified."""


SPACE_VALUES = frozenset({"true", "t", "yes", "y", "1", "_", " "})
NO_SPACE_VALUES = frozenset({"false", "f", "no", "n", "0", "spaceafter=no", ""})
"""What a column for ``space_after`` may hold; the last of each as in CoNLL-U and in spaCy's ``whitespace_``."""

Offsets = tuple[int, int]
"""Where a stretch of a text starts and ends, in characters."""

OFFSET = regex.compile(r"[+-]?[0-9]{1,18}")

SHOWN_CHARACTERS = 30
"""How much of a text is quoted in a message."""


@dataclass(frozen=True)
class Layout:
    """The texts of a table.

    Attributes
    ----------
    texts
        What is scored, in the order of the table.
    words
        The words of each text, where the table has them.
    rows
        The positions of each text's rows.
    text_column, word_column, group_by, space_after, start_column, end_column
        The columns that this comes from.
    spans
        The regions of each text that are asked about, where the texts are on rows and not all of their words count.
    target_column, marks
        Where these come from: a column, or marks in the texts.
    guessed
        Which of these were not specified but told by the names of columns.
    places
        Where the words of each text start and end, where the table has offsets instead of words.
    contexts
        What comes before each text, where a column has it. The texts are then the targets after these contexts.
    context_column
        That column.
    unscored
        Why texts are not scored, by the number of the text: no context, or no target.
    """

    texts: list[str]
    words: list[list[str]] | None
    rows: list[list[int]]
    text_column: str | None = None
    word_column: str | None = None
    group_by: tuple[str, ...] = ()
    space_after: str | None = None
    spans: list[list[Span]] | None = None
    target_column: str | None = None
    marks: str | None = None
    guessed: tuple[str, ...] = ()
    start_column: str | None = None
    end_column: str | None = None
    places: list[list[Offsets]] | None = None
    contexts: list[str] | None = None
    context_column: str | None = None
    unscored: Mapping[int, str] = field(default_factory=dict)

    @property
    def by_word(self) -> bool:
        """True if a row is a word, or a stretch of a text."""
        return self.word_column is not None or self.by_offsets

    @property
    def by_offsets(self) -> bool:
        """True if a row is a stretch of a text, which columns of offsets give."""
        return self.start_column is not None

    def guesses(self) -> dict[str, str]:
        """Return the options that were guessed, with their values as they would be specified."""
        values = {**self.to_metadata(), "group_by": ",".join(self.group_by) or "none"}
        return {name: values[name] for name in self.guessed}

    def to_metadata(self) -> dict[str, str]:
        """Return the columns that the texts come from, as the metadata has them."""
        return {
            "text_column": self.text_column or "",
            "word_column": self.word_column or "",
            "group_by": ",".join(self.group_by),
            "space_after": self.space_after or "",
            "context_column": self.context_column or "",
            "target_column": self.target_column or "",
            "marks": self.marks or "",
            "start_column": self.start_column or "",
            "end_column": self.end_column or "",
            "guessed": ",".join(self.guessed),
        }


def lay_out(sheet: Sheet, options: TableLayout) -> Layout:
    """Find the texts of a table; columns that are not specified are told by their names."""
    text_column, word_column, space_after = options.text_column, options.word_column, options.space_after
    start_column, end_column, sum_by = options.start_column, options.end_column, options.sum_by
    groups = parse_columns(sheet, options.group_by)
    if start_column is not None or end_column is not None:
        if word_column is not None or space_after is not None or sum_by is not None:
            raise OptionError(
                "`start_column` and `end_column` give stretches of a text; leave `word_column`, `space_after` and "
                "`sum_by` out."
            )
        return _spans_on_rows(sheet, text_column, groups, start_column, end_column)
    guessed: list[str] = []
    if text_column is None and word_column is None:
        text_column, word_column = _detect_columns(sheet)
        guessed = [
            name for name, found in (("text_column", text_column), ("word_column", word_column)) if found is not None
        ]
    used_columns = (text_column, word_column, *(groups or ()), space_after)
    sheet.require(*(name for name in used_columns if name is not None))
    if word_column is None:
        if groups is not None or space_after:
            raise OptionError(
                "`group_by` and `space_after` are for a word on each row; name that column with `word_column`."
            )
        return replace(_texts_on_rows(sheet, str(text_column)), guessed=tuple(guessed))
    if text_column is not None and space_after is not None:
        raise OptionError("`text_column` says how the words are spaced already; leave `space_after` out.")
    if groups is None:
        groups = _detect_groups(sheet, word_column, text_column, (space_after, sum_by))
        guessed.append("group_by")
    layout = _words_on_rows(sheet, text_column, word_column, groups, space_after)
    return replace(layout, guessed=tuple(guessed))


def _texts_on_rows(sheet: Sheet, text_column: str) -> Layout:
    texts = column_strings(sheet, text_column, blank="")
    return Layout(texts, None, [[row] for row in range(len(sheet))], text_column)


def _words_on_rows(
    sheet: Sheet, text_column: str | None, word_column: str, groups: tuple[str, ...], space_after: str | None
) -> Layout:
    rows = rows_of_texts(sheet, groups)
    cells = [cell.strip() for cell in column_strings(sheet, word_column)]
    words = [[cells[row] for row in rows_of_text] for rows_of_text in rows]
    if text_column is None:
        texts = _join_words(sheet, words, rows, space_after)
    else:
        texts = _repeated_texts(sheet, text_column, words, rows)
    return Layout(texts, words, rows, text_column, word_column, groups, space_after)


# --- stretches by their offsets ------------------------------------------------------------------------------------


def _spans_on_rows(
    sheet: Sheet,
    text_column: str | None,
    groups: tuple[str, ...] | None,
    start_column: str | None,
    end_column: str | None,
) -> Layout:
    """Return the texts of a table with a stretch on each row: the text, and where the stretch starts and ends in it."""
    if text_column is None or start_column is None or end_column is None:
        raise OptionError(
            "stretches of a text need three columns: specify `text_column`, `start_column` and `end_column`."
        )
    sheet.require(text_column, start_column, end_column, *(groups or ()))
    texts = column_strings(sheet, text_column, blank="")
    rows = rows_of_texts(sheet, groups) if groups else list(consecutive(range(len(sheet)), texts))
    starts, ends = _offsets(sheet, start_column), _offsets(sheet, end_column)
    for rows_of_text in rows:
        _check_offsets(sheet, texts, list(zip(starts, ends, strict=True)), rows_of_text)
    return Layout(
        texts=[texts[rows_of_text[0]] for rows_of_text in rows],
        words=None,
        rows=rows,
        text_column=text_column,
        group_by=groups or (),
        start_column=start_column,
        end_column=end_column,
        places=[[(starts[row], ends[row]) for row in rows_of_text] for rows_of_text in rows],
    )


def _offsets(sheet: Sheet, column: str) -> list[int]:
    """Return a column of offsets as numbers."""
    return [_offset(sheet, row, column, value) for row, value in enumerate(sheet.cells(column))]


def _offset(sheet: Sheet, row: int, column: str, value: Any) -> int:
    """Return one offset; Excel and pandas may hold 4 as 4.0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool) and not is_missing(value)
    if is_number and float(value).is_integer():
        return int(value)
    if isinstance(value, str) and OFFSET.fullmatch(value.strip()):
        return int(value)
    held = "no number" if is_blank(value) else repr(value)
    raise InputError(
        f"{sheet.place(row)}: column '{column}' holds {held}; an offset is a whole number of characters, from 0 on."
    )


def _check_offsets(sheet: Sheet, texts: Sequence[str], offsets: Sequence[Offsets], rows: Sequence[int]) -> None:
    """Raise at the first row of a text whose stretch is not in the text, or not after the one before."""
    text, position = texts[rows[0]], 0
    for row in rows:
        start, end = offsets[row]
        place = f"{sheet.place(row)}: the stretch from {start} to {end}"
        if texts[row] != text:
            raise InputError(
                f"{sheet.place(row)}: the text is not that of the row before, though both rows belong together by "
                "`group_by`."
            )
        if start >= end:
            raise InputError(f"{place} is empty; it must start before it ends.")
        if start < 0 or end > len(text):
            raise InputError(f"{place} is not in its text, which has {len(text)} characters.")
        if not text[start:end].strip():
            raise InputError(f"{place} holds nothing but white space.")
        if start < position:
            raise InputError(
                f"{place} begins before the one on the row before ends, at {position}. The stretches of a text do not "
                "overlap and come in order; if these rows belong to different texts, tell them apart with `group_by`."
            )
        position = end


# --- which columns -------------------------------------------------------------------------------------------------


def _detect_columns(sheet: Sheet) -> tuple[str | None, str | None]:
    """Return the column of texts and that of words, told by their names; one of them may be None.

    A column of numbers, such as the number of a sentence, is neither.
    """
    text_columns = [name for name in columns_called(sheet, TEXT_COLUMN_NAMES) if not _holds_numbers(sheet, name)]
    word_columns = [name for name in columns_called(sheet, WORD_COLUMN_NAMES) if not _holds_numbers(sheet, name)]
    if not text_columns and not word_columns:
        raise InputError(
            f"cannot tell which column of {sheet.name} holds the texts or words. It has: {', '.join(sheet.columns)}. "
            "Name it with `text_column` (a text on each row) or `word_column` (a word on each row)."
        )
    if text_columns and word_columns:
        first_text = str(sheet.cells(text_columns[0])[0]).lstrip()
        first_word = str(sheet.cells(word_columns[0])[0]).strip()
        if not first_text.startswith(first_word):
            return None, word_columns[0]  # a column such as 'sentence' may hold a code
        return text_columns[0], word_columns[0]
    if word_columns:
        return None, word_columns[0]
    _check_holds_texts(sheet, text_columns[0])
    return text_columns[0], None


def _holds_numbers(sheet: Sheet, column: str) -> bool:
    """Return True if a column holds whole numbers and nothing else."""
    cells = [str(value).strip() for value in sheet.cells(column) if not is_blank(value)]
    return bool(cells) and all(cell.isdecimal() for cell in cells)


def _check_holds_texts(sheet: Sheet, column: str) -> None:
    """Raise if each of several rows has a single word in a column that was taken for one of texts."""
    cells = [value.strip() for value in sheet.cells(column) if isinstance(value, str) and value.strip()]
    if len(cells) < 2 or any(len(cell.split()) > 1 or UNSPACED.search(cell) for cell in cells):
        return
    raise InputError(
        f"{sheet.name}: column '{column}' holds one word on every row. If these words make texts, specify "
        f"`word_column` '{column}' and, with `group_by`, the columns that tell texts apart; if each is a text of its "
        f"own, `text_column` '{column}'."
    )


def _detect_groups(
    sheet: Sheet, word_column: str, text_column: str | None, other_columns: Iterable[str | None]
) -> tuple[str, ...]:
    """Return the columns that tell texts apart, guessed from their names and checked against the data."""
    if text_column is None:
        return Grouping(sheet, word_column, other_columns).guess()
    # The words are looked up in their text, so that a wrong guess does not go unnoticed.
    named = columns_called(sheet, GROUP_COLUMN_NAMES)
    filled = [name for name in named if not all(is_blank(value) for value in sheet.cells(name))]
    return (*(name for name in filled if name not in (word_column, text_column)), text_column)


def with_marks(layout: Layout, marks: str, names: Sequence[str], places: Callable[[int], str]) -> Layout:
    """Return the layout of texts on rows whose regions are marked in them; the marks are no longer in the texts.

    Parameters
    ----------
    layout
        The texts with marks.
    marks, names
        As for :func:`wordprob.tables.marks.read_marks`.
    places
        A function that returns where a text is, for messages.
    """
    read = [read_marks(text, marks, names if text.strip() else (), places(n)) for n, text in enumerate(layout.texts)]
    spans = [regions for _, regions in read]
    if not any(spans):
        raise InputError(f"no text has a region marked with {marks}; an example: 'The puppet *fell* down.'")
    return replace(layout, texts=[text for text, _ in read], spans=spans, marks=marks)


def parse_columns(
    sheet: Sheet, columns: str | Sequence[str] | None, option: str = "group_by"
) -> tuple[str, ...] | None:
    """Return column names from a list, or from a string with commas between them; 'none' is the empty list."""
    if columns is None:
        return None
    if isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns):
        return tuple(columns)
    if not isinstance(columns, str):
        raise OptionError(f"`{option}` is {columns!r}; it must be the name of a column, or a list of names.")
    if columns in sheet.columns:
        return (columns,)
    if columns == "none":
        return ()
    return tuple(name.strip() for name in columns.split(",") if name.strip())


# --- texts ---------------------------------------------------------------------------------------------------------


def column_strings(sheet: Sheet, column: str, blank: str | None = None) -> list[str]:
    """Return a column as strings; ``blank`` replaces empty cells, which are an error without it."""
    return [_string(sheet, row, column, value, blank) for row, value in enumerate(sheet.cells(column))]


def _string(sheet: Sheet, row: int, column: str, value: Any, blank: str | None) -> str:
    if is_blank(value):
        if blank is not None:
            return blank
        raise InputError(f"{sheet.place(row)}: no word in column '{column}'. Fill the cell, or take the row out.")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InputError(
        f"{sheet.place(row)}: column '{column}' holds {value!r}, which is not text. Store the column as text, written "
        "as people read it."
    )


def _join_words(
    sheet: Sheet, words: Sequence[list[str]], rows: Sequence[list[int]], space_after: str | None
) -> list[str]:
    """Return the texts that words make, with a space after each or where a column has one."""
    if space_after is None:
        return [" ".join(words_of_text) for words_of_text in words]
    has_space = _read_spaces(sheet, space_after)
    texts = []
    for words_of_text, rows_of_text in zip(words, rows, strict=True):
        pieces = []
        for word, row in zip(words_of_text, rows_of_text, strict=True):
            pieces += [word, " " if has_space[row] else ""]
        texts.append("".join(pieces[:-1]))  # no space at the end of a text
    return texts


def _read_spaces(sheet: Sheet, column: str) -> list[bool]:
    """Return for each row whether a space comes after its word."""
    values = ["" if is_missing(value) else str(value) for value in sheet.cells(column)]
    marks = [value if value in ("", " ") else value.strip().lower() for value in values]
    # An empty cell means "no space" only in a column as spaCy writes it: nothing but spaces and empty cells.
    empty_means_no_space = " " in marks and set(marks) <= {"", " "}
    for row, mark in enumerate(marks):
        known = mark in SPACE_VALUES or mark in NO_SPACE_VALUES
        if not known or (not mark and not empty_means_no_space):
            raise InputError(
                f"{sheet.place(row)}: column '{column}' holds {values[row]!r}; a space after the word is true or false "
                "(or yes/no, 1/0, TRUE/FALSE)."
            )
    return [mark in SPACE_VALUES for mark in marks]


def _repeated_texts(sheet: Sheet, column: str, words: Sequence[list[str]], rows: Sequence[list[int]]) -> list[str]:
    """Return the texts that all their rows repeat; raise unless the words are those of the text."""
    cells = column_strings(sheet, column)
    for rows_of_text, words_of_text in zip(rows, words, strict=True):
        for row, next_row in pairwise(rows_of_text):
            if cells[row] != cells[next_row]:
                raise InputError(
                    f"{sheet.place(next_row)}: the text in '{column}' is not that of the row before, though both rows "
                    "belong together by `group_by`."
                )
        _check_words(sheet, cells[rows_of_text[0]], words_of_text, rows_of_text)
    return [cells[rows_of_text[0]] for rows_of_text in rows]


def _check_words(sheet: Sheet, text: str, words: Sequence[str], rows: Sequence[int]) -> None:
    """Raise at the first row whose word does not come next in the text."""
    rest = text
    for word, row in zip(words, rows, strict=True):
        rest = rest.lstrip()
        if not rest.startswith(word):
            raise AlignmentError(
                f"{sheet.place(row)}: the word is '{word}', but the text goes on with '{rest[:SHOWN_CHARACTERS]}'. The "
                "rows must give every word of the text, in order, as it is spelled there."
            )
        rest = rest[len(word) :]
    rest = rest.strip()
    if rest:
        raise AlignmentError(
            f"{sheet.place(rows[-1])}: the rows end here, but the text goes on with '{rest[:SHOWN_CHARACTERS]}'."
        )
