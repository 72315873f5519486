"""Words that end by the class of the next character: one rule, from which everything else follows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.characters import (
    CONTINUES,
    END,
    INNER_BYTES,
    SPACE,
    UNREACHABLE,
    Label,
    character_class,
    is_white_space,
    last_class,
    usually_spaced,
)
from wordprob.core.text import TextBatch, Word
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition, number_distinct, segment_all

LEFT_EXAMPLES = ("", "a", "a'", " '", "1", ".", "-", "!", "?", "(", ",")
"""Examples of every kind of text that may precede a word."""


class CharacterClassDefinition:
    """A definition that looks at the class of the next character only.

    Everything follows from :meth:`ends_word`. The other methods may be overridden by faster ones.

    Examples
    --------
    >>> class Hyphens(CharacterClassDefinition):
    ...     name = "hyphens"
    ...
    ...     def ends_word(self, left, word, following):
    ...         return following in (SPACE, END, "hyphen") or word.endswith("-")
    >>> [word.text for word in Hyphens().segment("a well-known word")]
    ['a', 'well', '-', 'known', 'word']
    """

    name: str
    local = False
    ends_by_rule = True
    looks_back: int = LEFT_CONTEXT_CHARACTERS
    """How many characters before a word may decide where it ends; set it to fewer if they suffice."""

    def bind(self) -> WordDefinition:
        """Return the definition itself: its labels do not depend on the vocabulary."""
        return self

    @abstractmethod
    def ends_word(self, left: str, word: str, following: Label) -> bool:
        """Return True if ``word``, itself after ``left``, ends where a character of this class (or the end) follows."""

    def segment(self, text: str) -> list[Word]:
        """Cut wherever the rule says that a word ends, and drop the white space."""
        inner = [i for i in range(1, len(text)) if self._cuts_at(text, i)]
        pieces = pairwise([0, *inner, len(text)])
        return [Word(text[a:b], a, b) for a, b in pieces if b > a and not is_white_space(text[a])]

    def _cuts_at(self, text: str, position: int) -> bool:
        """Return True if a word, or the white space between words, ends at a position."""
        space = is_white_space(text[position])
        if space != is_white_space(text[position - 1]):
            return True
        if space:
            return False
        before = text[max(0, position - LEFT_CONTEXT_CHARACTERS) : position]
        return self.ends_word("", before, character_class(text[position]))

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch into words, one text after the other."""
        return segment_all(self, batch)

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for equal words with equal text before them."""
        lows = np.maximum(starts - LEFT_CONTEXT_CHARACTERS, 0)
        return number_distinct(batch.text[a:b] for a, b in zip(lows.tolist(), ends.tolist(), strict=True))

    def label(self, opening: str) -> Label:
        """Classify a token by its first character."""
        return character_class(opening[0]) if opening else CONTINUES

    def is_space(self, label: Label) -> bool:
        """Return True if tokens with this label begin with white space."""
        return label == SPACE

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that end ``word``."""
        last = last_class(word) if closed else ""
        ending = set()
        for label in labels:
            if label in (UNREACHABLE, INNER_BYTES):
                continue
            if self.ends_word(left, word, label) or (closed and usually_spaced(last, label)):
                ending.add(label)
        return frozenset(ending)

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return no label: one character decides everything here."""
        return frozenset()

    def ends(self, left: str, word: str, rest: str) -> bool | None:
        """Return True if the first character of ``rest`` ends ``word``."""
        return self.ends_word(left, word, character_class(rest[0]) if rest else END)

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return the positions inside ``text`` where a word ends after some text to the left of it."""
        inner = [i for i in range(1, len(text)) if not is_white_space(text[i - 1])]
        return [i for i in inner if self._may_end(text[:i], character_class(text[i]))]

    def _may_end(self, word: str, following: Label) -> bool:
        return any(self.ends_word(left, word, following) for left in LEFT_EXAMPLES)
