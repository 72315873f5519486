"""Words that end by no rule: a definition says where they are, and anything may follow them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.characters import CONTINUES, SPACE, Label, character_class, is_white_space
from wordprob.core.text import TextBatch, Word
from wordprob.core.word_definition import WordDefinition, segment_all
from wordprob.errors import AlignmentError


class SpanDefinition:
    """Words that end by no rule: anything may follow, and a word's probability is that of its characters.

    Derive from it for scripts without spaces, and say how a text is cut into words.

    Examples
    --------
    >>> class Pairs(SpanDefinition):
    ...     name = "pairs"
    ...
    ...     def segment(self, text):
    ...         return [Word(text[i : i + 2], i, min(i + 2, len(text))) for i in range(0, len(text), 2)]
    >>> [word.text for word in Pairs().segment("我喜欢茶")]
    ['我喜', '欢茶']
    """

    name: str
    local = True
    ends_by_rule = False

    def bind(self) -> WordDefinition:
        """Return the definition itself: its labels do not depend on the vocabulary."""
        return self

    @abstractmethod
    def segment(self, text: str) -> list[Word]:
        """Cut a text into words."""

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch into words, one text after the other."""
        return segment_all(self, batch)

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return one group: anything may follow any word."""
        return np.zeros(len(starts), dtype=np.int64)

    def label(self, opening: str) -> Label:
        """Classify a token by its first character."""
        return character_class(opening[0]) if opening else CONTINUES

    def is_space(self, label: Label) -> bool:
        """Return True if tokens with this label begin with white space."""
        return label == SPACE

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return all labels."""
        return frozenset(labels)

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return no label: nothing is decided by what follows."""
        return frozenset()

    def ends(self, left: str, word: str, rest: str) -> bool | None:
        """Return True: anything may follow."""
        return True

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return every position inside ``text``."""
        return range(1, len(text))


class WithoutBoundaries(SpanDefinition):
    """The words of another definition, without its rule for what ends them."""

    def __init__(self, definition: WordDefinition) -> None:
        self.name = f"{definition.name}, without boundaries"
        self._definition = definition

    def segment(self, text: str) -> list[Word]:
        """Cut a text as the other definition does."""
        return self._definition.segment(text)

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut texts as the other definition does."""
        return self._definition.spans(batch)


class Segmenter(SpanDefinition):
    """Words as a function cuts them, for scripts without spaces.

    Parameters
    ----------
    name
        What tables call the definition.
    cut
        Cuts a text into pieces; joined, they are the text again, apart from white space.
    """

    def __init__(self, name: str, cut: Callable[[str], Iterable[str]]) -> None:
        self.name = name
        self._cut = cut

    def segment(self, text: str) -> list[Word]:
        """Return the pieces that are not white space alone."""
        located = []
        position = 0
        for piece in self._cut(text):
            word = piece.strip()
            if not word:
                continue
            while position < len(text) and is_white_space(text[position]):
                position += 1
            if not text.startswith(word, position):
                raise AlignmentError(
                    f"{self.name} cut '{text[position : position + 30]}' into '{word}', which is not how it begins."
                )
            located.append(Word(word, position, position + len(word)))
            position += len(word)
        return located
