"""The entropy of a distribution of which the heavy head is known, and the tail is sampled.

A distribution over words has too many words to go through. Known are the *head*, whose probabilities p lie between
bounds, and of all other words (the *tail*) how much they have together at most, T, and how much each has at most, m.
The probabilities may add up to a little less than one, as what a language model gives to spellings that no tokenizer
writes belongs to no word. Rényi (1961) defined entropies for such incomplete distributions, with W = Σ p:

    order 1          H = Σ p·(−log p) / W          the mean surprisal
    order a ≠ 1      H = log(Σ p^a / W) / (1 − a)
    order infinity   H = −log max p

**Bounds.** Let A, P and Q be the sums of −p·log p, of p and of p^a over the head, and t ≤ T what the tail really has.

- Order 1. Every word of the tail has a surprisal of −log m at least, so H ≥ (A − t·log m) / (P + t). As a function of t
  this goes up or down throughout, so it is smallest at t = 0 or at t = T. There is no upper bound: t might be shared
  by any number of words.
- Order a > 1. The tail adds between 0 and m^(a−1)·t to Σ p^a, so the sum over W is at most (Q + m^(a−1)·t) / (P + t),
  again at t = 0 or t = T, and at least Q / (P + T). As 1 − a is negative, the first bounds H from below, the second
  from above.
- Order a < 1. The tail adds m^(a−1)·t at least, and any amount at most: only a lower bound.
- Order infinity. The largest probability is that of the head, or m.

Where the head has bounds, each sum takes whichever of them makes the statement true.

**Estimates.** A sample is drawn from a region of known mass U that contains the tail: it shows a word of the tail, with
its probability p, or something that does not count. With I = 1 for a word of the tail and 0 otherwise, U·mean(I)
estimates t, U·mean(−I·log p) its part of A, and U·mean(I·p^(a−1)) its part of Q, because a word is drawn with
probability p / U. The standard error is that of a ratio of means (order 1), or of the logarithm of one, by the delta
method: the terms are replaced by their differentials, and the standard deviation of those is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.errors import OptionError


@dataclass(frozen=True)
class PartlyKnown:
    """A distribution whose head is known.

    Attributes
    ----------
    low, high
        Bounds of the probability of each outcome of the head.
    tail_mass
        What all other outcomes have together, at most.
    tail_largest
        What each of them has, at most.
    """

    low: Floats
    high: Floats
    tail_mass: float
    tail_largest: float


class Bounds(NamedTuple):
    """What an entropy cannot be below, and cannot be above; ``None`` where there is no upper bound."""

    low: float
    high: float | None


class Estimate(NamedTuple):
    """An estimate and its standard error."""

    value: float
    standard_error: float


def check_order(order: float) -> None:
    """Raise unless there is an entropy of this order."""
    if math.isnan(order) or order <= 0.0:
        raise OptionError(f"the order of an entropy is above 0 (1 is Shannon's), not {order:g}.")


def entropy_bounds(known: PartlyKnown, order: float = 1.0) -> Bounds:
    """Return bounds of the entropy, in nats.

    Examples
    --------
    >>> known = PartlyKnown(np.array([0.5]), np.array([0.5]), tail_mass=0.5, tail_largest=0.25)
    >>> low, high = entropy_bounds(known, 2.0)  # from nothing else to any number of others
    >>> round(low, 3), round(high, 3)
    (0.693, 1.386)
    """
    check_order(order)
    largest = min(known.tail_largest, 1.0)
    mass = known.tail_mass if largest > 0.0 else 0.0
    if math.isinf(order):
        most = max(float(known.high.max(initial=0.0)), largest if mass > 0.0 else 0.0)
        return Bounds(_minus_log(most), _minus_log(float(known.low.max(initial=0.0))))
    head_high = np.minimum(known.high, 1.0)
    least_total, most_total = float(known.low.sum()), float(head_high.sum())
    if order == 1.0:
        terms = np.minimum(_surprisal_terms(known.low), _surprisal_terms(head_high))
        of_tail = _minus_log(largest) if mass > 0.0 else 0.0
        return Bounds(min(_ratios(float(terms.sum()), of_tail, most_total, mass)), None)
    least, most = float(np.sum(known.low**order)), float(np.sum(head_high**order))
    of_tail = largest ** (order - 1.0) if mass > 0.0 else 0.0
    if order < 1.0:
        return Bounds(_log(min(_ratios(least, of_tail, most_total, mass))) / (1.0 - order), None)
    highest = max(_ratios(most, of_tail, least_total, mass))
    lowest = least / (most_total + mass) if most_total + mass > 0.0 else 0.0
    return Bounds(_log(highest) / (1.0 - order), _log(lowest) / (1.0 - order))


def _ratios(head: float, of_tail: float, total: float, mass: float) -> list[float]:
    """Return (head + of_tail·t) / (total + t) for t = 0 and for t = mass, where that is a number."""
    return [(head + of_tail * t) / (total + t) for t in (0.0, mass) if total + t > 0.0] or [math.nan]


def entropy_estimate(
    head: Floats, sampled: Floats, region_mass: float, tail_largest: float, order: float = 1.0
) -> Estimate:
    """Return an estimate of the entropy, in nats.

    Parameters
    ----------
    head
        The probability of each outcome of the head.
    sampled
        For each sample, the probability of the word of the tail that it shows; 0 if it shows none.
    region_mass
        The mass of the region that the samples are from.
    tail_largest
        What a word of the tail has at most.
    order
        The order of the entropy.
    """
    check_order(order)
    if math.isinf(order):
        return Estimate(_minus_log(max(float(head.max(initial=0.0)), float(sampled.max(initial=0.0)))), 0.0)
    count = len(sampled)
    region = region_mass if count else 0.0
    total = float(head.sum()) + region * _mean((sampled > 0.0).astype(np.float64))
    if order == 1.0:
        value = (float(_surprisal_terms(head).sum()) + region * _mean(_tail_terms(sampled, order))) / total
    else:
        power_sum = float(np.sum(head**order)) + region * _mean(_tail_terms(sampled, order))
        value = _log(power_sum / total) / (1.0 - order)
    if not region:
        return Estimate(value, 0.0)
    extended = np.concatenate([sampled, _imagined(sampled, tail_largest)])
    terms, counted = _tail_terms(extended, order), (extended > 0.0).astype(np.float64)
    if order == 1.0:
        differentials = (terms - value * counted) / total
    else:
        differentials = (terms / power_sum - counted / total) / (1.0 - order)
    return Estimate(value, region * float(np.std(differentials, ddof=1)) / math.sqrt(count))


RARER_BY = 4.0
"""A word is imagined that is so many times rarer than the rarest of the sample."""


def _imagined(sampled: Floats, tail_largest: float) -> Floats:
    """Return three samples that count for the standard error alone.

    They are the heaviest word that there may be, no word, and a rarer word than all. So the error is not zero where
    all samples are alike, nor too small where the rarest words, on which low orders depend, are not in the sample.
    """
    words = sampled[sampled > 0.0]
    heaviest = min(tail_largest, 1.0)
    return np.array([heaviest, 0.0, float(words.min(initial=heaviest)) / RARER_BY])


def _tail_terms(sampled: Floats, order: float) -> Floats:
    """Return what each sample adds: −log p, or p^(order − 1); 0 for one that shows no word of the tail."""
    is_word = sampled > 0.0
    safe = np.where(is_word, sampled, 1.0)
    terms: Floats = np.where(is_word, -np.log(safe) if order == 1.0 else safe ** (order - 1.0), 0.0)
    return terms


def _surprisal_terms(probabilities: Floats) -> Floats:
    """Return −p·log p of each probability."""
    safe = np.where(probabilities > 0.0, probabilities, 1.0)
    terms: Floats = -probabilities * np.log(safe)
    return terms


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def _minus_log(value: float) -> float:
    return 0.0 - _log(value)


# --- ranks ------------------------------------------------------------------------------------------------------------

SAME = 1e-6
"""Two probabilities that differ by a smaller share count as equal."""


def rank_bounds(known: PartlyKnown, probability: float, is_in_tail: bool) -> tuple[int, int]:
    """Return bounds of the rank of an outcome among all; 1 is the most probable.

    Parameters
    ----------
    known
        The other outcomes of the head, and the tail.
    probability
        That of the outcome.
    is_in_tail
        Whether the outcome is itself a part of the tail.

    Examples
    --------
    >>> head = np.array([0.5, 0.2])
    >>> rank_bounds(PartlyKnown(head, head, tail_mass=0.2, tail_largest=0.15), 0.1, is_in_tail=False)
    (3, 4)
    """
    above = int(np.sum(known.low > probability * (1.0 + SAME)))
    possible = int(np.sum(known.high > probability * (1.0 + SAME)))
    others = known.tail_mass - (probability if is_in_tail else 0.0)
    if known.tail_largest > probability * (1.0 + SAME) and others > 0.0 and probability > 0.0:
        possible += _count_above(others, probability)
    return 1 + above, 1 + max(above, possible)


def _count_above(mass: float, probability: float) -> int:
    """Return how many outcomes, at most, can each have more than a probability, and a mass together."""
    count = math.ceil(mass / probability) - 1
    return max(0, count)
