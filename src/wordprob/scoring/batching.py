"""Texts cut into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def text_batches(lengths: Iterable[int], most: int, size: int, first: int | None = None) -> Iterator[slice]:
    """Cut a row of texts into text_batches of at most ``most`` texts and about ``size`` characters.

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
