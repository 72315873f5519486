"""A user's table that has been read and checked, and what is wanted of it: everything except the scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError, counted
from wordprob.options import TableLayout
from wordprob.tables import regions
from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing
from wordprob.tables.grouping import Grouping
from wordprob.tables.layout import Layout

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_FREQUENCIES = "wordfreq:en"
"""Where frequencies come from if nothing is specified."""


@dataclass(frozen=True)
class StimulusTable:
    """A table whose texts are known, and what is wanted of it.

    Attributes
    ----------
    sheet
        The table as it came.
    layout
        Its texts.
    options
        How it holds them, and what is wanted.
    words
        What a word is, for a text on each row; by default what the scorer has.
    """

    sheet: Sheet
    layout: Layout
    options: TableLayout = field(default_factory=TableLayout)
    words: str | None = None

    def sources(self) -> list[str] | None:
        """Return the source of each text; ``None`` if there are none."""
        column = self.options.source_column
        if column is None:
            return None
        cells = self.sheet.cells(column)
        found: list[str] = []
        for rows in self.layout.rows:
            values = {"" if is_missing(cells[row]) else str(cells[row]) for row in rows}
            if len(values) > 1 or "" in values:
                problem = "has no source" if values == {""} else "has several sources"
                raise InputError(
                    f"{self.sheet.place(rows[0])}: the text that begins here {problem} in '{column}'; each "
                    "text needs one, the same on all of its rows."
                )
            found += values
        return found

    @property
    def rows_are_words(self) -> bool:
        """True if each row of the result is a word or a region, rather than a text."""
        return self.adds_up or self.layout.by_word or self.options.per_word

    @property
    def adds_up(self) -> bool:
        """True if each row of the result is a region, whose words are added up."""
        return self.options.sum_by is not None or (self.layout.spans is not None and not self.options.per_word)

    def regions(self) -> list[list[int]]:
        """Return the rows of each region."""
        return regions.find_regions(self.sheet, self.layout, str(self.options.sum_by))

    def own_columns(self) -> Sequence[str]:
        """Return the table's own columns that are in the result."""
        if self.options.sum_by is None:
            return self.sheet.columns
        return regions.kept_columns(self.sheet, self.layout, self.regions())

    def own_rows(self, texts: pd.DataFrame) -> tuple[Sheet, Ints]:
        """Return the sheet that the new columns go behind, and the positions of its rows in the result.

        Parameters
        ----------
        texts
            The summary by text, which has the number of words of each.
        """
        if self.options.sum_by is not None:
            first_rows = np.array([rows[0] for rows in self.regions()], dtype=np.int64)
            return self.sheet.select(first_rows, self.own_columns()), np.arange(len(first_rows))
        if self.layout.by_word:
            return self.sheet, np.arange(len(self.sheet))
        rows_of_texts = np.array([rows[0] for rows in self.layout.rows], dtype=np.int64)
        if self.adds_up:
            return self.sheet, np.repeat(rows_of_texts, [max(len(spans), 1) for spans in self.layout.spans or ()])
        if self.options.per_word:
            n_words = texts["n_words"].to_numpy(dtype=np.int64)
            # A target that has no word keeps its row.
            n_rows = n_words if self.layout.contexts is None else np.maximum(n_words, 1)
            return self.sheet, np.repeat(rows_of_texts, n_rows)
        return self.sheet, rows_of_texts

    def numbers_texts(self) -> bool:
        """Return True if the table has a column ``text_id`` of its own that tells the texts apart."""
        if "text_id" not in self.sheet.columns:
            return False
        cells = [str(value) for value in self.sheet.cells("text_id")]
        ids_of_texts = [{cells[row] for row in rows} for rows in self.layout.rows]
        distinct_ids = set().union(*ids_of_texts)
        return all(len(ids) == 1 for ids in ids_of_texts) and len(distinct_ids) == len(ids_of_texts)

    def numbers_words(self) -> bool:
        """Return True if the table has a column ``word_id`` of its own that increases through every text."""
        if "word_id" not in self.sheet.columns or not self.layout.by_word:
            return False
        cells = self.sheet.cells("word_id")
        try:
            numbers = [float("nan") if is_missing(value) else float(str(value)) for value in cells]
        except ValueError:
            return False
        neighbours = [pair for rows in self.layout.rows for pair in pairwise(rows)]
        return all(numbers[row] < numbers[next_row] for row, next_row in neighbours)

    def describe(self) -> str:
        """Return a line about what was found in the table; empty for plain texts."""
        layout = self.layout
        texts = counted(len(layout.texts), "text")
        if layout.context_column:
            targets = counted(len(layout.texts) - len(layout.unscored), "target")
            return f"{self.sheet.name}: {targets} in '{layout.target_column}' after '{layout.context_column}'"
        if not layout.by_word:
            return f"{self.sheet.name}: {texts} in '{layout.text_column}'" if layout.text_column else ""
        if layout.text_column:
            spacing = f"as written in '{layout.text_column}'"
        elif layout.space_after:
            spacing = f"spaces by '{layout.space_after}'"
        else:
            spacing = "joined by spaces"
        groups = f"by {', '.join(layout.group_by)}" if layout.group_by else "in all"
        words = f"{counted(len(self.sheet), 'word')} in '{layout.word_column}'"
        if layout.by_offsets:
            stretches = counted(len(self.sheet), "stretch", "stretches")
            words = f"{stretches} by '{layout.start_column}' and '{layout.end_column}'"
        return f"{self.sheet.name}: {words}, {texts} {groups}, {spacing}"

    def guesses(self) -> str:
        """Return the same line with what was guessed, and how to specify it; empty if nothing was."""
        guessed = self.layout.guesses()
        if not guessed:
            return ""
        options = " ".join(f"`{name}` {value}" for name, value in guessed.items())
        return f"{self.describe()}; guessed from the names of columns: {options}"

    def warnings(self) -> list[str]:
        """Return what may not be intended: a text that repeats itself, punctuation on rows of its own."""
        return [*self._repetition(), *self._punctuation(), *self._guessed_frequencies(), *self._unscored()]

    def _unscored(self) -> list[str]:
        """Return a warning for each reason why targets are not scored."""
        layout = self.layout
        numbers_by_reason: dict[str, list[int]] = {}
        for number, reason in layout.unscored.items():
            numbers_by_reason.setdefault(reason, []).append(number)
        remarks = []
        for reason, numbers in numbers_by_reason.items():
            has = "has" if len(numbers) == 1 else "have"
            place = self.sheet.place(layout.rows[numbers[0]][0])
            of_all = f"{len(numbers)} of {counted(len(layout.texts), 'target')}"
            remarks.append(f"{of_all} {has} no value: {reason} (the first: {place})")
        return remarks

    def _repetition(self) -> list[str]:
        """Return a warning if a text of the specified groups looks like several."""
        layout = self.layout
        if not layout.by_word or layout.text_column or "group_by" in layout.guessed:
            return []
        grouping = Grouping(self.sheet, str(layout.word_column), (layout.space_after, self.options.sum_by))
        found = grouping.repetition(layout.group_by)
        if found is None:
            return []
        text = f"the rows with the same {' and '.join(layout.group_by)}" if layout.group_by else "the rows"
        question = f"If {text} are several texts, add the column that tells them apart to `group_by`."
        return [f"{self.sheet.place(found.row)}: {found.finding}. {question}"]

    def _guessed_frequencies(self) -> list[str]:
        """Return a line about where frequencies come from if nothing was specified."""
        if not self.options.predictors or self.options.frequencies is not None:
            return []
        return [
            f"frequencies are those of English words ({DEFAULT_FREQUENCIES}); specify `frequencies` for another "
            "language or a list of your own"
        ]

    def _punctuation(self) -> list[str]:
        """Return a warning if punctuation is on rows of its own, with spaces before it."""
        layout = self.layout
        if not layout.by_word or layout.space_after or layout.text_column:
            return []
        punctuation = []
        for rows, words in zip(layout.rows, layout.words or (), strict=True):
            for row, word in zip(rows[1:], words[1:], strict=True):
                if not any(character.isalnum() for character in word):
                    punctuation.append(row)
        if not punctuation:
            return []
        rows_hold = "1 row holds" if len(punctuation) == 1 else f"{len(punctuation)} rows hold"
        them = "it" if len(punctuation) == 1 else "them"
        return [
            f"{rows_hold} punctuation alone (the first: {self.sheet.place(punctuation[0])}), scored with a space "
            f"before {them}. If people read it without one, say so in a column and name it with `space_after`."
        ]
