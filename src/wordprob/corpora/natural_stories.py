"""The Natural Stories release: self-paced reading, a row for each participant and word."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from wordprob.corpora.corpus_files import required_paths
from wordprob.corpora.csv_helpers import check_spellings, read_columns, readings_of, texts_of, words_of
from wordprob.corpora.types import Corpus, ReadingTimes

TIMES = "naturalstories_RTS/processed_RTs.tsv"
TEXT = "texts/natural_stories.txt"
TOKENS = "all_stories.tok"


def release(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read ``processed_RTs.tsv``, whose authors have taken out careless readers and times outside 100–3000 ms."""
    [path] = required_paths(corpus, paths, TIMES)
    texts = _stories(corpus, paths)
    words = words_of(texts)
    rows = read_columns(path, ["WorkerId", "item", "zone", "RT", "word"], ["item", "zone", "RT"], sep="\t")
    rows = rows.drop_duplicates()  # a few rows are in the release twice
    rows = rows.rename(columns={"WorkerId": "participant", "item": "text_id", "RT": "time"})
    rows["word_id"] = rows["zone"] - 1
    notes = check_spellings(corpus.name, words, rows)
    lines = tuple(" ".join(story) for story in texts.values())
    return ReadingTimes(lines, words, readings=readings_of(rows), notes=notes)


def _stories(corpus: Corpus, paths: Mapping[str, Path]) -> dict[int, list[str]]:
    """Return the words of each story: from the release's own list, or from the text that the paper's models saw."""
    token_list = next((path for name, path in paths.items() if Path(name).name == TOKENS), None)
    if token_list is None:
        [text] = required_paths(corpus, paths, TEXT)
        lines = text.read_text(encoding="utf-8").splitlines()
        return {number: line.split() for number, line in enumerate(lines, start=1)}
    tokens = read_columns(token_list, ["word", "zone", "item"], ["zone", "item"], sep="\t", quoting=csv.QUOTE_NONE)
    return texts_of(tokens.rename(columns={"item": "text_id"}).sort_values(["text_id", "zone"]))
