"""What is known of a corpus before it is read, and what is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes fetched and the bytes in all (0 if unknown)."""


@dataclass(frozen=True)
class File:
    """A file of a corpus: its place in a folder, its address, and its SHA-256 (empty: never fetched)."""

    path: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class ReadingTimes:
    """A corpus, read.

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
        The SHA-256 of every file that was read, by what the registry calls it.
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
    """What is known of a corpus before it is read.

    Attributes
    ----------
    name, title
        What it is called on the command line, and in tables and figures.
    licence, citation
        Its terms, and whom to cite.
    files
        What it is read from.
    loader
        Reads it, given where each file is.
    measure
        What a time is.
    language
        The language of its texts, as wordfreq calls it.
    participants
        Whether it has a time for each participant, or means and surprisals.
    folder
        Where its files are kept in the cache; also looked for in a folder of one's own.
    patterns
        Further files that a folder may hold.
    by_hand
        Where to get what is never fetched, and what to do with it.
    note
        What a user should know.
    """

    name: str
    title: str
    licence: str
    citation: str
    files: tuple[File, ...]
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
        """Whether it is fetched when asked for; otherwise it needs a folder of one's own."""
        return all(file.sha256 for file in self.files)
