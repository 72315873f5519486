"""The columns that are added: which, by what names, for one model or several."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from wordprob.errors import OptionError
from wordprob.tables import regions
from wordprob.tables.formats.base import is_missing
from wordprob.tables.schema import COLUMNS, TEXT_COLUMNS, UNITS

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.scoring.stimuli import Stimuli

SHAPES = ("long", "wide")
ALIKE = ("text_id", "word_id", "word", "start", "end", "n_words", "n_characters", "n_bytes")
"""Columns that no model changes; in the wide shape they stand once."""

NOT_BY_TEXT = ("text_id", "conservation")
"""Of the summary by text, what a table with a text on each row does not get."""

NO_WORDS = "no words"


@dataclass(frozen=True)
class ModelColumns:
    """One model's share: the columns to add, and the words and texts behind them."""

    added: pd.DataFrame
    words: pd.DataFrame
    texts: pd.DataFrame


def by_text(words: pd.DataFrame, texts: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Return the columns for a table that has a text on each row.

    ``surprisal`` is that of all its words together, from the tokens, so it is there even where a word has none of its
    own; ``surprisal_naive`` is a sum over words.
    """
    counts = texts["n_words"].to_numpy(dtype=np.int64)
    ends = np.cumsum(counts)
    parts = [slice(end - count, end) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
    naive = words["surprisal_naive"].to_numpy(dtype=np.float64)
    blank = counts == 0
    total = np.where(blank, np.nan, -texts["log_prob_words"].to_numpy(dtype=np.float64) / UNITS[unit])
    sums = np.where(blank, np.nan, [naive[part].sum() for part in parts])
    found = texts.drop(columns=list(NOT_BY_TEXT))
    found.insert(0, "surprisal", total)
    found.insert(1, "surprisal_naive", sums)
    found["note"] = [_note(words.iloc[part], note) for part, note in zip(parts, texts["note"].tolist(), strict=True)]
    return found


def _note(words: pd.DataFrame, note: str) -> str:
    if not len(words):
        return NO_WORDS
    values = words["surprisal"].to_numpy(dtype=np.float64)
    lost = dict.fromkeys(words.loc[~np.isfinite(values), "note"].tolist())
    count = int((~np.isfinite(values)).sum())
    return "; ".join(filter(None, [note, f"{count} of its words: {', '.join(lost)}" if count else ""]))


def expected(stimuli: Stimuli, extras: Collection[str] = ()) -> list[str]:
    """Return the columns that will be added as far as they are known before scoring."""
    if stimuli.sum_by is not None or stimuli.layout.by_word or stimuli.per_word:
        return chosen(stimuli, [*COLUMNS, *extras, *(["n_words"] if stimuli.sum_by is not None else [])])
    if extras:
        raise OptionError(f"{' and '.join(extras)} belong to words, and this table has a text on each row: --per-word.")
    return ["surprisal", "surprisal_naive", *(name for name in TEXT_COLUMNS if name not in NOT_BY_TEXT)]


def chosen(stimuli: Stimuli, names: Sequence[str]) -> list[str]:
    """Leave out what the table says already: its words, and texts and words that it numbers itself."""
    left: set[str] = set()
    if stimuli.layout.by_word:
        left = {"start", "end"} if stimuli.sum_by is not None else {"word", "start", "end"}
    if not stimuli.prefix:
        left |= {"text_id"} if _numbers_texts(stimuli) else set()
        left |= {"word_id"} if stimuli.sum_by is None and _numbers_words(stimuli) else set()
    return [name for name in names if name not in left]


def remaining(stimuli: Stimuli) -> Sequence[str]:
    """Return the table's own columns that come out."""
    if stimuli.sum_by is None:
        return stimuli.sheet.columns
    found = regions.runs(stimuli.sheet, stimuli.layout, stimuli.sum_by)
    return regions.kept_columns(stimuli.sheet, stimuli.layout, found)


def _numbers_texts(stimuli: Stimuli) -> bool:
    """Say whether the table's own text_id tells the texts apart."""
    if "text_id" not in stimuli.sheet.columns:
        return False
    cells = [str(value) for value in stimuli.sheet.cells("text_id")]
    values = [{cells[row] for row in rows} for rows in stimuli.layout.rows]
    return all(len(value) == 1 for value in values) and len(set().union(*values)) == len(values)


def _numbers_words(stimuli: Stimuli) -> bool:
    """Say whether the table's own word_id goes up through every text."""
    if "word_id" not in stimuli.sheet.columns or not stimuli.layout.by_word:
        return False
    try:
        numbers = [float("nan") if is_missing(v) else float(str(v)) for v in stimuli.sheet.cells("word_id")]
    except ValueError:
        return False
    return all(numbers[a] < numbers[b] for rows in stimuli.layout.rows for a, b in pairwise(rows))


# --- several models ------------------------------------------------------------------------------------------------


def final(names: Sequence[str], labels: Sequence[str], shape: str, prefix: str) -> list[str]:
    """Return the names under which columns come out."""
    if len(labels) == 1:
        return [prefix + name for name in names]
    if shape == "long":
        return [prefix + name for name in ("model", *names)]
    alike = [prefix + name for name in names if name in ALIKE]
    return alike + [f"{prefix}{name}_{label}" for label in labels for name in names if name not in ALIKE]


def combined(parts: Mapping[str, pd.DataFrame], shape: str, prefix: str) -> pd.DataFrame:
    """Put the columns of several models below each other, or side by side."""
    import pandas as pd

    first = next(iter(parts.values()))
    names = final(list(first.columns), list(parts), shape, prefix)
    if len(parts) == 1 or shape == "long":
        return stacked(parts).set_axis(names, axis=1)
    alike = first[[name for name in first.columns if name in ALIKE]]
    own = [part.drop(columns=alike.columns) for part in parts.values()]
    return pd.concat([alike, *own], axis=1).set_axis(names, axis=1)


def stacked(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put tables below each other, with a column that names the model where there are several."""
    import pandas as pd

    if len(parts) == 1:
        return next(iter(parts.values())).copy()
    named = [part.assign(model=label)[["model", *part.columns]] for label, part in parts.items()]
    return pd.concat(named, ignore_index=True)
