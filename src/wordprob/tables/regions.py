"""Regions of interest: consecutive words of a text, added up."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import cumulative_offsets
from wordprob.tables.formats import Sheet
from wordprob.tables.formats.base import is_missing
from wordprob.tables.layout import Layout
from wordprob.tables.marks import Span
from wordprob.tables.schema import summed_columns

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
    if regions:
        all_rows = np.concatenate(regions)
        offsets = cumulative_offsets(map(len, regions))[:-1]
        for name in ("n_tokens", "surprisal", *summed_columns(words.columns)):
            table[name] = np.add.reduceat(words[name].to_numpy()[all_rows], offsets)
    table["note"] = _notes(words, regions)
    table.insert(list(table.columns).index("word") + 1, "n_words", [len(rows) for rows in regions])
    return table


def add_up_spans(
    words: pd.DataFrame, texts: list[str], spans: list[list[Span]], reasons: Mapping[int, str] | None = None
) -> pd.DataFrame:
    """Return a row for each region of each text, and one without values for a text that has none.

    A region is made of whole words: those that it has a character of.

    Parameters
    ----------
    words
        The words of all texts; ``text_id`` is the number of the text.
    texts, spans
        The texts, and the regions of each.
    reasons
        Why texts have no value, by the number of the text, where that is known.
    """
    reasons = reasons or {}
    rows_of_spans = word_rows(words, spans)
    found = [rows for rows in rows_of_spans if rows]
    table = add_up(words, texts, found)
    # The position of each region's row in that table; -1 gives a row of missing values.
    positions = np.cumsum([bool(rows) for rows in rows_of_spans]) - 1
    positions = np.where([bool(rows) for rows in rows_of_spans], positions, -1)
    whole = table.reindex(positions).reset_index(drop=True)
    named = [(number, span) for number, of_text in enumerate(spans) for span in _or_none(of_text)]
    whole["text_id"] = [number for number, _ in named]
    whole.insert(list(whole.columns).index("word"), "region", ["" if span is None else span.name for _, span in named])
    for name in ("word", "note"):
        whole[name] = whole[name].fillna("")
    for name in ("word_id", "start", "end", "n_words", "n_tokens", "context_tokens"):
        whole[name] = whole[name].astype("Int64") if whole[name].isna().any() else whole[name].astype("int64")
    notes = zip(whole["note"].tolist(), whole["word"].tolist(), named, strict=True)
    whole["note"] = [
        reasons.get(number) or _span_note(note, word, span, texts[number]) for note, word, (number, span) in notes
    ]
    return whole


def with_wordless(
    words: pd.DataFrame, texts: list[str], spans: list[list[Span]], reasons: Mapping[int, str]
) -> pd.DataFrame:
    """Return scored words with a row, without values, for each text that has no word.

    Parameters are those of :func:`add_up_spans`.
    """
    import pandas as pd

    with_word = set(words["text_id"].tolist())
    wordless = [number for number in range(len(texts)) if number not in with_word]
    if not wordless:
        return words
    added = pd.DataFrame(
        {
            "text_id": wordless,
            "word": "",
            "region": [spans[number][0].name for number in wordless],
            "note": [reasons.get(number) or _span_note("", "", spans[number][0], texts[number]) for number in wordless],
        }
    )
    numbers = dict.fromkeys(("word_id", "start", "end", "n_tokens", "context_tokens"), "Int64")
    whole = pd.concat([words.astype(numbers), added], ignore_index=True)
    return whole.sort_values("text_id", kind="stable", ignore_index=True)


def word_rows(words: pd.DataFrame, spans: list[list[Span]]) -> list[list[int]]:
    """Return the rows of the words of each region; an empty list for a text that has no region."""
    by_text: dict[int, list[tuple[int, int, int]]] = {}
    columns = zip(words["text_id"].tolist(), words["start"].tolist(), words["end"].tolist(), strict=True)
    for row, (text, start, end) in enumerate(columns):
        by_text.setdefault(text, []).append((row, start, end))
    rows_of_spans: list[list[int]] = []
    for number, of_text in enumerate(spans):
        words_of_text = by_text.get(number, [])
        for span in of_text:
            rows_of_spans.append([row for row, start, end in words_of_text if start < span.end and end > span.start])
        if not of_text:
            rows_of_spans.append([])
    return rows_of_spans


def region_names(words: pd.DataFrame, spans: list[list[Span]]) -> list[str]:
    """Return for each word the name of its region; an empty string outside all regions."""
    names = [""] * len(words)
    labels = [span.name if span is not None else "" for of_text in spans for span in _or_none(of_text)]
    for label, rows in zip(labels, word_rows(words, spans), strict=True):
        for row in rows:
            names[row] = label
    return names


def _or_none(spans: list[Span]) -> list[Span | None]:
    """Return the regions of a text, or one that is None where it has none."""
    return list(spans) or [None]


def _span_note(note: str, word: str, span: Span | None, text: str) -> str:
    """Return the note of a region, which also says where its words are more than was asked for."""
    if span is None:
        return "no region on this row" if text.strip() else "no words"
    asked = text[span.start : span.end]
    if not word:
        if asked:
            return f"no word in '{asked}'"
        return "no target on this row" if text.strip() else "no words"
    longer = f"asked for '{asked}', scored as '{word}'" if word != asked else ""
    return "; ".join(filter(None, [note, longer]))


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
