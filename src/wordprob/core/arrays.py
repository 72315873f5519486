"""Array helpers: many segments of unequal length, kept end to end in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def cumulative_offsets(lengths: Iterable[int] | Ints) -> Ints:
    """Return where segments of these lengths begin when they lie end to end, and where the last one ends.

    >>> cumulative_offsets([2, 0, 3])
    array([0, 2, 2, 5])
    """
    sizes = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), dtype=np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def segment_sums(values: Floats, starts: Ints, stops: Ints) -> Floats:
    """Return the sum of ``values[start:stop]`` for each pair.

    Each sum is computed by itself, so that a value that is not a number spoils its own segment only.

    >>> segment_sums(np.array([1.0, np.nan, 2.0, 3.0]), np.array([0, 1, 2, 4]), np.array([1, 2, 4, 4]))
    array([ 1., nan,  5.,  0.])
    """
    if not len(starts):
        return np.zeros(0)
    # reduceat sums from each edge to the next: every other sum is one of ours, the ones between are thrown away.
    # The appended zero makes an edge at the very end valid.
    edges = np.stack([starts, stops], axis=1).ravel()
    padded = np.append(np.asarray(values, dtype=np.float64), 0.0)
    totals: Floats = np.add.reduceat(padded, edges)[::2]
    totals[starts >= stops] = 0.0  # of an empty segment reduceat returns the value at its edge
    return totals


def row_sums(values: Floats) -> Floats:
    """Return the sum of each row, which does not depend on how many rows there are.

    >>> row_sums(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.])
    """
    sums: Floats = np.einsum("nk->n", values)  # much faster than ``values.sum(axis=1)`` for short rows
    return sums


def concat_ranges(starts: Ints, lengths: Sequence[int] | Ints) -> Ints:
    """Return the ranges that begin at ``starts``, one after the other, as one array of indices.

    >>> concat_ranges(np.array([5, 0]), [2, 3])
    array([5, 6, 0, 1, 2])
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if not sizes.all():
        starts, sizes = starts[sizes > 0], sizes[sizes > 0]
    if not len(sizes):
        return np.zeros(0, dtype=np.int64)
    # A running sum of steps, which are 1 within a range; this is much faster than np.repeat.
    stops = np.cumsum(sizes)
    steps = np.ones(stops[-1], dtype=np.int64)
    steps[0] = starts[0]
    steps[stops[:-1]] = starts[1:] - starts[:-1] - sizes[:-1] + 1
    return np.cumsum(steps, out=steps)


def joined_offsets(parts: Sequence[Ints]) -> Ints:
    """Return where segments begin and end when the segments of each part are put behind those of the one before.

    >>> joined_offsets([np.array([0, 2]), np.array([0, 1, 4])])
    array([0, 2, 3, 6])
    """
    return cumulative_offsets(np.concatenate([np.diff(offsets) for offsets in parts]))


def segments(offsets: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return where the items of some segments are, one segment after the other, and where each begins among these.

    >>> segments(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([2, 3, 4, 0, 1]), array([0, 3, 5]))
    """
    if not offsets[-1]:
        return offsets[:0], np.zeros(len(numbers) + 1, dtype=np.int64)
    lengths = np.diff(offsets)[numbers]
    return concat_ranges(offsets[numbers], lengths), cumulative_offsets(lengths)


def concat_ints(parts: Iterable[Ints]) -> Ints:
    """Return arrays end to end; an empty array if there are none."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def slices_of(offsets: Ints) -> list[slice]:
    """Return the slice of each segment, from where the segments begin and end."""
    return list(map(slice, offsets[:-1].tolist(), offsets[1:].tolist()))


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids two sequences begin with in common."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
