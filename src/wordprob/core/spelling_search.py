"""The sum over every spelling of a word, with certain bounds: best first, prefix by prefix.

What is searched for is the mass of all token sequences that set out where the word before ended, write this word, and
end it. A :class:`Prefix` that has not been opened is an upper bound on everything that begins with it. So at any time

    found  ≤  mass of the word  ≤  found + Σ prefixes not opened

and opening the heaviest prefixes first closes the interval with the fewest questions to the model. Masses are relative
to the observed tokens before the word; :class:`WordSearch` keeps them scaled, so that none is lost to underflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.core.search_steps import Ending, StepFinder, Steps
from wordprob.errors import OptionError

MAX_OPENED_PER_ROUND = 16
"""Prefixes of one word that are opened together, at most."""


def check_tolerance(tolerance: float) -> None:
    """Raise, unless this is a number above 0."""
    if not isinstance(tolerance, int | float) or not tolerance > 0:
        raise OptionError(
            f"`tolerance` is {tolerance}; it must be a number of bits above 0, such as 0.01, or inf to ask the model "
            "nothing further."
        )


class Prefix(NamedTuple):
    """A token sequence that agrees with the text so far.

    Attributes
    ----------
    row
        The row of the batch at which it leaves the observed tokens.
    ids
        Its tokens from there on; none while it is on the observed path.
    position
        How many bytes of the search's target are written.
    log_prob
        Its log-probability, relative to the observed tokens before the word.
    only
        The tokens that may come next; ``None`` for all.
    pending
        The first bytes of a character beyond the end of the word.
    log_cut_off
        For the part of what follows a whole word that begins with a cut-off character: its log-mass.
    """

    row: int
    ids: tuple[int, ...]
    position: int
    log_prob: float
    only: frozenset[int] | None = None
    pending: bytes = b""
    log_cut_off: float | None = None

    @property
    def is_on_observed_path(self) -> bool:
        """Whether the pass along the texts says what comes next."""
        return not self.ids and not self.pending and self.log_cut_off is None

    @property
    def log_bound(self) -> float:
        """The most that everything that begins with it can have."""
        return self.log_prob if self.log_cut_off is None else self.log_prob + self.log_cut_off


class FoundSpelling(NamedTuple):
    """A spelling of a word.

    Attributes
    ----------
    row, ids
        Where it leaves the observed tokens, and its tokens from there on.
    mass
        Its mass, scaled.
    reaches_over
        True if one more token, of several that are counted together, holds the rest of the word and what ends it.
    """

    row: int
    ids: tuple[int, ...]
    mass: float
    reaches_over: bool


@dataclass
class WordSearch:
    """The search for one word.

    Attributes
    ----------
    word
        The number of the word in its batch.
    target
        The bytes that are to be written, from the earliest place at which a prefix sets out to the end of the word.
    ending
        What ends the word.
    finder
        Finds the tokens that may come next.
    observed
        By row, for the rows of the observed path within the word: the token that came next.
    log_scale
        What log-probabilities are relative to.
    found
        The mass that is certain, scaled.
    undecided
        The mass of which nothing that the model says can decide whether the word has ended, scaled.
    waiting
        The prefixes that have not been opened.
    opened
        How many were opened by asking the model.
    spellings
        The spellings that were found, where they are to be kept.
    """

    word: int
    target: bytes
    ending: Ending
    finder: StepFinder
    observed: dict[int, int]
    log_scale: float = 0.0
    found: float = 0.0
    undecided: float = 0.0
    waiting: list[Prefix] = field(default_factory=list)
    opened: int = 0
    spellings: list[FoundSpelling] | None = None

    def steps(self, prefix: Prefix) -> Steps:
        """Return what may come after a prefix, except after a whole word, where only atoms matter."""
        if prefix.pending or prefix.log_cut_off is not None:
            return self.finder.of_cut_off(prefix.pending, self.ending)
        steps = self.finder.inside(self.target[prefix.position :], self.ending)
        return steps if prefix.only is None else steps.restricted_to(prefix.only)

    def is_whole(self, prefix: Prefix) -> bool:
        """Return True if a prefix has written the word, and no more."""
        return prefix.position == len(self.target) and not prefix.pending and prefix.log_cut_off is None

    def mass(self, log_prob: float) -> float:
        """Return a probability, scaled."""
        return math.exp(log_prob - self.log_scale)

    def wait_for(self, prefix: Prefix) -> None:
        """Take up a prefix that is to be opened, or count it at once if nothing is open about it."""
        if prefix.log_prob == -math.inf:
            return
        if self.ending.labels is None and self.is_whole(prefix):
            self._count(prefix, self.mass(prefix.log_prob))
        else:
            self.waiting.append(prefix)

    def _count(self, prefix: Prefix, mass: float, *, reaches_over: bool = False) -> None:
        """Add a spelling, whose mass is scaled, to what was found."""
        self.found += mass
        if self.spellings is not None:
            self.spellings.append(FoundSpelling(prefix.row, prefix.ids, mass, reaches_over))

    # --- what the model says ---

    def open_inside(self, prefix: Prefix, steps: Steps, log_masses: Floats) -> None:
        """Go on from a prefix: ``log_masses`` are those of :meth:`Steps.id_lists`, given the prefix."""
        masses = iter((np.asarray(log_masses, dtype=np.float64) + prefix.log_prob).tolist())
        for token, size in steps.inside:
            self.wait_for(self._child(prefix, token, prefix.position + size, next(masses)))
        for token, pending in steps.cut_off:
            child = self._child(prefix, token, len(self.target), next(masses))
            self.wait_for(child._replace(pending=pending))
        if len(steps.ending):
            self._count(prefix, self.mass(next(masses)), reaches_over=True)
        if len(steps.undecided):
            self.undecided += self.mass(next(masses))

    def _child(self, prefix: Prefix, token: int, position: int, log_prob: float) -> Prefix:
        """Return a prefix with one token more; while it follows the observed tokens, it stays on their path."""
        if not prefix.ids and self.observed.get(prefix.row) == token:
            return Prefix(prefix.row + 1, (), position, log_prob)
        return Prefix(prefix.row, (*prefix.ids, token), position, log_prob)

    def open_whole(self, prefix: Prefix, log_masses: Floats) -> None:
        """Go on from a prefix that has written the word: ``log_masses`` are those of all atoms after it."""
        masses = self.finder.after_word(log_masses, self.ending)
        scaled = self.mass(prefix.log_prob)
        self._count(prefix, scaled * masses.ending)
        self.undecided += scaled * masses.undecided
        if masses.cut_off > 0.0:
            self.wait_for(prefix._replace(log_cut_off=math.log(masses.cut_off)))

    # --- what to open next ---

    def choose(self, tolerance_nats: float, max_open: int) -> list[Prefix]:
        """Take out the prefixes to open next: the heaviest, until what is left fits into the tolerance."""
        if math.isinf(tolerance_nats):
            return []
        allowed = self.found * math.expm1(tolerance_nats)
        self.waiting.sort(key=attrgetter("log_bound"))
        left = 0.0
        keep = 0
        for prefix in self.waiting:  # the lightest first
            left += self.mass(prefix.log_bound)
            if left > allowed:
                break
            keep += 1
        room = min(MAX_OPENED_PER_ROUND, max_open - self.opened)
        keep = max(keep, len(self.waiting) - room)
        chosen = self.waiting[keep:]
        del self.waiting[keep:]
        self.opened += len(chosen)
        return chosen

    @property
    def log_low(self) -> float:
        """The logarithm of the mass that was found."""
        return self._log(self.found)

    @property
    def log_high(self) -> float:
        """The logarithm of the mass that was found and all that may be left."""
        left = math.fsum(self.mass(prefix.log_bound) for prefix in self.waiting)
        return self._log(self.found + self.undecided + left)

    def _log(self, mass: float) -> float:
        return self.log_scale + math.log(mass) if mass > 0.0 else -math.inf

    def is_within(self, tolerance_nats: float) -> bool:
        """Return True if the interval is as narrow as it was asked for."""
        return self.log_high - self.log_low <= tolerance_nats if self.found > 0.0 else self.log_high == -math.inf
