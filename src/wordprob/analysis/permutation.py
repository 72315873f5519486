"""Paired permutation tests by sign flips, and corrections for multiple tests."""

from __future__ import annotations

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.errors import OptionError

EXACT_UP_TO = 16
"""Number of pairs up to which all 2ⁿ sign flips are counted; for more, they are sampled."""

CORRECTIONS = {
    "bh": "Benjamini–Hochberg (false discovery rate)",
    "holm": "Holm (family-wise error rate)",
    "none": "none",
}


def sign_flip_test(differences: Floats, samples: int = 100_000, seed: int = 42, ties: bool = True) -> float:
    """Return the two-sided p-value of a mean difference of zero, by flipping the signs of paired differences.

    Exact for up to sixteen pairs: the share of all sign flips whose mean is at least as far from zero. The arrangement
    observed and its mirror image are among them, so that p is never below 2/2ⁿ.

    Parameters
    ----------
    differences
        One for each pair.
    samples, seed
        How many flips are drawn where there are too many to count, and the seed.
    ties
        Count flips that are just as far from zero. Without them the result is not a p-value, since what was observed
        is itself a possible flip; it is what the paper's code estimates.

    Examples
    --------
    >>> sign_flip_test(np.array([1.0, 2.0, 3.0]))
    0.25
    >>> sign_flip_test(np.array([1.0, 2.0, 3.0]), ties=False)
    0.0
    """
    n = len(differences)
    exact = n <= EXACT_UP_TO
    signs = _all_signs(n) if exact else np.random.default_rng(seed).choice((-1.0, 1.0), size=(samples, n))
    # Flips that tie with what was observed must be distinguished from those beyond it, whatever the rounding.
    rounding = 1e-12 * float(np.abs(differences).sum())
    beyond = np.abs(signs @ differences) - abs(float(differences.sum()))
    count = int((beyond >= -rounding).sum() if ties else (beyond > rounding).sum())
    if exact:
        return count / len(signs)
    # Sampled flips may miss the observed arrangement, which is one of them.
    return (count + 1) / (len(signs) + 1)


def _all_signs(n: int) -> Floats:
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)


def adjust(p: Floats, method: str) -> Floats:
    """Correct p-values for multiple tests.

    Examples
    --------
    >>> adjust(np.array([0.01, 0.02, 0.04]), "holm").tolist()
    [0.03, 0.04, 0.04]
    """
    check_correction(method)
    if method == "none" or not len(p):
        return p.copy()
    if method == "bh":
        from scipy import stats

        return np.asarray(stats.false_discovery_control(p), dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    # The smallest of n p-values counts n times, the next n − 1 times, and none may end up below a smaller one.
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def check_correction(method: str) -> None:
    """Raise unless ``method`` is a known correction."""
    if method not in CORRECTIONS:
        raise OptionError(f"no correction is called '{method}'; use {', '.join(CORRECTIONS)}.")


def stars(p: float) -> str:
    """Return the usual stars: three below .001, two below .01, one below .05."""
    return "***" if p < 0.001 else "**" if p < 0.01 else "*" if p < 0.05 else ""
