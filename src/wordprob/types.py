"""The nouns: small frozen records and the protocols that the rooms meet on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Label = str
"""What a token begins with, as far as a word definition cares; equal labels form an atom."""

END: Label = "end"
UNREACHABLE: Label = "unreachable"
SPACE: Label = "space"
CONTINUES: Label = "continues"
"""Combining marks, joiners and the inner bytes of a character: they never begin anything."""


class Document(NamedTuple):
    """One text and the name it goes by."""

    id: int | str
    text: str


class Page:
    """Texts laid end to end, a line break after each, so that one pass goes over all of them.

    Places are counted in characters of :attr:`text`; ``begins[d]`` is where text ``d`` begins, ``begins[-1]`` where all
    end.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.text = "".join([f"{d.text}\n" for d in documents])
        self.begins = offsets([len(d.text) + 1 for d in documents])

    @cached_property
    def data(self) -> bytes:
        """The text in UTF-8."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def points(self) -> NDArray[np.uint32]:
        """The code point of every character."""
        return np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def at(self) -> Ints:
        """The byte offset of every character, and of the end."""
        if self.text.isascii():
            return np.arange(len(self.text) + 1, dtype=np.int64)
        sizes = np.ones(len(self.points), dtype=np.uint8)
        for least in (0x7F, 0x7FF, 0xFFFF):
            sizes += self.points > least
        found = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=found[1:])
        return found

    def owner(self, places: Ints) -> Ints:
        """Return the text that each place lies in."""
        return np.searchsorted(self.begins, places, side="right") - 1


def offsets(lengths: Iterable[int] | Ints) -> Ints:
    """Return where stretches of these lengths begin when they lie end to end, and where the last ends.

    >>> offsets([2, 0, 3])
    array([0, 2, 2, 5])
    """
    found = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), dtype=np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(found)])


def sums(values: Floats, lows: Ints, highs: Ints) -> Floats:
    """Add up ``values[low:high]`` for each pair; each sum is its own, so nothing in one stretch touches another.

    >>> sums(np.array([1.0, np.nan, 2.0, 3.0]), np.array([0, 1, 2, 4]), np.array([1, 2, 4, 4]))
    array([ 1., nan,  5.,  0.])
    """
    if not len(lows):
        return np.zeros(0)
    edges = np.stack([lows, highs], axis=1).ravel()
    found: Floats = np.add.reduceat(np.append(np.asarray(values, dtype=np.float64), 0.0), edges)[::2]
    found[lows >= highs] = 0.0
    return found


def stretches(begins: Ints, lengths: Sequence[int] | Ints) -> Ints:
    """Return the places of stretches that begin at ``begins``, one stretch after the other.

    >>> stretches(np.array([5, 0]), [2, 3])
    array([5, 6, 0, 1, 2])
    """
    edges = offsets(lengths)
    return np.arange(edges[-1]) + np.repeat(begins - edges[:-1], np.diff(edges))


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two sequences begin with in common."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


class Word(NamedTuple):
    """A word and where it stands, in characters of the user's string."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Tokens:
    """What the tokeniser made of one text.

    ``starts`` and ``ends`` are byte offsets into the text's UTF-8 form. A token may reach beyond the text's
    end (an end-of-word mark that stands for a space nobody typed). ``exact`` says that the tokens' bytes are the
    text's bytes; otherwise the tokeniser rewrote the text and the spans are its own account of it.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    exact: bool = True


@dataclass(frozen=True)
class Vocabulary:
    """Every token as bytes, whatever its tokeniser's convention.

    Attributes
    ----------
    pieces
        Bytes of each token; ``None`` for control tokens, which stand for no text.
    convention
        How the tokeniser writes pieces: ``byte-level``, ``metaspace``, ``</w>``, ``@@``, ``##`` or ``plain``.
    family
        ``bow`` or ``eow``: where white space goes, into the token after it or the one before it; ``none`` if
        tokens hold no white space at all.
    marked
        Tokens that end a pre-token by a mark that is not text (``</w>``, the absence of ``@@``).
    mark_is_space
        Whether such a mark always stands for white space or the end (``@@``), or also for a switch to
        punctuation (``</w>`` of a tokeniser that splits punctuation first).
    spaced
        Tokens that begin a pre-token by a mark that is not text (the absence of ``##``).
    first_word_marked
        Whether the first word of a text gets the mark that other words get.
    start, ends
        The document-start id, and every id that ends a document.
    """

    pieces: tuple[bytes | None, ...]
    convention: str
    family: str
    marked: NDArray[np.bool_]
    spaced: NDArray[np.bool_]
    mark_is_space: bool
    first_word_marked: bool
    lossy: bool
    start: int | None
    ends: tuple[int, ...]
    unknown: int | None
    fingerprint: str
    tokens: tuple[str, ...] = field(repr=False, default=())

    @property
    def size(self) -> int:
        """Number of ids the tokeniser knows."""
        return len(self.pieces)

    @cached_property
    def written(self) -> tuple[bytes, ...]:
        """Bytes of each token, none for a control token."""
        return tuple(piece or b"" for piece in self.pieces)

    @cached_property
    def lengths(self) -> Ints:
        """Number of bytes of each token."""
        return np.array([len(piece) for piece in self.written], dtype=np.int64)


@dataclass(frozen=True)
class Atoms:
    """The vocabulary cut into disjoint classes: ``of[id]`` is an index into ``labels``."""

    labels: tuple[Label, ...]
    of: Ints

    def columns(self, chosen: frozenset[Label]) -> list[int]:
        """Indices of the atoms in ``chosen``."""
        return [i for i, label in enumerate(self.labels) if label in chosen]

    def sizes(self) -> dict[Label, int]:
        """Number of tokens in each atom."""
        counts = np.bincount(self.of, minlength=len(self.labels))
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True)}


class WordDefinition(Protocol):
    """A deterministic way to cut a string into words, and what it says about boundaries.

    ``local`` says that a word's last characters alone decide what ends it.
    """

    name: str
    local: bool

    def segment(self, text: str) -> list[Word]:
        """Cut ``text`` into words."""

    def spans(self, page: Page) -> tuple[Ints, Ints]:
        """Cut all texts of a page into words, at once: where they start and end."""

    def groups(self, page: Page, starts: Ints, ends: Ints) -> Ints:
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


class Spelling(NamedTuple):
    """One way the tokeniser writes a word (with the separators before it).

    ``boundary`` holds the labels whose mass is B after it; ``None`` means B = 1: its last token
    already holds what ends the word.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] | None


@dataclass(frozen=True)
class Request:
    """One row of token ids for a model, with extra ids to look at.

    Row ``j`` of the answer is the distribution after ``ids[: j + 1]``; rows before ``first`` are not needed.
    At the rows ``gather``, the log-mass of a list of ids is wanted, whose number among ``lists`` is in ``chosen``; at
    the rows ``inspect``, the entropy, and the rank of the next id.
    """

    ids: Ints
    first: int = 0
    gather: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    chosen: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lists: Sequence[Ints] = ()
    inspect: Ints | None = None


@dataclass(frozen=True)
class Scores:
    """A model's answer to a request, natural logarithms, in single or double precision.

    Attributes
    ----------
    target
        ``[R - 1]``: log p of the next id of the request, for rows ``first`` … last but one.
    mass
        ``[R, K]``: log-mass of every atom, for rows ``first`` … last.
    gathered
        One number for each row of ``Request.gather``.
    entropy, rank
        For each row of ``Request.inspect``: the entropy of the next id, and the rank of the one that came (1 is the
        likeliest).
    """

    target: Floats
    mass: Floats
    gathered: Floats = field(default_factory=lambda: np.zeros(0))
    entropy: Floats | None = None
    rank: Floats | None = None


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids with byte spans, and the vocabulary behind it."""

    vocabulary: Vocabulary

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, without special tokens."""

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return where a text can be cut, at a place or after it: where the first part ends and the rest begins.

        Apart they have the tokens that they have together. ``None`` where that is not sure.
        """


@runtime_checkable
class LanguageModel(Protocol):
    """The seam to whatever computes probabilities: one method."""

    tokenizer: Tokenizer
    max_tokens: int | None
    width: int
    metadata: Mapping[str, str]

    @property
    def batch_tokens(self) -> int:
        """About how many tokens it takes at a time."""

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return ``(index of the request, its scores)`` in any order; what requests for late rows share is run once.

        Threads may ask at the same time. A model that works in the background has begun when this returns.
        """
