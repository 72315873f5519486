"""Which token the tokenizer itself writes before what: a table of pairs, asked for once and remembered.

The tokens of a text are a matter of adjacent pairs: a sequence is what the tokenizer writes if it writes every token of
it right before the next one. So whether a word can end with the token ``;`` of a tokenizer that closes words by a mark
(``;</w>``) is decided by whether that token can stand before anything at all, whatever the word is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import zip_longest

import numpy as np

from wordprob.core.characters import character_class, is_white_space
from wordprob.core.vocabulary import Tokens, Vocabulary

MAX_FOLLOWERS = 512
"""Tokens that are tried behind a token, the shortest ones; all of them where the vocabulary is small."""

CLOSED_LEFT = "a "
"""What stands to the left of a pair. Nothing joins with it, and no pair stands at the beginning of a text."""

UNKNOWN, NOT_OWN, OWN, CLOSED = range(4)
"""What is known of a token and a text after it. A token is closed where the text after it is another pre-token."""


class OwnPairs:
    """Finds texts before which the tokenizer writes a token that the end of a text, or white space, would change.

    Parameters
    ----------
    encode
        Texts to tokens.
    vocabulary
        The tokenizer's vocabulary.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Sequence[Tokens]], vocabulary: Vocabulary) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        self._open = {
            piece: token for token, piece in enumerate(vocabulary.token_bytes) if piece and not vocabulary.marked[token]
        }
        self.longest = max(map(len, self._open), default=0)
        self._followers = _short_texts(vocabulary.token_bytes)
        self._n_single = sum(len(text) == 1 for text in self._followers)
        self._number = {text: number for number, text in enumerate(self._followers)}
        self._known: dict[int, bytearray] = {}

    @property
    def openings(self) -> list[str]:
        """The characters with which a text after a token may begin."""
        return self._followers[: self._n_single]

    def open_token(self, piece: bytes) -> int | None:
        """Return the token that has these bytes and does not close a word, if there is one."""
        return self._open.get(piece)

    def first_followers(self, tokens: Collection[int], openings: Collection[str]) -> dict[int, str]:
        """Return for each token the first text before which it is written; no entry if there is none.

        ``openings`` are the characters with which the text may begin. A token that begins or ends inside a character is
        no text that could be asked for: it gets the first of them.
        """
        pieces = self._vocabulary.token_bytes
        whole = [token for token in tokens if _decoded(pieces[token])]
        found = dict.fromkeys(set(tokens).difference(whole), next(iter(openings))) if openings else {}
        found |= self._search(whole, range(len(self._number)), openings)
        left = [token for token in whole if token not in found and self._may_go_on(token, openings)]
        if left:
            found |= self._search(left, self._longer_followers, openings)
        return found

    @cached_property
    def _longer_followers(self) -> range:
        """Numbers of further followers: tokens that do not close a word, each with what must come after it."""
        tokens = [self._open[piece] for text in self._followers if (piece := text.encode()) in self._open]
        after = self._search(tokens, range(len(self._number)), self.openings)
        self._followers += [self._vocabulary.token_bytes[token].decode() + text for token, text in after.items()]
        return range(len(self._number), len(self._followers))

    def _search(self, tokens: Collection[int], numbers: Iterable[int], openings: Collection[str]) -> dict[int, str]:
        """Return the first of some followers for each token, asking about more and more of them at once."""
        numbers = [number for number in numbers if self._followers[number][0] in openings]
        found: dict[int, str] = {}
        first, size = 0, 1
        while first < len(numbers) and len(found) < len(tokens):
            some = numbers[first : first + size]
            left = [token for token in tokens if token not in found]
            pairs = [(token, number) for token in left for number in some if not self._is_closed(token, number)]
            self._learn(pairs)
            for token, number in pairs:
                if self._known[token][number] == OWN:
                    found.setdefault(token, self._followers[number])
            first, size = first + size, 2 * size
        return found

    def _is_closed(self, token: int, number: int) -> bool:
        """Return True if the first character of a follower is known to close a token, so that the rest does, too."""
        opening = self._number.get(self._followers[number][0])
        return opening is not None and token in self._known and self._known[token][opening] == CLOSED

    def _may_go_on(self, token: int, openings: Collection[str]) -> bool:
        """Return True unless each of these characters closes a token."""
        return not all(self._is_closed(token, self._number[opening]) for opening in openings)

    def _learn(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Ask for the pairs of a token and a follower that are not known yet, all in one call."""
        for token, _ in pairs:
            if token not in self._known:
                self._known[token] = bytearray(2 * MAX_FOLLOWERS)
        new = [(token, number) for token, number in pairs if self._known[token][number] == UNKNOWN]
        pieces = self._vocabulary.token_bytes
        texts = [CLOSED_LEFT + pieces[token].decode() + self._followers[number] for token, number in new]
        for (token, number), tokens in zip(new, self._encode(texts) if texts else (), strict=True):
            self._known[token][number] = self._judge(token, tokens)

    def _judge(self, token: int, tokens: Tokens) -> int:
        """Return what the tokenizer made of a token and a text after it."""
        first = int(np.searchsorted(tokens.starts, len(CLOSED_LEFT)))
        if tokens.ids[first : first + 1].tolist() == [token]:
            return OWN
        end = len(CLOSED_LEFT) + len(self._vocabulary.token_bytes[token])
        last = int(np.searchsorted(tokens.starts, end)) - 1
        closed = last >= first and tokens.ends[last] == end and self._vocabulary.marked[tokens.ids[last]]
        return CLOSED if closed else NOT_OWN


def _decoded(piece: bytes) -> str:
    """Return bytes as text; nothing if they begin or end inside a character."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return ""


def _short_texts(pieces: Iterable[bytes]) -> list[str]:
    """Return the texts of the shortest tokens: single characters first, a letter next to a mark next to a digit."""
    by_kind: dict[tuple[int, str], list[str]] = {}
    texts = {text for text in map(_decoded, pieces) if text and not is_white_space(text[0])}
    for text in sorted(texts, reverse=True):
        by_kind.setdefault((len(text), character_class(text[0])), []).append(text)
    found: list[str] = []
    for size in sorted({size for size, _ in by_kind}):
        kinds = [texts for (length, _), texts in sorted(by_kind.items()) if length == size]
        found += [text for row in zip_longest(*kinds) for text in row if text is not None]
    return found[:MAX_FOLLOWERS]
