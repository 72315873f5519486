"""Other spellings of the words of a batch, as branches off the observed tokens."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.characters import Label


class BranchTail(NamedTuple):
    """What must be asked about spellings after they have left the observed tokens.

    Attributes
    ----------
    ids
        The ids off the path that they begin with, the first one included.
    boundary
        The labels whose mass is B after these ids.
    pending
        The first bytes of a character that the last id holds beyond the word's end. What they become decides whether
        the word has ended.
    last_ids
        The ids with which spellings go on and end, the boundary being certain after them; their probabilities are added
        up.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] = frozenset()
    pending: bytes = b""
    last_ids: tuple[int, ...] = ()


@dataclass
class Branches:
    """Other spellings of the words of a batch, one entry each in ``boundaries``, ``rows`` and ``lists``.

    Attributes
    ----------
    boundaries
        The boundary that each leads to.
    rows
        The row of the batch at which it leaves the observed tokens.
    lists
        The number, in ``id_lists``, of the list of ids by which it leaves; their probabilities are added up.
    id_lists
        The lists.
    tails
        Those that do not end with the id by which they leave, by their number.
    """

    boundaries: array[int] = field(default_factory=partial(array, "q"))
    rows: array[int] = field(default_factory=partial(array, "q"))
    lists: array[int] = field(default_factory=partial(array, "q"))
    id_lists: list[tuple[int, ...]] = field(default_factory=list)
    tails: dict[int, BranchTail] = field(default_factory=dict)
    _list_numbers: dict[int, int] = field(default_factory=dict, repr=False)
    """Numbers of lists by identity: lists are long, and the same few come again and again."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, boundary: int, row: int, first_ids: tuple[int, ...], tail: BranchTail | None = None) -> None:
        """Add a branch."""
        if tail is not None:
            self.tails[len(self)] = tail
        self.boundaries.append(boundary)
        self.rows.append(row)
        self.lists.append(self._list_number(first_ids))

    def add_many(
        self,
        boundaries: Ints,
        rows: Ints,
        ways: Ints,
        id_lists: Sequence[tuple[int, ...]],
        tails: Sequence[BranchTail | None],
    ) -> None:
        """Add branches; ``ways`` says by which of ``id_lists`` each leaves, and with which of ``tails``."""
        numbers = np.zeros(len(id_lists), dtype=np.int64)
        for way in np.flatnonzero(np.bincount(ways)).tolist():
            numbers[way] = self._list_number(id_lists[way])
        tail_of_way = {way: tail for way, tail in enumerate(tails) if tail is not None}
        with_tail = np.flatnonzero(np.isin(ways, list(tail_of_way)))
        for n, way in zip(with_tail.tolist(), ways[with_tail].tolist(), strict=True):
            self.tails[len(self) + n] = tail_of_way[way]
        self.boundaries.frombytes(boundaries.tobytes())
        self.rows.frombytes(rows.tobytes())
        self.lists.frombytes(numbers[ways].tobytes())

    def _list_number(self, ids: tuple[int, ...]) -> int:
        number = self._list_numbers.get(id(ids))
        if number is None:
            number = self._list_numbers[id(ids)] = len(self.id_lists)
            self.id_lists.append(ids)
        return number

    def copy_to(self, source: int, target: int) -> None:
        """Add the branches that lead to one boundary to another one, at the same place."""
        for n in [n for n, boundary in enumerate(self.boundaries) if boundary == source]:
            self.add(target, self.rows[n], self.id_lists[self.lists[n]], self.tails.get(n))
