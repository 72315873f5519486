"""What may end a word, as numbered sets of labels of atoms."""

from __future__ import annotations

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.core.atoms import Atoms, OpenShares
from wordprob.core.characters import END, Label


class BoundarySets:
    """Sets of labels, numbered: what may end a word. Each different set is kept once.

    Three are always there: :attr:`EVERYTHING`, for a word that has ended already, :attr:`END_OF_TEXT`, and
    :attr:`NOTHING`, for a place that no token ends at.
    """

    EVERYTHING = 0
    END_OF_TEXT = 1
    NOTHING = 2

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms
        self._numbers: dict[frozenset[Label] | None, int] = {None: self.EVERYTHING}
        self.number(frozenset({END}))
        self.number(frozenset())

    def number(self, labels: frozenset[Label] | None) -> int:
        """Return the number of a set; ``None`` is everything."""
        return self._numbers.setdefault(labels, len(self._numbers))

    def labels(self, number: int) -> frozenset[Label] | None:
        """Return the set with a number."""
        return list(self._numbers)[number]

    def members(self) -> Floats:
        """Return ``[S, K]``: 1 where atom k is in set s, else 0."""
        rows = []
        for labels in list(self._numbers):
            rows.append([labels is None or label in labels for label in self._atoms.labels])
        return np.array(rows, dtype=float)

    def open_shares(self) -> OpenShares:
        """Return ``[S, K]`` each: how atoms with cut-off characters are counted if only some of them are in a set."""
        shares = [self._atoms.open_shares(labels or frozenset()) for labels in list(self._numbers)]
        return OpenShares(np.array([each.counted for each in shares]), np.array([each.error for each in shares]))
