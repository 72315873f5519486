"""Sequences of token ids, many of which begin alike, in a few arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Ints, concat_ints, concat_ranges, cumulative_offsets, joined_offsets, segments


@dataclass(frozen=True)
class IdSequences:
    """Sequences of ids: N of them. Each is the beginning of a *head*, which many may share, and then its own ids.

    Attributes
    ----------
    heads
        What sequences begin with.
    head_numbers, head_lengths
        ``[N]``: which of the heads each begins with, and how many of its ids.
    own_ids, own_offsets
        What comes after the heads, end to end, and ``[N + 1]`` where that of each begins and the last ends.

    Examples
    --------
    >>> two, heads = np.array([0, 0]), [np.array([1, 2, 3])]
    >>> sequences = IdSequences(heads, two, np.array([3, 1]), np.array([8, 9]), np.array([0, 1, 2]))
    >>> [sequences.ids_of(n).tolist() for n in range(2)]
    [[1, 2, 3, 8], [1, 9]]
    """

    heads: Sequence[Ints]
    head_numbers: Ints
    head_lengths: Ints
    own_ids: Ints
    own_offsets: Ints

    @classmethod
    def of(cls, sequences: Sequence[Ints]) -> IdSequences:
        """Put sequences end to end, without heads."""
        none = np.zeros(len(sequences), dtype=np.int64)
        return cls((), none, none, concat_ints(sequences), cumulative_offsets(map(len, sequences)))

    @classmethod
    def join(cls, parts: Sequence[IdSequences]) -> IdSequences:
        """Put sequences behind others."""
        first_heads = cumulative_offsets([len(part.heads) for part in parts])[:-1].tolist()
        shifted = [part.head_numbers + first for part, first in zip(parts, first_heads, strict=True)]
        return cls(
            heads=[head for part in parts for head in part.heads],
            head_numbers=np.concatenate(shifted),
            head_lengths=np.concatenate([part.head_lengths for part in parts]),
            own_ids=np.concatenate([part.own_ids for part in parts]),
            own_offsets=joined_offsets([part.own_offsets for part in parts]),
        )

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.head_numbers)

    @property
    def lengths(self) -> Ints:
        """How many ids each sequence has."""
        lengths: Ints = self.head_lengths + np.diff(self.own_offsets)
        return lengths

    def ids_of(self, number: int) -> Ints:
        """Return the ids of one sequence."""
        own = self.own_ids[slice(*self.own_offsets[number : number + 2].tolist())]
        n_head = int(self.head_lengths[number])
        return np.concatenate([self.heads[self.head_numbers[number]][:n_head], own]) if n_head else own

    def all_ids(self) -> Ints:
        """Return the ids of all sequences, end to end."""
        if not self.head_lengths.any():
            return self.own_ids
        lengths = self.lengths
        return self.ids_at(np.repeat(np.arange(len(self)), lengths), concat_ranges(np.zeros_like(lengths), lengths))

    def ids_at(self, numbers: Ints, positions: Ints) -> Ints:
        """Return the ids of some sequences at some positions, one for each pair."""
        after_head = positions - self.head_lengths[numbers]
        in_head = np.flatnonzero(after_head < 0)
        if not len(in_head):
            ids: Ints = self.own_ids[self.own_offsets[numbers] + after_head]
            return ids
        heads, offsets = np.concatenate(self.heads), cumulative_offsets(map(len, self.heads))
        ids = np.empty(len(numbers), dtype=np.int64)
        ids[in_head] = heads[offsets[self.head_numbers[numbers[in_head]]] + positions[in_head]]
        in_own = np.flatnonzero(after_head >= 0)
        ids[in_own] = self.own_ids[self.own_offsets[numbers[in_own]] + after_head[in_own]]
        return ids

    def choose(self, numbers: Ints) -> IdSequences:
        """Return some of the sequences, in this order."""
        own, offsets = segments(self.own_offsets, numbers)
        return IdSequences(
            self.heads, self.head_numbers[numbers], self.head_lengths[numbers], self.own_ids[own], offsets
        )
