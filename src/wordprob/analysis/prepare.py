"""From what participants did to one row a word: outliers, means, and surprisals put beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from wordprob.analysis.frequencies import Unigrams, surprisals
from wordprob.analysis.tables import Mask, check_times, numbers, require
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import AlignmentError, InputError, OptionError, listing

KEYS = ["text_id", "word_id"]
SKIPPED = ("zero", "missing")


@dataclass(frozen=True)
class Columns:
    """What the columns of a user's table are called.

    Attributes
    ----------
    word, time
        The word and its reading time.
    text
        Which text it is in; without it, the table is one text.
    position
        Which word of the text it is; without it, the order of the rows tells.
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
            raise OptionError(f"skipped words count as {' or '.join(SKIPPED)}, not as '{self.skipped}'.")
        if self.outliers < 0:
            raise OptionError(f"{self.outliers:g} standard deviations cannot be; use 0 to keep all times.")


def words_and_times(
    frame: pd.DataFrame, columns: Columns, cleaning: Cleaning | None = None, where: str = "the table"
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
    rows = _canonical(frame, columns, times, where)
    if columns.participant is None:
        rest = frame.drop(columns=[name for name in rows.columns if name in frame.columns])
        return _in_order(rows.join(rest))
    return _mean(rows, cleaning or Cleaning(), where)


def _canonical(frame: pd.DataFrame, columns: Columns, times: Floats, where: str) -> pd.DataFrame:
    words = frame[columns.word].astype(str)
    rows = pd.DataFrame({"text_id": frame[columns.text] if columns.text else 1}, index=frame.index)
    readers = [rows["text_id"]] + ([frame[columns.participant]] if columns.participant else [])
    order = rows.groupby(readers, sort=False).cumcount()
    rows["word_id"] = _positions(frame, columns.position, where) if columns.position else order
    counted = "word_len" in frame.columns and columns.participant is None
    lengths = numbers(frame, "word_len", where) if counted else words.str.len().to_numpy(dtype=np.float64)
    return rows.assign(word=words, time=times, word_len=lengths)


def _positions(frame: pd.DataFrame, column: str, where: str) -> Ints:
    found = numbers(frame, column, where)
    if len(wrong := np.flatnonzero(found != np.round(found))):
        places = (f"row {row + 1}: {frame[column].iloc[row]!r}" for row in wrong)
        raise InputError(f"{where}: column '{column}' should count the words, but holds {listing(places)}.")
    return found.astype(np.int64)


def _mean(rows: pd.DataFrame, cleaning: Cleaning, where: str) -> pd.DataFrame:
    _check_same_words(rows, where)
    return _in_order(average(rows.drop_duplicates(KEYS).drop(columns="time"), rows, cleaning))


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
    kept = keep(readings["time"].to_numpy(dtype=np.float64), cleaning)
    times = readings[kept].groupby(KEYS, sort=False)["time"].mean()
    # Words without any time stay as rows: they are somebody's predecessors.
    found = words.set_index(KEYS).assign(time=times).reset_index()
    return found.assign(word_len=found["word"].str.len().astype(np.float64))


def tally(times: Floats, cleaning: Cleaning) -> dict[str, int]:
    """Count the times there are, those that are 0, and the outliers that are dropped."""
    known = np.isfinite(times)
    dropped = known & (times > 0) & ~keep(times, cleaning)
    return {"times": int(known.sum()), "zero": int((times == 0).sum()), "outliers": int(dropped.sum())}


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort: texts as they came, words by their place."""
    texts = pd.factorize(rows["text_id"])[0]
    return rows.iloc[np.lexsort((rows["word_id"].to_numpy(), texts))].reset_index(drop=True)


def keep(times: Floats, cleaning: Cleaning) -> Mask:
    """Mark the times that count towards a mean: known, not skipped if that means missing, and no outliers.

    z-scores are of the logarithm over all positive times, whoever's they are; a time of 0 is no outlier.
    """
    known: Mask = np.isfinite(times) & ((times > 0) if cleaning.skipped == "missing" else (times >= 0))
    if not cleaning.outliers:
        return known
    logs = np.log(np.where(times > 0, times, np.nan))
    spread = np.nanstd(logs)
    z = (logs - np.nanmean(logs)) / (spread if spread > 0 else 1.0)
    usual: Mask = ~(np.abs(z) > cleaning.outliers)
    return known & usual


def _check_same_words(rows: pd.DataFrame, where: str) -> None:
    """Make sure that all participants read the same words at the same places."""
    usual = rows.drop_duplicates(KEYS).set_index(KEYS)["word"]
    expected = usual.reindex(pd.MultiIndex.from_frame(rows[KEYS])).to_numpy()
    wrong = rows[rows["word"].to_numpy() != expected].drop_duplicates(KEYS)
    if len(wrong):
        places = [f"text {r.text_id} word {r.word_id}: {r.word!r}, elsewhere {usual[r.text_id, r.word_id]!r}"
                  for r in wrong.itertuples()]  # fmt: skip
        raise AlignmentError(
            f"{where}: participants have different words at {len(wrong)} places: {listing(places)}. "
            "If some rows are left out, name the column that counts the words with --position-column."
        )


def with_unigrams(rows: pd.DataFrame, unigrams: Unigrams) -> pd.DataFrame:
    """Add ``freq``, the unigram surprisal in nats; what a table says of earlier words' is then out of date."""
    stale = [name for name in rows.columns if re.fullmatch(r"prev\d*_freq", str(name))]
    return rows.drop(columns=stale).assign(freq=surprisals(rows["word"], unigrams))


# --- texts and surprisals ------------------------------------------------------------------------------------------


def texts_of(rows: pd.DataFrame) -> dict[object, list[str]]:
    """Return the words of each text, in order."""
    return {text: list(part["word"]) for text, part in rows.groupby("text_id", sort=False)}


def with_surprisals(rows: pd.DataFrame, scored: pd.DataFrame, where: str) -> pd.DataFrame:
    """Put scored words beside the rows they belong to, by position, checking every word.

    Parameters
    ----------
    rows
        Words and times; the texts in order.
    scored
        ``text_id`` (0, 1, … in the same order), ``word``, ``surprisal``, ``surprisal_naive`` in nats.
    where
        What errors call it.
    """
    texts = [part["word"].tolist() for _, part in rows.groupby("text_id", sort=False)]
    there = {text: part["word"].tolist() for text, part in scored.groupby("text_id", sort=False)}
    names = list(texts_of(rows))
    wrong = [line for n, words in enumerate(texts) for line in mismatches(words, there.get(n, []), names[n])]
    if wrong:
        raise AlignmentError(f"{where}: the words of the table are not those of the text: {listing(wrong)}.")
    ordered = scored.sort_values("text_id", kind="stable")
    values = {name: ordered[name].to_numpy(dtype=np.float64) for name in ("surprisal", "surprisal_naive")}
    return rows.drop(columns=[c for c in rows.columns if "surprisal" in str(c)]).assign(**values)


def mismatches(expected: list[str], found: list[str], text: object) -> list[str]:
    """List where two word lists of a text differ."""
    pairs = enumerate(zip(expected, found, strict=False))
    lines = [f"text {text} word {n}: {a!r} in the table, {b!r} in the text" for n, (a, b) in pairs if a != b]
    if len(expected) != len(found):
        lines.append(f"text {text}: {len(expected)} words in the table, {len(found)} in the text")
    return lines
