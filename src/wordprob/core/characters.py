"""Classes of characters, as far as the built-in word definitions tell characters apart.

White space is what Unicode calls so. Python's ``str.isspace`` has four control characters more, U+001C to U+001F.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Bools, Ints
from wordprob.core.text import TextBatch

Label = str
"""What a token begins with, as far as a word definition cares. Tokens with equal labels form an atom."""

END: Label = "end"
"""The end of the text."""
UNREACHABLE: Label = "unreachable"
"""Tokens that never occur in a text."""
SPACE: Label = "space"
LETTER: Label = "letter"
CONTINUES: Label = "continues"
"""Combining marks and joiners: they belong to what they follow."""
INNER_BYTES: Label = "inner bytes"
"""Tokens that begin inside a character: no text has them where a character begins."""
APOSTROPHE: Label = "apostrophe"
OPENING: Label = "open"
"""Opening brackets and quotation marks."""
PUNCTUATION: Label = "punctuation"

APOSTROPHES = "'’"
REPEATABLE_MARKS: dict[str, Label] = {".": "full stop", "-": "hyphen", "!": "exclamation", "?": "question"}
"""Marks that repeat within one word: an ellipsis, a double hyphen."""
OPENING_MARKS = "¿¡"
"""Marks that open a sentence, although Unicode does not class them as opening punctuation."""

CHARACTER_CLASSES: tuple[Label, ...] = (
    SPACE,
    LETTER,
    CONTINUES,
    APOSTROPHE,
    *REPEATABLE_MARKS.values(),
    OPENING,
    PUNCTUATION,
)


INFORMATION_SEPARATORS = "\x1c\x1d\x1e\x1f"


def is_white_space(character: str) -> bool:
    """Return True for a character with the Unicode property White_Space; False for an empty string."""
    return character.isspace() and character not in INFORMATION_SEPARATORS


@lru_cache(maxsize=1 << 16)
def character_class(character: str) -> Label:
    """Return the class of one character, as far as the built-in definitions tell characters apart.

    >>> [character_class(c) for c in "a. (’"]
    ['letter', 'full stop', 'space', 'open', 'apostrophe']
    """
    if is_white_space(character):
        return SPACE
    if character in APOSTROPHES:
        return APOSTROPHE
    if character in REPEATABLE_MARKS:
        return REPEATABLE_MARKS[character]
    category = unicodedata.category(character)
    if category in ("Ps", "Pi") or character in OPENING_MARKS:
        return OPENING
    if category[0] in "PS":
        return PUNCTUATION
    if category[0] == "M" or category == "Cf":
        return CONTINUES
    return LETTER


def last_class(text: str) -> Label:
    """Return the class of the last character that is not a combining mark; white space for an empty text."""
    for character in reversed(text):
        found = character_class(character)
        if found != CONTINUES:
            return found
    return SPACE


def usually_spaced(left: Label, right: Label) -> bool:
    """Return True if writers put white space between two pre-tokens of these classes.

    Only for tokenizers that drop white space (``</w>``, ``##``), where the text itself does not tell.
    """
    if right in (END, SPACE):
        return True
    if left in (OPENING, "hyphen", APOSTROPHE):
        return False
    return right in (LETTER, OPENING)


ClassCodes = NDArray[np.uint8]
"""Classes of characters as numbers, indices into :data:`CHARACTER_CLASSES`."""

CLASS_CODE = {name: code for code, name in enumerate(CHARACTER_CLASSES)}
_UNKNOWN_CODE = 255
_code_of_point = np.full(0x110000, _UNKNOWN_CODE, dtype=np.uint8)
"""The class of every character met so far, by code point."""


class CharacterClasses:
    """The classes of the characters of a batch: ``codes`` has that of every character."""

    def __init__(self, codes: ClassCodes) -> None:
        self.codes = codes

    @cached_property
    def last(self) -> ClassCodes:
        """Up to every character, the last class that is not a combining mark; white space if there are only marks."""
        last = self.codes.copy()
        last[self._marks] = self.codes[self._bases]
        last[last == CLASS_CODE[CONTINUES]] = CLASS_CODE[SPACE]
        return last

    def follows_letter(self, positions: Ints) -> Bools:
        """Return True where a letter stands before a character, or before the one that has it as a combining mark."""
        base = positions.copy()
        is_mark = self.codes[positions] == CLASS_CODE[CONTINUES]
        base[is_mark] = self._bases[np.searchsorted(self._marks, positions[is_mark])]
        before: Bools = (base > 0) & (self.last[np.maximum(base - 1, 0)] == CLASS_CODE[LETTER])
        return before

    @cached_property
    def _marks(self) -> Ints:
        """Where combining marks stand."""
        return np.flatnonzero(self.codes == CLASS_CODE[CONTINUES])

    @cached_property
    def _bases(self) -> Ints:
        """Where the last character stands before each of these that is not a combining mark."""
        # A running maximum carries the character before the first of several marks along to the others.
        is_first = np.diff(self._marks, prepend=-1) > 1
        bases: Ints = np.maximum.accumulate(np.where(is_first, self._marks - 1, 0))
        return bases


_classes_of_batch: WeakKeyDictionary[TextBatch, CharacterClasses] = WeakKeyDictionary()


def character_classes(batch: TextBatch) -> CharacterClasses:
    """Return the classes of the characters of a batch, which are looked up once and kept as long as it lives."""
    classes = _classes_of_batch.get(batch)
    if classes is None:
        classes = _classes_of_batch[batch] = CharacterClasses(_class_codes(batch))
    return classes


def _class_codes(batch: TextBatch) -> ClassCodes:
    """Return the class of every character of a batch."""
    codes: ClassCodes = _code_of_point.take(batch.code_points)
    unknown = codes == _UNKNOWN_CODE
    if unknown.any():
        for point in set(batch.code_points[unknown].tolist()):
            _code_of_point[point] = CLASS_CODE[character_class(chr(point))]
        codes = _code_of_point.take(batch.code_points)
    return codes


# --- characters that are cut off --------------------------------------------------------------------------------------

MAX_COMPLETIONS = 4096
"""Characters looked at for what a cut-off character could become; all of them if it has at least two bytes."""


def character_bytes(lead: int) -> int:
    """Return how many bytes a character takes whose UTF-8 form begins with this byte; 0 for an inner byte."""
    if lead < 0x80:
        return 1
    if lead < 0xC0 or lead > 0xF4:
        return 0
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def is_cut_off(data: bytes) -> bool:
    """Return True if these bytes are the beginning of one character, and not all of it.

    >>> is_cut_off("’".encode()[:2]), is_cut_off("’".encode()), is_cut_off(b"")
    (True, False, False)
    """
    return 0 < len(data) < character_bytes(data[0])


SURROGATES = range(0xD800, 0xE000)
LARGEST_CODE_POINT = 0x10FFFF
SMALLEST_CODE_POINT = {2: 0x80, 3: 0x800, 4: 0x10000}
"""By the number of bytes that UTF-8 writes it in."""


def completions(data: bytes) -> Iterator[str]:
    """Yield the characters that a cut-off character could become (an even sample where they are many)."""
    size = character_bytes(data[0])
    bits = data[0] & (0xFF >> (size + 1))
    for byte in data[1:]:
        bits = bits << 6 | byte & 0x3F
    n_completions = 64 ** (size - len(data))
    first = bits * n_completions
    for point in range(first, first + n_completions, max(1, n_completions // MAX_COMPLETIONS)):
        if SMALLEST_CODE_POINT[size] <= point <= LARGEST_CODE_POINT and point not in SURROGATES:
            yield chr(point)
