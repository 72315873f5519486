"""The Dundee corpus as its owners give it out: a file of fixations for each participant and text, and the texts."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.corpora.csv_helpers import check_spellings, read_columns, readings_of, words_of
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FIXATIONS = re.compile(r"(s[a-z])(\d+)ma2p?\.dat")
TEXTS = re.compile(r"tx(\d+)wrdp\.dat")
CSV_OPTIONS: dict[str, Any] = {"sep": r"\s+", "quoting": csv.QUOTE_NONE, "encoding": "cp1252"}
TEXT_COLUMNS = ["word", "text", "screen", "line", "on_line", "serial", "first_letter", "length_written", "length",
                "punctuation", "before", "after", "number", "frequency"]  # fmt: skip
EXCLUDED_PARTICIPANT = "sg"
"""A participant whom Smith and Levy (2013), and the paper after them, leave out."""

MAX_WRITTEN_LETTERS = 20
"""Letters after which the fixation files cut a word off."""


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read first-pass gaze durations: 0 for words skipped, or first looked at after a later word."""
    import pandas as pd

    texts: dict[int, list[str]] = {}
    gazes: list[pd.DataFrame] = []
    for path in paths.values():
        text_file = TEXTS.fullmatch(path.name)
        if text_file:
            texts[int(text_file[1])] = _text(path)
        fixation_file = FIXATIONS.fullmatch(path.name)
        if fixation_file and fixation_file[1] != EXCLUDED_PARTICIPANT:
            participant, text = fixation_file.groups()
            gazes.append(_gaze(path).assign(participant=participant, text_id=int(text)))
    if not texts or not gazes:
        raise InputError(
            f"the folder has no {'texts (tx01wrdp.dat …)' if not texts else 'fixations (sa01ma2p.dat …)'}, which "
            f"{corpus.name} is read from. {corpus.by_hand}."
        )
    rows = pd.concat(gazes, ignore_index=True)
    words = words_of(dict(sorted(texts.items())))
    notes = check_spellings(corpus.name, words.assign(word=words["word"].str[:MAX_WRITTEN_LETTERS]), rows)
    lines = tuple(" ".join(texts[number]) for number in sorted(texts))
    return ReadingTimes(lines, words, readings=readings_of(rows), notes=notes)


def _text(path: Path) -> list[str]:
    """Return the words of a text, in the order of their numbers."""
    table = read_columns(path, ["word", "number"], ["number"], names=TEXT_COLUMNS, header=None, **CSV_OPTIONS)
    table = table.drop_duplicates().sort_values("number", kind="stable")
    if table["number"].tolist() != list(range(1, len(table) + 1)):
        raise InputError(f"{path}: the words should be numbered 1, 2, … in the thirteenth column.")
    return [str(word) for word in table["word"]]


def _gaze(path: Path) -> pd.DataFrame:
    """Return ``word_id, word, time`` for every word of one reading of one text."""
    numbers = ["WNUM", "FDUR", "FXNO"]
    rows = read_columns(path, ["WORD", *numbers], numbers, **CSV_OPTIONS)
    fixations = rows[rows["FXNO"] > 0].sort_values("FXNO", kind="stable")
    number = fixations["WNUM"]
    # A gaze is a run of fixations on one word; it is a first pass if no later word was looked at before it.
    gaze = (number != number.shift()).cumsum()
    durations = fixations.groupby(gaze)["FDUR"].sum()
    first_pass = ~number.duplicated() & (number > number.cummax().shift(fill_value=0))
    times = dict(zip(number[first_pass], durations.loc[gaze[first_pass]], strict=True))
    words = rows.drop_duplicates("WNUM")[["WNUM", "WORD"]].rename(columns={"WORD": "word"})
    return words.assign(word_id=words["WNUM"] - 1, time=[float(times.get(n, 0)) for n in words["WNUM"]])
