"""Smith and Levy's self-paced reading of Brown corpus texts: a row for each participant and word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wordprob.corpora.csv_helpers import check_spellings, read, readings_of, texts_of, words_of
from wordprob.corpora.files import needed
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, listing

TIMES = "brown_spr.csv"

AS_IN_THE_PAPER = {" --": ",", "N. Y.": "N.Y.", "N. H.": "N.H."}
"""Words that hold a space were written without one for the paper's models."""


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read ``brown_spr.csv``; the texts are the words in their places."""
    [path] = needed(corpus, paths, TIMES)
    columns = ["text_id", "text_pos", "time"]
    rows = read(path, ["word", "subject", *columns], columns)
    rows = rows.rename(columns={"subject": "participant", "text_pos": "word_id"})
    for given, written in AS_IN_THE_PAPER.items():
        rows["word"] = rows["word"].str.replace(given, written, regex=False)
    rows["text_id"] += 1  # as the paper's tables count
    distinct = rows.drop_duplicates(["text_id", "word_id"]).sort_values(["text_id", "word_id"])
    gaps = distinct[distinct["word_id"] != distinct.groupby("text_id").cumcount()]
    if len(gaps):
        places = (f"text {row.text_id} word {row.word_id}" for row in gaps.drop_duplicates("text_id").itertuples())
        raise AlignmentError(f"{corpus.name}: words are missing before {listing(places)}.")
    texts = texts_of(distinct)
    words = words_of(texts)
    notes = check_spellings(corpus.name, words, rows)
    return ReadingTimes(
        tuple(" ".join(text) for text in texts.values()), words, readings=readings_of(rows), notes=notes
    )
