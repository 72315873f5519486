"""Tokens that reach over a word boundary: ``?⏎⏎`` holds the end of a word and what comes after it.

Only a word that ends like the beginning of such a token can be written in another way. What a vocabulary has of them
under a word definition is worked out once and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wordprob.core.arrays import Bools, Ints, cumulative_offsets
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import WordDefinition

CACHED_VOCABULARIES = 32

LONG_SUFFIX_BYTES = 8
"""Suffixes are compared by this many bytes at most, which fit into one integer."""


class SuffixFilter:
    """Tells quickly where one of many suffixes may stand: never a miss, seldom a false alarm.

    Two bytes decide for short suffixes, and rule out most words. The rest are looked up by a hash of their last bytes.
    """

    _HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
    _HASH_BITS = 20

    def __init__(self, suffixes: Collection[bytes]) -> None:
        ends_short, ends_long = np.zeros((2, 256, 256), dtype=bool)
        self._hashed = np.zeros(1 << self._HASH_BITS, dtype=bool)
        self._sizes = sorted({min(len(suffix), LONG_SUFFIX_BYTES) for suffix in suffixes if len(suffix) > 2})
        for suffix in suffixes:
            if len(suffix) > 2:
                ends_long[suffix[-2], suffix[-1]] = True
                last = suffix[-LONG_SUFFIX_BYTES:].rjust(LONG_SUFFIX_BYTES, b"\0")
                size = min(len(suffix), LONG_SUFFIX_BYTES)
                self._hashed[self._hash(np.frombuffer(last, dtype="<u8"), size)] = True
            elif len(suffix) == 2:
                ends_short[suffix[0], suffix[1]] = True
            else:
                ends_short[:, suffix[0]] = True
        # Both are indexed by 256 times the last byte but one, plus the last byte.
        self._ends_short = ends_short.ravel()
        self._ends_long = ends_long.ravel()

    def _hash(self, last_bytes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
        """Return a few bits for the last ``size`` of eight bytes, which are the highest ones of the integer."""
        kept = last_bytes >> np.uint64(64 - 8 * size)
        return (kept * self._HASH_FACTOR) >> np.uint64(64 - self._HASH_BITS)

    def may_end(self, data: NDArray[np.uint8], ends: Ints) -> Bools:
        """Return True for the positions ``ends`` of ``data`` before which a suffix may stand."""
        last_pair = 256 * data[np.maximum(ends - 2, 0)].astype(np.int64) + data[ends - 1]
        possible: Bools = self._ends_short[last_pair]
        to_look_up = np.flatnonzero(self._ends_long[last_pair] & ~possible)
        last_bytes = bytes_before(data, ends[to_look_up], LONG_SUFFIX_BYTES).view("<u8")[:, 0]
        for size in self._sizes:
            possible[to_look_up] |= self._hashed[self._hash(last_bytes, size)]
        return possible


def bytes_before(data: NDArray[np.uint8], ends: Ints, count: int) -> NDArray[np.uint8]:
    """Return ``[N, count]``: the last bytes before each position, zeros before the first byte."""
    padded = np.concatenate([np.zeros(count, dtype=np.uint8), data])
    last: NDArray[np.uint8] = sliding_window_view(padded, count)[ends]
    return last


@dataclass(frozen=True)
class JoinedTokens:
    """The tokens of a vocabulary that hold a word boundary.

    Attributes
    ----------
    continuations
        For every way a token begins before an inner word boundary (its stem), the ways such tokens go on.
    longest_stem
        Length of the longest stem, in bytes.
    stem_sizes
        By the last byte of a stem: which lengths stems have that end so, shortest first.
    suffix_filter
        Tells quickly whether a stem may stand at the end of a word.
    unjoinable_pairs
        By 256 times a byte plus the next: True if no token has the two so and the next begins a character. No
        token reaches over such a place.
    """

    continuations: Mapping[bytes, tuple[str, ...]]
    longest_stem: int
    stem_sizes: tuple[tuple[int, ...], ...]
    suffix_filter: SuffixFilter
    unjoinable_pairs: Bools

    def reaches_over(self, data: bytes) -> bool:
        """Return True if some token could hold the end of ``data`` and more: the readable twin of the filter."""
        return any(data[-size:] in self.continuations for size in self.stem_sizes[data[-1]] if size <= len(data))

    def continuations_of(self, data: bytes) -> list[str]:
        """Return the continuations for which some token could hold the end of ``data`` and their beginning."""
        found: set[str] = set()
        for size in range(1, min(len(data), self.longest_stem) + 1):
            found.update(self.continuations.get(data[-size:], ()))
        return sorted(found)


_cache: BoundedCache[JoinedTokens] = BoundedCache(CACHED_VOCABULARIES)


def joined_tokens_of(vocabulary: Vocabulary, definition: WordDefinition) -> JoinedTokens:
    """Return the tokens of a vocabulary that hold a boundary under a word definition.

    The result is kept for the next time, unless the definition is bound to a vocabulary.
    """
    if definition.bind() is not definition:
        return _joined_tokens(vocabulary, definition)
    return _cache.get((vocabulary.key, definition), lambda: _joined_tokens(vocabulary, definition))


def _joined_tokens(vocabulary: Vocabulary, definition: WordDefinition) -> JoinedTokens:
    continuations = _inner_boundaries(vocabulary, definition)
    sizes: list[list[int]] = [[] for _ in range(256)]
    for stem in sorted(continuations, key=len):
        if len(stem) not in sizes[stem[-1]]:
            sizes[stem[-1]].append(len(stem))
    return JoinedTokens(
        continuations=continuations,
        longest_stem=max((len(stem) for stem in continuations), default=0),
        stem_sizes=tuple(map(tuple, sizes)),
        suffix_filter=SuffixFilter(continuations),
        unjoinable_pairs=unjoinable_pairs(vocabulary),
    )


def _inner_boundaries(vocabulary: Vocabulary, definition: WordDefinition) -> dict[bytes, tuple[str, ...]]:
    """Return, for every way a token begins before an inner word boundary, the ways such tokens go on."""
    continuations: dict[bytes, set[str]] = {}
    for piece in vocabulary.pieces:
        text = _decode(piece)
        if len(text) < 2:
            continue
        for position in definition.inner_boundaries(text):
            continuations.setdefault(text[:position].encode(), set()).add(text[position:])
    return {stem: tuple(sorted(rests)) for stem, rests in continuations.items()}


def _decode(piece: bytes | None) -> str:
    """Return a token's text; empty if it holds a part of a character."""
    try:
        return (piece or b"").decode()
    except UnicodeDecodeError:
        return ""


def unjoinable_pairs(vocabulary: Vocabulary) -> Bools:
    """Return, by 256 times a byte plus the next: True if no token has them so and the next begins a character."""
    data = np.frombuffer(b"".join(vocabulary.token_bytes), dtype=np.uint8)
    inside_token = np.ones(len(data), dtype=bool)
    token_starts = cumulative_offsets(vocabulary.lengths)[:-1]
    inside_token[token_starts[token_starts < len(data)]] = False
    unjoinable = np.ones((256, 256), dtype=bool)
    unjoinable[data[:-1][inside_token[1:]], data[1:][inside_token[1:]]] = False
    unjoinable[:, 0x80:0xC0] = False  # these bytes go on with a character
    return unjoinable.ravel()
