"""What a word definition must do: cut texts into words, and say what ends a word.

The second is what a boundary mass is made of, so both must come from the same rule. The classes in
:mod:`~wordprob.core.words`, :mod:`~wordprob.core.span_words` and :mod:`~wordprob.core.pattern_words` state a rule once
and derive both from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.characters import Label
from wordprob.core.text import TextBatch, Word

LEFT_CONTEXT_CHARACTERS = 64
"""Characters before a word that a definition may look at."""


class WordDefinition(Protocol):
    """A deterministic way to cut a string into words, and what it says about boundaries.

    :class:`wordprob.core.words.CharacterClassDefinition` implements all of this from one rule; derive from it for a
    definition of your own.

    Attributes
    ----------
    name
        What tables call the definition.
    local
        Whether a word's last few characters alone decide what ends it. Then :meth:`boundary_groups` gives the same
        numbers in every batch.
    ends_by_rule
        Whether what follows a word decides that it ends. Otherwise its probability is that of its characters, whatever
        comes next.
    """

    name: str
    local: bool
    ends_by_rule: bool

    def __hash__(self) -> int:
        """Return a hash: what is worked out for a definition is kept under it."""

    def bind(self) -> WordDefinition:
        """Return the definition for use with one vocabulary: itself, or a copy if it learns from the labels it gives.

        So no value depends on which other vocabularies the definition was used with before.
        """

    def segment(self, text: str) -> list[Word]:
        """Cut a text into words."""

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch into words at once; return where the words start and end."""

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return a group number for each word; the same continuations end all words of a group."""

    def label(self, opening: str) -> Label:
        """Classify a token by the first characters of its text."""

    def is_space(self, label: Label) -> bool:
        """Return True if tokens with this label begin with white space."""

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that, coming right after ``word`` (itself after ``left``), end it for certain.

        ``closed`` says that the tokenizer closed a pre-token here, which does not tell whether white space follows.
        """

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return the labels after which one would have to read on to know whether ``word`` has ended."""

    def ends(self, left: str, word: str, rest: str) -> bool | None:
        """Return whether ``word``, itself after ``left``, ends where ``rest`` follows; ``None`` if one must read on."""

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return the positions strictly inside ``text`` where a word may end, whatever stands to the left of it."""


# --- shared by definitions --------------------------------------------------------------------------------------------


def segment_all(definition: WordDefinition, batch: TextBatch) -> tuple[Ints, Ints]:
    """Cut all texts of a batch into words, one text after the other."""
    bounds = []
    for document, text_start in zip(batch.documents, batch.text_starts.tolist(), strict=False):
        bounds += [(text_start + word.start, text_start + word.end) for word in definition.segment(document.text)]
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def number_distinct(texts: Iterable[str]) -> Ints:
    """Return a number for each text; equal texts have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)
