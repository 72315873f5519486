r"""Words that are runs of characters of one class, such as the matches of ``\w+``: the simplest patterns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import regex

from wordprob.core.arrays import Ints
from wordprob.core.characters import END, SPACE, Label, is_white_space
from wordprob.core.pattern_words import Regex
from wordprob.core.text import TextBatch, Word
from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import CharacterClassDefinition

IN_WORD = "in word"
BETWEEN_WORDS = "between words"
"""Labels of characters that belong to words, and of others that are not white space."""

ONE_CLASS = regex.compile(r"(\\[wdSWD]|\\[pP]\{\w+\}|\[(?:[^\[\]\\]|\\.)+\])\+")
"""A pattern that is one class of characters, once or more."""

WHITE_SPACE = [character for character in map(chr, range(0x3001)) if is_white_space(character)]

CACHED_DEFINITIONS = 16
"""Definitions kept for the next time that their pattern is given."""


class CharacterRuns(CharacterClassDefinition):
    r"""Words are runs of characters of one class; everything else separates them.

    The same words as those of a :class:`Regex` with this pattern, but one character decides where a word ends.

    Parameters
    ----------
    character_class
        The class as a pattern, such as ``\w``.

    Examples
    --------
    >>> [word.text for word in CharacterRuns(r"[\w']").segment("“Don't,” she said.")]
    ["Don't", 'she', 'said']
    """

    local = True
    looks_back = 0

    def __init__(self, character_class: str) -> None:
        self.name = f"regex:{character_class}+"
        self._character_class = character_class
        self._run = regex.compile(f"{character_class}+")
        self._is_in_word = lru_cache(maxsize=None)(lambda character: self._run.fullmatch(character) is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the class of characters, and nothing else."""
        return CharacterRuns, (self._character_class,)

    def ends_word(self, left: str, word: str, following: Label) -> bool:
        """Return True for everything but characters of the class."""
        return following in (SPACE, END, BETWEEN_WORDS)

    def segment(self, text: str) -> list[Word]:
        """Return the runs."""
        return [Word(match.group(), match.start(), match.end()) for match in self._run.finditer(text)]

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return one group: the same characters end every word."""
        return np.zeros(len(starts), dtype=np.int64)

    def label(self, opening: str) -> Label:
        """Classify a token by its first character."""
        if not opening:
            return IN_WORD
        if is_white_space(opening[0]):
            return SPACE
        return IN_WORD if self._is_in_word(opening[0]) else BETWEEN_WORDS

    def ends(self, left: str, word: str, rest: str) -> bool | None:
        """Return True if the first character of ``rest`` ends ``word``."""
        return self.ends_word(left, word, self.label(rest[0]) if rest else END)

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return the positions inside ``text`` where a run ends."""
        inside = [self.label(character) == IN_WORD for character in text]
        return [i for i in range(1, len(text)) if inside[i - 1] and not inside[i]]


def one_character_decides(definition: WordDefinition) -> WordDefinition | None:
    """Return the definition, or an equal one, for which one character shows whether a word has ended; or ``None``."""
    if definition.local:
        return definition
    if not isinstance(definition, Regex):
        return None
    return _runs_of(definition.name.removeprefix("regex:"))


@lru_cache(maxsize=CACHED_DEFINITIONS)
def _runs_of(pattern: str) -> CharacterRuns | None:
    """Return the definition of a pattern that is one class of characters, none of them white space."""
    match = ONE_CLASS.fullmatch(pattern)
    if match is None or any(regex.match(match.group(1), space) for space in WHITE_SPACE):
        return None
    return CharacterRuns(match.group(1))
