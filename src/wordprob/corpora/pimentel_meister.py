"""The tables that Pimentel & Meister (2024) published: means by word, with their models' surprisals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.core.byte_alphabet import byte_alphabet
from wordprob.corpora.csv_helpers import read
from wordprob.corpora.types import Corpus, ReadingTimes
from wordprob.errors import AlignmentError, InputError

if TYPE_CHECKING:
    import pandas as pd

VALUES = ["text_id", "word_id", "time", "word_len", "freq", "surprisal", "surprisal_buggy"]


def tables(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read the authors' tables: the words come from the texts, everything else from the tables."""
    text_path = paths.get(f"texts/{corpus.name}.txt")
    tables = {Path(name).stem.removeprefix(f"{corpus.name}-"): path for name, path in paths.items() if "merged" in name}
    if text_path is None or not tables:
        raise InputError(
            f"the folder has no {corpus.name}: there should be texts/{corpus.name}.txt and "
            f"merged/{corpus.name}-MODEL.tsv. See 'wordprob reading-times --help'."
        )
    texts = tuple(text_path.read_text(encoding="utf-8").split("\n"))
    texts = texts[:-1] if not texts[-1].strip() else texts
    scored = {model: _merged(path, texts) for model, path in tables.items()}
    columns = ["text_id", "word_id", "word", "time", "word_len", "freq"]
    return ReadingTimes(texts, next(iter(scored.values()))[columns], scored)


def _merged(path: Path, texts: tuple[str, ...]) -> pd.DataFrame:
    table = read(path, ["word", *VALUES], VALUES, sep="\t", float_precision="round_trip")
    words = [word for text in texts for word in text.split()]
    given = [_from_bytes(str(word)) for word in table["word"]]
    wrong = [f"{a!r} for {b!r}" for a, b in zip(given, words, strict=False) if a != b]
    if wrong or len(given) != len(words):
        raise AlignmentError(
            f"{path} does not fit its texts: {len(given)} rows for {len(words)} words. {', '.join(wrong[:5])}"
        )
    frame = table[VALUES].rename(columns={"surprisal_buggy": "surprisal_naive"}).reset_index(drop=True)
    return frame.assign(word=words)


def _from_bytes(word: str) -> str:
    """Undo the byte-level spelling in which a few words of the authors' tables were left (``Ãĳ`` for ``Ñ``)."""
    alphabet = byte_alphabet()
    if word.isascii() or any(letter not in alphabet for letter in word):
        return word
    try:
        return bytes(alphabet[letter] for letter in word).decode("utf-8")
    except UnicodeDecodeError:
        return word
