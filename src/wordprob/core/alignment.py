"""Words and tokens put together: which tokens each word takes.

Separators before a word belong to it: its tokens begin where those of the word before it stop. A token that holds a
word's end and more belongs to the word in which it ends; one that holds nothing more but white space, to the word
before that.

Everything about a batch is numbered along the batch, whatever the text. With ``d`` the number of a text:

- *Tokens* and *words* are counted through all texts. Those of text ``d`` are the tokens ``token_offsets[d]`` to
  ``token_offsets[d + 1] - 1`` and the words ``word_offsets[d]`` to ``word_offsets[d + 1] - 1``.
- A *boundary* stands before the first word of each text and after every word. So a text has one boundary more than it
  has words, and the boundary after word ``w`` of text ``d`` is ``w + d + 1``.
- A *row* is the model's distribution before a token, or at the end of a text. So a text has one row more than it has
  tokens, and the row before token ``t`` of text ``d`` is ``t + d``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Bools, Ints
from wordprob.core.text import TextBatch
from wordprob.core.vocabulary import TokenizedTexts, Tokens


class Cut(IntEnum):
    """How the tokens end where a word ends."""

    CLEAN = 0
    """A token ends there."""
    INCLUDES_SPACE = 1
    """The last token also holds the white space that follows."""
    MID_TOKEN = 2
    """The boundary lies inside a token, which belongs to a later word."""
    EMPTY = 3
    """The tokenizer wrote nothing for the word."""


@dataclass(frozen=True)
class Alignment:
    """The words and tokens of a batch, put together.

    Attributes
    ----------
    batch
        The texts.
    starts, ends
        ``[W]``: where each word starts and ends, in characters of the batch.
    byte_starts, byte_ends
        ``[W]``: the same in bytes of the batch.
    ids
        ``[T]``: the tokens.
    text_of_word
        ``[W]``: the text of each word.
    word_offsets, token_offsets
        ``[D + 1]``: where the words and the tokens of each text begin, and where all end.
    first_tokens, stop_tokens
        ``[W]``: the tokens of each word are ``first_tokens[w] … stop_tokens[w] - 1``.
    cuts
        ``[W]``: how the last token of each word ends, a :class:`Cut`.
    token_starts
        ``[T]``: where each token starts, in bytes of the batch.
    exact
        ``[D]``: whether the tokens' bytes are the text's bytes.
    """

    batch: TextBatch
    starts: Ints
    ends: Ints
    byte_starts: Ints
    byte_ends: Ints
    ids: Ints
    text_of_word: Ints
    word_offsets: Ints
    token_offsets: Ints
    first_tokens: Ints
    stop_tokens: Ints
    cuts: NDArray[np.uint8]
    token_starts: Ints
    exact: Bools

    @property
    def n_words(self) -> int:
        """Number of words in all texts."""
        return len(self.starts)

    @property
    def n_texts(self) -> int:
        """Number of texts."""
        return len(self.batch)

    # --- numbers of boundaries and rows ---

    @cached_property
    def first_boundaries(self) -> Ints:
        """``[D]``: the boundary before the first word of each text."""
        return self.word_offsets[:-1] + np.arange(self.n_texts)

    @cached_property
    def boundary_after(self) -> Ints:
        """``[W]``: the boundary after each word."""
        return np.arange(self.n_words) + self.text_of_word + 1

    @cached_property
    def boundary_rows(self) -> Ints:
        """``[W + D]``: the row of the model's distribution at each boundary."""
        rows = np.empty(self.n_words + self.n_texts, dtype=np.int64)
        rows[self.first_boundaries] = self.token_offsets[:-1] + np.arange(self.n_texts)
        rows[self.boundary_after] = self.stop_tokens + self.text_of_word
        return rows

    @cached_property
    def index_in_text(self) -> Ints:
        """``[W]``: the number of each word in its text, from 0."""
        return np.arange(self.n_words) - self.word_offsets[self.text_of_word]

    # --- looking up one at a time, from lists, which is faster than from arrays ---

    def text_of_boundary(self, boundary: int) -> int:
        """Return the text that a boundary belongs to."""
        return bisect_right(self._first_boundary_list, boundary) - 1

    @cached_property
    def _first_boundary_list(self) -> list[int]:
        boundaries: list[int] = self.first_boundaries.tolist()
        return boundaries

    @cached_property
    def token_offset_list(self) -> list[int]:
        """:attr:`token_offsets` as a list."""
        offsets: list[int] = self.token_offsets.tolist()
        return offsets

    def tokens_of_text(self, text: int) -> Ints:
        """Return the ids of a text."""
        return self.ids[self.token_offset_list[text] : self.token_offset_list[text + 1]]

    def words_of_text(self, text: int) -> range:
        """Return the numbers of a text's words."""
        first, stop = self.word_offsets[text : text + 2].tolist()
        return range(first, stop)

    def word(self, number: int) -> str:
        """Return a word as it stands in its text."""
        return self.batch.text[self.starts[number] : self.ends[number]]


def align(batch: TextBatch, starts: Ints, ends: Ints, tokens: Sequence[Tokens]) -> Alignment:
    """Give every word of a batch its tokens.

    Parameters
    ----------
    batch
        The texts.
    starts, ends
        Where their words start and end, in characters of the batch.
    tokens
        What the tokenizer made of each text.
    """
    tokenized = TokenizedTexts.of(tokens)
    token_offsets = tokenized.offsets
    word_offsets = np.searchsorted(starts, batch.text_starts)
    words_per_text = np.diff(word_offsets)
    text_of_word = np.repeat(np.arange(len(tokens)), words_per_text)

    # Tokens know where they stand in their own text; here they are placed in the batch.
    shift = np.repeat(batch.byte_offsets[batch.text_starts[:-1]], np.diff(token_offsets))
    token_starts = np.maximum.accumulate(tokenized.starts + shift)
    token_ends = tokenized.ends + shift

    # The tokens that start before a word ends, and how far the last of them reaches.
    byte_starts, byte_ends = batch.byte_offsets[starts], batch.byte_offsets[ends]
    stop_tokens = np.searchsorted(token_starts, byte_ends, side="left")
    last_token_end = np.append(token_ends, 0)[stop_tokens - 1]
    reaches_over = (last_token_end > byte_ends) & (stop_tokens > token_offsets[text_of_word])

    with_words = words_per_text > 0
    last_of_text = np.zeros(len(starts), dtype=bool)
    last_of_text[word_offsets[1:][with_words] - 1] = True
    next_word_start = np.append(byte_starts, 0)[1:]
    mid_token = reaches_over & (last_token_end > next_word_start) & ~last_of_text
    if mid_token.any():
        # A token that reaches into the next word is left to it.
        ended = np.searchsorted(np.maximum.accumulate(token_ends), byte_ends[mid_token], side="right")
        stop_tokens[mid_token] = np.maximum(ended, token_offsets[text_of_word[mid_token]])
    first_tokens = np.append(0, stop_tokens)[:-1]
    first_tokens[word_offsets[:-1][with_words]] = token_offsets[:-1][with_words]

    cuts = np.where(stop_tokens == first_tokens, Cut.EMPTY, Cut.CLEAN)
    cuts[reaches_over] = Cut.INCLUDES_SPACE
    cuts[mid_token] = Cut.MID_TOKEN
    return Alignment(
        batch=batch,
        starts=starts,
        ends=ends,
        byte_starts=byte_starts,
        byte_ends=byte_ends,
        ids=tokenized.ids,
        text_of_word=text_of_word,
        word_offsets=word_offsets,
        token_offsets=token_offsets,
        first_tokens=first_tokens,
        stop_tokens=stop_tokens,
        cuts=cuts.astype(np.uint8),
        token_starts=token_starts,
        exact=tokenized.exact,
    )
