"""MECO: means by word with mGPT's surprisals, and the release itself with a row for each participant and word."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.corpora.csv_helpers import check_spellings, read, readings_of, texts_of, words_of
from wordprob.corpora.files import needed
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import InputError, UnsupportedError, missing_columns

if TYPE_CHECKING:
    import pandas as pd

PREDICTORS = ["len", "freq", "surp"]
RELEASE = "joint_data_trimmed.rda"
PATTERNS = ("*joint*data_trimmed*.csv", "*joint*data_trimmed*.rda")
KEPT = ["uniform_id", "lang", "trialid", "skip", "firstrun.dur"]
PLACES = (("ianum", "ia"), ("wordnum", "word"))
"""What the number and the word are called, in version 1 and in version 2."""


# --- the release ---------------------------------------------------------------------------------------------------


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read the gaze durations of one language; a word that was skipped has 0."""
    if not paths:
        needed(corpus, paths, RELEASE)
    rows = _joint(next(iter(paths.values())))
    code = corpus.name.removeprefix("meco-").removesuffix("-raw")
    rows = rows[(rows["lang"] == code) & (rows["word"].str.strip() != "")].copy()
    if rows.empty:
        raise InputError(f"{next(iter(paths.values()))} has no rows whose lang is '{code}'.")
    rows["time"] = rows["firstrun.dur"].mask(rows["skip"] == 1, 0.0)
    # Blank words and skipped numbers leave gaps; the words that are there follow one another.
    rows["word_id"] = rows.groupby("text_id")["number"].rank(method="dense").astype(int) - 1
    usual = rows.groupby(["text_id", "word_id"])["word"].agg(lambda words: words.mode().iloc[0])
    texts = texts_of(usual.reset_index())
    words = words_of(texts)
    notes = check_spellings(corpus.name, words, rows)
    return ReadingTimes(
        tuple(" ".join(text) for text in texts.values()), words, readings=readings_of(rows), notes=notes
    )


@lru_cache(maxsize=1)
def _joint(path: Path) -> pd.DataFrame:
    """Read the file of all languages once for all of them."""
    table = _r(path) if path.suffix == ".rda" else _csv(path)
    number, word = next(((n, w) for n, w in PLACES if n in table.columns and w in table.columns), PLACES[0])
    if message := missing_columns(str(path), [*KEPT, number, word], table.columns):
        raise InputError(message)
    table = table[[*KEPT, number, word]].rename(columns={"uniform_id": "participant", number: "number", word: "word"})
    table = table[table["trialid"].notna()]
    return table.assign(word=table["word"].fillna("").astype(str), number=table["number"].astype(float),
                        text_id=table["trialid"].astype(int))  # fmt: skip


def _csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    there = set(pd.read_csv(path, nrows=0).columns)
    number, word = next((pair for pair in PLACES if set(pair) <= there), PLACES[0])
    return read(path, [*KEPT, number, word], ["trialid", "skip", "firstrun.dur", number])


def _r(path: Path) -> pd.DataFrame:
    try:
        import pyreadr
    except ImportError as error:
        raise UnsupportedError(
            f"{path.name} is R's: pip install pyreadr; or in R: load('{path.name}'); "
            f"write.csv(joint.data, '{path.stem}.csv', row.names = FALSE)"
        ) from error
    table: pd.DataFrame = pyreadr.read_r(str(path))["joint.data"]
    return table


# --- means -----------------------------------------------------------------------------------------------------------


def means(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read MECO means: gaze durations, wordfreq frequencies, and mGPT's surprisals in bits, summed over tokens."""
    import pandas as pd

    [path] = needed(corpus, paths, corpus.files[0].path)
    numbers = ["trialid", "ianum", "gaze_rt", *PREDICTORS]
    table = read(path, ["ia", *numbers], numbers)
    frame = pd.concat([_realigned(part) for _, part in table.groupby("trialid", sort=False)], ignore_index=True)
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
    texts = tuple(" ".join(part) for _, part in words.groupby("text_id", sort=False)["word"])
    return ReadingTimes(texts, words, {"mGPT": words.assign(surprisal_naive=bits * math.log(2))})


def _realigned(text: pd.DataFrame) -> pd.DataFrame:
    """Put the predictors of a text back beside their words.

    In the published tables an empty word, or a skipped number, may leave all predictors after it one row too early.
    The lengths give it away: there the predictors are moved back, and what still does not fit its word is missing.
    """
    text = text.sort_values("ianum").reset_index(drop=True)
    blank, gap = text["ia"] == "", text["ianum"].diff() > 1
    for event in text.index[blank | gap]:
        late = text.index >= event
        moved = text[PREDICTORS].shift(1)
        until = text.index < min([e for e in text.index[blank | gap] if e > event], default=len(text))
        if _fit(text["ia"], moved["len"], late & until) > _fit(text["ia"], text["len"], late & until):
            # The predictors at a blank are the next word's; before a skipped number there are none.
            text.loc[late, PREDICTORS] = moved[late]
            text.loc[event, PREDICTORS] = math.nan
            text.loc[late, "ianum"] -= 1
    text.loc[text["ia"].str.len() != text["len"], PREDICTORS] = math.nan
    return text[~blank]


def _fit(words: pd.Series, lengths: pd.Series, where: pd.Series) -> int:
    return int((words.str.len() == lengths)[where].sum())
