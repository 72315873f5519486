"""Requests grouped so that a device runs them together."""

from __future__ import annotations

from collections.abc import Sequence

from wordprob.core.arrays import common_prefix_length


def padded_batches(
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


def group_by_prefix(prefixes: Sequence[Sequence[int]]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Group prefixes that share most of their beginning.

    Returns, for each group, the index of its longest member (the trunk) and every member with the number of ids it
    shares with the trunk.
    """
    order = sorted(range(len(prefixes)), key=lambda n: tuple(prefixes[n]))
    groups: list[list[int]] = []
    for k, n in enumerate(order):
        near = k and 2 * common_prefix_length(prefixes[order[k - 1]], prefixes[n]) >= min(
            len(prefixes[order[k - 1]]), len(prefixes[n])
        )
        if near:
            groups[-1].append(n)
        else:
            groups.append([n])
    found = []
    for group in groups:
        trunk = max(group, key=lambda n: len(prefixes[n]))
        found.append((trunk, [(n, common_prefix_length(prefixes[trunk], prefixes[n])) for n in group]))
    return found


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
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
