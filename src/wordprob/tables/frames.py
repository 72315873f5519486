"""From scored batches to data frames: one of the words and one of the texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Floats, Ints, concat_ranges
from wordprob.tables.schema import (
    EXTRA_COLUMNS,
    PSEUDO_SURPRISAL,
    TEXT_COLUMNS,
    UNITS,
    WORD_COLUMNS,
    BatchScores,
    Column,
    TextTotals,
    columns_of,
    estimate_name,
    id_array,
)
from wordprob.tables.word_level_columns import RANK_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

NO_WORDS = "no words"
NO_VALUE = "none of its words has a value"
PARTIAL = "only some of its words were given: no bits per character or byte"


def build_frames(
    batches: Iterable[BatchScores], unit: str, extras: Collection[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of words and the summary by text, from a stream of batches.

    Parameters
    ----------
    batches
        The scored texts. A text that continues in the next batch is summed up where it ends.
    unit
        The unit of all surprisals.
    extras
        Names of further columns, from :data:`wordprob.tables.schema.EXTRA_COLUMNS`.
    """
    import pandas as pd

    text_ids, words, texts = [], [], []
    for batch in batches:
        text_ids.append(batch.text_ids)
        words.append(_word_table(batch, UNITS[unit], extras))
        if not batch.goes_on:
            texts.append(pd.DataFrame(_text_columns(batch, UNITS[unit])))
    if not texts:
        texts = [pd.DataFrame({name: [] for name in TEXT_COLUMNS})]
    summary = texts[0] if len(texts) == 1 else pd.concat(texts, ignore_index=True)
    return _join_words(text_ids, words), summary


# --- words ---------------------------------------------------------------------------------------------------------


def _word_table(batch: BatchScores, unit_size: float, extras: Collection[str]) -> Any:
    """Return a row for each word as an Arrow table, without ``text_id``.

    Arrow holds strings in one buffer, so that words and notes never become Python objects one by one.
    """
    import pyarrow as pa

    values = {}
    for column in _columns(batch, extras):
        array = column.values(batch)
        values[column.name] = array / unit_size if column.in_units else array
    return pa.table(values)


def _columns(batch: BatchScores, extras: Collection[str]) -> list[Column]:
    """Return the columns of a batch in their order, without ``text_id``."""
    _, *standard, note = WORD_COLUMNS
    estimates = [_estimate_column(name) for name in batch.estimates]
    requested = {column.name: column for name in extras for column in columns_of(name)}
    pseudo = [] if batch.pseudo_surprisal is None else [PSEUDO_SURPRISAL]
    return [*standard, *pseudo, *estimates, *requested.values(), note]


def _estimate_column(estimator: str) -> Column:
    """Return the column that holds the surprisals of a further estimator."""
    description = f"the word's surprisal, by the estimator '{estimator}'"
    return Column(estimate_name(estimator), description, lambda batch: batch.estimates[estimator], in_units=True)


def _join_words(text_ids: list[Any], words: list[Any]) -> pd.DataFrame:
    """Put the words of all batches into one data frame.

    The ids of texts stay outside Arrow, as one batch may have numbers and another strings.
    """
    import pandas as pd
    import pyarrow as pa

    if not words:
        return pd.DataFrame({column.name: [] for column in WORD_COLUMNS})
    frame: pd.DataFrame = pa.concat_tables(words).to_pandas()
    frame.insert(0, WORD_COLUMNS[0].name, np.concatenate(text_ids))
    return frame


def pick_texts(words: pd.DataFrame, texts: pd.DataFrame, numbers: Sequence[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the words and the summary of some texts, in this order; a text may be picked several times.

    Parameters
    ----------
    words, texts
        What :func:`build_frames` returned.
    numbers
        The positions of the texts in the summary.
    """
    counts = texts["n_words"].to_numpy(dtype=np.int64)
    picked = np.array(numbers, dtype=np.int64)
    rows = concat_ranges((np.cumsum(counts) - counts)[picked], counts[picked])
    return words.iloc[rows].reset_index(drop=True), texts.iloc[picked].reset_index(drop=True)


def with_whole_numbers(words: pd.DataFrame) -> pd.DataFrame:
    """Return a table of words with an integer type for whole numbers, even if some are missing."""
    known = [*RANK_COLUMNS, *(name for name, column in EXTRA_COLUMNS.items() if column.whole)]
    whole = [name for name in known if name in words.columns]
    return words.astype(dict.fromkeys(whole, "Int64")) if whole else words


# --- texts ---------------------------------------------------------------------------------------------------------


def _text_columns(batch: BatchScores, unit_size: float) -> dict[str, Any]:
    """Return the summary by text, by column."""
    documents, totals = batch.documents, batch.totals
    n_characters = np.array([len(document.text) for document in documents], dtype=np.int64)
    encoded = [document.text.encode("utf-8", "surrogatepass") for document in documents]
    n_bytes = np.array([len(data) for data in encoded], dtype=np.int64)
    bits_per_word = _rate(totals, totals.words)
    without_value = (n_characters > 0) & np.isnan(totals.words_log_prob)  # the empty text has a probability
    with np.errstate(invalid="ignore", over="ignore"):
        perplexity = np.exp2(bits_per_word)  # infinite where it is too large for a number
        conservation = -totals.surprisal - totals.end - totals.token_log_prob
    return {
        "text_id": id_array([document.id for document in documents]),
        "n_words": totals.words,
        "n_scored": totals.scored,
        "n_tokens": totals.tokens,
        "n_characters": n_characters,
        "n_bytes": n_bytes,
        "log_prob": np.where(without_value, np.nan, totals.token_log_prob),
        "log_prob_words": totals.words_log_prob,
        "end": totals.end / unit_size,
        "bits_per_word": bits_per_word,
        "bits_per_character": np.where(totals.is_partial, np.nan, _rate(totals, n_characters)),
        "bits_per_byte": np.where(totals.is_partial, np.nan, _rate(totals, n_bytes)),
        "perplexity": perplexity,
        "conservation": conservation,
        "note": _text_notes(batch),
    }


def _rate(totals: TextTotals, lengths: Ints) -> Floats:
    """Return the bits of each text's words for one unit of its length; not a number for a text without a value."""
    with np.errstate(invalid="ignore", divide="ignore"):
        rate: Floats = -totals.words_log_prob / UNITS["bits"] / lengths
    return rate


def _text_notes(batch: BatchScores) -> list[str]:
    """Return the note on each text: why a value is missing."""
    totals = batch.totals
    notes = [batch.note] * len(batch.documents)
    for text in np.flatnonzero(totals.is_partial).tolist():
        notes[text] = "; ".join(filter(None, [batch.note, PARTIAL]))
    for text in np.flatnonzero(totals.scored == 0).tolist():
        notes[text] = _note_without_value(batch, text) if totals.words[text] else NO_WORDS
    return notes


def _note_without_value(batch: BatchScores, text: int) -> str:
    """Return the note on a text none of whose words has a value: their reasons."""
    stop = int(batch.counts[: text + 1].sum())
    words = range(stop - int(batch.counts[text]), stop)
    reasons = dict.fromkeys(batch.notes[word] for word in words if word in batch.notes)
    return f"{NO_VALUE}: {', '.join(reasons)}" if reasons else NO_VALUE
