"""Words and tokens put together: which tokens a word takes, and in which other ways it could have been written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from wordprob.types import Atoms, Ints, Label, Spelling, Tokens, Vocabulary, Word, WordDefinition

EncodeAll = Callable[[Sequence[str]], list[Tokens]]


class Cut(Enum):
    """How the tokens end where a word ends."""

    CLEAN = "a token ends there"
    JOINED = "the last token also holds the white space that follows"
    SHARED = "the boundary lies inside a token"
    EMPTY = "the tokeniser wrote nothing for the word"


@dataclass(frozen=True)
class Alignment:
    """``stops[i]`` tokens lead up to and through word ``i``; separators before a word are its own."""

    stops: Ints
    cuts: tuple[Cut, ...]

    def slice(self, i: int) -> tuple[int, int]:
        """Return the token range of word ``i``."""
        return (int(self.stops[i - 1]) if i else 0), int(self.stops[i])


def byte_offsets(text: str) -> Ints:
    """Return the byte offset of every character of ``text``, and of its end."""
    if text.isascii():
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    sizes = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def align(text: str, words: Sequence[Word], tokens: Tokens) -> Alignment:
    """Give every word its slice of tokens."""
    at = byte_offsets(text)
    begins = at[np.array([w.start for w in words], dtype=np.int64)]
    finishes = at[np.array([w.end for w in words], dtype=np.int64)]
    starts = np.maximum.accumulate(tokens.starts) if len(tokens.starts) else tokens.starts
    stops = np.searchsorted(starts, finishes, side="left")
    following = np.append(begins[1:], at[-1])
    cuts = []
    for i, stop in enumerate(stops.tolist()):
        reach = int(tokens.ends[stop - 1]) if stop else 0
        if reach > finishes[i]:
            shared = reach > following[i] and i + 1 < len(words)
            cuts.append(Cut.SHARED if shared else Cut.JOINED)
        else:
            cuts.append(Cut.EMPTY if stop == (stops[i - 1] if i else 0) else Cut.CLEAN)
    return Alignment(stops.astype(np.int64), tuple(cuts))


class Place(NamedTuple):
    """A word as it stands: what is written before it, its separators, itself, and its observed tokens."""

    before: str
    chunk: str
    word: str
    ids: tuple[int, ...]
    anchored: bool
    """Whether only the real text before it will do as left context when the tokeniser is asked."""


class Speller:
    """Finds the spellings of words by asking the tokeniser what it writes before each kind of continuation.

    A word can be written in another way only if some token holds both an end of the word and what comes after it
    (``?⏎⏎``, ``wall▁``), or if the tokeniser marks ends by other means. Other words are not asked about.
    """

    def __init__(self, encode: EncodeAll, vocabulary: Vocabulary, definition: WordDefinition, atoms: Atoms) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        self._definition = definition
        self._labels = atoms.labels
        self._rests = inner_boundaries(vocabulary, definition)
        self._longest = max((len(stem) for stem in self._rests), default=0)
        self._known: dict[tuple[str, str, str], tuple[Spelling, ...]] = {}

    def boundary(self, before: str, word: str, last: int) -> frozenset[Label] | None:
        """Return the labels whose mass is B after ``word`` when its last token is ``last``."""
        closed = bool(self._vocabulary.marked[last])
        if closed and self._vocabulary.mark_is_space:
            return None
        return self._definition.boundaries(before[-2:], word, self._labels, closed)

    def rests(self, chunk: str) -> list[str]:
        """Return the continuations for which some token could swallow the end of ``chunk``."""
        data = chunk.encode("utf-8", "surrogatepass")
        tails = (data[-k:] for k in range(1, min(len(data), self._longest) + 1))
        return sorted({rest for tail in tails for rest in self._rests.get(tail, ())})

    def spellings(self, places: Sequence[Place]) -> list[tuple[Spelling, ...]]:
        """Return all spellings of each word, as far as they differ from the observed one."""
        asked = [self._key(place) for place in places]
        self._ask({key for key in asked if key is not None and key not in self._known})
        found = []
        for place, key in zip(places, asked, strict=True):
            options = self._known[key] if key is not None else ()
            if key is not None and options and all(o.ids != place.ids for o in options):
                options = self._in_place(place)
            found.append(tuple(o for o in options if o.ids != place.ids))
        return found

    def _key(self, place: Place) -> tuple[str, str, str] | None:
        if not self._vocabulary.marked.any() and not self.rests(place.chunk):
            return None
        first = not place.before and not place.anchored
        anchor = "" if first else _last_word(place.before) if place.anchored else "a"
        return anchor, place.chunk, place.word

    def _in_place(self, place: Place) -> tuple[Spelling, ...]:
        """Ask again with the real text to the left, for a tokeniser that looks further back than one word."""
        key = (place.before[-200:], place.chunk, place.word)
        if key not in self._known:
            self._ask([key])
        return self._known[key]

    def _ask(self, keys: Iterable[tuple[str, str, str]]) -> None:
        probes = {key: self._probes(*key) for key in sorted(keys)}
        texts = [anchor + chunk + rest for (anchor, chunk, _), rests in probes.items() for rest in rests]
        answers = iter(self._encode(texts) if texts else ())
        for key, rests in probes.items():
            self._known[key] = self._read(key[0], key[1], key[2], [next(answers) for _ in rests])

    def _probes(self, head: str, chunk: str, word: str) -> list[str]:
        rests = ["", " a", "\na", "\n\na", *(rest + "a" if rest.isspace() else rest for rest in self.rests(chunk))]
        full_stop = self._definition.label(".")
        if self._definition.boundaries(head[-2:], word, [full_stop]):
            rests += [".", ","]
        return list(dict.fromkeys(rests))

    def _read(self, head: str, chunk: str, word: str, answers: Sequence[Tokens]) -> tuple[Spelling, ...]:
        begin, finish = (len(t.encode("utf-8", "surrogatepass")) for t in (head, head + chunk))
        separator = len(chunk) - len(word)
        found: dict[tuple[int, ...], Spelling] = {}
        for tokens in answers:
            first, stop = (int(n) for n in np.searchsorted(tokens.starts, [begin, finish], side="left"))
            if stop == first or (first and tokens.ends[first - 1] > begin + separator):
                continue
            ids = tuple(tokens.ids[first:stop].tolist())
            over = int(tokens.ends[stop - 1]) > finish
            found[ids] = Spelling(ids, None if over else self.boundary(head + chunk[:separator], word, ids[-1]))
        return tuple(found.values())


def _last_word(text: str) -> str:
    return (text.split() or [""])[-1]


def inner_boundaries(vocabulary: Vocabulary, definition: WordDefinition) -> dict[bytes, tuple[str, ...]]:
    """Return, for every way a token begins before an inner word boundary, the ways such tokens go on."""
    found: dict[bytes, set[str]] = {}
    for piece in vocabulary.pieces:
        text = _text(piece)
        for i in definition.splits(text) if len(text) > 1 else ():
            found.setdefault(text[:i].encode(), set()).add(text[i:])
    return {stem: tuple(sorted(rests)) for stem, rests in found.items()}


def _text(piece: bytes | None) -> str:
    try:
        return (piece or b"").decode()
    except UnicodeDecodeError:
        return ""
