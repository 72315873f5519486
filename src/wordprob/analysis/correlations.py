"""Spearman's and Pearson's correlations, and their bootstrap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wordprob.core.arrays import Floats, Ints

CORRELATION_NAMES = ("spearman", "pearson")
"""The two correlations, in the order of the rows of :meth:`Correlations.weighted`."""


def resamples(n: int, count: int, seed: int) -> Iterator[Floats]:
    """Yield, for each bootstrap sample of ``n`` items, how often each item was drawn."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield np.bincount(random.integers(n, size=n), minlength=n).astype(np.float64)


class Correlations:
    """Spearman's and Pearson's correlations of several columns with one variable, for any weights of the rows.

    A weight of n counts a row n times. Values are sorted into groups of ties once; the ranks of a resample then
    follow from cumulated weights, so that nothing has to be sorted again.

    Parameters
    ----------
    columns
        A row for each observation, a column for each variable.
    reference
        The variable that all of them are correlated with.
    """

    def __init__(self, columns: Floats, reference: Floats) -> None:
        # Centred, so that a variance is not the small difference of two large numbers.
        x = columns - columns.mean(axis=0)
        y = (reference - reference.mean())[:, None]
        self._moments = np.ascontiguousarray(np.hstack([x, y, x * x, y * y, x * y]))
        self._groups = [_tie_groups(column) for column in columns.T]
        self._reference = _tie_groups(reference)

    def weighted(self, weights: Floats) -> Floats:
        """Return Spearman's correlations (first row) and Pearson's (second), one for each of the columns."""
        return np.stack([self._spearman(weights), self._pearson(weights)])

    def _spearman(self, weights: Floats) -> Floats:
        reference_ranks, reference_squares = _ranks(self._reference, weights)
        weighted_reference = weights * reference_ranks[self._reference]
        correlations = []
        for groups in self._groups:
            ranks, squares = _ranks(groups, weights)
            covariance = float(weighted_reference @ ranks[groups])
            correlations.append(_ratio(covariance, squares * reference_squares))
        return np.array(correlations)

    def _pearson(self, weights: Floats) -> Floats:
        count = len(self._groups)
        sums = weights @ self._moments / weights.sum()
        x, y, xx, yy, xy = np.split(sums, np.cumsum([count, 1, count, 1]))
        spread = (xx - x * x) * (yy - y * y)
        return np.array([_ratio(float(a), float(b)) for a, b in zip(xy - x * y, spread, strict=True)])


def _tie_groups(values: Floats) -> Ints:
    """Return, for each value, its number among the distinct values in ascending order: ties have the same number."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _ranks(groups: Ints, weights: Floats) -> tuple[Floats, float]:
    """Return the rank of each group of ties minus the mean rank, and the sum of their squares over rows."""
    size = np.bincount(groups, weights=weights)
    # A group's ranks end where the cumulated sizes do; ties share the mean of theirs.
    ranks = np.cumsum(size) - (size - 1) / 2 - (weights.sum() + 1) / 2
    return ranks, float(size @ (ranks * ranks))


def _ratio(covariance: float, spread: float) -> float:
    return covariance / float(np.sqrt(spread)) if spread > 0 else float("nan")
