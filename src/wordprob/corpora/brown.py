"""Smith and Levy's self-paced reading of Brown corpus texts: a row for each participant and word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wordprob.corpora.corpus_files import required_paths
from wordprob.corpora.csv_helpers import check_spellings, read_columns, readings_of, texts_of, words_of
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, listing

TIMES = "brown_spr.csv"

PAPER_SPELLINGS = {" --": ",", "N. Y.": "N.Y.", "N. H.": "N.H."}
"""Words that contain a space were written without one for the paper's models."""


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read ``brown_spr.csv``; the texts are its words in the order of their positions."""
    [path] = required_paths(corpus, paths, TIMES)
    columns = ["text_id", "text_pos", "time"]
    rows = read_columns(path, ["word", "subject", *columns], columns)
    rows = rows.rename(columns={"subject": "participant", "text_pos": "word_id"})
    for released, in_paper in PAPER_SPELLINGS.items():
        rows["word"] = rows["word"].str.replace(released, in_paper, regex=False)
    rows["text_id"] += 1  # the paper's tables count texts from 1
    distinct = rows.drop_duplicates(["text_id", "word_id"]).sort_values(["text_id", "word_id"])
    gaps = distinct[distinct["word_id"] != distinct.groupby("text_id").cumcount()]
    if len(gaps):
        first_gaps = gaps.drop_duplicates("text_id")
        places = (f"text {row.text_id} word {row.word_id}" for row in first_gaps.itertuples())
        raise AlignmentError(f"{corpus.name}: words are missing before {listing(places)}.")
    texts = texts_of(distinct)
    words = words_of(texts)
    notes = check_spellings(corpus.name, words, rows)
    lines = tuple(" ".join(text) for text in texts.values())
    return ReadingTimes(lines, words, readings=readings_of(rows), notes=notes)
