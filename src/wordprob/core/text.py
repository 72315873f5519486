"""Texts and words: the nouns that everything else speaks of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, cumulative_offsets


class Document(NamedTuple):
    """One text and the name it goes by."""

    id: int | str
    text: str


class TextBatch:
    """Texts laid end to end, a line break after each, so that one pass goes over all of them.

    Places are counted in characters of :attr:`text`; ``begins[d]`` is where text ``d`` begins, ``begins[-1]`` where all
    end.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.text = "".join([f"{d.text}\n" for d in documents])
        self.begins = cumulative_offsets([len(d.text) + 1 for d in documents])

    @cached_property
    def data(self) -> bytes:
        """The text in UTF-8."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def points(self) -> NDArray[np.uint32]:
        """The code point of every character."""
        return np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def at(self) -> Ints:
        """The byte offset of every character, and of the end."""
        if self.text.isascii():
            return np.arange(len(self.text) + 1, dtype=np.int64)
        sizes = np.ones(len(self.points), dtype=np.uint8)
        for least in (0x7F, 0x7FF, 0xFFFF):
            sizes += self.points > least
        found = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=found[1:])
        return found

    def owner(self, places: Ints) -> Ints:
        """Return the text that each place lies in."""
        return np.searchsorted(self.begins, places, side="right") - 1


class Word(NamedTuple):
    """A word and where it stands, in characters of the user's string."""

    text: str
    start: int
    end: int
