"""Scores from logits that come some rows at a time, as numpy arrays in single precision.

:func:`wordprob.models.protocol.scores_from_logits` is the readable twin. What is here needs no copy of all logits of a
text, and one pass over a row for all atoms.
"""

from __future__ import annotations

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.models.protocol import STATISTICS, Request, Scores, log_sum_exp

ROWS_AT_A_TIME = 16
"""Rows whose probabilities are in memory at the same time: few, so that they stay in the processor's cache."""

SMALLEST_SAFE_SUM = 1e-30
"""Below this, a sum of probabilities relative to the largest one has lost terms to underflow and is made again."""


class NotFiniteRowError(Exception):
    """Logits of a row are not numbers; ``row`` is its number in the request."""

    def __init__(self, row: int) -> None:
        super().__init__(f"the logits of row {row} are not finite")
        self.row = row


class LogitReducer:
    """Turns logits into the masses of atoms.

    Parameters
    ----------
    atoms
        The partition of the vocabulary.
    """

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.n_atoms = len(atoms.labels)
        self._ids = [np.flatnonzero(atoms.atom_of_token == k) for k in range(self.n_atoms)]
        self._is_used = np.array([len(ids) > 0 for ids in self._ids])
        self._members = np.zeros((len(atoms.atom_of_token), self.n_atoms))
        self._members[np.arange(len(atoms.atom_of_token)), atoms.atom_of_token] = 1.0

    def normalisers(self, logits: Floats) -> tuple[Floats, Floats]:
        """Return the logarithm of the sum over all ids, ``[N]``, and over each atom, ``[N, K]``, of some rows."""
        top = logits.max(axis=1)
        relative = np.exp(logits - top[:, None]).astype(np.float64)  # sums of many float32 would lose four digits
        sums = relative @ self._members
        with np.errstate(divide="ignore"):
            total = np.log(relative.sum(axis=1)) + top
            mass = np.log(sums) + top[:, None]
        for row, atom in np.argwhere((sums < SMALLEST_SAFE_SUM) & self._is_used).tolist():
            mass[row, atom] = log_sum_exp(logits[None, row, self._ids[atom]].astype(np.float64))[0]
        return total, mass


class ScoresBuilder:
    """The scores of one request, filled in as its logits come.

    Parameters
    ----------
    request
        What was asked.
    reducer
        What turns logits into masses.
    """

    def __init__(self, request: Request, reducer: LogitReducer) -> None:
        n_rows = len(request.ids) - request.first
        self._request = request
        self._reducer = reducer
        self._target = np.full(n_rows - 1, np.nan)
        self._mass = np.full((n_rows, reducer.n_atoms), np.nan)
        self._gathered = np.full(len(request.gather), np.nan)
        self._statistics: dict[str, Floats] = {}

    def add(self, first_row: int, logits: Floats) -> None:
        """Take the logits ``[N, V]`` of N rows of the request, from ``first_row`` on."""
        for begin in range(0, len(logits), ROWS_AT_A_TIME):
            self._add_few(first_row + begin, logits[begin : begin + ROWS_AT_A_TIME])

    def scores(self) -> Scores:
        """Return the scores, when all logits have come."""
        return Scores(self._target, self._mass, self._gathered, self._statistics)

    def _add_few(self, first_row: int, logits: Floats) -> None:
        request = self._request
        stop_row = first_row + len(logits)
        total, mass = self._reducer.normalisers(logits)
        wrong = np.flatnonzero(~np.isfinite(total))
        if len(wrong):
            raise NotFiniteRowError(first_row + int(wrong[0]))
        place = first_row - request.first
        self._mass[place : place + len(logits)] = mass - total[:, None]
        next_ids = request.ids[first_row + 1 : stop_row + 1]
        observed = logits[np.arange(len(next_ids)), next_ids].astype(np.float64)
        self._target[place : place + len(next_ids)] = observed - total[: len(next_ids)]
        for number in _between(request.gather, first_row, stop_row):
            row = int(request.gather[number]) - first_row
            ids = request.id_lists[int(request.gather_lists[number])]
            self._gathered[number] = log_sum_exp(logits[None, row, ids].astype(np.float64))[0] - total[row]
        if request.statistics:
            self._add_statistics(first_row, logits, total)

    def _add_statistics(self, first_row: int, logits: Floats, total: Floats) -> None:
        request = self._request
        numbers = _between(request.statistics_rows, first_row, first_row + len(logits))
        rows = request.statistics_rows[numbers]
        log_probs = logits[rows - first_row].astype(np.float64) - total[rows - first_row, None]
        for name in request.statistics:
            values = STATISTICS[name](log_probs, request.ids[rows + 1])
            if name not in self._statistics:
                self._statistics[name] = np.full((len(request.statistics_rows), *values.shape[1:]), np.nan)
            self._statistics[name][numbers] = values


def _between(rows: Ints, first: int, stop: int) -> Ints:
    """Return the places of those rows that are at least ``first`` and less than ``stop``."""
    places: Ints = np.flatnonzero((first <= rows) & (rows < stop))
    return places
