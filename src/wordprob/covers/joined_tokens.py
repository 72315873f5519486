"""Tokens that reach over a word boundary: ``?⏎⏎`` holds the end of a word and what comes after it.

Only a word that ends like the beginning of such a token can be written in another way. What a vocabulary has of them
under a word definition is worked out once and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wordprob.core.alignment import Alignment, Cut
from wordprob.core.arrays import Bools, Ints, cumulative_offsets
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.characters import character_bytes, is_cut_off
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.token_trie import TokenTrie, token_trie_of

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


class JoinedTokens(Protocol):
    """The tokens of a vocabulary that may hold a word boundary."""

    @property
    def unjoinable_pairs(self) -> Bools:
        """By 256 times a byte plus the next: True if no token has the two so and the next begins a character.

        No token reaches over such a place.
        """

    @property
    def longest_stem(self) -> int:
        """The most bytes that a token has before a place where a word may end."""

    def may_end(self, data: NDArray[np.uint8], ends: Ints) -> Bools:
        """Return True for the positions ``ends`` of ``data`` that some token may reach over: never a miss."""

    def reaches_over(self, data: bytes) -> bool:
        """Return True if some token could hold the end of ``data`` and more: the readable twin of the filter."""

    def continuations_of(self, data: bytes) -> list[bytes]:
        """Return the bytes by which tokens that hold the end of ``data`` go on after it."""

    def continuations_after(self, stem: bytes) -> Sequence[bytes]:
        """Return the bytes by which tokens that begin with all of ``stem`` go on after it."""


@dataclass(frozen=True)
class TokensOverBoundaries:
    """The tokens that hold a place where a word may end by a rule.

    Attributes
    ----------
    continuations
        For every way a token begins before such a place (its stem), the ways such tokens go on.
    longest_stem
        Length of the longest stem, in bytes.
    stem_sizes
        By the last byte of a stem: which lengths stems have that end so, shortest first.
    suffix_filter
        Tells quickly whether a stem may stand at the end of a word.
    unjoinable_pairs
        As for :class:`JoinedTokens`.
    """

    continuations: Mapping[bytes, tuple[bytes, ...]]
    longest_stem: int
    stem_sizes: tuple[tuple[int, ...], ...]
    suffix_filter: SuffixFilter
    unjoinable_pairs: Bools

    def may_end(self, data: NDArray[np.uint8], ends: Ints) -> Bools:
        """Return True for the positions before which a stem may stand."""
        return self.suffix_filter.may_end(data, ends)

    def reaches_over(self, data: bytes) -> bool:
        """Return True if some token could hold the end of ``data`` and more: the readable twin of the filter."""
        return any(data[-size:] in self.continuations for size in self.stem_sizes[data[-1]] if size <= len(data))

    def continuations_of(self, data: bytes) -> list[bytes]:
        """Return the bytes by which tokens that hold the end of ``data`` go on after it."""
        found: set[bytes] = set()
        for size in range(1, min(len(data), self.longest_stem) + 1):
            found.update(self.continuations_after(data[-size:]))
        return sorted(found)

    def continuations_after(self, stem: bytes) -> Sequence[bytes]:
        """Return the bytes by which tokens that begin with all of ``stem`` go on after it."""
        return self.continuations.get(stem, ())


@dataclass(frozen=True)
class TokensOverAnything:
    """All tokens: where words end by no rule, any token of several characters may hold such an end."""

    trie: TokenTrie
    longest_stem: int
    unjoinable_pairs: Bools

    def may_end(self, data: NDArray[np.uint8], ends: Ints) -> Bools:
        """Return True everywhere."""
        return np.ones(len(ends), dtype=bool)

    def reaches_over(self, data: bytes) -> bool:
        """Return True."""
        return True

    def continuations_of(self, data: bytes) -> list[bytes]:
        """Return the bytes by which tokens that begin with an ending of ``data`` go on after it."""
        found: set[bytes] = set()
        for size in range(1, min(len(data), self.longest_stem) + 1):
            found.update(self.continuations_after(data[-size:]))
        return sorted(found)

    def continuations_after(self, stem: bytes) -> Sequence[bytes]:
        """Return the bytes by which tokens that begin with all of ``stem`` go on after it."""
        longer = dict.fromkeys(self.trie.pieces_beginning_with(stem))
        rests = [piece[len(stem) :] for piece in longer]
        return [rest for rest in rests if rest and character_bytes(rest[0])]


_cache: BoundedCache[JoinedTokens] = BoundedCache(CACHED_VOCABULARIES)


def joined_tokens_of(vocabulary: Vocabulary, definition: WordDefinition) -> JoinedTokens:
    """Return the tokens of a vocabulary that may hold a boundary under a word definition.

    The result is kept for the next time, unless the definition is bound to a vocabulary.
    """
    if not definition.ends_by_rule:
        return _cache.get((vocabulary.key, None), lambda: _tokens_over_anything(vocabulary))
    if definition.bind() is not definition:
        return _tokens_over_boundaries(vocabulary, definition)
    return _cache.get((vocabulary.key, definition), lambda: _tokens_over_boundaries(vocabulary, definition))


def _tokens_over_anything(vocabulary: Vocabulary) -> TokensOverAnything:
    longest = max(map(len, vocabulary.token_bytes), default=1)
    return TokensOverAnything(token_trie_of(vocabulary), longest - 1, unjoinable_pairs(vocabulary))


def _tokens_over_boundaries(vocabulary: Vocabulary, definition: WordDefinition) -> TokensOverBoundaries:
    continuations = _continuations(vocabulary, definition)
    sizes: list[list[int]] = [[] for _ in range(256)]
    for stem in sorted(continuations, key=len):
        if len(stem) not in sizes[stem[-1]]:
            sizes[stem[-1]].append(len(stem))
    return TokensOverBoundaries(
        continuations=continuations,
        longest_stem=max((len(stem) for stem in continuations), default=0),
        stem_sizes=tuple(map(tuple, sizes)),
        suffix_filter=SuffixFilter(continuations),
        unjoinable_pairs=unjoinable_pairs(vocabulary),
    )


def _continuations(vocabulary: Vocabulary, definition: WordDefinition) -> dict[bytes, tuple[bytes, ...]]:
    """Return, for every way a token begins before a place where a word may end, the ways such tokens go on."""
    continuations: dict[bytes, set[bytes]] = {}
    for piece in vocabulary.token_bytes:
        if len(piece) < 2:
            continue
        for place in possible_places(piece, definition):
            continuations.setdefault(piece[:place], set()).add(piece[place:])
    return {stem: tuple(sorted(rests)) for stem, rests in continuations.items()}


def possible_places(piece: bytes, definition: WordDefinition) -> list[int]:
    """Return the places inside a token, in bytes, where a word may end.

    A token may begin or end within a character. Whether a word ends next to such a character is left open here.
    """
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return _places_beside_cut_characters(piece, definition)
    if len(text) == len(piece):
        return list(definition.possible_boundaries(text))
    return [len(text[:position].encode()) for position in definition.possible_boundaries(text)]


def _places_beside_cut_characters(piece: bytes, definition: WordDefinition) -> list[int]:
    """Return the places for a token that begins or ends within a character; none for bytes that no text has."""
    begin = next((n for n, byte in enumerate(piece) if character_bytes(byte)), len(piece))
    end = len(piece)
    for back in range(1, min(4, len(piece) - begin) + 1):
        if is_cut_off(piece[-back:]):
            end = len(piece) - back
            break
    try:
        middle = piece[begin:end].decode()
    except UnicodeDecodeError:
        return []
    places = [begin + len(middle[:position].encode()) for position in definition.possible_boundaries(middle)]
    return sorted({place for place in (begin, *places, end) if 0 < place < len(piece)})


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


SIGNATURE_BYTES = 16
"""Bytes at a word's end that go into its signature, with the character before the unjoinable place."""

SIGNATURE_TOKENS = 2
"""Tokens after the unjoinable place, at most."""

NONE = -1
"""Stands for a signature, or a token, that is not there."""

HASH_FACTORS = np.random.default_rng(0).integers(0, 1 << 63, 7, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
"""An odd random factor for each number in a signature."""


class WordSignatures(NamedTuple):
    """Words by their signatures.

    Attributes
    ----------
    number
        For each word, the number of its signature; :data:`NONE` if it has none.
    distinct
        The signatures.
    examples
        For each signature, the position of a word that has it.
    """

    number: Ints
    distinct: list[bytes]
    examples: Ints


def no_signatures(count: int) -> WordSignatures:
    """Return that none of so many words has a signature."""
    return WordSignatures(np.full(count, NONE, dtype=np.int64), [], np.zeros(0, dtype=np.int64))


def alike_before(unjoinable_pairs: Bools) -> NDArray[np.uint8]:
    """Return, by 256 times a byte plus the next, a byte that can stand for the first of the two.

    Letters of one case, and digits, stand for each other before an unjoinable place, where they leave it unjoinable.
    """
    alike = np.repeat(np.arange(256, dtype=np.uint8), 256).reshape(256, 256)
    unjoinable = unjoinable_pairs.reshape(256, 256)
    for characters in (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"1234567890"):
        example = characters[0]
        for byte in characters:
            alike[byte] = np.where(unjoinable[byte] & unjoinable[example], example, byte)
    return alike.ravel()


def word_signatures(
    alignment: Alignment, words: Ints, groups: Ints, unjoinable_pairs: Bools, alike: NDArray[np.uint8]
) -> WordSignatures:
    """Return the signatures of words.

    Parameters
    ----------
    alignment, words
        The words of a batch, by their numbers.
    groups
        For each word, a number for what ends it.
    unjoinable_pairs
        Which two bytes no token holds together.
    alike
        What :func:`alike_before` makes of them.
    """
    batch = alignment.batch
    ends = batch.byte_offsets[alignment.ends[words]]
    text_starts = batch.byte_offsets[batch.text_starts[alignment.text_of_word[words]]]

    # How many bytes follow the last unjoinable place among the last bytes before each end.
    last_bytes = bytes_before(np.frombuffer(batch.utf8, dtype=np.uint8), ends, SIGNATURE_BYTES)
    pairs = 256 * last_bytes[:, :-1].astype(np.int64) + last_bytes[:, 1:]
    unjoinable = unjoinable_pairs[pairs]
    n_bytes = 1 + np.argmax(unjoinable[:, ::-1], axis=1)
    word_range = np.arange(len(words))
    before = SIGNATURE_BYTES - 1 - n_bytes
    first_tokens = np.searchsorted(alignment.token_starts, ends - n_bytes)
    n_tokens = alignment.stop_tokens[words] - first_tokens
    has_signature = (
        unjoinable.any(axis=1)
        & (n_bytes < ends - text_starts)
        & (last_bytes[word_range, before] < 0x80)
        & (np.append(alignment.token_starts, NONE)[first_tokens] == ends - n_bytes)
        & (n_tokens >= 0)
        & (n_tokens <= SIGNATURE_TOKENS)
    )

    # One column a word: its last bytes as integers, how many they are, its group, its last two tokens, and the token
    # that reaches over its end.
    last_bytes[word_range, before] = alike[pairs[word_range, before]]
    in_signature = np.arange(SIGNATURE_BYTES) >= before[:, None]
    kept_bytes = np.where(in_signature, last_bytes, 0).astype(np.uint8).view("<u8")
    stops = alignment.stop_tokens[words]
    last_token = np.where(n_tokens >= 1, alignment.ids[np.maximum(stops - 1, 0)], NONE)
    token_before = np.where(n_tokens == 2, alignment.ids[np.maximum(stops - 2, 0)], NONE)
    over_end = np.where(alignment.cuts[words] == Cut.MID_TOKEN, np.append(alignment.ids, NONE)[stops], NONE)
    numbers = [column.astype("<u8") for column in (n_bytes, groups, last_token, token_before, over_end)]
    return _distinct(np.stack([*kept_bytes.T, *numbers]), has_signature)


def _distinct(signatures: NDArray[np.uint64], has_signature: Bools) -> WordSignatures:
    """Number the different columns of ``signatures`` among those of words that have one.

    Equal ones are found by a hash; should different ones share it, only the first of them keeps its signature.
    """
    chosen = np.flatnonzero(has_signature)
    hashes = HASH_FACTORS @ signatures[:, chosen]
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    examples = chosen[first]
    distinct = signatures[:, examples]
    same = (signatures[:, chosen] == distinct[:, number]).all(axis=0)
    number_of_word = np.full(len(has_signature), NONE, dtype=np.int64)
    number_of_word[chosen] = np.where(same, number, NONE)
    # As bytes, since a tuple for every signature would keep Python's garbage collector busy.
    return WordSignatures(number_of_word, [row.tobytes() for row in distinct.T], examples)
