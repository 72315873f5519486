"""Sequences grouped so that a device runs them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints

MAX_BATCH_ROWS = 1024
MAX_PADDING_SHARE = 0.05
ID_BYTES = np.dtype(np.int64).itemsize


def padded_batches(
    lengths: Sequence[int],
    budget_tokens: int,
    *,
    max_rows: int = MAX_BATCH_ROWS,
    max_padding: float = MAX_PADDING_SHARE,
    padding_counts_from: int = 0,
) -> list[list[int]]:
    """Group indices so that a batch, padded to its longest member, has at most ``budget_tokens`` tokens.

    The longest sequences come first: if there is too little memory, that shows at once.

    Parameters
    ----------
    lengths
        The length of each sequence.
    budget_tokens
        The most tokens in a batch, padding included. A longer sequence is a batch by itself.
    max_rows
        The most sequences in a batch.
    max_padding
        The share of a batch that may be padding.
    padding_counts_from
        Smaller batches, in tokens, may have more padding.
    """
    longest_first = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    batch_length = 0  # the length that the rows of the last batch are padded to
    batch_tokens = 0  # its tokens without padding
    for index in longest_first:
        if batches and len(batches[-1]) < max_rows:
            padded_tokens = (len(batches[-1]) + 1) * batch_length
            tokens = batch_tokens + lengths[index]
            dense = padded_tokens <= padding_counts_from or (1 - max_padding) * padded_tokens <= tokens
            if padded_tokens <= budget_tokens and dense:
                batches[-1].append(index)
                batch_tokens = tokens
                continue
        batches.append([index])
        batch_length = lengths[index]
        batch_tokens = lengths[index]
    return batches


def pack(lengths: Sequence[int], budget_tokens: int) -> list[list[int]]:
    """Group indices in their order so that the lengths of a group add up to at most ``budget_tokens``.

    A longer sequence is a group by itself.
    """
    groups: list[list[int]] = []
    group_tokens = 0
    for index, length in enumerate(lengths):
        if groups and group_tokens + length <= budget_tokens:
            groups[-1].append(index)
            group_tokens += length
        else:
            groups.append([index])
            group_tokens = length
    return groups


class PrefixGroup(NamedTuple):
    """Contexts of which each is equal to the longest one or a prefix of it.

    Attributes
    ----------
    longest
        The index of the longest context.
    members
        The indices of all of them.
    """

    longest: int
    members: list[int]


def key_of(ids: Ints) -> bytes:
    """Return ids as bytes: a sequence begins with another exactly if its bytes begin with the other's."""
    return ids.astype(np.int64, copy=False).tobytes()


def keys_of_parts(ids: Ints, starts: Ints, stops: Ints) -> list[bytes]:
    """Return the same for parts of an array of ids: from each start up to its stop."""
    key = key_of(ids)
    byte_starts, byte_stops = (ID_BYTES * starts).tolist(), (ID_BYTES * stops).tolist()
    return [key[start:stop] for start, stop in zip(byte_starts, byte_stops, strict=True)]


def group_by_prefix(contexts: Sequence[Ints]) -> list[PrefixGroup]:
    """Group contexts so that every group can be served by running its longest member once.

    >>> import numpy as np
    >>> group_by_prefix([np.array(ids) for ids in ([1], [1, 2], [1, 3], [1, 2, 4])])
    [PrefixGroup(longest=2, members=[2]), PrefixGroup(longest=3, members=[3, 1, 0])]
    """
    indices_of: dict[bytes, list[int]] = {}
    key_before = None
    for index, ids in enumerate(contexts):
        key = key_of(ids)
        if key != key_before:  # neighbours are often equal, and comparing takes less time than looking up
            indices = indices_of.setdefault(key, [])
            key_before = key
        indices.append(index)
    # In descending order a context comes after everything that it is a prefix of, and everything in between begins with
    # it too. So it is enough to compare it with the longest member of the latest group.
    groups: list[PrefixGroup] = []
    longest = b""
    for key in sorted(indices_of, reverse=True):
        if groups and longest.startswith(key):
            groups[-1].members.extend(indices_of[key])
        else:
            groups.append(PrefixGroup(indices_of[key][0], indices_of[key]))
            longest = key
    return groups
