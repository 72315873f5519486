"""Context windows over texts that are longer than the model's context."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints


class Window(NamedTuple):
    """The model sees tokens ``low … last - 1`` of a text and answers for rows ``first … last``.

    Row ``j`` is the distribution over token ``j`` given the tokens before it; row ``len(tokens)`` is the end.
    """

    low: int
    first: int
    last: int


def windows(length: int, stops: Ints, max_text_tokens: int | None, min_context: int | None = None) -> list[Window]:
    """Cover rows ``0 … length`` with windows of at most ``max_text_tokens`` tokens.

    Every row after the first window has at least ``min_context`` tokens before it (by default half of what fits), and
    cuts fall where words end, so that a word's tokens are scored together when it fits.

    Parameters
    ----------
    length
        Number of tokens of the text.
    stops
        Token counts at which words end.
    max_text_tokens
        How many tokens of a text the model takes at once; ``None`` for no limit.
    min_context
        Tokens before each word, at least.
    """
    if max_text_tokens is None or length <= max_text_tokens:
        return [Window(0, 0, length)]
    covering = []
    low = first = 0
    while low + max_text_tokens < length:
        cut = _cut_before(low + max_text_tokens, stops, first + 1)
        covering.append(Window(low, first, cut - 1))
        first = cut
        low = max(0, cut - context_size(max_text_tokens, min_context))
    covering.append(Window(low, first, length))
    return covering


def context_size(max_text_tokens: int, min_context: int | None = None) -> int:
    """Return how many tokens come before each word of a text that does not fit."""
    if min_context is None:
        return max_text_tokens // 2
    return min(max(min_context, 1), max_text_tokens - 1)


def _cut_before(limit: int, stops: Ints, least: int) -> int:
    """Return the last word end at or before ``limit``, or ``limit`` itself inside a word longer than the window."""
    k = int(np.searchsorted(stops, limit, side="right")) - 1
    return int(stops[k]) if k >= 0 and stops[k] >= least else limit
