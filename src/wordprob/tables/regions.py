"""Regions of interest: consecutive words of a text added up."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing
from wordprob.tables.layout import Layout

if TYPE_CHECKING:
    import pandas as pd

NO_REGION = ("", "NA")
"""Cells of words outside every region; R writes NA for an empty one."""

SUMS = ("n_tokens", "surprisal", "surprisal_naive")


def runs(sheet: Sheet, layout: Layout, column: str) -> list[list[int]]:
    """Return the rows of each region: consecutive rows of a text with the same value in ``column``."""
    cells = sheet.cells(column)
    found = [list(part) for rows in layout.rows for _, part in groupby(rows, key=lambda row: str(cells[row]))]
    return [part for part in found if not (is_missing(cells[part[0]]) or str(cells[part[0]]).strip() in NO_REGION)]


def kept_columns(sheet: Sheet, layout: Layout, regions: list[list[int]]) -> list[str]:
    """Return the columns that do not change within any region."""
    left_out = (layout.word_column, layout.space_after)
    return [name for name in sheet.columns if name not in left_out and _constant(sheet.cells(name), regions)]


def _constant(cells: list[Any], regions: list[list[int]]) -> bool:
    return all(len({str(cells[row]) for row in part}) == 1 for part in regions)


def add_up(words: pd.DataFrame, texts: list[str], regions: list[list[int]]) -> pd.DataFrame:
    """Return a row for each region of the scored words.

    Surprisals and tokens are added up; ``after`` is the last word's; everything else is the first word's, so that
    ``surprisal = surprisal_naive + after - before`` holds for regions as for words.
    """
    first, last = ([part[n] for part in regions] for n in (0, -1))
    found = words.iloc[first].reset_index(drop=True)
    ends = words["end"].to_numpy()[last]
    spans = zip(found["text_id"].tolist(), found["start"].tolist(), ends.tolist(), strict=True)
    found["word"] = [texts[text][start:end] for text, start, end in spans]
    found["end"], found["after"] = ends, words["after"].to_numpy()[last]
    for name in SUMS:
        values = words[name].to_numpy()
        found[name] = [values[part].sum() for part in regions]
    known = np.isfinite(words["surprisal"].to_numpy(dtype=float))
    spellings, notes = words["word"].tolist(), words["note"].tolist()
    found["note"] = [_note(part, known, spellings, notes) for part in regions]
    found.insert(list(found.columns).index("word") + 1, "n_words", [len(part) for part in regions])
    return found


def _note(part: list[int], known: Any, words: list[str], notes: list[str]) -> str:
    """Say why a region has no value, or what there is to know about its words."""
    missing = [row for row in part if not known[row]] or part
    if len(part) == 1:
        return notes[part[0]]
    return "; ".join(f"'{words[row]}': {notes[row]}" for row in missing if notes[row])
