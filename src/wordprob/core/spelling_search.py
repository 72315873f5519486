"""The sum over every spelling of words, with certain bounds: best first, prefix by prefix.

What is searched for is the mass of all token sequences that set out where the word before ended, write this word, and
end it. A :class:`Prefix` that has not been opened is an upper bound on everything that begins with it. So at any time

    found  ≤  mass of the word  ≤  found + Σ prefixes not opened

and opening the heaviest prefixes first closes the interval with the fewest questions to the model. Masses are relative
to the observed tokens before the word; :class:`SpellingSearch` keeps them scaled, so that none is lost to underflow.

All words of a batch are searched for side by side, each by itself. Most of the prefixes that wait are never opened, so
they are kept as numbers in arrays: only those that are opened become objects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ranges
from wordprob.core.search_steps import Ending, StepFinder, StepKind, Steps
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


class SearchedWord(NamedTuple):
    """A word whose spellings are searched for.

    Attributes
    ----------
    word, text
        The numbers of the word and of its text in the batch.
    target
        The bytes that are to be written, from the earliest place at which a prefix sets out to the end of the word.
    ending
        What ends the word.
    finder
        Finds the tokens that may come next.
    first_row
        The row of the batch at that earliest place.
    observed
        The observed tokens from there on that begin before the end of the word.
    """

    word: int
    text: int
    target: bytes
    ending: Ending
    finder: StepFinder
    first_row: int
    observed: tuple[int, ...]

    def observed_after(self, row: int) -> int:
        """Return the observed token after a row; -1 if none is known that begins before the end of the word."""
        place = row - self.first_row
        return self.observed[place] if place < len(self.observed) else -1


class Prefix(NamedTuple):
    """A token sequence that agrees with the text so far.

    Attributes
    ----------
    search
        The number of the search that it belongs to.
    row
        The row of the batch at which it leaves the observed tokens.
    ids
        Its tokens from there on; none while it is on the observed path.
    position
        How many bytes of the word's target are written.
    only
        The tokens that may come next; ``None`` for all.
    pending
        The first bytes of a character beyond the end of the word.
    is_cut_off_rest
        Whether only that part of what follows is meant that begins with a cut-off character.
    """

    search: int
    row: int
    ids: tuple[int, ...]
    position: int
    only: frozenset[int] | None = None
    pending: bytes = b""
    is_cut_off_rest: bool = False


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


ITSELF, CUT_OFF_REST = 0, 1
"""How a prefix comes from another one without :class:`Steps`: it is the same, or the cut-off rest of what follows."""

NO_NUMBERS, NO_MASSES = np.zeros(0, dtype=np.int64), np.zeros(0)


@dataclass(frozen=True)
class _Waiting:
    """Prefixes that have not been opened, one in each place of these arrays.

    Attributes
    ----------
    search
        The search that each belongs to.
    log_prob
        Its log-probability, relative to the observed tokens before the word.
    bound
        The most that everything that begins with it can have, scaled.
    source, step
        The number of what it comes from, and by which step.
    """

    search: Ints
    log_prob: Floats
    bound: Floats
    source: Ints
    step: Ints

    def __len__(self) -> int:
        return len(self.search)

    def at(self, places: Ints | Bools) -> _Waiting:
        """Return the prefixes in some places."""
        return _Waiting(
            self.search[places], self.log_prob[places], self.bound[places], self.source[places], self.step[places]
        )

    def and_also(self, other: _Waiting) -> _Waiting:
        """Return these prefixes and others."""
        return _Waiting(
            np.concatenate([self.search, other.search]),
            np.concatenate([self.log_prob, other.log_prob]),
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.source, other.source]),
            np.concatenate([self.step, other.step]),
        )


class SpellingSearch:
    """The searches for the spellings of some words, side by side.

    Parameters
    ----------
    words
        The words.
    log_scales
        ``[N]``: what the log-probabilities of each search are relative to.
    keep_spellings
        Whether to keep the spellings that are found.

    Attributes
    ----------
    found
        ``[N]``: the mass that is certain, scaled.
    undecided
        ``[N]``: the mass of which nothing that the model says can decide whether the word has ended, scaled.
    opened
        ``[N]``: how many prefixes were opened by asking the model.
    spellings
        For each word the spellings that were found, where they are kept.
    """

    def __init__(self, words: Sequence[SearchedWord], log_scales: Floats, keep_spellings: bool = False) -> None:
        self.words = words
        self.log_scales = log_scales
        self.found = np.zeros(len(words))
        self.undecided = np.zeros(len(words))
        self.opened = np.zeros(len(words), dtype=np.int64)
        self.spellings: list[list[FoundSpelling]] | None = [[] for _ in words] if keep_spellings else None
        self._waiting = _Waiting(NO_NUMBERS, NO_MASSES, NO_MASSES, NO_NUMBERS, NO_NUMBERS)
        # What prefixes that wait come from: prefixes, and what may come after each of them.
        self._sources: list[Prefix] = []
        self._steps_of_sources: list[Steps | None] = []
        self._left = np.zeros(len(words))  # what was not opened of the words that are done

    # --- prefixes ---

    def steps(self, prefix: Prefix) -> Steps | None:
        """Return what may come after a prefix; ``None`` after a whole word, where the masses of atoms say it."""
        word = self.words[prefix.search]
        if prefix.pending or prefix.is_cut_off_rest:
            return word.finder.of_cut_off(prefix.pending, word.ending)
        if prefix.position == len(word.target):
            return None
        steps = word.finder.inside(word.target[prefix.position :], word.ending)
        return steps if prefix.only is None else steps.restricted_to(prefix.only)

    def _prefix(self, source: int, step: int) -> Prefix:
        """Return a prefix from what it comes from; while it follows the observed tokens, it stays on their path."""
        prefix, steps = self._sources[source], self._steps_of_sources[source]
        if steps is None:
            return prefix._replace(is_cut_off_rest=True) if step == CUT_OFF_REST else prefix
        token = steps.tokens[step]
        row, ids = prefix.row, prefix.ids
        if not ids and self.words[prefix.search].observed_after(row) == token:
            row += 1
        else:
            ids = (*ids, token)
        position = prefix.position + steps.sizes[step]
        return Prefix(prefix.search, row, ids, position, pending=steps.pending[step])

    # --- what the model says ---

    def wait_for(self, prefixes: Sequence[Prefix], log_probs: Floats) -> None:
        """Take up prefixes that are to be opened, or count those at once about which nothing is open."""
        searches = np.array([prefix.search for prefix in prefixes], dtype=np.int64)
        masses = self._scaled(searches, log_probs)
        is_found = np.zeros(len(prefixes), dtype=bool)
        for n, prefix in enumerate(prefixes):
            word = self.words[prefix.search]
            if word.ending.labels is None and prefix.position == len(word.target):
                is_found[n] = True
                self._keep(prefix, float(masses[n]))
        self.found += self._sum(searches[is_found], masses[is_found])
        sources = self._add_sources(prefixes, [None] * len(prefixes))
        itself = np.full(len(prefixes), ITSELF)
        self._wait(_Waiting(searches, log_probs, masses, sources, itself).at(~is_found))

    def open_inside(
        self, prefixes: Sequence[Prefix], all_steps: Sequence[Steps], log_probs: Floats, log_masses: Floats
    ) -> None:
        """Go on from prefixes.

        Parameters
        ----------
        prefixes, all_steps
            The prefixes, and what may come after each of them.
        log_probs
            The log-probability of each prefix, relative to the observed tokens before the word.
        log_masses
            The log-mass of each step after its prefix, those of one :class:`Steps` after the other.
        """
        if not prefixes:
            return
        counts = np.array([len(steps.kinds) for steps in all_steps])
        kinds = np.concatenate([steps.kinds for steps in all_steps])
        steps = concat_ranges(np.zeros_like(counts), counts)
        searches = np.repeat(np.array([prefix.search for prefix in prefixes]), counts)
        sources = np.repeat(self._add_sources(prefixes, all_steps), counts)
        before = np.repeat(log_probs, counts)
        # What the model says after something impossible does not matter.
        log_probs = np.where(before == -np.inf, -np.inf, before + log_masses)
        masses = self._scaled(searches, log_probs)

        is_found = (kinds == StepKind.ENDING) | (kinds == StepKind.WRITTEN)
        self.found += self._sum(searches[is_found], masses[is_found])
        is_undecided = kinds == StepKind.UNDECIDED
        self.undecided += self._sum(searches[is_undecided], masses[is_undecided])
        waits = (kinds == StepKind.INSIDE) | (kinds == StepKind.CUT_OFF)
        self._wait(_Waiting(searches, log_probs, masses, sources, steps).at(waits))
        if self.spellings is not None:
            for n in np.flatnonzero(is_found).tolist():
                is_sum = kinds[n] == StepKind.ENDING
                prefix = self._sources[sources[n]] if is_sum else self._prefix(sources[n], steps[n])
                self._keep(prefix, float(masses[n]), reaches_over=is_sum)

    def open_whole(self, prefixes: Sequence[Prefix], log_probs: Floats, log_masses: Floats) -> None:
        """Go on from prefixes that have written their words: ``log_masses[n]`` are those of all atoms after one."""
        sources = self._add_sources(prefixes, [None] * len(prefixes))
        by_ending: dict[tuple[StepFinder, Ending], list[int]] = {}
        for n, prefix in enumerate(prefixes):
            word = self.words[prefix.search]
            by_ending.setdefault((word.finder, word.ending), []).append(n)
        for (finder, ending), places in by_ending.items():
            searches = np.array([prefixes[n].search for n in places])
            after = finder.after_words(log_masses[places], ending)
            scaled = self._scaled(searches, log_probs[places])
            self.found += self._sum(searches, scaled * after.ending)
            self.undecided += self._sum(searches, scaled * after.undecided)
            if self.spellings is not None:
                for n, mass in zip(places, (scaled * after.ending).tolist(), strict=True):
                    self._keep(prefixes[n], mass)
            rests = np.full(len(places), CUT_OFF_REST)
            waiting = _Waiting(searches, log_probs[places], scaled * after.cut_off, sources[places], rests)
            self._wait(waiting.at(after.cut_off > 0.0))

    def _add_sources(self, prefixes: Sequence[Prefix], all_steps: Sequence[Steps | None]) -> Ints:
        """Take up what further prefixes come from; return the numbers."""
        first = len(self._sources)
        self._sources += prefixes
        self._steps_of_sources += all_steps
        return np.arange(first, len(self._sources))

    def _scaled(self, searches: Ints, log_masses: Floats) -> Floats:
        """Return masses of searches, scaled."""
        masses: Floats = np.exp(log_masses - self.log_scales[searches])
        return masses

    def _sum(self, searches: Ints, masses: Floats) -> Floats:
        """Return ``[N]``: what the masses of each search come to."""
        return np.bincount(searches, masses, minlength=len(self.words)).astype(np.float64, copy=False)

    def _wait(self, more: _Waiting) -> None:
        """Take up prefixes that are possible."""
        self._waiting = self._waiting.and_also(more.at(more.log_prob > -np.inf))

    def _keep(self, prefix: Prefix, mass: float, reaches_over: bool = False) -> None:
        """Keep a spelling, if they are to be kept."""
        if self.spellings is not None:
            self.spellings[prefix.search].append(FoundSpelling(prefix.row, prefix.ids, mass, reaches_over))

    # --- what to open next ---

    def choose(self, tolerance_nats: float, max_open: int) -> tuple[list[Prefix], Floats]:
        """Take out the prefixes to open next, with their log-probabilities.

        Of each word they are the heaviest, until what is left fits into the tolerance.
        """
        if math.isinf(tolerance_nats):
            allowed = np.full(len(self.words), np.inf)
        else:
            allowed = self.found * math.expm1(tolerance_nats)
        room = np.minimum(MAX_OPENED_PER_ROUND, max_open - self.opened)
        left = self._sum(self._waiting.search, self._waiting.bound)
        goes_on = (left > allowed) & (room > 0)
        self._left = np.where(goes_on, 0.0, self._left + left)
        waiting = self._waiting.at(goes_on[self._waiting.search])
        waiting = waiting.at(np.lexsort((waiting.bound, waiting.search)))  # of each search the lightest first
        is_chosen = _heaviest(waiting, allowed, room)
        self._waiting = waiting.at(~is_chosen)
        chosen = waiting.at(is_chosen)
        self.opened += np.bincount(chosen.search, minlength=len(self.words))
        prefixes = [self._prefix(*place) for place in zip(chosen.source.tolist(), chosen.step.tolist(), strict=True)]
        return prefixes, chosen.log_prob

    # --- the interval ---

    @property
    def log_low(self) -> Floats:
        """``[N]``: the logarithm of the mass that was found."""
        return self._log(self.found)

    @property
    def log_high(self) -> Floats:
        """``[N]``: the logarithm of the mass that was found and all that may be left."""
        waiting = self._sum(self._waiting.search, self._waiting.bound)
        return self._log(self.found + self.undecided + self._left + waiting)

    def _log(self, masses: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs: Floats = self.log_scales + np.log(masses)
        return logs

    def is_within(self, tolerance_nats: float) -> Bools:
        """Return ``[N]``: True if the interval is as narrow as it was asked for."""
        low, high = self.log_low, self.log_high
        with np.errstate(invalid="ignore"):
            is_narrow: Bools = high - low <= tolerance_nats
        return np.where(self.found > 0.0, is_narrow, high == -np.inf)


def _heaviest(waiting: _Waiting, allowed: Floats, room: Ints) -> Bools:
    """Return True for the heaviest prefixes of each search: those without which the others fit into what is allowed.

    The prefixes are those of searches of which more is left than that, the lightest of each search first. At least one
    of each search is chosen, and at most as many as there is room for.
    """
    firsts = np.flatnonzero(np.diff(waiting.search, prepend=-1))
    counts = np.diff(firsts, append=len(waiting))
    searches = waiting.search[firsts]
    n_heavier = np.repeat(firsts + counts, counts) - 1 - np.arange(len(waiting))
    may_be_chosen = n_heavier < np.repeat(room[searches], counts)

    # A line for each search: what cannot be chosen in this round, and then the others, the lightest first.
    line = np.repeat(np.arange(len(searches)), counts)
    place = np.where(may_be_chosen, MAX_OPENED_PER_ROUND - n_heavier, 0)
    width = 1 + MAX_OPENED_PER_ROUND
    bounds = np.bincount(line * width + place, waiting.bound, minlength=len(searches) * width)
    is_too_much = np.cumsum(bounds.reshape(-1, width), axis=1) > allowed[searches, None]
    is_too_much[:, -1] = True
    chosen: Bools = may_be_chosen & is_too_much[line, place]
    return chosen
