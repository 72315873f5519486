"""The sum over every spelling of words, with certain bounds: best first, prefix by prefix.

What is searched for is the mass of all token sequences that set out where the word before ended, write this word, and
end it. The mass of a prefix that has not been opened is an upper bound on everything that begins with it. So at any
time

    found  ≤  mass of the word  ≤  found + Σ prefixes not opened

and opening the heaviest prefixes first closes the interval with the fewest questions to the model. What the tokenizer's
own spellings have is known from the start, so the mass is never less than that. Masses are relative to the observed
tokens before the word; :class:`SpellingSearch` keeps them scaled, so that none is lost to underflow.

All words of a batch are searched for side by side, each by itself. Most of the prefixes that wait are never opened, so
they are kept as numbers in arrays, and only those that are opened become :class:`Prefixes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ranges
from wordprob.covers.search_steps import WHOLE_WORD, EndingSteps, StepKind, Steps

MAX_OPENED_PER_ROUND = 16
"""Prefixes of one word that are opened together, at most."""


class SearchedWord(NamedTuple):
    """A word whose spellings are searched for.

    Attributes
    ----------
    word, text
        The numbers of the word and of its text in the batch.
    target
        The bytes that are to be written, from the earliest place at which a prefix sets out to the end of the word.
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
    finder: EndingSteps
    first_row: int
    observed: tuple[int, ...]

    def observed_after(self, row: int) -> int:
        """Return the observed token after a row; -1 if none is known that begins before the end of the word."""
        place = row - self.first_row
        return self.observed[place] if place < len(self.observed) else -1


@dataclass(frozen=True)
class Prefixes:
    """Token sequences that agree with the text so far, one in each place of these arrays and lists.

    Attributes
    ----------
    search
        The number of the search that each belongs to.
    row
        The row of the batch at which it leaves the observed tokens.
    ids
        Its tokens from there on; none while it is on the observed path.
    steps
        What may come next.
    log_prob
        Its log-probability, relative to the observed tokens before the word.
    """

    search: Ints
    row: Ints
    ids: list[tuple[int, ...]]
    steps: list[Steps]
    log_prob: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, places: Ints) -> Prefixes:
        """Return the prefixes in some places."""
        numbers = places.tolist()
        ids, steps = [self.ids[n] for n in numbers], [self.steps[n] for n in numbers]
        return Prefixes(self.search[places], self.row[places], ids, steps, self.log_prob[places])

    def and_also(self, other: Prefixes) -> Prefixes:
        """Return these prefixes and others."""
        return Prefixes(
            np.concatenate([self.search, other.search]),
            np.concatenate([self.row, other.row]),
            self.ids + other.ids,
            self.steps + other.steps,
            np.concatenate([self.log_prob, other.log_prob]),
        )


class FoundSpelling(NamedTuple):
    """A spelling of a word.

    Attributes
    ----------
    row, ids
        Where it leaves the observed tokens, and its tokens from there on.
    mass
        Its mass, scaled.
    last_ids
        Tokens of which one more comes then, which holds the rest of the word and what ends it; their masses are added
        up. None where the word is written already.
    """

    row: int
    ids: tuple[int, ...]
    mass: float
    last_ids: tuple[int, ...] = ()


ITSELF = -1
"""Instead of the place of a token in :class:`Steps`: a prefix that waits is its source itself."""

NO_NUMBERS, NO_MASSES = np.zeros(0, dtype=np.int64), np.zeros(0)
NO_PREFIXES = Prefixes(NO_NUMBERS, NO_NUMBERS, [], [], NO_MASSES)


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
        The number of the prefix that it comes from, and by which of its steps.
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
    log_own
        ``[N]``: the logarithm of what the tokenizer's own spellings of each word have for certain, if that is known.

    Attributes
    ----------
    found
        ``[N]``: the mass of what was found, scaled.
    undecided
        ``[N]``: the mass of which nothing that the model says can decide whether the word has ended, scaled.
    too_long
        ``[N]``: the mass of prefixes that cannot be opened, as they do not fit into the model's context, scaled.
    opened
        ``[N]``: how many prefixes were opened by asking the model.
    spellings
        For each word the spellings that were found, where they are kept.
    """

    def __init__(
        self,
        words: Sequence[SearchedWord],
        log_scales: Floats,
        keep_spellings: bool = False,
        log_own: Floats | None = None,
    ) -> None:
        self.words = words
        self.log_scales = log_scales
        self.log_own = np.full(len(words), -np.inf) if log_own is None else log_own
        self.found = np.zeros(len(words))
        self.undecided = np.zeros(len(words))
        self.too_long = np.zeros(len(words))
        self.opened = np.zeros(len(words), dtype=np.int64)
        self.spellings: list[list[FoundSpelling]] | None = [[] for _ in words] if keep_spellings else None
        self._waiting = _Waiting(NO_NUMBERS, NO_MASSES, NO_MASSES, NO_NUMBERS, NO_NUMBERS)
        self._left = np.zeros(len(words))  # what was not opened of the words that are done
        self._sources = NO_PREFIXES  # what prefixes that wait come from

    # --- what the model says ---

    def wait_for(self, prefixes: Prefixes) -> None:
        """Take up prefixes that are to be opened, or count those at once about which nothing is open."""
        masses = self._scaled(prefixes.search, prefixes.log_prob)
        may_go_on = [self.words[search].finder.ending.labels is None for search in prefixes.search.tolist()]
        is_written = [steps is WHOLE_WORD for steps in prefixes.steps]
        is_found = np.logical_and(may_go_on, is_written)
        found, others = np.flatnonzero(is_found), np.flatnonzero(~is_found)
        self._find(prefixes.search[found], masses[found])
        self._keep(prefixes.at(found), masses[found])
        self._wait_for_themselves(prefixes.at(others), masses[others])

    def open_inside(self, prefixes: Prefixes, log_masses: Floats) -> None:
        """Go on from prefixes; ``log_masses`` has the log-mass of each step, those of one prefix after the other."""
        if not len(prefixes):
            return
        counts = np.array([len(steps.kinds) for steps in prefixes.steps])
        kinds = np.concatenate([steps.kinds for steps in prefixes.steps])
        steps = concat_ranges(np.zeros_like(counts), counts)
        searches = np.repeat(prefixes.search, counts)
        sources = np.repeat(self._add_sources(prefixes), counts)
        before = np.repeat(prefixes.log_prob, counts)
        # What the model says after something impossible does not matter.
        log_probs = np.where(before == -np.inf, -np.inf, before + log_masses)
        masses = self._scaled(searches, log_probs)

        is_ending, is_written = kinds == StepKind.ENDING, kinds == StepKind.WRITTEN
        is_found = is_ending | is_written
        self._find(searches[is_found], masses[is_found])
        is_undecided = kinds == StepKind.UNDECIDED
        self.undecided += self._sum(searches[is_undecided], masses[is_undecided])
        longer = _Waiting(searches, log_probs, masses, sources, steps)
        self._wait(longer.at((kinds == StepKind.INSIDE) | (kinds == StepKind.CUT_OFF)))
        if self.spellings is not None:
            written, ending = longer.at(is_written), longer.at(is_ending)
            self._keep(self._prefixes(written), written.bound)
            not_longer = replace(ending, step=np.full(len(ending), ITSELF))
            self._keep(self._prefixes(not_longer), ending.bound, self._tokens_of_sums(ending))

    def open_whole(self, prefixes: Prefixes, log_masses: Floats) -> None:
        """Go on from prefixes that have written their words: ``log_masses[n]`` are those of all atoms after one."""
        by_finder: dict[EndingSteps, list[int]] = {}
        for n, search in enumerate(prefixes.search.tolist()):
            by_finder.setdefault(self.words[search].finder, []).append(n)
        for finder, numbers in by_finder.items():
            places = np.array(numbers)
            whole = prefixes.at(places)
            after = finder.after_words(log_masses[places])
            scaled = self._scaled(whole.search, whole.log_prob)
            self._find(whole.search, scaled * after.ending)
            self._keep(whole, scaled * after.ending)
            self.undecided += self._sum(whole.search, scaled * after.undecided)
            cut_off = np.flatnonzero(after.cut_off)
            rests = replace(whole.at(cut_off), steps=[finder.cut_off_rest] * len(cut_off))
            self._wait_for_themselves(rests, (scaled * after.cut_off)[cut_off])

    def _wait_for_themselves(self, prefixes: Prefixes, bounds: Floats) -> None:
        """Take up prefixes that are to be opened themselves, not after one of their steps."""
        sources = self._add_sources(prefixes)
        itself = np.full(len(prefixes), ITSELF)
        self._wait(_Waiting(prefixes.search, prefixes.log_prob, bounds, sources, itself))

    def _wait(self, more: _Waiting) -> None:
        """Take up prefixes that are possible."""
        self._waiting = self._waiting.and_also(more.at(more.log_prob > -np.inf))

    def _find(self, searches: Ints, masses: Floats) -> None:
        """Count masses of searches as found."""
        self.found += self._sum(searches, masses)

    def _keep(self, prefixes: Prefixes, masses: Floats, last_ids: Sequence[tuple[int, ...]] | None = None) -> None:
        """Keep spellings, if they are to be kept; ``last_ids`` are the tokens of which one more comes."""
        if self.spellings is not None:
            last_ids = [()] * len(prefixes) if last_ids is None else last_ids
            columns = (prefixes.search.tolist(), prefixes.row.tolist(), prefixes.ids, masses.tolist(), last_ids)
            for search, row, ids, mass, last in zip(*columns, strict=True):
                self.spellings[search].append(FoundSpelling(row, ids, mass, last))

    def _tokens_of_sums(self, sums: _Waiting) -> list[tuple[int, ...]]:
        """Return the tokens whose masses are added up, for steps that are such sums."""
        tokens = []
        for source, step in zip(sums.source.tolist(), sums.step.tolist(), strict=True):
            steps = self._sources.steps[source]
            tokens.append(tuple(steps.sums[step - len(steps.tokens)].tolist()))
        return tokens

    def _add_sources(self, prefixes: Prefixes) -> Ints:
        """Take up prefixes that others come from; return their numbers."""
        first = len(self._sources)
        self._sources = self._sources.and_also(prefixes)
        return np.arange(first, len(self._sources))

    def _scaled(self, searches: Ints, log_masses: Floats) -> Floats:
        """Return masses of searches, scaled."""
        masses: Floats = np.exp(log_masses - self.log_scales[searches])
        return masses

    def _sum(self, searches: Ints, masses: Floats) -> Floats:
        """Return ``[N]``: what the masses of each search come to."""
        return np.bincount(searches, masses, minlength=len(self.words)).astype(np.float64, copy=False)

    # --- what to open next ---

    def choose(self, tolerance_nats: float, max_open: int) -> Prefixes:
        """Take out the prefixes to open next.

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
        return self._prefixes(chosen)

    def leave_unopened(self, prefixes: Prefixes) -> None:
        """Put back chosen prefixes that do not fit into the model's context: their mass can be bounded only."""
        self.too_long += self._sum(prefixes.search, self._scaled(prefixes.search, prefixes.log_prob))
        self.opened -= np.bincount(prefixes.search, minlength=len(self.words))

    def _prefixes(self, chosen: _Waiting) -> Prefixes:
        """Return prefixes from what they come from; while they follow the observed tokens, they stay on their path."""
        words, sources = self.words, self._sources
        rows: list[int] = sources.row[chosen.source].tolist()
        all_ids, all_steps = [], []
        columns = (chosen.search.tolist(), chosen.source.tolist(), chosen.step.tolist())
        for n, (search, source, step) in enumerate(zip(*columns, strict=True)):
            ids, steps = sources.ids[source], sources.steps[source]
            if step != ITSELF:
                word, token = words[search], steps.tokens[step]
                if not ids and word.observed_after(rows[n]) == token:
                    rows[n] += 1
                else:
                    ids = (*ids, token)
                steps = word.finder.after(steps, step)
            all_ids.append(ids)
            all_steps.append(steps)
        return Prefixes(chosen.search, np.array(rows, dtype=np.int64), all_ids, all_steps, chosen.log_prob)

    # --- the interval ---

    @property
    def log_low(self) -> Floats:
        """``[N]``: the logarithm of the mass that is certain: what was found, or the own spellings, if these are more.

        Nothing is left to find once no prefix waits: then own spellings can be more only by rounding, and do not count.
        """
        found = self._log(self.found)
        return np.where(self.log_own > found, np.minimum(self.log_own, self.log_high), found)

    @property
    def log_high(self) -> Floats:
        """``[N]``: the logarithm of the mass that was found and all that may be left."""
        waiting = self._sum(self._waiting.search, self._waiting.bound)
        return self._log(self.found + self.undecided + self.too_long + self._left + waiting)

    def _log(self, masses: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs: Floats = self.log_scales + np.log(masses)
        return logs

    def is_within(self, tolerance_nats: float) -> Bools:
        """Return ``[N]``: True if the interval is as narrow as it was asked for."""
        low, high = self.log_low, self.log_high
        with np.errstate(invalid="ignore"):
            is_narrow: Bools = high - low <= tolerance_nats
        return np.where(low > -np.inf, is_narrow, high == -np.inf)


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
