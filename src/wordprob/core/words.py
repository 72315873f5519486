"""Word definitions: a base class that needs one rule, the built-in ones, and all that can be given by name.

>>> [word.text for word in define("punctuation").segment("How do you compute a word's probability?")]
['How', 'do', 'you', 'compute', 'a', 'word', "'s", 'probability', '?']
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import regex

from wordprob.core import segmenters
from wordprob.core.arrays import Ints
from wordprob.core.characters import (
    APOSTROPHE,
    CHARACTER_CLASSES,
    CLASS_CODE,
    CONTINUES,
    END,
    INNER_BYTES,
    LETTER,
    OPENING,
    PUNCTUATION,
    REPEATABLE_MARKS,
    SPACE,
    UNREACHABLE,
    Label,
    character_class,
    character_classes,
    is_white_space,
    last_class,
    usually_spaced,
)
from wordprob.core.pattern_words import Regex
from wordprob.core.span_words import Segmenter, SpanDefinition
from wordprob.core.text import TextBatch, Word
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition, number_distinct, segment_all
from wordprob.errors import OptionError

# The protocol and the base classes for a definition of one's own are documented under this module too.
__all__ = [
    "DEFINITIONS",
    "CharacterClassDefinition",
    "Characters",
    "Punctuation",
    "Segmenter",
    "Whitespace",
    "WordDefinition",
    "check_boundary",
    "check_definition",
    "define",
    "register_definition",
]

CACHED_DEFINITIONS = 16
"""Definitions kept for the next time that their name is given."""

LEFT_EXAMPLES = ("", "a", "a'", " '", "1", ".", "-", "!", "?", "(", ",")
"""Examples of every kind of text that may precede a word."""


# --- one rule, from which everything else follows ---------------------------------------------------------------------


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


# --- built-in definitions ---------------------------------------------------------------------------------------------


class Whitespace(CharacterClassDefinition):
    """Words are what Unicode white space separates."""

    name = "whitespace"
    local = True
    looks_back = 0

    def ends_word(self, left: str, word: str, following: Label) -> bool:
        """Return True for white space and the end of the text."""
        return following in (SPACE, END)

    def segment(self, text: str) -> list[Word]:
        """Cut at white space, newlines, tabs and no-break spaces included."""
        return [Word(match.group(), match.start(), match.end()) for match in _NOT_SPACE.finditer(text)]

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch at once; :meth:`segment` is the readable twin."""
        in_word = character_classes(batch).codes != CLASS_CODE[SPACE]
        # Every text ends in a line break, so starts and ends of words alternate.
        edges = np.flatnonzero(np.diff(in_word, prepend=False))
        return edges[::2], edges[1::2]

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return one group: white space ends every word."""
        return np.zeros(len(starts), dtype=np.int64)

    def label(self, opening: str) -> Label:
        """Classify a token by its first character: white space, what usually has white space before it, the rest."""
        first_class = character_class(opening[0]) if opening else CONTINUES
        if first_class == SPACE:
            return SPACE
        return LETTER if first_class in (LETTER, OPENING) else PUNCTUATION

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return the positions where white space begins."""
        return [match.start() for match in _SPACE_AFTER_OTHER.finditer(text)]


_NOT_SPACE = regex.compile(r"\S+")
_SPACE_AFTER_OTHER = regex.compile(r"(?<=\S)\s")


class Punctuation(CharacterClassDefinition):
    """White space, and punctuation and clitics split off.

    Letters and digits run together; an apostrophe right after them takes the letters that follow along (``'s``,
    ``'t``, ``'amour``); every other punctuation mark or symbol is a word of its own, except that full stops, hyphens,
    exclamation and question marks run together with their like (``...``, ``--``). Combining marks and joiners
    belong to what they follow.
    """

    name = "punctuation"
    local = True

    def ends_word(self, left: str, word: str, following: Label) -> bool:
        """Return True if the rule above cuts between ``word`` and what follows."""
        if following in (SPACE, END):
            return True
        if following == CONTINUES:
            return False
        last = last_class(left + word)
        if last == LETTER:
            return following != LETTER
        if last == APOSTROPHE and following == LETTER:
            return not _ends_in_clitic_apostrophe(left + word)
        return not (last in REPEATABLE_MARKS.values() and following == last)

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch at once; :meth:`segment` is the readable twin."""
        classes = character_classes(batch)
        codes = classes.codes
        space = codes == CLASS_CODE[SPACE]
        following = codes[1:]
        preceding = classes.last[:-1]
        # cuts[i] is about the boundary between characters i and i + 1
        cuts = following != preceding
        for code in _STANDALONE_CODES:
            cuts |= following == code
        # An apostrophe after a letter keeps the letters that follow it: 's, 't.
        after_apostrophe = preceding == CLASS_CODE[APOSTROPHE]
        letter_after_apostrophe = np.flatnonzero(after_apostrophe & (following == CLASS_CODE[LETTER]))
        cuts[letter_after_apostrophe] = ~classes.follows_letter(letter_after_apostrophe)
        cuts &= ~space[1:] & (following != CLASS_CODE[CONTINUES])
        cuts |= space[1:] != space[:-1]
        # edges[i] is the boundary before character i; the batch begins and ends with one.
        edges = np.ones(len(codes) + 1, dtype=bool)
        edges[1:-1] = cuts
        starts = np.flatnonzero(edges[:-1] & ~space)
        ends = np.flatnonzero(edges[1:] & ~space) + 1
        return starts, ends

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Group words by the class of their last character; for an apostrophe, what is before it counts too."""
        classes = character_classes(batch)
        groups = classes.last[ends - 1].astype(np.int64)
        apostrophes = np.flatnonzero(groups == CLASS_CODE[APOSTROPHE])
        clitic = classes.follows_letter(ends[apostrophes] - 1)
        groups[apostrophes[clitic]] += len(CHARACTER_CLASSES)
        return groups

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return the positions inside ``text`` where a word ends after some text to the left of it."""
        if text.lstrip().isalnum():
            return ()  # letters and digits run together
        return super().possible_boundaries(text)

    def _may_end(self, word: str, following: Label) -> bool:
        """Return True if ``word`` ends here after some text, which matters only for an apostrophe or a lone mark."""
        if last_class(word) in (SPACE, APOSTROPHE):
            return super()._may_end(word, following)
        return self.ends_word("", word, following)


_STANDALONE_CODES = [
    CLASS_CODE[name] for name in CHARACTER_CLASSES if name not in (SPACE, CONTINUES, LETTER, *REPEATABLE_MARKS.values())
]
"""Classes whose members do not run together with their like."""


def _ends_in_clitic_apostrophe(text: str) -> bool:
    """Return True if a final apostrophe follows a letter, so that letters after it belong to it."""
    base = text.rstrip()
    while base and character_class(base[-1]) == CONTINUES:
        base = base[:-1]
    return last_class(base[:-1]) == LETTER


class Characters(SpanDefinition):
    """Every character that is not white space is a word, with the combining marks that follow it."""

    name = "characters"

    def segment(self, text: str) -> list[Word]:
        """Cut before every character that is neither white space nor a combining mark."""
        return [Word(match.group(), match.start(), match.end()) for match in _CHARACTER.finditer(text)]


_CHARACTER = regex.compile(r"\S[\p{M}\p{Cf}]*")


# --- definitions by name ----------------------------------------------------------------------------------------------


DEFINITIONS: dict[str, Callable[[str], WordDefinition]] = {
    "whitespace": lambda _: Whitespace(),
    "punctuation": lambda _: Punctuation(),
    "characters": lambda _: Characters(),
    "regex": Regex,
    "jieba": lambda _: segmenters.jieba(),
    "mecab": lambda _: segmenters.mecab(),
}
"""Word definitions by name: what makes one from the text after the colon."""


def register_definition(name: str, factory: Callable[[str], WordDefinition]) -> None:
    """Add a word definition, which can then be given by name wherever words can.

    Parameters
    ----------
    name
        What comes before the colon, or all of the name.
    factory
        Makes the definition from what comes after the colon.
    """
    DEFINITIONS[name] = factory
    _define.cache_clear()


def define(words: str | WordDefinition) -> WordDefinition:
    """Return the definition with this name; a definition is returned unchanged.

    Parameters
    ----------
    words
        ``whitespace``, ``punctuation``, ``regex:PATTERN``, or another name that was registered.
    """
    return _define(words) if isinstance(words, str) else words


@lru_cache(maxsize=CACHED_DEFINITIONS)
def _define(words: str) -> WordDefinition:
    name, colon, argument = words.partition(":")
    if name not in DEFINITIONS or (name in ("whitespace", "punctuation", "characters") and colon):
        raise OptionError(
            f"no word definition is called '{words}'. Use whitespace, punctuation, characters, regex:PATTERN (for "
            "example regex:[\\w']+), or give the words themselves as a list."
        )
    return DEFINITIONS[name](argument)


def check_definition(words: str | WordDefinition) -> None:
    """Raise, unless this is a word definition, the name of one, or a file of words."""
    if isinstance(words, str) and not words.startswith("list:"):
        define(words)


def check_boundary(boundary: str) -> None:
    """Raise, unless this is ``rule``, ``none``, or the name of a word definition."""
    if boundary not in ("rule", "none"):
        define(boundary)
