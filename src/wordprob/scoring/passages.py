"""What is to be scored: passages of text, and the chunks in which they are scored together.

A :class:`Passage` is a text that the model reads, with what is known about it: which part of it is only context, which
words were given and what ends them, and what the rows of the table are about. A whole text, a continuation after its
context, a section of a long text and an excerpt with limited context are all passages.

>>> [passage.document for passage in passages_of(["She saw", "the mark"], ids=["a", "b"])]
[Document(id='a', text='She saw'), Document(id='b', text='the mark')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import regex

from wordprob.core.arrays import Ints
from wordprob.core.text import Document, Word
from wordprob.core.word_definition import WordDefinition
from wordprob.errors import InputError

NO_IDS: Ints = np.zeros(0, dtype=np.int64)

SURROGATE = regex.compile(r"[\ud800-\udfff]")

MAX_TEXTS_PER_CHUNK = 8192

CHARACTERS_PER_BATCH_TOKEN = 128
"""Characters in a chunk, about, for each token that the model takes at a time: some thirty batches."""

FIRST_CHUNK_CHARACTERS = 1 << 16
"""Characters of the first chunk, where chunks are larger: the model need not wait long for it."""

SHARED_CONTEXT_CHARACTERS = 1 << 20
"""Characters of whole texts that share a context, in a chunk."""

MIN_SHARED_CHARACTERS = 16
"""Shorter beginnings are not counted as shared."""
MIN_GAIN = 0.05
"""The share of all characters that another order must save."""


class Passage(NamedTuple):
    """A text to score.

    Attributes
    ----------
    document
        The text that the model reads, and its id.
    context_length
        How many characters at its beginning are context only.
    scored_end
        Where its last scored word ends; what follows only shows how that word is written. ``None``: all words after
        the context are scored.
    words
        Its words, where they were given. In a chunk they are given for all passages or for none.
    rule
        What ends the given words.
    unscored
        The indices of given words that were filled in between those that the user gave; ``None`` if the words come
        from a rule.
    origin
        The position in the text that offsets of words are counted from; it may lie before the text.
    source
        What the rows of the table are about, where that is not the text itself.
    excerpt
        The number of the passage among the excerpts of its source, each of which has a context of its own; ``None`` if
        it is no excerpt. The excerpts of a source follow one another.
    head
        Tokens that the model reads before the text, besides those that come before every text: the beginning of a long
        context. Text and head together fit into the model's context. Passages with the same head hold the same array.
    """

    document: Document
    context_length: int = 0
    scored_end: int | None = None
    words: Sequence[Word] | None = None
    rule: WordDefinition | None = None
    unscored: Sequence[int] | None = None
    origin: int = 0
    source: Document | None = None
    excerpt: int | None = None
    head: Ints = NO_IDS

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.document.text

    @property
    def subject(self) -> Document:
        """What the rows of the table are about."""
        return self.document if self.source is None else self.source


@dataclass(frozen=True)
class Chunk:
    """Passages that are scored together.

    Attributes
    ----------
    passages
        The passages.
    continues
        Whether the source of the only passage, or of all excerpts, continues in the next chunk.
    shares_context
        Whether the passages have their contexts in common with each other and with further chunks.
    """

    passages: Sequence[Passage]
    continues: bool = False
    shares_context: bool = False

    @property
    def documents(self) -> list[Document]:
        """The texts that the model reads."""
        return [passage.document for passage in self.passages]

    @property
    def n_characters(self) -> int:
        """How many characters the model reads."""
        return sum(len(passage.document.text) for passage in self.passages)

    def without_sources(self) -> Chunk:
        """Return what a worker process needs: the model does not read the sources."""
        if all(passage.source is None for passage in self.passages):
            return self
        return replace(self, passages=[passage._replace(source=None) for passage in self.passages])


# --- texts as the user gives them -------------------------------------------------------------------------------------


def check_texts(texts: str | Iterable[str], what: str = "text") -> list[str]:
    """Return one text or several as a list; raise for what is not text.

    Parameters
    ----------
    texts
        The texts.
    what
        What one of them is called in messages.
    """
    if isinstance(texts, Mapping | bytes) or hasattr(texts, "columns"):
        raise InputError(
            f"{what}s are a string or a list of strings, not a {type(texts).__name__}. For a table use "
            "wordprob.score_table(table, scorer); for one of its columns, scorer.score(table['text'])."
        )
    strings = [texts] if isinstance(texts, str) else list(texts)
    for n, text in enumerate(strings):
        if not isinstance(text, str):
            raise InputError(f"{what} {n} is not a string but {type(text).__name__}: {text!r:.60}")
        if not text.isascii() and SURROGATE.search(text):
            raise InputError(
                f"{what} {n} has a lone surrogate, which is not a character; was it decoded with surrogateescape?"
            )
    return strings


def passages_of(texts: str | Iterable[str], ids: Sequence[int | str] | None = None) -> list[Passage]:
    """Check texts and their ids, and return a passage for each."""
    return list(map(Passage, with_ids(check_texts(texts), ids)))


def with_ids(strings: Sequence[str], ids: Sequence[int | str] | None) -> list[Document]:
    """Return texts that have been checked with their ids; by default they are numbered."""
    names = range(len(strings)) if ids is None else list(ids)
    if len(names) != len(strings):
        raise InputError(f"{len(strings)} texts but {len(names)} ids; give one for each.")
    return list(map(Document, names, strings))


# --- which are scored, in which order, and how many together ----------------------------------------------------------


def without_repeated_empty(passages: Sequence[Passage]) -> list[int]:
    """Return the positions of the passages to score: all but the empty ones after the first, which are all alike.

    >>> without_repeated_empty(passages_of(["a", "", "b", "", ""]))
    [0, 1, 2]
    """
    empty = [n for n, passage in enumerate(passages) if not passage.document.text]
    left_out = set(empty[1:])
    return [n for n in range(len(passages)) if n not in left_out] if left_out else list(range(len(passages)))


def order_by_beginnings(texts: Sequence[str]) -> list[int] | None:
    """Return an order in which texts that begin alike are neighbours; ``None`` where that would save little.

    Examples
    --------
    >>> order_by_beginnings(["The old man went home.", "It rained.", "The old man went to bed."])
    [1, 0, 2]
    >>> order_by_beginnings(["The old man went home.", "The old man went to bed.", "It rained."])
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    gain = _shared_characters([texts[position] for position in order]) - _shared_characters(texts)
    return order if gain > MIN_GAIN * sum(map(len, texts)) else None


def _shared_characters(texts: Sequence[str]) -> int:
    """Return how many characters of texts are those that the text before begins with."""
    return sum(_n_alike(one, other) for one, other in pairwise(texts))


def _n_alike(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginning; 0 for few.

    >>> _n_alike("The old man went home.", "The old man went to bed.")
    17
    """
    if one[:MIN_SHARED_CHARACTERS] != other[:MIN_SHARED_CHARACTERS]:
        return 0
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def cut_into_chunks(
    passages: Sequence[Passage],
    max_characters: int,
    first_characters: int | None = None,
    shares_context: bool = False,
) -> list[Chunk]:
    """Return passages in chunks; parameters as for :func:`chunk_slices`."""
    lengths = [len(passage.document.text) for passage in passages]
    parts = chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, max_characters, first_characters)
    return [Chunk(passages[part], shares_context=shares_context) for part in parts]


def chunk_slices(
    lengths: Iterable[int], max_texts: int, max_characters: int, first_characters: int | None = None
) -> Iterator[slice]:
    """Cut a sequence of texts into chunks of at most ``max_texts`` texts and about ``max_characters`` characters.

    The first has about ``first_characters`` and each twice as many as the one before, so that work begins soon.

    >>> list(chunk_slices([3, 3, 9, 1], max_texts=2, max_characters=8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    limit = max_characters if first_characters is None else min(first_characters, max_characters)
    first = count = total = 0
    for length in lengths:
        if count and (count == max_texts or total + length > limit):
            yield slice(first, first + count)
            first, count, total = first + count, 0, 0
            limit = min(2 * limit, max_characters)
        count += 1
        total += length
    if count:
        yield slice(first, first + count)
