"""The Provo release: eye tracking, a row for each participant and word; the texts are in the file of cloze norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.corpora.corpus_files import required_paths
from wordprob.corpora.csv_helpers import read_columns, readings_of, spelling, words_of
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, listing

if TYPE_CHECKING:
    import pandas as pd

TIMES = "Provo_Corpus-Eyetracking_Data.csv"
NORMS = "Provo_Corpus-Predictability_Norms.csv"

ENCODING = "mac_roman"
"""In this encoding, the bytes that others show as Õ and Ñ are an apostrophe and a dash."""

CHANGED_BY_SPREADSHEET = {"0.9": "90%"}
"""Words that a spreadsheet turned into something else."""


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read gaze durations (first-run dwell times); a word skipped at first pass has 0.

    First words of a text have no number in the release, and so no time.
    """
    times, norms = required_paths(corpus, paths, TIMES, NORMS)
    texts = _texts(norms)
    columns = ["Text_ID", "Word_Number", "IA_SKIP", "IA_FIRST_RUN_DWELL_TIME"]
    rows = read_columns(times, ["Participant_ID", "Word", *columns], columns, encoding=ENCODING)
    rows = rows.dropna(subset="Word_Number")
    rows = rows.rename(columns={"Participant_ID": "participant", "Text_ID": "text_id"})
    rows["time"] = rows["IA_FIRST_RUN_DWELL_TIME"].mask(rows["IA_SKIP"] == 1, 0.0)
    words = {text: line.split() for text, line in texts.items()}
    positions = _positions(corpus.name, rows, words)
    rows["word_id"] = [positions[key] for key in zip(rows["text_id"], rows["Word_Number"], strict=True)]
    return ReadingTimes(tuple(texts.values()), words_of(words), readings=readings_of(rows))


def _texts(path: Path) -> dict[int, str]:
    """Return the texts; of one that is written in two ways (a straight or a curly apostrophe), the more ASCII one."""
    rows = read_columns(path, ["Text_ID", "Text"], ["Text_ID"], encoding=ENCODING).drop_duplicates()
    rows["not_ascii"] = [sum(not letter.isascii() for letter in text) for text in rows["Text"]]
    chosen = rows.sort_values(["Text_ID", "not_ascii"], kind="stable").drop_duplicates("Text_ID")
    return {int(number): text.strip() for number, text in zip(chosen["Text_ID"], chosen["Text"], strict=True)}


def _positions(corpus: str, rows: pd.DataFrame, texts: Mapping[int, Sequence[str]]) -> dict[tuple[int, float], int]:
    """Return the position of every numbered word in its text. Numbers skip values, so words are searched in order."""
    positions: dict[tuple[int, float], int] = {}
    not_found: list[str] = []
    next_position = dict.fromkeys(texts, 0)
    numbered = rows.drop_duplicates(["text_id", "Word_Number"]).sort_values(["text_id", "Word_Number"])
    for text, number, word in numbered[["text_id", "Word_Number", "Word"]].itertuples(index=False):
        wanted_spelling = spelling(CHANGED_BY_SPREADSHEET.get(word, word))
        candidates = range(next_position.get(text, 0), len(texts.get(text, ())))
        position = next((n for n in candidates if spelling(texts[text][n]) == wanted_spelling), None)
        if position is None:
            not_found.append(f"text {text} word {number:g}: {word!r} is not in the text after the word before it")
        else:
            positions[text, number] = position
            next_position[text] = position + 1
    if not_found:
        raise AlignmentError(f"{corpus}: the times do not fit the texts: {listing(not_found)}.")
    return positions
