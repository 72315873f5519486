"""From the times of participants to one row for each word: outliers, means, and surprisals added to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wordprob.analysis.frequencies import Unigrams, surprisals
from wordprob.analysis.input_tables import ESTIMATES, WORD_KEYS, Mask, check_times, numbers, require
from wordprob.analysis.study_table import own_name
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import AlignmentError, InputError, OptionError, listing

SKIPPED = ("zero", "missing")


@dataclass(frozen=True)
class StudyColumns:
    """What the columns of a user's table are called.

    Attributes
    ----------
    word, time
        The word and its reading time.
    text
        Which text it is in; without it, the table is one text.
    position
        Which word of the text it is; without it, the order of the rows decides.
    participant
        Who read it; without it, the times are means already.
    """

    word: str = "word"
    time: str = "time"
    text: str | None = None
    position: str | None = None
    participant: str | None = None

    @property
    def named(self) -> list[str]:
        """All columns that are named."""
        return [name for name in (self.word, self.time, self.text, self.position, self.participant) if name]


@dataclass(frozen=True)
class Cleaning:
    """Which times count.

    Attributes
    ----------
    outliers
        Times whose logarithm is more than this many standard deviations from the mean are dropped; 0 keeps all.
    skipped
        What a time of 0 means: ``zero``, it counts as 0 in the mean (the paper's Provo), or ``missing``, it does not.
    """

    outliers: float = 3.0
    skipped: str = "zero"

    def __post_init__(self) -> None:
        if self.skipped not in SKIPPED:
            raise OptionError(f"`skipped` is '{self.skipped}'; it must be {' or '.join(SKIPPED)}.")
        if self.outliers < 0:
            raise OptionError(f"`outliers` is {self.outliers:g} standard deviations; use 0 to keep all times.")


def words_and_times(
    frame: pd.DataFrame, columns: StudyColumns, cleaning: Cleaning | None = None, where: str = "the table"
) -> pd.DataFrame:
    """Return one row a word, in order: ``text_id, word_id, word, time, word_len`` and, of means, all other columns.

    Lengths are characters, unless a table of means has a column ``word_len``.

    Parameters
    ----------
    frame
        A row for each word, or for each participant and word.
    columns
        What its columns are called.
    cleaning
        Which times count; for means nothing is dropped.
    where
        What errors call it.
    """
    require(frame, columns.named, where)
    times = numbers(frame, columns.time, where)
    check_times(times, columns.time, where)
    rows = _with_usual_names(frame, columns, times, where)
    if columns.participant is None:
        other_columns = frame.drop(columns=[name for name in rows.columns if name in frame.columns])
        return _in_order(rows.join(other_columns))
    _check_same_words(rows, where)
    words = rows.drop_duplicates(WORD_KEYS).drop(columns="time")
    return _in_order(average(words, rows, cleaning or Cleaning()))


def readings_of(frame: pd.DataFrame, columns: StudyColumns, where: str = "the table") -> pd.DataFrame:
    """Return one row a participant and word: ``participant, text_id, word_id, time`` and all other columns.

    Other columns whose names the table of a study needs itself are called ``own_…``.
    """
    rows = _with_usual_names(frame, columns, numbers(frame, columns.time, where), where)
    readings = rows[[*WORD_KEYS, "time"]].assign(participant=frame[str(columns.participant)])
    others = [name for name in frame.columns if name not in columns.named]
    return readings.join(frame[others].rename(columns=lambda name: own_name(str(name))))


def _with_usual_names(frame: pd.DataFrame, columns: StudyColumns, times: Floats, where: str) -> pd.DataFrame:
    """Return ``text_id, word_id, word, time, word_len``, whatever the table calls them."""
    words = frame[columns.word].astype(str)
    rows = pd.DataFrame({"text_id": frame[columns.text] if columns.text else 1}, index=frame.index)
    if columns.position:
        rows["word_id"] = _positions(frame, columns.position, where)
    else:
        # Words are counted within one reading of a text: each participant begins again at 0.
        reading = [rows["text_id"]]
        if columns.participant:
            reading.append(frame[columns.participant])
        rows["word_id"] = rows.groupby(reading, sort=False).cumcount()
    if "word_len" in frame.columns and columns.participant is None:
        lengths = numbers(frame, "word_len", where)
    else:
        lengths = np.asarray(words.str.len(), dtype=np.float64)
    return rows.assign(word=words, time=times, word_len=lengths)


def _positions(frame: pd.DataFrame, column: str, where: str) -> Ints:
    positions = numbers(frame, column, where)
    not_whole = np.flatnonzero(positions != np.round(positions))
    if len(not_whole):
        places = (f"row {row + 1}: {frame[column].iloc[row]!r}" for row in not_whole)
        raise InputError(f"{where}: column '{column}' should count the words, but holds {listing(places)}.")
    return positions.astype(np.int64)


def average(words: pd.DataFrame, readings: pd.DataFrame, cleaning: Cleaning) -> pd.DataFrame:
    """Add to every word the mean of those of its times that count.

    Parameters
    ----------
    words
        ``text_id, word_id, word``, a row for each word.
    readings
        ``text_id, word_id, time``, a row for each participant and word.
    cleaning
        Which times count.
    """
    kept = times_to_keep(readings["time"].to_numpy(dtype=np.float64), cleaning)
    times = readings[kept].groupby(WORD_KEYS, sort=False)["time"].mean()
    # Words without any time stay as rows: later words need them as their predecessors.
    rows = words.set_index(WORD_KEYS).assign(time=times).reset_index()
    return rows.assign(word_len=rows["word"].str.len().astype(np.float64))


def mark_used(readings: pd.DataFrame, cleaning: Cleaning) -> pd.DataFrame:
    """Add to every reading whether its time counts in the mean of its word: 1 or 0."""
    used = times_to_keep(readings["time"].to_numpy(dtype=np.float64), cleaning)
    return readings.assign(time_used=used.astype(np.int64))


def count_times(times: Floats, cleaning: Cleaning) -> dict[str, int]:
    """Return the numbers of all times, of those that are 0, and of the outliers that are dropped."""
    known = np.isfinite(times)
    dropped = known & (times > 0) & ~times_to_keep(times, cleaning)
    return {"times": int(known.sum()), "zero": int((times == 0).sum()), "outliers": int(dropped.sum())}


def cleaning_record(times: Floats, cleaning: Cleaning) -> dict[str, Any]:
    """Return how times were cleaned, and what it did, for the provenance of a result."""
    zeros = "counted" if cleaning.skipped == "zero" else "left out"
    return {**count_times(times, cleaning), "limit_in_sds": cleaning.outliers, "zeros_are": zeros}


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by their text, in the order of its first row, and then by their position in it."""
    text_numbers = pd.factorize(rows["text_id"])[0]
    # np.lexsort sorts by its last key first.
    order = np.lexsort((rows["word_id"].to_numpy(), text_numbers))
    return rows.iloc[order].reset_index(drop=True)


def times_to_keep(times: Floats, cleaning: Cleaning) -> Mask:
    """Mark the times that count towards a mean: known, not skipped if that means missing, and not outliers.

    z-scores are of the logarithm over all positive times of all participants; a time of 0 is not an outlier.
    """
    counted = times > 0 if cleaning.skipped == "missing" else times >= 0
    known: Mask = np.isfinite(times) & counted
    if not cleaning.outliers:
        return known
    logs = np.log(np.where(times > 0, times, np.nan))
    spread = np.nanstd(logs)
    z = (logs - np.nanmean(logs)) / (spread if spread > 0 else 1.0)
    # A time of 0 has no logarithm: its z is NaN, and NaN is not greater than anything.
    usual: Mask = ~(np.abs(z) > cleaning.outliers)
    return known & usual


def _check_same_words(rows: pd.DataFrame, where: str) -> None:
    """Raise unless all participants read the same words at the same positions."""
    first_words = rows.drop_duplicates(WORD_KEYS).set_index(WORD_KEYS)["word"]
    expected = first_words.reindex(pd.MultiIndex.from_frame(rows[WORD_KEYS])).to_numpy()
    different = rows[rows["word"].to_numpy() != expected].drop_duplicates(WORD_KEYS)
    if len(different):
        places = [
            f"text {row.text_id} word {row.word_id}: {row.word!r}, elsewhere {first_words[row.text_id, row.word_id]!r}"
            for row in different.itertuples()
        ]
        raise AlignmentError(
            f"{where}: participants have different words at {len(different)} places: {listing(places)}. "
            "If some rows are left out, specify the column that counts the words as `position_column`."
        )


def with_unigrams(rows: pd.DataFrame, unigrams: Unigrams) -> pd.DataFrame:
    """Add ``freq``, the unigram surprisal in nats, and drop the columns of earlier words', which it makes outdated."""
    outdated = [name for name in rows.columns if re.fullmatch(r"prev\d*_freq", str(name))]
    return rows.drop(columns=outdated).assign(freq=surprisals(rows["word"], unigrams))


# --- texts and surprisals ------------------------------------------------------------------------------------------


def texts_of(rows: pd.DataFrame) -> dict[object, list[str]]:
    """Return the words of each text, in order."""
    return {text: list(part["word"]) for text, part in rows.groupby("text_id", sort=False)}


def with_surprisals(rows: pd.DataFrame, scored: pd.DataFrame, where: str) -> pd.DataFrame:
    """Add surprisals to the rows that they belong to, by position; every word is compared.

    Parameters
    ----------
    rows
        Words and times; the texts in order.
    scored
        ``text_id`` (0, 1, … in the same order), ``word``, ``surprisal``, ``surprisal_naive`` in nats, and ``note``,
        which becomes ``surprisal_note``.
    where
        What errors call it.
    """
    scored_words = texts_of(scored)
    differences = []
    for number, (text, words) in enumerate(texts_of(rows).items()):
        differences += mismatches(words, scored_words.get(number, []), text)
    if differences:
        raise AlignmentError(f"{where}: the words of the table are not those of the text: {listing(differences)}.")
    ordered = scored.sort_values("text_id", kind="stable")
    names = [name for name in ESTIMATES.values() if name in ordered.columns]
    surprisals = {name: ordered[name].to_numpy(dtype=np.float64) for name in names}
    if "note" in ordered.columns:
        surprisals["surprisal_note"] = ordered["note"].to_numpy()
    earlier_surprisals = [name for name in rows.columns if "surprisal" in str(name)]
    return rows.drop(columns=earlier_surprisals).assign(**surprisals)


def mismatches(expected: list[str], scored: list[str], text: object) -> list[str]:
    """Return where the words of a table and the scored words of its text differ."""
    lines = []
    for number, (word, scored_word) in enumerate(zip(expected, scored, strict=False)):
        if word != scored_word:
            lines.append(f"text {text} word {number}: {word!r} in the table, {scored_word!r} in the text")
    if len(expected) != len(scored):
        lines.append(f"text {text}: {len(expected)} words in the table, {len(scored)} in the text")
    return lines
