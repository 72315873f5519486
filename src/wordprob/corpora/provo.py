"""The Provo release: eye tracking, a row for each participant and word, and the texts beside the cloze norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.corpora.csv_helpers import read, readings_of, spelling, words_of
from wordprob.corpora.files import needed
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, listing

if TYPE_CHECKING:
    import pandas as pd

TIMES = "Provo_Corpus-Eyetracking_Data.csv"
NORMS = "Provo_Corpus-Predictability_Norms.csv"

ENCODING = "mac_roman"
"""The bytes that other readers show as Õ and Ñ are an apostrophe and a dash in this one."""

SPREADSHEET = {"0.9": "90%"}
"""What a spreadsheet made of a word."""


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read gaze durations (first-run dwell times); a word skipped at first pass has 0.

    First words of a text have no number in the release, and so no time.
    """
    times, norms = needed(corpus, paths, TIMES, NORMS)
    texts = _texts(norms)
    columns = ["Text_ID", "Word_Number", "IA_SKIP", "IA_FIRST_RUN_DWELL_TIME"]
    rows = read(times, ["Participant_ID", "Word", *columns], columns, encoding=ENCODING).dropna(subset="Word_Number")
    rows = rows.rename(columns={"Participant_ID": "participant", "Text_ID": "text_id"})
    rows["time"] = rows["IA_FIRST_RUN_DWELL_TIME"].mask(rows["IA_SKIP"] == 1, 0.0)
    places = _places(corpus.name, rows, {text: line.split() for text, line in texts.items()})
    rows["word_id"] = [places[key] for key in zip(rows["text_id"], rows["Word_Number"], strict=True)]
    words = words_of({text: line.split() for text, line in texts.items()})
    return ReadingTimes(tuple(texts.values()), words, readings=readings_of(rows))


def _texts(path: Path) -> dict[int, str]:
    """Return the texts; of one that is written in two ways (an apostrophe straight or curly), the plainer."""
    rows = read(path, ["Text_ID", "Text"], ["Text_ID"], encoding=ENCODING).drop_duplicates()
    plainest = rows.assign(odd=[sum(not letter.isascii() for letter in text) for text in rows["Text"]])
    chosen = plainest.sort_values(["Text_ID", "odd"], kind="stable").drop_duplicates("Text_ID")
    return {int(number): text.strip() for number, text in zip(chosen["Text_ID"], chosen["Text"], strict=True)}


def _places(corpus: str, rows: pd.DataFrame, texts: Mapping[int, Sequence[str]]) -> dict[tuple[int, float], int]:
    """Find every numbered word in its text. Numbers skip some values, so words are looked for in order."""
    found: dict[tuple[int, float], int] = {}
    lost: list[str] = []
    here = dict.fromkeys(texts, 0)
    numbered = rows.drop_duplicates(["text_id", "Word_Number"]).sort_values(["text_id", "Word_Number"])
    for text, number, word in numbered[["text_id", "Word_Number", "Word"]].itertuples(index=False):
        wanted = spelling(SPREADSHEET.get(word, word))
        ahead = range(here.get(text, 0), len(texts.get(text, ())))
        place = next((n for n in ahead if spelling(texts[text][n]) == wanted), None)
        if place is None:
            lost.append(f"text {text} word {number:g}: {word!r} is not in the text after the word before it")
        else:
            found[text, number], here[text] = place, place + 1
    if lost:
        raise AlignmentError(f"{corpus}: the times do not fit the texts: {listing(lost)}.")
    return found
