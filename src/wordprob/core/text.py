"""Texts and words: the nouns that everything else is about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, cumulative_offsets

LARGEST_CODE_POINTS = (0x7F, 0x7FF, 0xFFFF)
"""The last code points that UTF-8 writes in one, two and three bytes."""


class Document(NamedTuple):
    """One text and its id."""

    id: int | str
    text: str


class Word(NamedTuple):
    """A word and its position, in characters of the user's string."""

    text: str
    start: int
    end: int


class TextBatch:
    """Texts laid end to end, a line break after each, so that one pass handles all of them.

    Positions are counted in characters of :attr:`text`. Text ``d`` begins at ``text_starts[d]``, and
    ``text_starts[-1]`` is where all of them end.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.text = "".join([f"{document.text}\n" for document in documents])
        self.text_starts = cumulative_offsets([len(document.text) + 1 for document in documents])

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.documents)

    @cached_property
    def utf8(self) -> bytes:
        """The texts in UTF-8."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def code_points(self) -> NDArray[np.uint32]:
        """The code point of every character."""
        return np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def byte_offsets(self) -> Ints:
        """Where every character begins in :attr:`utf8`, and where the last one ends."""
        if self.text.isascii():
            return np.arange(len(self.text) + 1, dtype=np.int64)
        sizes = np.ones(len(self.code_points), dtype=np.uint8)
        for largest in LARGEST_CODE_POINTS:
            sizes += self.code_points > largest
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return offsets
