"""95 % intervals of means (Student's t)."""

from __future__ import annotations

import numpy as np

from wordprob.core.arrays import Floats


def half_width(values: Floats) -> float:
    """Return half the width of the interval of a mean; NaN for fewer than two values."""
    from scipy import stats

    return float(stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)) if len(values) > 1 else float("nan")


def within_intervals(values: Floats) -> Floats:
    """Return the half widths of 95 % intervals of the means of conditions, without the differences between items.

    Each item's mean is taken out first, and the variance is corrected for the number of conditions (Morey 2008).

    Parameters
    ----------
    values
        A row for each item, a column for each condition; no value may be missing.

    Examples
    --------
    >>> within_intervals(np.array([[1.0, 2.0], [11.0, 12.0], [21.0, 22.0]])).round(6).tolist()
    [0.0, 0.0]
    """
    from scipy import stats

    n_items, n_conditions = values.shape
    centred = values - values.mean(axis=1, keepdims=True) + values.mean()
    correction = n_conditions / (n_conditions - 1)
    variance = centred.var(axis=0, ddof=1) * correction
    half_widths: Floats = stats.t.ppf(0.975, n_items - 1) * np.sqrt(variance / n_items)
    return half_widths
