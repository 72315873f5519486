"""The equation: array arithmetic on what the model returned, in natural logarithms.

With c the subwords before word t and σ its observed spelling,

    log p(w_t | w_<t) = log p(σ | c) + log B̃(after t) − log B̃(before t)

where B̃ puts all spellings of a word into one effective boundary mass. ``naive`` leaves both B̃ out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordprob.types import Floats, Ints


def logsumexp(values: Floats) -> float:
    """Return log Σ exp(values); minus infinity for none."""
    top = float(np.max(values)) if len(values) else -np.inf
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.sum(np.exp(np.asarray(values, dtype=np.float64) - top))))


def effective_boundary(observed: float, others: Sequence[tuple[float, float]]) -> float:
    """Return log B̃ after a word.

    Parameters
    ----------
    observed
        log B after the observed spelling.
    others
        For every other spelling σ', the pair log p(σ'|c)/p(σ|c) and log B after σ'.
    """
    if not others:
        return observed
    return logsumexp(np.array([observed, *(ratio + mass for ratio, mass in others)]))


@dataclass(frozen=True)
class WordScores:
    """Surprisal terms of the words of one text, in nats; ``nan`` where there is no number."""

    corrected: Floats
    naive: Floats
    before: Floats
    after: Floats
    end: float
    end_naive: float


def sums(values: Floats, edges: Ints) -> Floats:
    """Add up the values between consecutive edges; only the stretch that holds a ``nan`` or infinity has one.

    >>> sums(np.array([1.0, np.nan, 2.0, 3.0]), np.array([0, 1, 2, 4]))
    array([ 1., nan,  5.])
    """
    values = np.asarray(values, dtype=np.float64)
    finite = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(values), values, 0.0))])
    missing = np.concatenate([[0], np.cumsum(np.isnan(values))])
    zero = np.concatenate([[0], np.cumsum(np.isneginf(values))])
    found = np.diff(finite[edges])
    found[np.diff(zero[edges]) > 0] = -np.inf
    found[np.diff(missing[edges]) > 0] = np.nan
    return found


def estimate(target: Floats, stops: Ints, boundary: Floats, end: float) -> WordScores:
    """Combine token log-probabilities and boundary masses into word surprisals.

    Parameters
    ----------
    target
        log p of every token.
    stops
        ``[W]``: number of tokens through each word; tokens after the last word belong to the end of the text.
    boundary
        ``[W + 1]``: log B̃ before the first word and after each.
    end
        log p(end) after the last token.
    """
    edges = np.concatenate([[0], stops])
    naive = 0.0 - sums(target, edges)
    before, after = 0.0 - boundary[:-1], 0.0 - boundary[1:]
    end_naive = -float(sums(target, np.array([edges[-1], len(target)]))[0]) - end
    with np.errstate(invalid="ignore"):  # what has no probability has no surprisal either
        corrected = naive + after - before
    return WordScores(
        corrected=corrected,
        naive=naive,
        before=before,
        after=after,
        end=end_naive + float(boundary[-1]),
        end_naive=end_naive,
    )
