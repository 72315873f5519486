"""MECO: means by word with mGPT's surprisals, and the release itself with a row for each participant and word."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.corpora.corpus_files import required_paths
from wordprob.corpora.csv_helpers import check_spellings, read_columns, readings_of, texts_of, words_of
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import InputError, UnsupportedError, missing_columns

if TYPE_CHECKING:
    import pandas as pd

PREDICTORS = ["len", "freq", "surp"]
RELEASE = "joint_data_trimmed.rda"
PATTERNS = ("*joint*data_trimmed*.csv", "*joint*data_trimmed*.rda")
KEPT_COLUMNS = ["uniform_id", "lang", "trialid", "skip", "firstrun.dur"]
NUMBER_AND_WORD = (("ianum", "ia"), ("wordnum", "word"))
"""The columns of a word's number and of the word, in version 1 and in version 2."""


# --- the release ---------------------------------------------------------------------------------------------------


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read the gaze durations of one language; a word that was skipped has 0."""
    if not paths:
        required_paths(corpus, paths, RELEASE)
    path = next(iter(paths.values()))
    rows = _read_all_languages(path)
    code = corpus.name.removeprefix("meco-").removesuffix("-raw")
    rows = rows[(rows["lang"] == code) & (rows["word"].str.strip() != "")].copy()
    if rows.empty:
        raise InputError(f"{path} has no rows whose lang is '{code}'.")
    rows["time"] = rows["firstrun.dur"].mask(rows["skip"] == 1, 0.0)
    # Blank words and skipped numbers leave gaps, which are closed.
    rows["word_id"] = rows.groupby("text_id")["number"].rank(method="dense").astype(int) - 1
    most_frequent = rows.groupby(["text_id", "word_id"])["word"].agg(lambda words: words.mode().iloc[0])
    texts = texts_of(most_frequent.reset_index())
    words = words_of(texts)
    notes = check_spellings(corpus.name, words, rows)
    lines = tuple(" ".join(text) for text in texts.values())
    return ReadingTimes(lines, words, readings=readings_of(rows), notes=notes)


def _read_all_languages(path: Path) -> pd.DataFrame:
    """Return the rows of all languages, which are in one file; it is read once and kept until it changes."""
    return _read_release(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read_release(path: Path, _modified: int) -> pd.DataFrame:
    table = _read_rda(path) if path.suffix == ".rda" else _read_csv(path)
    number, word = _number_and_word(table.columns)
    message = missing_columns(str(path), [*KEPT_COLUMNS, number, word], table.columns)
    if message:
        raise InputError(message)
    table = table[[*KEPT_COLUMNS, number, word]]
    table = table.rename(columns={"uniform_id": "participant", number: "number", word: "word"})
    table = table[table["trialid"].notna()]
    return table.assign(
        participant=table["participant"].astype(str),
        word=table["word"].fillna("").astype(str),
        number=table["number"].astype(float),
        text_id=table["trialid"].astype(int),
    )


def _number_and_word(columns: Iterable[str]) -> tuple[str, str]:
    """Return the columns of numbers and words, by the version that a table is of."""
    names = set(columns)
    for pair in NUMBER_AND_WORD:
        if names.issuperset(pair):
            return pair
    return NUMBER_AND_WORD[0]


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    number, word = _number_and_word(pd.read_csv(path, nrows=0).columns)
    return read_columns(path, [*KEPT_COLUMNS, number, word], ["trialid", "skip", "firstrun.dur", number])


def _read_rda(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        import rdata
    except ImportError as error:
        raise UnsupportedError(
            f"{path.name} is R's: pip install rdata; or in R: load('{path.name}'); "
            f"write.csv(joint.data, '{path.stem}.csv', row.names = FALSE)"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes of tables that only R knows are read as tables
            objects = rdata.read_rda(path, default_encoding="utf-8")
    except Exception as error:  # the package has no exception of its own
        raise InputError(f"{path} cannot be read as a file of R: {error}. Download it again.") from error
    table = objects.get("joint.data")
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"{path} has no table joint.data; it has {', '.join(objects)}.")
    return table.astype(dict.fromkeys(table.select_dtypes("number"), float))


# --- means -----------------------------------------------------------------------------------------------------------


def means(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read MECO means: gaze durations, wordfreq frequencies, and mGPT's surprisals in bits, summed over tokens."""
    import pandas as pd

    [path] = required_paths(corpus, paths, corpus.files[0].path)
    numbers = ["trialid", "ianum", "gaze_rt", *PREDICTORS]
    table = read_columns(path, ["ia", *numbers], numbers)
    realigned = [_realigned(text) for _, text in table.groupby("trialid", sort=False)]
    frame = pd.concat(realigned, ignore_index=True)
    words = pd.DataFrame(
        {
            "text_id": frame["trialid"],
            "word_id": frame["ianum"] - 1,
            "word": frame["ia"],
            "time": frame["gaze_rt"],
            "word_len": frame["len"].astype(float),
            "freq": [-math.log(p) if p > 0 else math.nan for p in frame["freq"]],
        }
    )
    # A first word of 0 bits was not scored.
    bits = frame["surp"].mask((frame["ianum"] == 1) & (frame["surp"] == 0))
    texts = tuple(" ".join(text_words) for _, text_words in words.groupby("text_id", sort=False)["word"])
    return ReadingTimes(texts, words, {"mGPT": words.assign(surprisal_naive=bits * math.log(2))})


def _realigned(text: pd.DataFrame) -> pd.DataFrame:
    """Move the predictors of a text back to the rows of their words.

    In the published tables an empty word, or a skipped number, may leave all predictors after it one row too early.
    The lengths show it: there the predictors are moved back; those that still do not fit their words are missing.
    """
    text = text.sort_values("ianum").reset_index(drop=True)
    is_blank = text["ia"] == ""
    is_after_gap = text["ianum"].diff() > 1
    shifts = text.index[is_blank | is_after_gap]
    for start in shifts:
        end = min([later for later in shifts if later > start], default=len(text))
        from_start = text.index >= start
        until_next = from_start & (text.index < end)
        moved = text[PREDICTORS].shift(1)
        if _matches(text["ia"], moved["len"], until_next) > _matches(text["ia"], text["len"], until_next):
            # The predictors at a blank are the next word's; before a skipped number there are none.
            text.loc[from_start, PREDICTORS] = moved[from_start]
            text.loc[start, PREDICTORS] = math.nan
            text.loc[from_start, "ianum"] -= 1
    text.loc[text["ia"].str.len() != text["len"], PREDICTORS] = math.nan
    return text[~is_blank]


def _matches(words: pd.Series, lengths: pd.Series, rows: pd.Series) -> int:
    """Return how many of these rows have a length that is their word's."""
    return int((words.str.len() == lengths)[rows].sum())
