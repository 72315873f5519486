"""The equation: array arithmetic on what the model returned, in natural logarithms.

Let E be the event that a text begins with certain words and a new word, or the end, follows. Its mass Z(E) is a sum
over the token sequences that write it. With c the observed tokens up to the last token edge, everything is kept
relative to p(c): log Z(E) = log p(c) + log B̃, where B̃ is the boundary mass of all spellings together. Then

    log p(w_t | w_<t) = log Z(E_t) − log Z(E_t-1) = Σ log p(tokens of w_t) + log B̃(after w_t) − log B̃(before w_t)

An *estimator* says what it makes of these three terms. ``corrected`` is the equation itself; ``naive`` leaves both B̃
out, as is usually published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.errors import OptionError, did_you_mean


def logsumexp(values: Floats) -> float:
    """Return log Σ exp(values); minus infinity for none."""
    top = float(np.max(values)) if len(values) else -np.inf
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.sum(np.exp(np.asarray(values, dtype=np.float64) - top))))


def effective_boundaries(observed: Floats, boundaries: Ints, others: Floats) -> Floats:
    """Return log B̃ at every boundary: the observed spelling and all others together.

    Parameters
    ----------
    observed
        log B after the observed spelling, at every boundary.
    boundaries, others
        For every other spelling σ' (that left the observed path at c'), the boundary it leads to and
        log p(σ'|c')/p(σ|c') · B(σ').

    Examples
    --------
    >>> effective_boundaries(np.log([0.5, 0.25]), np.array([0, 0]), np.log([0.25, 0.125])).round(3)
    array([-0.134, -1.386])
    """
    has_others = np.zeros(len(observed), dtype=bool)
    has_others[boundaries] = True
    changed = np.flatnonzero(has_others)
    places = (np.cumsum(has_others) - 1)[boundaries]
    alone = observed[changed]
    top = alone.copy()
    np.fmax.at(top, places, others)
    impossible = np.isneginf(top)
    effective = observed.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.where(impossible, 1.0, np.exp(alone - top))
        np.add.at(total, places, np.where(impossible[places], 0.0, np.exp(others - top[places])))
        effective[changed] = top + np.log(total)
    return effective


# --- estimators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordTerms:
    """The terms of the equation for words, in nats; not a number where the model gave none.

    Attributes
    ----------
    token_log_prob
        ``[W]``: Σ log p of each word's tokens, the separators before it included.
    log_before, log_after
        ``[W]``: log B̃ on both sides of each word.
    n_tokens
        ``[W]``: how many tokens each word has.
    """

    token_log_prob: Floats
    log_before: Floats
    log_after: Floats
    n_tokens: Ints


@dataclass(frozen=True)
class Estimator:
    """A way to compute the surprisal of words from the terms of the equation.

    Attributes
    ----------
    name
        What it is called in options. Its column is ``surprisal_<name>``, except ``corrected``, which is ``surprisal``.
    description
        What the column says, in one line.
    estimate
        From terms to surprisals in nats, ``[W]``.
    """

    name: str
    description: str
    estimate: Callable[[WordTerms], Floats]


def _naive(terms: WordTerms) -> Floats:
    return 0.0 - terms.token_log_prob  # minus zero would print as -0.0


def _corrected(terms: WordTerms) -> Floats:
    with np.errstate(invalid="ignore"):  # what has no probability has no surprisal either
        return _naive(terms) - terms.log_after + terms.log_before


ESTIMATORS: dict[str, Estimator] = {}
"""Estimators by name."""

ALWAYS = ("corrected", "naive")
"""The estimators that every table has."""


def register_estimator(estimator: Estimator) -> None:
    """Add an estimator, which can then be given by name wherever surprisals are computed."""
    ESTIMATORS[estimator.name] = estimator


register_estimator(Estimator("corrected", "the word's surprisal, corrected", _corrected))
register_estimator(Estimator("naive", "the sum of its tokens' surprisals, as usually published", _naive))


def check_estimators(names: Collection[str]) -> None:
    """Raise, unless these are names of estimators."""
    for name in names:
        if name not in ESTIMATORS:
            raise OptionError(f"no estimator is called '{name}'. {did_you_mean(name, ESTIMATORS)}")
