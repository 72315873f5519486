"""Tokens looked up by their bytes: which ones could write the next part of a text."""

from __future__ import annotations

from collections.abc import Iterator

from wordprob.core.vocabulary import Vocabulary


class TokenIndex:
    """The tokens of a vocabulary by their bytes.

    Parameters
    ----------
    vocabulary
        The tokenizer's vocabulary.
    vocab_size
        Number of ids that the model's distributions have; ids beyond it are left out.

    Examples
    --------
    >>> from wordprob.models.exact import ExactLM
    >>> tokenizer = ExactLM.bigram("bow").tokenizer
    >>> index = TokenIndex(tokenizer.vocabulary, tokenizer.vocabulary.size)
    >>> [tokenizer.vocabulary.tokens[token] for token, _ in index.matches(b" marked")]
    [' ', ' mark']
    """

    def __init__(self, vocabulary: Vocabulary, vocab_size: int) -> None:
        self._ids: dict[bytes, tuple[int, ...]] = {}
        sizes: list[set[int]] = [set() for _ in range(256)]
        for token, piece in enumerate(vocabulary.token_bytes[:vocab_size]):
            if piece:
                self._ids[piece] = (*self._ids.get(piece, ()), token)
                sizes[piece[0]].add(len(piece))
        self._sizes = [sorted(each) for each in sizes]

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
