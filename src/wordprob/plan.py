"""What the model is asked: windows over long texts, batches of like length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wordprob.types import Ints, common


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
        first, low = cut, cut - context(room, min_context)
    return [*found, Window(low, first, length)]


def context(room: int, min_context: int | None = None) -> int:
    """Return how many tokens come before each word of a text that does not fit."""
    return room // 2 if min_context is None else min(max(min_context, 1), room - 1)


def _cut_before(limit: int, stops: Ints, least: int) -> int:
    """Return the last word end at or before ``limit``, or ``limit`` itself inside a word longer than the window."""
    k = int(np.searchsorted(stops, limit, side="right")) - 1
    return int(stops[k]) if k >= 0 and stops[k] >= least else limit


def pages(lengths: Iterable[int], most: int, size: int, first: int | None = None) -> Iterator[slice]:
    """Cut a row of texts into pages of at most ``most`` texts and about ``size`` characters.

    The first has about ``first`` characters and each twice as many as the one before, so that work begins soon.
    """
    low, count, total, room = 0, 0, 0, size if first is None else min(first, size)
    for length in lengths:
        if count and (count == most or total + length > room):
            yield slice(low, low + count)
            low, count, total, room = low + count, 0, 0, min(2 * room, size)
        count += 1
        total += length
    if count:
        yield slice(low, low + count)


def batches(
    lengths: Sequence[int], budget: int, most: int = 1024, padding: float = 0.05, least: int = 0
) -> list[list[int]]:
    """Group indices so that a batch, padded to its longest member, stays within ``budget`` tokens.

    Of one with ``least`` tokens or more, at most a share ``padding`` is padding. Longest first: if memory is short, it
    shows at once.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    found: list[list[int]] = []
    longest = total = 0
    for i in order:
        size = (len(found[-1]) + 1) * longest if found else 0
        fits = size <= budget and (size <= least or (1 - padding) * size <= total + lengths[i])
        if found and fits and len(found[-1]) < most:
            found[-1].append(i)
            total += lengths[i]
        else:
            found.append([i])
            longest = total = lengths[i]
    return found


def trunks(prefixes: Sequence[Sequence[int]]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Group prefixes that share most of their beginning.

    Returns, for each group, the index of its longest member (the trunk) and every member with the number of ids it
    shares with the trunk.
    """
    order = sorted(range(len(prefixes)), key=lambda n: tuple(prefixes[n]))
    groups: list[list[int]] = []
    for k, n in enumerate(order):
        near = k and 2 * common(prefixes[order[k - 1]], prefixes[n]) >= min(
            len(prefixes[order[k - 1]]), len(prefixes[n])
        )
        if near:
            groups[-1].append(n)
        else:
            groups.append([n])
    found = []
    for group in groups:
        trunk = max(group, key=lambda n: len(prefixes[n]))
        found.append((trunk, [(n, common(prefixes[trunk], prefixes[n])) for n in group]))
    return found


def packs(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices in their order so that a group's lengths add up to ``budget`` at most (or it has one member)."""
    found: list[list[int]] = []
    total = 0
    for n, length in enumerate(lengths):
        if found and total + length <= budget:
            found[-1].append(n)
            total += length
        else:
            found.append([n])
            total = length
    return found
