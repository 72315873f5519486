"""Where words are, and what would end one.

A word definition does two jobs. It cuts a string into words, and, for a word with some text to its left, it says which
kinds of continuation end that word. The second is what a boundary mass is made of, so both must come from the same
rule; each class below states its rule once and derives both from it.

>>> [word.text for word in Punctuation().segment("How do you compute a word's probability?")]
['How', 'do', 'you', 'compute', 'a', 'word', "'s", 'probability', '?']
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
import regex
from numpy.typing import NDArray

from wordprob.core.arrays import Bools, Ints
from wordprob.core.text import TextBatch, Word
from wordprob.errors import AlignmentError, OptionError

Label = str
"""What a token begins with, as far as a word definition cares. Tokens with equal labels form an atom."""

END: Label = "end"
"""The end of the text."""
UNREACHABLE: Label = "unreachable"
"""Tokens that never occur in a text."""
SPACE: Label = "space"
LETTER: Label = "letter"
CONTINUES: Label = "continues"
"""Combining marks, joiners and the inner bytes of a character: they never begin anything."""
APOSTROPHE: Label = "apostrophe"
OPENING: Label = "open"
"""Opening brackets and quotation marks."""
PUNCTUATION: Label = "punctuation"

LEFT_CONTEXT_CHARACTERS = 64
"""Characters before a word that a definition may look at."""

CACHED_DEFINITIONS = 16
"""Definitions kept for the next time that their name is given."""


class WordDefinition(Protocol):
    """A deterministic way to cut a string into words, and what it says about boundaries.

    :class:`CharacterClassDefinition` implements all of this from one rule; derive from it for a definition of your own.

    Attributes
    ----------
    name
        What tables call the definition.
    local
        Whether a word's last few characters alone decide what ends it.
    """

    name: str
    local: bool

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

    def inner_boundaries(self, text: str) -> list[int]:
        """Return the positions strictly inside ``text`` where a word certainly ends."""


# --- classes of characters --------------------------------------------------------------------------------------------

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


@lru_cache(maxsize=1 << 16)
def character_class(character: str) -> Label:
    """Return the class of one character, as far as the built-in definitions tell characters apart.

    >>> [character_class(c) for c in "a. (’"]
    ['letter', 'full stop', 'space', 'open', 'apostrophe']
    """
    if character.isspace():
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

_CODE = {name: code for code, name in enumerate(CHARACTER_CLASSES)}
_UNKNOWN_CODE = 255
_code_of_point = np.full(0x110000, _UNKNOWN_CODE, dtype=np.uint8)
"""The class of every character met so far, by code point."""


def class_codes(batch: TextBatch) -> ClassCodes:
    """Return the class of every character of a batch."""
    codes: ClassCodes = _code_of_point.take(batch.code_points)
    unknown = codes == _UNKNOWN_CODE
    if unknown.any():
        for point in set(batch.code_points[unknown].tolist()):
            _code_of_point[point] = _CODE[character_class(chr(point))]
        codes = _code_of_point.take(batch.code_points)
    return codes


def last_codes(codes: ClassCodes) -> tuple[ClassCodes, Ints]:
    """Return, up to every character, the last class that is not a combining mark, and where that character stands."""
    positions = np.arange(len(codes), dtype=np.int32)
    combining = codes == _CODE[CONTINUES]
    if not combining.any():
        return codes, positions.astype(np.int64)
    # A running maximum of positions, combining marks counting as position 0, carries the last base character along.
    sources = np.maximum.accumulate(np.where(combining, 0, positions)).astype(np.int64)
    last = codes[sources]
    last[last == _CODE[CONTINUES]] = _CODE[SPACE]  # only marks so far: as for an empty text
    return last, sources


def _follows_letter(last: ClassCodes, sources: Ints, positions: Ints) -> Bools:
    """Return True where a letter stands before the base character of each position."""
    base = sources[positions]
    before: Bools = (base > 0) & (last[np.maximum(base - 1, 0)] == _CODE[LETTER])
    return before


# --- definitions ------------------------------------------------------------------------------------------------------


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
        return [Word(text[a:b], a, b) for a, b in pieces if b > a and not text[a].isspace()]

    def _cuts_at(self, text: str, position: int) -> bool:
        """Return True if a word, or the white space between words, ends at a position."""
        if text[position].isspace() != text[position - 1].isspace():
            return True
        if text[position].isspace():
            return False
        before = text[max(0, position - LEFT_CONTEXT_CHARACTERS) : position]
        return self.ends_word("", before, character_class(text[position]))

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch into words, one text after the other."""
        return _segment_all(self, batch)

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for equal words with equal text before them."""
        lows = np.maximum(starts - LEFT_CONTEXT_CHARACTERS, 0)
        return _number_distinct(batch.text[a:b] for a, b in zip(lows.tolist(), ends.tolist(), strict=True))

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
            if label == UNREACHABLE:
                continue
            if self.ends_word(left, word, label) or (closed and usually_spaced(last, label)):
                ending.add(label)
        return frozenset(ending)

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return no label: one character decides everything here."""
        return frozenset()

    def inner_boundaries(self, text: str) -> list[int]:
        """Return the positions strictly inside ``text`` where a word certainly ends."""
        inner = [i for i in range(1, len(text)) if not text[i - 1].isspace()]
        return [i for i in inner if self.ends_word("", text[:i], character_class(text[i]))]


class Whitespace(CharacterClassDefinition):
    """Words are what stands between Unicode white space."""

    name = "whitespace"
    local = True

    def ends_word(self, left: str, word: str, following: Label) -> bool:
        """Return True for white space and the end of the text."""
        return following in (SPACE, END)

    def segment(self, text: str) -> list[Word]:
        """Cut at white space, newlines, tabs and no-break spaces included."""
        return [Word(match.group(), match.start(), match.end()) for match in _NOT_SPACE.finditer(text)]

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a batch at once; :meth:`segment` is the readable twin."""
        in_word = class_codes(batch) != _CODE[SPACE]
        # Every text ends in a line break, so where words begin and where they end take turns.
        edges = np.flatnonzero(np.diff(in_word, prepend=False))
        return edges[::2], edges[1::2]

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return one group: white space ends every word."""
        return np.zeros(len(starts), dtype=np.int64)


_NOT_SPACE = regex.compile(r"[^\s\x1c-\x1f]+")
"""Python's ``str.isspace`` counts four control characters as white space that ``\\s`` does not."""


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
        codes = class_codes(batch)
        last, sources = last_codes(codes)
        space = codes == _CODE[SPACE]
        following, preceding = codes[1:], last[:-1]
        # cuts[i] is about the boundary between characters i and i + 1
        cuts = following != preceding
        for code in _STANDALONE_CODES:
            cuts |= following == code
        letter_after_apostrophe = np.flatnonzero((preceding == _CODE[APOSTROPHE]) & (following == _CODE[LETTER]))
        cuts[letter_after_apostrophe] = ~_follows_letter(last, sources, letter_after_apostrophe)
        cuts &= ~space[1:] & (following != _CODE[CONTINUES])
        cuts |= space[1:] != space[:-1]
        edges = np.ones(len(codes) + 1, dtype=bool)
        edges[1:-1] = cuts
        starts = np.flatnonzero(edges[:-1] & ~space)
        ends = np.flatnonzero(edges[1:] & ~space) + 1
        return starts, ends

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Group words by the class of their last character; for an apostrophe, what is before it counts too."""
        last, sources = last_codes(class_codes(batch))
        groups = last[ends - 1].astype(np.int64)
        apostrophes = np.flatnonzero(groups == _CODE[APOSTROPHE])
        clitic = _follows_letter(last, sources, ends[apostrophes] - 1)
        groups[apostrophes[clitic]] += len(CHARACTER_CLASSES)
        return groups


_STANDALONE_CODES = [
    _CODE[name] for name in CHARACTER_CLASSES if name not in (SPACE, CONTINUES, LETTER, *REPEATABLE_MARKS.values())
]
"""Classes whose members do not run together with their like."""


def _ends_in_clitic_apostrophe(text: str) -> bool:
    """Return True if a final apostrophe follows a letter, so that letters go on with it."""
    base = text.rstrip()
    while base and character_class(base[-1]) == CONTINUES:
        base = base[:-1]
    return last_class(base[:-1]) == LETTER


class Regex:
    """Words are the matches of a pattern; what lies between them separates.

    Whether a token ends a word is asked of the pattern itself: the word followed by the token's first two
    characters. Characters that the pattern treats alike (found by trying each in a set of frames) share a label.
    """

    local = False

    def __init__(self, pattern: str) -> None:
        self.name = f"regex:{pattern}"
        try:
            self._pattern = regex.compile(pattern)
        except regex.error as error:
            raise OptionError(
                f"'{pattern}' is not a regular expression: {error}. A valid one: 'regex:[\\w]+' (quoted in a shell)."
            ) from None
        if self._pattern.match(""):
            raise OptionError(
                f"the pattern '{pattern}' matches nothing at all (the empty string); use + where it has *."
            )
        self._frames = _frames(pattern)
        self._classes: dict[tuple[int | None, ...], str] = {}
        """Names of the classes of characters, by what the pattern does with them."""
        self._examples: dict[Label, str] = {}
        """The first opening that was given each label."""
        self._make_caches()

    def bind(self) -> Regex:
        """Return a copy: classes of characters are named, and get their examples, as a vocabulary brings them."""
        return Regex(self.name.removeprefix("regex:"))

    def _make_caches(self) -> None:
        self._class_of = lru_cache(maxsize=None)(self._classify)
        self._decide: Callable[[str, str], bool | None] = lru_cache(maxsize=1 << 16)(self._ends_word)

    def __getstate__(self) -> dict[str, object]:
        """Leave the caches behind when this is sent to another process; the labels given so far go along."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_class_of", "_decide")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._make_caches()

    def segment(self, text: str) -> list[Word]:
        """Return the pattern's matches."""
        matches = self._pattern.finditer(text)
        return [Word(match.group(), match.start(), match.end()) for match in matches if match.group()]

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Return the pattern's matches in every text of a batch."""
        return _segment_all(self, batch)

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for equal words."""
        return _number_distinct(batch.text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True))

    def label(self, opening: str) -> Label:
        """Classify a token by what the pattern makes of its first two characters."""
        if not opening:
            return CONTINUES
        spacing = character_class(opening[0])
        if spacing not in (SPACE, LETTER, OPENING):  # what usually_spaced tells apart
            spacing = ""
        label = f"{spacing}:" + ".".join(self._class_of(character) for character in opening[:2])
        self._examples.setdefault(label, opening[:2])
        return label

    @staticmethod
    def _spacing(label: Label) -> Label:
        """Return the part of a label that tells whether writers put white space before it."""
        return label.partition(":")[0]

    def is_space(self, label: Label) -> bool:
        """Return True if tokens with this label begin with white space."""
        return self._spacing(label) == SPACE

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that end ``word`` for certain."""
        known = [label for label in labels if label in self._examples]
        ending = {label for label in known if self._decide(word, label)}
        if closed:
            last = last_class(word)
            ending |= {label for label in known if usually_spaced(last, self._spacing(label))}
        if END in labels:
            ending.add(END)
        return frozenset(ending)

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return the labels after which the pattern might still take the word further."""
        return frozenset(label for label in labels if label in self._examples and self._decide(word, label) is None)

    def inner_boundaries(self, text: str) -> list[int]:
        """Return the ends of matches strictly inside ``text``."""
        return [word.end for word in self.segment(text) if word.end < len(text)]

    def _classify(self, character: str) -> str:
        """Name the class of a character: what the pattern matches in every frame that holds it."""
        matches = (self._pattern.match(frame.replace(SLOT, character)) for frame in self._frames)
        signature = (*(match.end() if match else None for match in matches), character.isspace())
        return self._classes.setdefault(signature, f"c{len(self._classes)}")

    def _ends_word(self, word: str, label: Label) -> bool | None:
        """Return whether a token with this label ends a word; ``None`` if one would have to read on."""
        text = word + self._examples[label]
        whole = self._pattern.fullmatch(text, partial=True)
        if whole is not None and whole.partial:
            return None
        match = self._pattern.match(text)
        return match is None or bool(match.end() <= len(word))


SLOT = "□"
"""Where the character in question goes in a frame."""


def _frames(pattern: str) -> list[str]:
    """Return short strings with a slot in them; characters that a pattern treats alike fit the same ones."""
    signs = dict.fromkeys(c for c in pattern if not c.isspace() and c not in r"\[](){}|*+^$")
    frames = [frame.replace("x", sign) for sign in "a1" for frame in ("□", "x□", "x□x", "□x", "xx□")]
    frames += [frame.replace("s", sign) for sign in signs for frame in ("s□", "□s", "as□", "a□s", "as□a")]
    return frames


def _segment_all(definition: WordDefinition, batch: TextBatch) -> tuple[Ints, Ints]:
    """Cut all texts of a batch into words, one text after the other."""
    bounds = []
    for document, text_start in zip(batch.documents, batch.text_starts.tolist(), strict=False):
        bounds += [(text_start + word.start, text_start + word.end) for word in definition.segment(document.text)]
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _number_distinct(texts: Iterable[str]) -> Ints:
    """Return a number for each text; equal texts have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


# --- definitions by name ----------------------------------------------------------------------------------------------

DEFINITIONS: dict[str, Callable[[str], WordDefinition]] = {
    "whitespace": lambda _: Whitespace(),
    "punctuation": lambda _: Punctuation(),
    "regex": Regex,
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
    """Return the definition with this name; a definition is returned as it is.

    Parameters
    ----------
    words
        ``whitespace``, ``punctuation``, ``regex:PATTERN``, or another name that was registered.
    """
    return _define(words) if isinstance(words, str) else words


@lru_cache(maxsize=CACHED_DEFINITIONS)
def _define(words: str) -> WordDefinition:
    name, colon, argument = words.partition(":")
    if name not in DEFINITIONS or (name in ("whitespace", "punctuation") and colon):
        raise OptionError(
            f"no word definition is called '{words}'. Use whitespace, punctuation, regex:PATTERN (for example "
            "regex:[\\w']+), or give the words themselves as a list."
        )
    return DEFINITIONS[name](argument)


def check_definition(words: str | WordDefinition) -> None:
    """Raise, unless this is a word definition, the name of one, or a file of words."""
    if isinstance(words, str) and not words.startswith("list:"):
        define(words)


# --- words that the user gives ----------------------------------------------------------------------------------------


def locate(text: str, words: Sequence[str], where: str = "the text") -> list[Word]:
    """Find the given words in ``text``, in order, with nothing but white space between them.

    >>> locate("He can't.", ["He", "ca", "n't", "."])[2]
    Word(text="n't", start=5, end=8)
    """
    located, position = [], 0
    for number, word in enumerate(words, start=1):
        while position < len(text) and text[position].isspace():
            position += 1
        if not word or word.isspace():
            raise AlignmentError(f"{where}: word {number} of the list is empty; leave it out.")
        if not text.startswith(word, position):
            raise AlignmentError(
                f"{where}: word {number} of the list is '{word}', but the text goes on with "
                f"'{text[position : position + 30]}' (character {position}). The list must give every word of the "
                "text, in order, as it is spelled there."
            )
        located.append(Word(word, position, position + len(word)))
        position += len(word)
    rest = text[position:].strip()
    if rest:
        raise AlignmentError(
            f"{where}: the list ends before the text does; left over: '{rest[:30]}' (character {position})."
        )
    return located


def rule_for(texts: Iterable[str], located: Iterable[Sequence[Word]]) -> WordDefinition:
    """Return the coarsest built-in rule under which given words end where they do."""
    for text, words in zip(texts, located, strict=True):
        if any(word.end < len(text) and not text[word.end].isspace() for word in words):
            return define("punctuation")
    return define("whitespace")
