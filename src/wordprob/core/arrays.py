"""Array helpers: cumulative_offsets, segment_sums over segments, ranges laid end to end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


def cumulative_offsets(lengths: Iterable[int] | Ints) -> Ints:
    """Return where concat_ranges of these lengths begin when they lie end to end, and where the last ends.

    >>> cumulative_offsets([2, 0, 3])
    array([0, 2, 2, 5])
    """
    found = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), dtype=np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(found)])


def segment_sums(values: Floats, lows: Ints, highs: Ints) -> Floats:
    """Add up ``values[low:high]`` for each pair; each sum is its own, so nothing in one stretch touches another.

    >>> segment_sums(np.array([1.0, np.nan, 2.0, 3.0]), np.array([0, 1, 2, 4]), np.array([1, 2, 4, 4]))
    array([ 1., nan,  5.,  0.])
    """
    if not len(lows):
        return np.zeros(0)
    edges = np.stack([lows, highs], axis=1).ravel()
    found: Floats = np.add.reduceat(np.append(np.asarray(values, dtype=np.float64), 0.0), edges)[::2]
    found[lows >= highs] = 0.0
    return found


def concat_ranges(begins: Ints, lengths: Sequence[int] | Ints) -> Ints:
    """Return the places of concat_ranges that begin at ``begins``, one stretch after the other.

    >>> concat_ranges(np.array([5, 0]), [2, 3])
    array([5, 6, 0, 1, 2])
    """
    edges = cumulative_offsets(lengths)
    return np.arange(edges[-1]) + np.repeat(begins - edges[:-1], np.diff(edges))


def common_prefix_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two sequences begin with in common_prefix_length."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
