"""Context windows over long texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints


class Window(NamedTuple):
    """The model sees tokens ``low … last - 1`` and answers for rows ``first … last``.

    Row ``j`` is the distribution over token ``j`` given the tokens before it; row ``len(tokens)`` is the end.
    """

    low: int
    first: int
    last: int


def windows(length: int, stops: Ints, room: int | None, min_context: int | None = None) -> list[Window]:
    """Cover rows ``0 … length`` with windows of at most ``room`` tokens.

    Every row after the first window has at least ``min_context`` tokens before it (default half the room), and cuts
    fall where words end, so that a word's tokens are scored together when it fits.

    Parameters
    ----------
    length
        Number of tokens of the text.
    stops
        Token counts at which words end.
    room
        How many text tokens the model can take at once; ``None`` for no limit.
    """
    if room is None or length <= room:
        return [Window(0, 0, length)]
    found, low, first = [], 0, 0
    while low + room < length:
        cut = _cut_before(low + room, stops, first + 1)
        found.append(Window(low, first, cut - 1))
        first, low = cut, cut - context_size(room, min_context)
    return [*found, Window(low, first, length)]


def context_size(room: int, min_context: int | None = None) -> int:
    """Return how many tokens come before each word of a text that does not fit."""
    return room // 2 if min_context is None else min(max(min_context, 1), room - 1)


def _cut_before(limit: int, stops: Ints, least: int) -> int:
    """Return the last word end at or before ``limit``, or ``limit`` itself inside a word longer than the window."""
    k = int(np.searchsorted(stops, limit, side="right")) - 1
    return int(stops[k]) if k >= 0 and stops[k] >= least else limit
