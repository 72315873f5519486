"""What is known about a corpus before it is read, and what reading it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes fetched so far and the number of bytes (0 if unknown)."""


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus: its path in a folder, its address, and its SHA-256; without one it is never fetched."""

    path: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class ReadingTimes:
    """The texts, words and times of a corpus.

    Attributes
    ----------
    texts
        The texts as the models see them.
    words
        ``text_id, word_id, word``, the words of the texts in order; and where the corpus comes averaged, ``time,
        word_len, freq`` (unigram surprisal, nats).
    scored
        The same rows with the surprisals that were published with them, nats, by model.
    readings
        Where the corpus comes with participants, ``participant, text_id, word_id, time``: every time measured, as
        published, a skipped word's being 0.
    files
        The SHA-256 of every file that was read, by its path in the registry.
    notes
        What a user should know.
    """

    texts: tuple[str, ...] = field(repr=False)
    words: pd.DataFrame = field(repr=False)
    scored: Mapping[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    readings: pd.DataFrame | None = field(default=None, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """What is known about a corpus before it is read.

    Attributes
    ----------
    name, title
        Its name in commands, and in tables and figures.
    licence, citation
        Its terms, and whom to cite.
    files
        What it is read from.
    loader
        The function that reads it, given the path of each file.
    measure
        What a time measures.
    language
        The language code of its texts, as in wordfreq.
    participants
        True if it has a time for each participant; False if it has means and surprisals.
    folder
        The subfolder for its files, in the cache and in a folder of the user's.
    patterns
        Patterns of further files that a folder may hold.
    by_hand
        Where to get files that are never fetched, and what to do with them.
    note
        What a user should know.
    """

    name: str
    title: str
    licence: str
    citation: str
    files: tuple[CorpusFile, ...]
    loader: Callable[[Corpus, Mapping[str, Path]], ReadingTimes] = field(repr=False)
    measure: str
    language: str = "en"
    participants: bool = False
    folder: str = ""
    patterns: tuple[str, ...] = ()
    by_hand: str = ""
    note: str = ""

    @property
    def fetched(self) -> bool:
        """True if its files are fetched when they are needed; otherwise the user must have them in a folder."""
        return all(file.sha256 for file in self.files)
