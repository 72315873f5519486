"""The tables that Pimentel & Meister (2024) published: means by word, with their models' surprisals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.core.vocabulary import byte_alphabet
from wordprob.corpora.csv_helpers import read_columns
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, InputError

if TYPE_CHECKING:
    import pandas as pd

VALUES = ["text_id", "word_id", "time", "word_len", "freq", "surprisal", "surprisal_buggy"]


def tables(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read the authors' tables: the words come from the texts, everything else from the tables."""
    text_path = paths.get(f"texts/{corpus.name}.txt")
    path_of_model = {}
    for name, path in paths.items():
        if "merged" in name:
            path_of_model[Path(name).stem.removeprefix(f"{corpus.name}-")] = path
    if text_path is None or not path_of_model:
        raise InputError(
            f"the folder has no {corpus.name}: there should be texts/{corpus.name}.txt and "
            f"merged/{corpus.name}-MODEL.tsv."
        )
    texts = tuple(text_path.read_text(encoding="utf-8").split("\n"))
    texts = texts[:-1] if not texts[-1].strip() else texts
    scored = {model: _merged(path, texts) for model, path in path_of_model.items()}
    columns = ["text_id", "word_id", "word", "time", "word_len", "freq"]
    return ReadingTimes(texts, next(iter(scored.values()))[columns], scored)


def _merged(path: Path, texts: tuple[str, ...]) -> pd.DataFrame:
    table = read_columns(path, ["word", *VALUES], VALUES, sep="\t", float_precision="round_trip")
    words = [word for text in texts for word in text.split()]
    table_words = [without_byte_spelling(str(word)) for word in table["word"]]
    pairs = zip(table_words, words, strict=False)
    different = [f"{table_word!r} for {word!r}" for table_word, word in pairs if table_word != word]
    if different or len(table_words) != len(words):
        raise AlignmentError(
            f"{path} does not fit its texts: {len(table_words)} rows for {len(words)} words. {', '.join(different[:5])}"
        )
    frame = table[VALUES].rename(columns={"surprisal_buggy": "surprisal_naive"}).reset_index(drop=True)
    return frame.assign(word=words)


def without_byte_spelling(word: str) -> str:
    """Undo the byte-level spelling that a few words of the authors' tables have.

    Examples
    --------
    >>> without_byte_spelling("Ãĳ"), without_byte_spelling("Ñ"), without_byte_spelling("plain")
    ('Ñ', 'Ñ', 'plain')
    """
    alphabet = byte_alphabet()
    if word.isascii() or any(letter not in alphabet for letter in word):
        return word
    try:
        return bytes(alphabet[letter] for letter in word).decode("utf-8")
    except UnicodeDecodeError:
        return word
