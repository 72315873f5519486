"""In which other ways a word could have been written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, common_prefix_length, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.core.text import TextBatch
from wordprob.core.vocabulary import Tokens, Vocabulary
from wordprob.core.words import Label, WordDefinition


class Spelling(NamedTuple):
    """One way the tokeniser writes a word (with the separators before it).

    ``boundary`` holds the labels whose mass is B after it; ``None`` means B = 1: its last token
    already holds what ends the word.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] | None


EncodeAll = Callable[[Sequence[str]], list[Tokens]]


Key = tuple[str, str, str]
"""What the tokeniser is asked about: what is written before, separators and word, the word."""


class WordContext(NamedTuple):
    """A word as it stands: what is written before it, its separators, itself, and its observed tokens."""

    before: str
    chunk: str
    word: str
    ids: tuple[int, ...]
    anchored: bool
    """Whether only the real text before it will do as left context when the tokeniser is asked."""


class Divergence(NamedTuple):
    """A way out of a word's observed spelling, by one of the ids ``first`` and then ``rest``.

    It leaves ``back`` tokens before the word's end. Spellings whose one last token holds the boundary are kept
    together; ``first`` then has many ids.
    """

    back: int
    first: tuple[int, ...]
    rest: tuple[int, ...]
    boundary: frozenset[Label] | None


class AlternativeSpellings(NamedTuple):
    """The spellings of a word besides the observed one."""

    divergences: tuple[Divergence, ...] = ()
    longer: tuple[Spelling, ...] = ()
    """Those that begin with the observed tokens from ``skipped`` on; where they leave the text depends on the text."""
    skipped: int = 0
    by: frozenset[str] = frozenset()
    """What settled it: all of the word's bytes and tokens (``whole``), or those after its seam (``seam``)."""


WHOLE, SEAM = frozenset({"whole"}), frozenset({"seam"})


REMEMBERED = 1 << 18
"""Words whose spellings are kept in mind."""


def divergences(spellings: Iterable[Spelling], observed: Sequence[int], length: int) -> Iterator[Divergence]:
    """Say where spellings leave the observed path, counted back from its token ``length``."""
    gathered: dict[int, list[int]] = {}
    for spelling in spellings:
        shared = common_prefix_length(spelling.ids, observed)
        off = spelling.ids[shared:]
        if len(off) == 1 and spelling.boundary is None:
            gathered.setdefault(length - shared, []).append(off[0])
        elif off:
            yield Divergence(length - shared, off[:1], off[1:], spelling.boundary)
    for back, ids in gathered.items():
        yield Divergence(back, tuple(ids), (), None)


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
        self._marks = bool(vocabulary.marked.any())
        self.seams = unjoinable_pairs(vocabulary)
        self.has_seams = not self._marks and definition.local
        """Whether a word's end can be written independently of the rest of it."""
        self._rests = inner_boundaries(vocabulary, definition)
        self._longest = max((len(stem) for stem in self._rests), default=0)
        self._tails = SuffixFilter(self._rests)
        self._sizes: list[list[int]] = [[] for _ in range(256)]
        for stem in sorted(self._rests, key=len):
            if len(stem) not in self._sizes[stem[-1]]:
                self._sizes[stem[-1]].append(len(stem))
        self._known: dict[Key, tuple[Spelling, ...]] = {}

    def boundary(self, before: str, word: str, last: int) -> frozenset[Label] | None:
        """Return the labels whose mass is B after ``word`` when its last token is ``last``."""
        closed = bool(self._vocabulary.marked[last])
        if closed and self._vocabulary.mark_is_space:
            return None
        return self._definition.boundaries(before, word, self._labels, closed)

    def worth_asking(self, page: TextBatch, ends: Ints) -> NDArray[np.bool_]:
        """Say which words may have other spellings, by their last bytes."""
        if self._marks:
            return np.ones(len(ends), dtype=bool)
        return self._tails.fit(np.frombuffer(page.data, dtype=np.uint8), page.at[ends])

    def _swallows(self, data: bytes) -> bool:
        """Return True if some token could hold the end of ``data`` and more: the twin of :class:`SuffixFilter`."""
        return any(data[-k:] in self._rests for k in self._sizes[data[-1]] if k <= len(data))

    def rests(self, chunk: str) -> list[str]:
        """Return the continuations for which some token could swallow the end of ``chunk``."""
        data = chunk.encode("utf-8", "surrogatepass")
        tails = (data[-k:] for k in range(1, min(len(data), self._longest) + 1))
        return sorted({rest for tail in tails for rest in self._rests.get(tail, ())})

    def others(self, places: Sequence[WordContext]) -> list[AlternativeSpellings]:
        """Return the ways in which each word could have been written besides the observed one."""
        if len(self._known) > REMEMBERED:
            self._known.clear()
        asked = [self._question(place) for place in places]
        self._ask({key for _, key in asked if key is not None and key not in self._known})
        return [self._besides(place, *question) for place, question in zip(places, asked, strict=True)]

    def _besides(self, place: WordContext, skipped: int, key: Key | None) -> AlternativeSpellings:
        if key is None:
            return AlternativeSpellings(by=WHOLE | SEAM)
        options, by = self._known[key], SEAM if skipped else WHOLE
        if options and all(o.ids != place.ids[skipped:] for o in options):
            skipped, options, by = 0, self._in_place(place), frozenset()
        observed = place.ids[skipped:]
        apart = [o for o in options if o.ids != observed]
        longer = tuple(o for o in apart if o.ids[: len(observed)] == observed)
        rest = (o for o in apart if o not in longer)
        return AlternativeSpellings(
            tuple(divergences(rest, observed, len(observed))), longer, skipped, frozenset() if longer else by
        )

    def _question(self, place: WordContext) -> tuple[int, Key | None]:
        """Return what to ask about a word: all of it, or its end where that is written independently of the rest.

        The number says how many of its tokens come before that end.
        """
        data = place.chunk.encode("utf-8", "surrogatepass")
        if not self._marks and not self._swallows(data):
            return 0, None
        if (seam := self._seam(place, data)) and (skipped := self._tokens_before(seam, data, place.ids)):
            head, tail = data[:seam].decode(), data[seam:].decode()
            return skipped, (head[-1], tail, tail)
        first = not place.before and not place.anchored
        anchor = "" if first else _last_word(place.before) if place.anchored else "a"
        return 0, (anchor, place.chunk, place.word)

    def _seam(self, place: WordContext, data: bytes) -> int:
        """Return the last place in a word that no token can reach over, 0 if there is none.

        What stands after it is then written in the same way whatever the rest of the word is.
        """
        if not self.has_seams or not place.before or place.anchored:
            return 0
        separators = len(data) - len(place.word.encode("utf-8", "surrogatepass"))
        for at in range(len(data) - 1, separators, -1):
            if self.seams[256 * data[at - 1] + data[at]]:
                return at
        return 0

    def _tokens_before(self, seam: int, data: bytes, ids: tuple[int, ...]) -> int:
        """Return how many of a word's tokens write what is before the seam, 0 if their bytes do not say."""
        written = 0
        for n, i in enumerate(ids):
            if written == seam and data.startswith(b"".join(self._vocabulary.written[k] for k in ids[:n])):
                return n
            written += len(self._vocabulary.written[i])
        return 0

    def _in_place(self, place: WordContext) -> tuple[Spelling, ...]:
        """Ask again with the real text to the left, for a tokeniser that looks further back than one word."""
        key = (place.before[-200:], place.chunk, place.word)
        if key not in self._known:
            self._ask([key])
        return self._known[key]

    def _ask(self, keys: Iterable[Key]) -> None:
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


class SuffixFilter:
    """Tells where one of these stems may stand at the end of a word.

    Two bytes say so for short stems, and no for most words; the rest are looked up by a hash of their last bytes.
    """

    _MIX = np.uint64(0x9E3779B97F4A7C15)

    def __init__(self, stems: Collection[bytes]) -> None:
        short, long = np.zeros((2, 256, 256), dtype=bool)
        self._hashed = np.zeros(1 << 20, dtype=bool)
        """By the hash of as many bytes as a long stem has, eight at most."""
        self._sizes = sorted({min(len(stem), 8) for stem in stems if len(stem) > 2})
        for stem in stems:
            if len(stem) > 2:
                long[stem[-2], stem[-1]] = True
                tail = np.frombuffer(stem[-8:].rjust(8, b"\0"), dtype="<u8")
                self._hashed[self._hash(tail, min(len(stem), 8))] = True
            else:
                short[stem[-2] if len(stem) > 1 else slice(None), stem[-1]] = True
        self._short, self._long = short.ravel(), long.ravel()
        """By the last two bytes: whether a stem of no more ends so, and whether a longer one does."""

    def _hash(self, tails: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
        """Return twenty bits for the last few of eight bytes."""
        return ((tails >> np.uint64(64 - 8 * size)) * self._MIX) >> np.uint64(44)

    def fit(self, data: NDArray[np.uint8], ends: Ints) -> NDArray[np.bool_]:
        """Say at which of these ends a stem may stand."""
        pair = 256 * data[np.maximum(ends - 2, 0)].astype(np.int64) + data[ends - 1]
        found: NDArray[np.bool_] = self._short[pair]
        likely = np.flatnonzero(self._long[pair] & ~found)
        tails = bytes_before(data, ends[likely], 8).view("<u8")[:, 0]
        for size in self._sizes:
            found[likely] |= self._hashed[self._hash(tails, size)]
        return found


def bytes_before(data: NDArray[np.uint8], ends: Ints, count: int) -> NDArray[np.uint8]:
    """Return ``[N, count]``: the last bytes before each place, zeros before the first."""
    padded = np.concatenate([np.zeros(count, dtype=np.uint8), data])
    found: NDArray[np.uint8] = sliding_window_view(padded, count)[ends]
    return found


def _last_word(text: str) -> str:
    return (text.split() or [""])[-1]


def unjoinable_pairs(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return, by 256 times a byte and the next: whether no token has them so, and the next begins a character."""
    data = np.frombuffer(b"".join(vocabulary.written), dtype=np.uint8)
    inside = np.ones(len(data), dtype=bool)
    firsts = cumulative_offsets(vocabulary.lengths)[:-1]
    inside[firsts[firsts < len(data)]] = False
    found = np.ones((256, 256), dtype=bool)
    found[data[:-1][inside[1:]], data[1:][inside[1:]]] = False
    found[:, 0x80:0xC0] = False
    return found.ravel()


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
