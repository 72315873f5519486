"""Sequences that begin alike, written in one row each token once: a tree whose paths are the sequences.

    sequences   a b c d        row     a b c d e f
                a b c e f      place   0 1 2 3 4 5
    paths       0 1 2 3,  0 1 2 4 5

A token of the row attends to the tokens before it on its path, and its position is its place in its sequence. So a
network computes what sequences share once, in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Bools, Ints

MIN_SHARED_TOKENS = 4
"""Sequences that share fewer tokens at their beginning are run apart: a wider row costs more than it saves."""
MAX_TREE_TOKENS = 256
"""Tokens of a tree, at most, unless its sequences share at least half of theirs: attention grows with the row."""


@dataclass
class PrefixTree:
    """Sequences in one row.

    Attributes
    ----------
    members
        The sequences, by index.
    paths
        For each, where its tokens stand in the row.
    ids, positions
        For each token of the row, its id and its place in its sequence.
    """

    members: list[int]
    paths: list[Ints]
    ids: Ints
    positions: Ints

    @property
    def branches(self) -> bool:
        """True if the row is more than one sequence."""
        return len(self.members) > 1

    def add(self, index: int, sequence: Ints, shared: int) -> None:
        """Add a sequence whose first ``shared`` tokens are those of the sequence that was added last."""
        new = np.arange(len(self.ids), len(self.ids) + len(sequence) - shared)
        self.members.append(index)
        self.paths.append(np.concatenate([self.paths[-1][:shared], new]))
        self.ids = np.concatenate([self.ids, sequence[shared:]])
        self.positions = np.concatenate([self.positions, np.arange(shared, len(sequence))])

    def visible(self) -> Bools:
        """Return ``[T, T]``: True where a token of the row attends to another, or to itself."""
        visible = np.zeros((len(self.ids), len(self.ids)), dtype=bool)
        for path in self.paths:
            visible[path[:, None], path] = np.tri(len(path), dtype=bool)
        return visible


def lone_tree(index: int, sequence: Ints) -> PrefixTree:
    """Return one sequence as a row."""
    places = np.arange(len(sequence))
    return PrefixTree([index], [places], sequence, places)


def grow_trees(sequences: Sequence[Ints]) -> list[PrefixTree]:
    """Return sequences in rows: those that begin alike together, where that pays, and every other one alone.

    Examples
    --------
    >>> sequences = [np.array(ids) for ids in ([1, 2, 3, 4, 5], [9], [1, 2, 3, 4, 6, 7])]
    >>> [(tree.members, tree.ids.tolist()) for tree in grow_trees(sequences)]
    [([0, 2], [1, 2, 3, 4, 5, 6, 7]), ([1], [9])]
    """
    trees: list[PrefixTree] = []
    for index, shared in zip(*neighbours(sequences), strict=True):
        sequence = sequences[index]
        if shared >= MIN_SHARED_TOKENS and _pays(trees[-1], sequence, shared):
            trees[-1].add(index, sequence, shared)
        else:
            trees.append(lone_tree(index, sequence))
    return trees


def _pays(tree: PrefixTree, sequence: Ints, shared: int) -> bool:
    """Return True if a sequence is better added to a tree than run alone."""
    n_tokens = len(tree.ids) + len(sequence) - shared
    return n_tokens <= MAX_TREE_TOKENS or (2 * shared >= len(sequence) and n_tokens <= 2 * len(sequence))


def neighbours(sequences: Sequence[Ints]) -> tuple[list[int], list[int]]:
    """Return sequences in an order in which those that begin alike are neighbours.

    Returns
    -------
    order
        The indices.
    shared
        For each of them, how many tokens at its beginning are those of the one before.
    """
    # Big-endian bytes compare as the ids do.
    keys = [np.asarray(sequence).astype(">i8").tobytes() for sequence in sequences]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    shared = [0] * len(order)
    for place in range(1, len(order)):
        shared[place] = n_shared(sequences[order[place - 1]], sequences[order[place]])
    return order, shared


def n_shared(one: Ints, other: Ints) -> int:
    """Return with how many equal tokens two sequences begin.

    >>> n_shared(np.array([1, 2, 3]), np.array([1, 2]))
    2
    """
    length = min(len(one), len(other))
    differ = one[:length] != other[:length]
    first = int(differ.argmax()) if length else 0
    return first if length and differ[first] else length
