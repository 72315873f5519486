"""Which rows make a text: a guess from the names of columns, and what in the data speaks against it.

A table with a word on each row seldom says where one text ends and the next begins. Names such as *item* and
*condition* show it, but not always all of it. So a guess is compared with the data, and one that they contradict is an
error that names the columns and what to specify, because the numbers would be those of other texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from wordprob.errors import InputError
from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing

GROUP_COLUMN_NAMES = (
    "participant", "participant_id", "subject", "subject_id", "subj", "ppt", "proband", "vp", "list", "text_id", "item",
    "item_id", "condition", "cond", "bedingung", "version", "sentence_id", "sent_id", "sentence", "story", "story_id",
    "passage", "passage_id", "trial", "trial_id",
)  # fmt: skip
"""Names, in any case, of columns that tell texts apart. All that there are count."""

POSITION_COLUMN_NAMES = (
    "pos", "position", "word_id", "word_nr", "wordnr", "word_no", "wordno", "word_num", "wordnum", "word_number",
    "wordnumber", "word_pos", "wordpos", "word_position", "word_index", "wordindex", "token_id", "token_index", "index",
    "idx", "wortnummer", "wortposition",
)  # fmt: skip
"""Names, in any case, of columns that count the words of a text; other columns of numbers that count are found too."""

REGION_COLUMN_NAMES = (
    "region", "regions", "region_name", "roi", "ia", "aoi", "interest_area", "area", "segment", "chunk", "phrase",
    "critical", "is_critical", "target", "bereich", "abschnitt",
)  # fmt: skip
"""Names, in any case, of columns that name a part of a text, and so change within it."""

MIN_STRETCH_ROWS = 3
"""A column that keeps every value for so many rows inside a text looks like one that tells texts apart."""

MIN_SUGGESTED_ROWS = 2
"""A column whose values all hold for so many rows may be suggested for telling texts apart."""

COMES_AGAIN_ADVICE = (
    "If these are different texts, add the column that tells them apart to `group_by` (a participant, say); if it is "
    "one text, sort the rows."
)


@dataclass(frozen=True)
class Contradiction:
    """What in the data speaks against a grouping: where it is, and what was found there."""

    row: int
    finding: str


def columns_called(sheet: Sheet, names: Iterable[str]) -> list[str]:
    """Return the columns that have one of these names, in any case, in the order of the names."""
    by_name = {name.strip().lower(): name for name in reversed(sheet.columns)}
    return [by_name[name] for name in names if name in by_name]


def is_blank(value: object) -> bool:
    """Return True for a cell that holds nothing but white space."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


class Grouping:
    """Looks for the columns that tell the texts of a table apart.

    Parameters
    ----------
    sheet
        A table with a word on each row.
    word_column
        The column of the words.
    other_columns
        Further columns that say something else: texts, spaces, regions.
    """

    def __init__(self, sheet: Sheet, word_column: str, other_columns: Iterable[str | None] = ()) -> None:
        self.sheet = sheet
        self.word_column = word_column
        self._not_groups = {word_column, *other_columns}
        self._cells: dict[str, list[str]] = {}
        self._numbers: dict[str, list[float]] = {}
        regions = set(columns_called(sheet, REGION_COLUMN_NAMES))
        self._regions = [name for name in sheet.columns if name in regions and name not in self._not_groups]
        self._positions = self._find_positions()

    # --- guessing -----------------------------------------------------------------------------------------------------

    def guess(self) -> tuple[str, ...]:
        """Return the columns whose names show that they tell texts apart; raise if the data contradict them."""
        names = [name for name in columns_called(self.sheet, GROUP_COLUMN_NAMES) if name not in self._not_groups]
        groups = [name for name in names if not all(is_blank(value) for value in self.sheet.cells(name))]
        for name in groups:
            check_filled(self.sheet, name)
        self._check_keys(groups)
        if not groups or len(self._runs(groups)) == len(self.sheet) > 1:
            raise InputError(
                f"which rows of {self.sheet.name} make a text? {self._advice(())} Columns: "
                f"{', '.join(self.sheet.columns)}. With `group_by` 'none' the table is one text."
            )
        contradiction = self.contradiction(groups)
        if contradiction is not None:
            raise InputError(
                f"{self.sheet.place(contradiction.row)}: {contradiction.finding}, so it is not certain that the rows "
                f"with the same {' and '.join(groups)} make one text. {self._advice(groups)} If they do make one text, "
                f"say so: `group_by` '{','.join(groups)}'."
            )
        return tuple(groups)

    def _check_keys(self, groups: Sequence[str]) -> None:
        """Raise if a guessed text comes again further down."""
        advice = self._advice(groups) if len(self.suggestion(groups)) > len(groups) else ""
        rows_of_texts(self.sheet, groups, advice)

    # --- what speaks against a grouping -------------------------------------------------------------------------------

    def contradiction(self, groups: Sequence[str]) -> Contradiction | None:
        """Return what in the data speaks against these columns as those that tell texts apart, if anything does."""
        texts = self._runs(groups)
        positions = [name for name in self._positions if name not in groups]
        found = [self._position_contradiction(name, texts) for name in positions]
        counted = [self._restarts(name) for name in positions]
        if any(restarts and problem is None for problem, restarts in zip(found, counted, strict=True)):
            return None  # the words are numbered through just these texts
        problems = [problem for problem in found if problem is not None]
        problems += filter(None, [self._stretches(groups, texts), self._repeated_words(texts)])
        problems += filter(None, [self._repeated_regions(name, texts) for name in self._regions])
        return problems[0] if problems else None

    def repetition(self, groups: Sequence[str]) -> Contradiction | None:
        """Return the same for columns that were specified: only what can hardly be meant."""
        texts = self._runs(groups)
        positions = [name for name in self._positions if name not in groups]
        found = [self._position_contradiction(name, texts, split=False) for name in positions]
        if any(problem is None and self._restarts(name) for name, problem in zip(positions, found, strict=True)):
            return None
        return next(filter(None, [*found, self._repeated_words(texts)]), None)

    def _position_contradiction(
        self, name: str, texts: Sequence[Sequence[int]], split: bool = True
    ) -> Contradiction | None:
        """Return where the numbers of words start again inside a text or go on from one text to the next."""
        numbers = self._numbers[name]
        for rows in texts:
            for row, next_row in pairwise(rows):
                if numbers[next_row] <= numbers[row]:
                    how = "is the same again" if numbers[next_row] == numbers[row] else "starts again"
                    shown = f"'{name}' {how} ({numbers[row]:g}, then {numbers[next_row]:g}) inside a text"
                    return Contradiction(next_row, shown)
        if split and self._restarts(name):
            for rows in texts[1:]:
                row = rows[0]
                if numbers[row] == numbers[row - 1] + 1:
                    return Contradiction(row, f"'{name}' goes on from one text to the next with {numbers[row]:g}")
        return None

    def _stretches(self, groups: Sequence[str], texts: Sequence[Sequence[int]]) -> Contradiction | None:
        """Return where a further column changes inside a text, if it does so in long stretches only."""
        for name in self._further_columns(groups):
            cells = self._strings(name)
            runs = [list(consecutive(rows, cells)) for rows in texts]
            several = [parts for parts in runs if len(parts) > 1]
            if several and all(len(part) >= MIN_STRETCH_ROWS for parts in several for part in parts):
                row = several[0][1][0]
                before = cells[several[0][0][0]]
                return Contradiction(row, f"'{name}' changes from {before!r} to {cells[row]!r} inside a text")
        return None

    def _repeated_words(self, texts: Sequence[Sequence[int]]) -> Contradiction | None:
        """Return where the words of a text are those before them once more."""
        words = self._strings(self.word_column)
        for rows in texts:
            of_text = [words[row] for row in rows]
            period = _period(of_text)
            if period is not None and period > 1:
                return Contradiction(rows[period], f"the same {period} words come again inside a text")
            doubled = [
                row for row, (word, following) in zip(rows[1:], pairwise(of_text), strict=True) if word == following
            ]
            if len(rows) >= 4 and 2 * len(doubled) >= len(rows):
                return Contradiction(doubled[0], f"the word {words[doubled[0]]!r} is on the row before too")
        return None

    def _repeated_regions(self, name: str, texts: Sequence[Sequence[int]]) -> Contradiction | None:
        """Return where the regions of a text are those before them once more."""
        cells = self._strings(name)
        for rows in texts:
            parts = list(consecutive(rows, cells))
            period = _period([cells[part[0]] for part in parts])
            if period is not None and period > 1:
                row = parts[period][0]
                return Contradiction(row, f"'{name}' starts again with {cells[row]!r} inside a text")
        return None

    # --- what to specify instead --------------------------------------------------------------------------------------

    def suggestion(self, groups: Sequence[str]) -> list[str]:
        """Return the columns that may tell the texts apart: these and as many more as the data call for."""
        chosen = list(groups)
        for name in self._candidates(groups):
            if self._texts_told_apart([*chosen, name]) > self._texts_told_apart(chosen):
                chosen.append(name)
        total = self._texts_told_apart(chosen)
        for name in [name for name in chosen if name not in groups]:
            others = [other for other in chosen if other != name]
            if others and self._texts_told_apart(others) == total:
                chosen = others
        return chosen

    def _advice(self, groups: Sequence[str]) -> str:
        """Return a sentence about what to specify."""
        columns = self.suggestion(groups)
        if len(columns) > len(groups):
            return f"If {' and '.join(columns)} tell texts apart, specify `group_by` '{','.join(columns)}'."
        if groups:
            return "No other column tells texts apart: add one, such as a condition, and name it in `group_by` too."
        return "No column of it tells texts apart: add one, such as item, and name it with `group_by`."

    def _candidates(self, groups: Sequence[str]) -> list[str]:
        """Return further columns that hold each of their values for some rows, and may tell texts apart."""
        restarts = [self._drops(name) for name in self._positions]
        edges = set().union(*restarts) if restarts else set()
        candidates = []
        for name in self._further_columns(groups):
            cells = self._strings(name)
            runs = [part for rows in self._runs(groups) for part in consecutive(rows, cells)]
            changes = {run[0] for run in runs[1:]}
            if len(set(cells)) < 2 or min(map(len, runs)) < MIN_SUGGESTED_ROWS:
                continue
            if not edges or changes <= edges | {rows[0] for rows in self._runs(groups)}:
                candidates.append(name)
        return candidates

    def _further_columns(self, groups: Sequence[str]) -> list[str]:
        taken = {*groups, *self._not_groups, *self._regions, *self._positions}
        return [name for name in self.sheet.columns if name not in taken]

    def _texts_told_apart(self, groups: Sequence[str]) -> tuple[int, int]:
        """Return how many stretches of rows there are, and how many of them have values of their own."""
        keys = self._keys(groups)
        runs = self._runs(groups)
        return len(runs), len({keys[rows[0]] for rows in runs})

    # --- columns ------------------------------------------------------------------------------------------------------

    def _find_positions(self) -> list[str]:
        """Return the columns that count words: by their names, or because their numbers count."""
        named = set(columns_called(self.sheet, POSITION_COLUMN_NAMES))
        grouping = set(columns_called(self.sheet, GROUP_COLUMN_NAMES))
        for name in self.sheet.columns:
            if name in self._not_groups or name in grouping or name in self._regions:
                continue
            numbers = _whole_numbers(self.sheet.cells(name))
            if numbers is not None and (name in named or _counts(numbers)):
                self._numbers[name] = numbers
        return list(self._numbers)

    def _drops(self, name: str) -> set[int]:
        """Return the rows where a column of numbers is not above the row before."""
        numbers = self._numbers[name]
        return {row for row in range(1, len(numbers)) if numbers[row] <= numbers[row - 1]}

    def _restarts(self, name: str) -> bool:
        return bool(self._drops(name))

    def _strings(self, name: str) -> list[str]:
        if name not in self._cells:
            self._cells[name] = ["" if is_missing(value) else str(value) for value in self.sheet.cells(name)]
        return self._cells[name]

    def _keys(self, groups: Sequence[str]) -> list[tuple[str, ...]]:
        columns = [self._strings(name) for name in groups]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.sheet)

    def _runs(self, groups: Sequence[str]) -> list[list[int]]:
        """Return consecutive rows that have the same values in these columns."""
        return list(consecutive(range(len(self.sheet)), self._keys(groups)))


def check_filled(sheet: Sheet, column: str) -> None:
    """Raise at the first row that has no value in a column of groups."""
    for row, value in enumerate(sheet.cells(column)):
        if is_blank(value):
            raise InputError(
                f"{sheet.place(row)}: no value in '{column}', so its text is not known. Fill the cell on every row "
                "(merged cells hold a value in the first row only)."
            )


def rows_of_texts(sheet: Sheet, groups: Sequence[str], advice: str = "") -> list[list[int]]:
    """Return the rows of each text: consecutive rows with the same values in ``groups``.

    Parameters
    ----------
    sheet
        The table.
    groups
        The columns that tell texts apart.
    advice
        A sentence about what to do where a text comes again further down, which is an error.
    """
    for name in groups:
        check_filled(sheet, name)
    columns = [sheet.cells(name) for name in groups]
    keys: list[tuple[Any, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(sheet)
    earlier: dict[tuple[Any, ...], int] = {}
    texts = list(consecutive(range(len(sheet)), keys))
    for rows in texts:
        key = keys[rows[0]]
        if key in earlier:
            values = ", ".join(f"{name} = {value}" for name, value in zip(groups, key, strict=True))
            raise InputError(
                f"{sheet.place(rows[0])}: {values} comes again, after other rows; its words before end at "
                f"{sheet.place(earlier[key]).removeprefix(sheet.name + ', ')}. {advice or COMES_AGAIN_ADVICE}"
            )
        earlier[key] = rows[-1]
    return texts


def consecutive(rows: Iterable[int], values: Sequence[Any]) -> Iterable[list[int]]:
    """Yield consecutive rows that have the same value."""
    for _, run in groupby(rows, key=values.__getitem__):
        yield list(run)


def _whole_numbers(cells: Sequence[Any]) -> list[float] | None:
    """Return a column as numbers if all its cells are whole numbers."""
    numbers = []
    for cell in cells:
        try:
            number = float(str(cell))
        except ValueError:
            return None
        if not number.is_integer() or isinstance(cell, bool):
            return None
        numbers.append(number)
    return numbers


def _counts(numbers: Sequence[float]) -> bool:
    """Return True if numbers go up one by one, most of the time, and start again now and then."""
    steps = [following - number for number, following in pairwise(numbers)]
    ups = [step for step in steps if step > 0]
    ones = [step for step in ups if step == 1]
    drops = [step for step in steps if step < 0]
    return bool(drops) and 2 * len(ups) >= len(steps) and 5 * len(ones) >= 4 * len(ups)


def _period(values: Sequence[str]) -> int | None:
    """Return the length of the shortest beginning whose copies make up all values; None if that is all of them.

    >>> _period(["the", "mark", "the", "mark"])
    2
    """
    for length in range(1, len(values) // 2 + 1):
        if len(values) % length == 0 and list(values[:length]) * (len(values) // length) == list(values):
            return length
    return None
