"""Regions of interest: consecutive words of a text, added up."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing
from wordprob.tables.layout import Layout
from wordprob.tables.schema import estimate_columns

if TYPE_CHECKING:
    import pandas as pd

NO_REGION = ("", "NA")
"""Cells of words outside every region; R writes NA for an empty one."""


def find_regions(sheet: Sheet, layout: Layout, column: str) -> list[list[int]]:
    """Return the rows of each region: consecutive rows of a text with the same value in ``column``."""
    cells = sheet.cells(column)
    regions = []
    for rows_of_text in layout.rows:
        for _, group in groupby(rows_of_text, key=lambda row: str(cells[row])):
            rows = list(group)
            if _names_region(cells[rows[0]]):
                regions.append(rows)
    return regions


def _names_region(cell: Any) -> bool:
    return not is_missing(cell) and str(cell).strip() not in NO_REGION


def kept_columns(sheet: Sheet, layout: Layout, regions: list[list[int]]) -> list[str]:
    """Return the columns that have one value within each region."""
    left_out = (layout.word_column, layout.space_after)
    return [name for name in sheet.columns if name not in left_out and _is_constant(sheet.cells(name), regions)]


def _is_constant(cells: list[Any], regions: list[list[int]]) -> bool:
    return all(len({str(cells[row]) for row in rows}) == 1 for rows in regions)


def add_up(words: pd.DataFrame, texts: list[str], regions: list[list[int]]) -> pd.DataFrame:
    """Return a row for each region of the scored words.

    Surprisals and tokens are added up; ``after`` is the last word's; everything else is the first word's, so that
    ``surprisal = surprisal_naive + after - before`` holds for regions as for words.
    """
    first_words = [rows[0] for rows in regions]
    last_words = [rows[-1] for rows in regions]
    table = words.iloc[first_words].reset_index(drop=True)
    ends = words["end"].to_numpy()[last_words]
    spans = zip(table["text_id"].tolist(), table["start"].tolist(), ends.tolist(), strict=True)
    table["word"] = [texts[text][start:end] for text, start, end in spans]
    table["end"] = ends
    table["after"] = words["after"].to_numpy()[last_words]
    for name in ("n_tokens", "surprisal", *estimate_columns(words.columns)):
        values = words[name].to_numpy()
        table[name] = [values[rows].sum() for rows in regions]
    table["note"] = _notes(words, regions)
    table.insert(list(table.columns).index("word") + 1, "n_words", [len(rows) for rows in regions])
    return table


def _notes(words: pd.DataFrame, regions: list[list[int]]) -> list[str]:
    """Return for each region why it has no value, or the notes of its words."""
    has_value = np.isfinite(words["surprisal"].to_numpy(dtype=float))
    spellings = words["word"].tolist()
    notes = words["note"].tolist()
    notes_of_regions = []
    for rows in regions:
        if len(rows) == 1:
            notes_of_regions.append(notes[rows[0]])
            continue
        explained = [row for row in rows if not has_value[row]] or rows
        notes_of_regions.append("; ".join(f"'{spellings[row]}': {notes[row]}" for row in explained if notes[row]))
    return notes_of_regions
