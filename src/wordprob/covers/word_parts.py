"""What tokens write of one word: their bytes up to where a word may end inside of them.

Several tokens can hold the end of the same word and something different behind it, such as ``).`` and ``),`` where
``)`` is a word. What each has up to there is what tells whether two tokens can belong to the same word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from wordprob.core.arrays import Bools
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.next_tokens import NextTokens
from wordprob.covers.next_word_beginnings import heaviest_chain


class WordParts:
    """The parts of all tokens of a vocabulary, for one definition of a word.

    Parameters
    ----------
    tokens
        What is known about the vocabulary.
    definition
        The same definition.

    Attributes
    ----------
    pieces
        For each id, its bytes up to the first place where a word may end. Nothing, if it begins with a part of a
        character: the word may have ended before it.
    """

    def __init__(self, tokens: NextTokens, definition: WordDefinition) -> None:
        self._token_bytes = tokens.vocabulary.token_bytes
        self._is_cut_off: Bools = tokens.kinds == tokens.cut_off_kind
        self._ends: dict[int, list[int]] = {}
        self.pieces: list[bytes] = list(self._token_bytes[: tokens.vocab_size])
        for token in tokens.text_tokens.tolist():
            ends = [0] if self._is_cut_off[token] else _possible_ends(self._token_bytes[token], definition)
            if ends:
                self._ends[token] = ends
                self.pieces[token] = self._token_bytes[token][: ends[0]]

    @cached_property
    def is_shortened(self) -> Bools:
        """Whether a word may end inside an id, or before it."""
        shortened: Bools = np.zeros(len(self.pieces), dtype=bool)
        shortened[list(self._ends)] = True
        return shortened

    @cached_property
    def most_of_one_word(self) -> int:
        """How many tokens, at most, can begin or end the same word, besides those that begin with a cut-off character.

        These are counted apart, as they can follow every word.
        """
        pieces = [piece for token, piece in enumerate(self.pieces) if piece and not self._is_cut_off[token]]
        return round(heaviest_chain(pieces, [1.0] * len(pieces))[0])

    def of(self, token: int, n_before: int) -> bytes:
        """Return the bytes of a token up to the first place where a word may end that has this many bytes before it."""
        ends = [end for end in self._ends.get(token, ()) if end > n_before]
        return self._token_bytes[token][: ends[0]] if ends else self._token_bytes[token]

    def written_as(self, data: bytes) -> Sequence[int]:
        """Return the tokens with exactly these bytes as their part."""
        return self._by_piece.get(data, ())

    @cached_property
    def _by_piece(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for token, piece in enumerate(self.pieces):
            found.setdefault(piece, []).append(token)
        return found


def _possible_ends(piece: bytes, definition: WordDefinition) -> list[int]:
    """Return after how many bytes of a token a word may end; also before a last character that is cut off."""
    text = piece.decode("utf-8", "ignore")
    ends = [len(text[:place].encode()) for place in definition.possible_boundaries(text)]
    size = len(text.encode())
    return ends if size == len(piece) else [*ends, size]


_known: WeakKeyDictionary[NextTokens, WordParts] = WeakKeyDictionary()


def word_parts_of(tokens: NextTokens, definition: WordDefinition) -> WordParts:
    """Return the parts of the tokens; they are kept as long as these."""
    if tokens not in _known:
        _known[tokens] = WordParts(tokens, definition)
    return _known[tokens]
