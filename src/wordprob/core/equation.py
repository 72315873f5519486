"""The equation: array arithmetic on what the model returned, in natural logarithms.

With c the subwords before word t and σ its observed spelling,

    log p(w_t | w_<t) = log p(σ | c) + log B̃(after t) − log B̃(before t)

where B̃ puts all spellings of a word into one effective boundary mass. ``naive`` leaves both B̃ out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Floats, Ints, segment_sums


def logsumexp(values: Floats) -> float:
    """Return log Σ exp(values); minus infinity for none."""
    top = float(np.max(values)) if len(values) else -np.inf
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.sum(np.exp(np.asarray(values, dtype=np.float64) - top))))


def effective_boundaries(observed: Floats, at: Ints, others: Floats) -> Floats:
    """Return log B̃ at every boundary.

    Parameters
    ----------
    observed
        log B after the observed spelling, at every boundary.
    at, others
        For every other spelling σ', the boundary it leads to and log p(σ'|c)/p(σ|c) · B(σ').

    Examples
    --------
    >>> effective_boundaries(np.log([0.5, 0.25]), np.array([0, 0]), np.log([0.25, 0.125])).round(3)
    array([-0.134, -1.386])
    """
    top = observed.copy()
    np.fmax.at(top, at, others)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.where(np.isneginf(top), 1.0, np.exp(observed - top))
        np.add.at(total, at, np.where(np.isneginf(top[at]), 0.0, np.exp(others - top[at])))
        return top + np.log(total)


@dataclass(frozen=True)
class WordScores:
    """Surprisal terms of words, in nats; ``nan`` where there is no number."""

    corrected: Floats
    naive: Floats
    before: Floats
    after: Floats


def estimate(target: Floats, lows: Ints, stops: Ints, before: Floats, after: Floats) -> WordScores:
    """Combine token log-probabilities and boundary masses into word surprisals.

    Parameters
    ----------
    target
        log p of every token.
    lows, stops
        ``[W]``: the tokens of each word.
    before, after
        ``[W]``: log B̃ on both sides of each word.
    """
    naive = 0.0 - segment_sums(target, lows, stops)
    with np.errstate(invalid="ignore"):  # what has no probability has no surprisal either
        corrected = naive - after + before
    return WordScores(corrected=corrected, naive=naive, before=0.0 - before, after=0.0 - after)


def check_estimators(names: Collection[str]) -> None:
    """Raise, unless these are estimators."""
