"""Tokens looked up by their bytes: which ones could write the next part of a text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.characters import is_cut_off
from wordprob.core.pretoken_edges import EDGE, split_edges
from wordprob.core.vocabulary import Vocabulary

CACHED_TRIES = 8


class TokenTrie:
    """The tokens of a vocabulary by their bytes; tokens that write nothing are left out.

    Parameters
    ----------
    vocabulary
        The tokenizer's vocabulary.
    vocab_size
        Number of ids that the model's distributions have; ids beyond it are left out.

    Attributes
    ----------
    tokens, pieces
        The tokens in the order of their bytes, and these bytes.

    Examples
    --------
    >>> from wordprob.models.exact import ExactLM
    >>> tokenizer = ExactLM.bigram("bow").tokenizer
    >>> trie = TokenTrie(tokenizer.vocabulary, tokenizer.vocabulary.size)
    >>> [tokenizer.vocabulary.tokens[token] for token, _ in trie.matches(b" marked")]
    [' ', ' mark']
    >>> [tokenizer.vocabulary.tokens[token] for token in trie.beginning_with(b" ma")]
    [' mark']
    """

    def __init__(self, vocabulary: Vocabulary, vocab_size: int) -> None:
        self._ids: dict[bytes, tuple[int, ...]] = {}
        sizes: list[set[int]] = [set() for _ in range(256)]
        for token, piece in enumerate(vocabulary.token_bytes[:vocab_size]):
            if piece:
                self._ids[piece] = (*self._ids.get(piece, ()), token)
                sizes[piece[0]].add(len(piece))
        self._sizes = [sorted(each) for each in sizes]
        in_order = sorted(self._ids)
        self.tokens = [token for piece in in_order for token in self._ids[piece]]
        self.pieces = [piece for piece in in_order for _ in self._ids[piece]]

    def ids(self, piece: bytes) -> tuple[int, ...]:
        """Return the tokens that are exactly these bytes; more than one where a vocabulary has doubles."""
        return self._ids.get(piece, ())

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the tokens with which ``data`` begins, and how many bytes each takes, the shortest first."""
        if not data:
            return
        for size in self._sizes[data[0]]:
            if size > len(data):
                return
            for token in self._ids.get(data[:size], ()):
                yield token, size

    def reaching_over(
        self, data: bytes, continuations_after: Callable[[bytes], Sequence[bytes]]
    ) -> Iterator[tuple[bytes, Sequence[int]]]:
        """Yield the tokens that begin with all of ``data`` by how they go on, which the function says."""
        for beyond in continuations_after(data):
            yield beyond, self.ids(data + beyond)

    def beginning_with(self, data: bytes) -> list[int]:
        """Return the tokens whose bytes begin with ``data``, in the order of their bytes."""
        return self.tokens[slice(*self._range(data))]

    def pieces_beginning_with(self, data: bytes) -> list[bytes]:
        """Return the bytes of these tokens."""
        return self.pieces[slice(*self._range(data))]

    def _range(self, data: bytes) -> tuple[int, int]:
        return bisect_left(self.pieces, data), bisect_left(self.pieces, _after_all(data)) if data else len(self.pieces)


def _after_all(data: bytes) -> bytes:
    """Return bytes that sort after everything that begins with ``data``, and before everything else after it."""
    stripped = data.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\xff" * (len(data) + 1)


class MarkedTokenTrie(TokenTrie):
    """The same for tokens that bear marks where pre-tokens end, and for texts as they are read."""

    def __init__(self, vocabulary: Vocabulary, vocab_size: int) -> None:
        super().__init__(vocabulary, vocab_size)
        self._marked: list[bool] = vocabulary.marked.tolist()
        self._spaced: list[bool] = vocabulary.spaced.tolist()

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the tokens with which ``data`` begins, and how many bytes each takes, edges included."""
        written, edges = split_edges(data)
        reach = min((place for place, edge in edges.items() if edge == EDGE and place), default=len(written))
        for token, size in super().matches(written[:reach]):
            is_marked = self._marked[token]
            if self._may_begin(token, edges) and (size in edges or not is_marked):
                yield token, size + sum(place < size for place in edges) + is_marked

    def reaching_over(
        self, data: bytes, continuations_after: Callable[[bytes], Sequence[bytes]]
    ) -> Iterator[tuple[bytes, Sequence[int]]]:
        """Yield the tokens that begin with all of ``data``; none holds an edge, or a mark inside a character."""
        written, edges = split_edges(data)
        if any(edge == EDGE and place for place, edge in edges.items()):
            return
        for beyond in continuations_after(written):
            tokens = [token for token in self.ids(written + beyond) if self._may_begin(token, edges)]
            yield beyond, [token for token in tokens if not (self._marked[token] and is_cut_off(beyond))]

    def _may_begin(self, token: int, edges: dict[int, bytes]) -> bool:
        """Return True if a token may stand where these edges are counted from."""
        return 0 in edges if self._spaced[token] else edges.get(0) != EDGE


_tries: BoundedCache[TokenTrie] = BoundedCache(CACHED_TRIES)


def token_trie_of(vocabulary: Vocabulary, vocab_size: int | None = None) -> TokenTrie:
    """Return the trie of a vocabulary; it is kept for the next time."""
    size = vocabulary.size if vocab_size is None else vocab_size
    return _tries.get((vocabulary.key, size), lambda: TokenTrie(vocabulary, size))


def trie_as_read(vocabulary: Vocabulary, vocab_size: int) -> TokenTrie:
    """Return the trie of a vocabulary for texts as they are read."""
    if vocabulary.leaves_out_space:
        return _tries.get((vocabulary.key, vocab_size, "as read"), lambda: MarkedTokenTrie(vocabulary, vocab_size))
    return token_trie_of(vocabulary, vocab_size)
