"""Where words are, and what would end one.

A word definition does two jobs. It cuts a string into words, and, for a word with some text to its left, it says which
kinds of continuation end that word. The second is what a boundary mass is made of, so both
must come from the same rule; each class below states its rule once and derives both from it.

>>> [w.text for w in Punctuation().segment("How do you compute a word's probability?")]
['How', 'do', 'you', 'compute', 'a', 'word', "'s", 'probability', '?']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
import regex
from numpy.typing import NDArray

from wordprob.core.arrays import Ints
from wordprob.core.text import TextBatch, Word
from wordprob.errors import AlignmentError, OptionError

Label = str
"""What a token begins with, as far as a word definition cares; equal labels form an atom."""


END: Label = "end"


UNREACHABLE: Label = "unreachable"


SPACE: Label = "space"


CONTINUES: Label = "continues"
"""Combining marks, joiners and the inner bytes of a character: they never begin anything."""


class WordDefinition(Protocol):
    """A deterministic way to cut a string into words, and what it says about boundaries.

    ``local`` says that a word's last characters alone decide what ends it.
    """

    name: str
    local: bool

    def segment(self, text: str) -> list[Word]:
        """Cut ``text`` into words."""

    def spans(self, page: TextBatch) -> tuple[Ints, Ints]:
        """Cut all texts of a page into words, at once: where they start and end."""

    def groups(self, page: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return a number for each word; on one page, the same things end words of the same number."""

    def label(self, opening: str) -> Label:
        """Classify a token by the first characters of its text."""

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that, coming right after ``word`` (itself after ``left``), end it for certain.

        ``closed`` says that the tokeniser closed a pre-token here without telling whether white space follows.
        """

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return the labels after which one would have to read on to know."""

    def splits(self, text: str) -> list[int]:
        """Positions strictly inside ``text`` where a word certainly ends."""


Codes = NDArray[np.uint8]

APOSTROPHES = "'’"
RUNS = {".": "full stop", "-": "hyphen", "!": "exclamation", "?": "question"}
"""Marks that repeat within one word: an ellipsis, a double hyphen."""
OPENERS = "¿¡"


@lru_cache(maxsize=1 << 16)
def kind(char: str) -> Label:
    """Return the class of one character that the built-in definitions tell apart.

    >>> [kind(c) for c in "a. (’"]
    ['letter', 'full stop', 'space', 'open', 'apostrophe']
    """
    if char.isspace():
        return SPACE
    if char in APOSTROPHES:
        return "apostrophe"
    if char in RUNS:
        return RUNS[char]
    category = unicodedata.category(char)
    if category in ("Ps", "Pi") or char in OPENERS:
        return "open"
    if category[0] in "PS":
        return "punctuation"
    return CONTINUES if category[0] == "M" or category == "Cf" else "letter"


KINDS: tuple[Label, ...] = (SPACE, "letter", CONTINUES, "apostrophe", *RUNS.values(), "open", "punctuation")


_CODE = {name: n for n, name in enumerate(KINDS)}
_UNSEEN = 255
_TABLE = np.full(0x110000, _UNSEEN, dtype=np.uint8)
"""The kind of every character met so far, by code point."""


def _codes(page: TextBatch) -> Codes:
    """Return the kind of every character of a page, as its number in ``KINDS``."""
    found: Codes = _TABLE.take(page.points)
    unseen = found == _UNSEEN
    if unseen.any():
        for point in set(page.points[unseen].tolist()):
            _TABLE[point] = _CODE[kind(chr(point))]
        found = _TABLE.take(page.points)
    return found


def _last_kind(text: str) -> Label:
    """Kind of the last character that is not a combining mark; white space for an empty text."""
    for char in reversed(text):
        if (found := kind(char)) != CONTINUES:
            return found
    return SPACE


def usually_spaced(left: Label, right: Label) -> bool:
    """Say whether writers put white space between two pre-tokens of these kinds.

    Only for tokenisers that drop white space (``</w>``, ``##``), where the text itself does not say.
    """
    if right in (END, SPACE):
        return True
    if left in ("open", "hyphen", "apostrophe"):
        return False
    return right in ("letter", "open")


class _Builtin:
    """Shared by the definitions that look at the kind of the next character only."""

    name: str
    local = True

    def label(self, opening: str) -> Label:
        """Classify a token by its first character."""
        return kind(opening[0]) if opening else CONTINUES

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """One character decides everything here."""
        return frozenset()

    def groups(self, page: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for words that the same things end."""
        raise NotImplementedError

    def splits(self, text: str) -> list[int]:
        """Positions strictly inside ``text`` where a word certainly ends."""
        return [i for i in range(1, len(text)) if not text[i - 1].isspace() and self._ends("", text[:i], kind(text[i]))]

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that end ``word``."""
        last = _last_kind(word) if closed else ""
        return frozenset(
            lab
            for lab in labels
            if lab != UNREACHABLE and (self._ends(left, word, lab) or (closed and usually_spaced(last, lab)))
        )

    def _ends(self, left: str, word: str, following: Label) -> bool:
        raise NotImplementedError


class Whitespace(_Builtin):
    """Words are what stands between Unicode white space."""

    name = "whitespace"

    def segment(self, text: str) -> list[Word]:
        """Cut at white space, newlines, tabs and no-break spaces included."""
        return [Word(m.group(), m.start(), m.end()) for m in _NOT_SPACE.finditer(text)]

    def spans(self, page: TextBatch) -> tuple[Ints, Ints]:
        """Cut a whole page at once; :meth:`segment` is the readable twin."""
        solid = _codes(page) != _CODE[SPACE]
        edges = np.flatnonzero(np.diff(solid, prepend=False))
        return edges[::2], edges[1::2]

    def groups(self, page: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """White space ends them all."""
        return np.zeros(len(starts), dtype=np.int64)

    def _ends(self, left: str, word: str, following: Label) -> bool:
        return following in (SPACE, END)


_NOT_SPACE = regex.compile(r"[^\s\x1c-\x1f]+")


class Punctuation(_Builtin):
    """White space, and punctuation and clitics split off.

    Letters and digits run together; an apostrophe right after them takes the letters that follow along (``'s``,
    ``'t``, ``'amour``); every other punctuation mark or symbol is a word of its own, except that full stops, hyphens,
    exclamation and question marks run together with their like (``...``, ``--``). Combining marks and joiners
    belong to what they follow.
    """

    name = "punctuation"

    def segment(self, text: str) -> list[Word]:
        """Cut wherever the rule says that a word ends, and drop the white space."""
        cuts = [0, *(i for i in range(1, len(text)) if self._cut(text, i)), len(text)]
        pieces = ((text[a:b], a, b) for a, b in pairwise(cuts))
        return [Word(piece, a, b) for piece, a, b in pieces if piece and not piece[0].isspace()]

    def spans(self, page: TextBatch) -> tuple[Ints, Ints]:
        """Cut a whole page at once; :meth:`segment` is the readable twin."""
        codes = _codes(page)
        last, source = _last_codes(codes)
        here, before = codes[1:], last[:-1]
        ends = here != before
        for code in _ALONE:
            ends |= here == code
        after = np.flatnonzero((before == _CODE["apostrophe"]) & (here == _CODE["letter"]))
        ends[after] = ~_after_letter(last, source, after)
        space = codes == _CODE[SPACE]
        ends &= ~space[1:] & (here != _CODE[CONTINUES])
        ends |= space[1:] != space[:-1]
        edges, solid = np.ones(len(codes) + 1, dtype=bool), ~space
        edges[1:-1] = ends
        return np.flatnonzero(edges[:-1] & solid), np.flatnonzero(edges[1:] & solid) + 1

    def groups(self, page: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Words of the same last kind are ended by the same; an apostrophe also looks at what is before it."""
        last, source = _last_codes(_codes(page))
        final = last[ends - 1].astype(np.int64)
        apostrophes = np.flatnonzero(final == _CODE["apostrophe"])
        final[apostrophes[_after_letter(last, source, ends[apostrophes] - 1)]] += len(KINDS)
        return final

    def _cut(self, text: str, i: int) -> bool:
        if text[i].isspace() != text[i - 1].isspace():
            return True
        return not text[i].isspace() and self._ends("", text[max(0, i - 8) : i], kind(text[i]))

    def _ends(self, left: str, word: str, following: Label) -> bool:
        if following in (SPACE, END):
            return True
        if following == CONTINUES:
            return False
        last = _last_kind(left + word)
        if last == "letter":
            return following != "letter"
        if last == "apostrophe" and following == "letter":
            return not self._clitic(left + word)
        return not (last in RUNS.values() and following == last)

    @staticmethod
    def _clitic(text: str) -> bool:
        """Say whether a final apostrophe follows a letter, so that letters go on with it."""
        base = text.rstrip()
        while base and kind(base[-1]) == CONTINUES:
            base = base[:-1]
        return _last_kind(base[:-1]) == "letter"


_ALONE = [_CODE[name] for name in KINDS if name not in (SPACE, CONTINUES, "letter", *RUNS.values())]
"""Marks that do not run together with their like."""


def _last_codes(codes: Codes) -> tuple[Codes, Ints]:
    """Return, up to every character, the last kind that is no combining mark, and where that stands."""
    places = np.arange(len(codes), dtype=np.int32)
    joined = codes == _CODE[CONTINUES]
    if not joined.any():
        return codes, places.astype(np.int64)
    source = np.maximum.accumulate(np.where(joined, 0, places)).astype(np.int64)
    last = codes[source]
    last[last == _CODE[CONTINUES]] = _CODE[SPACE]
    return last, source


def _after_letter(last: Codes, source: Ints, places: Ints) -> NDArray[np.bool_]:
    """Say whether a letter stands before the character that the kind at each place comes from."""
    at = source[places]
    found: NDArray[np.bool_] = (at > 0) & (last[np.maximum(at - 1, 0)] == _CODE["letter"])
    return found


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
                f"'{pattern}' is not a regular expression: {error}. A valid one: --words 'regex:[\\w]+' (in quotes)."
            ) from None
        if self._pattern.match(""):
            raise OptionError(
                f"the pattern '{pattern}' matches nothing at all (the empty string); use + where it has *."
            )
        signs = dict.fromkeys(c for c in pattern if not c.isspace() and c not in r"\[](){}|*+^$")
        self._frames = [f.replace("x", s) for s in "a1" for f in ("□", "x□", "x□x", "□x", "xx□")]
        self._frames += [f.replace("s", s) for s in signs for f in ("s□", "□s", "as□", "a□s", "as□a")]
        self._classes: dict[tuple[int | None, ...], str] = {}
        self._example: dict[Label, str] = {}
        self._class = lru_cache(maxsize=None)(self._classify)
        self._decide: Callable[[str, str], bool | None] = lru_cache(maxsize=1 << 18)(self._decision)

    def segment(self, text: str) -> list[Word]:
        """Return the pattern's matches."""
        return [Word(m.group(), m.start(), m.end()) for m in self._pattern.finditer(text) if m.group()]

    def spans(self, page: TextBatch) -> tuple[Ints, Ints]:
        """Return the pattern's matches in every text of a page."""
        found = [
            (begin + m.start(), begin + m.end())
            for document, begin in zip(page.documents, page.begins.tolist(), strict=False)
            for m in self._pattern.finditer(document.text)
            if m.end() > m.start()
        ]
        both = np.array(found, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def groups(self, page: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for equal words."""
        seen: dict[str, int] = {}
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.array([seen.setdefault(page.text[a:b], len(seen)) for a, b in bounds], dtype=np.int64)

    def label(self, opening: str) -> Label:
        """Classify a token by what the pattern makes of its first two characters."""
        if not opening:
            return CONTINUES
        label = ".".join(self._class(char) for char in opening[:2])
        label = f"{SPACE}:{label}" if opening[0].isspace() else label
        self._example.setdefault(label, opening[:2])
        return label

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that end ``word`` for certain."""
        known = [lab for lab in labels if lab in self._example]
        ended = {lab for lab in known if self._decide(word, lab)}
        if closed:
            ended |= {lab for lab in known if usually_spaced(_last_kind(word), kind(self._example[lab][0]))}
        return frozenset(ended | ({END} & set(labels)))

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return the labels after which the pattern might still take the word further."""
        return frozenset(lab for lab in labels if lab in self._example and self._decide(word, lab) is None)

    def splits(self, text: str) -> list[int]:
        """Ends of matches strictly inside ``text``."""
        return [m.end() for m in self._pattern.finditer(text) if m.group() and m.end() < len(text)]

    def _classify(self, char: str) -> str:
        found = (self._pattern.match(frame.replace("□", char)) for frame in self._frames)
        signature = (*(m.end() if m else None for m in found), char.isspace())
        return self._classes.setdefault(signature, f"c{len(self._classes)}")

    def _decision(self, word: str, label: Label) -> bool | None:
        text = word + self._example[label]
        taken = self._pattern.fullmatch(text, partial=True)
        if taken is not None and taken.partial:
            return None
        found = self._pattern.match(text)
        return found is None or bool(found.end() <= len(word))


def define(words: str) -> WordDefinition:
    """Return the definition that goes by this name.

    Parameters
    ----------
    words
        ``whitespace``, ``punctuation`` or ``regex:PATTERN``.
    """
    if words == "whitespace":
        return Whitespace()
    if words == "punctuation":
        return Punctuation()
    if words.startswith("regex:"):
        return Regex(words.removeprefix("regex:"))
    raise OptionError(
        f"no word definition is called '{words}'. Use whitespace, punctuation, regex:PATTERN (for example "
        "regex:[\\w']+), or give the words themselves as a list."
    )


def check_definition(words: str | WordDefinition) -> None:
    """Raise, unless this is a word definition or the name of one."""
    if isinstance(words, str) and not words.startswith("list:"):
        define(words)


def locate(text: str, given: Sequence[str], where: str = "the text") -> list[Word]:
    """Find the given words in ``text``, in order, with nothing but white space between them.

    >>> locate("He can't.", ["He", "ca", "n't", "."])[2]
    Word(text="n't", start=5, end=8)
    """
    words, at = [], 0
    for n, word in enumerate(given, start=1):
        at += len(text[at:]) - len(text[at:].lstrip())
        if not word or word.isspace():
            raise AlignmentError(f"{where}: word {n} of the list is empty; leave it out.")
        if not text.startswith(word, at):
            raise AlignmentError(
                f"{where}: word {n} of the list is '{word}', but the text goes on with '{text[at : at + 30]}' "
                f"(character {at}). The list must give every word of the text, in order, as it is spelled there."
            )
        words.append(Word(word, at, at + len(word)))
        at += len(word)
    if rest := text[at:].strip():
        raise AlignmentError(f"{where}: the list ends before the text does; left over: '{rest[:30]}' (character {at}).")
    return words


def rule_for(texts: Iterable[str], located: Iterable[Sequence[Word]]) -> WordDefinition:
    """Return the coarsest built-in rule under which given words end where they do."""
    for text, words in zip(texts, located, strict=True):
        if any(w.end < len(text) and not text[w.end].isspace() for w in words):
            return Punctuation()
    return Whitespace()
