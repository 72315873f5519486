"""The sum over token sequences that make up an event, with certain bounds: best first, prefix by prefix.

A *prefix* is a sequence of tokens after which the event is still open. The mass of a prefix that has not been opened is
an upper bound on everything that begins with it. So at any time

    found  ≤  mass of the event  ≤  found + Σ prefixes not opened

and opening the heaviest prefixes first closes the interval with the fewest questions to the model. Masses are relative
to the observed tokens before the event; :class:`Search` keeps them scaled, so that none is lost to underflow.

All events of a batch are searched side by side, each by itself. Most of the prefixes that wait are never opened, so
they are kept as numbers in arrays, and only those that are opened become :class:`Prefixes`. Where an estimate is
wanted rather than bounds, a share of what was not opened counts, and the search stops once that is off by little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ranges, segment_sums
from wordprob.core.atoms import EITHER_SHARE
from wordprob.covers.events import BoundaryEvent, Outcome, Transitions

MAX_OPENED_PER_ROUND = 16
"""Prefixes of one event that are opened together, at most."""


class Searched(NamedTuple):
    """What is searched for.

    Attributes
    ----------
    number, text
        The numbers of the word, or of the boundary, and of its text in the batch.
    first_row
        The earliest row of the batch at which a prefix leaves the observed tokens.
    observed
        The observed tokens from there on that begin before the end of the word.
    target
        The bytes that are to be written, from that row to the end of the word.
    """

    number: int
    text: int
    first_row: int
    observed: tuple[int, ...] = ()
    target: bytes = b""

    def observed_after(self, row: int) -> int:
        """Return the observed token after a row; -1 if none is known that begins before the end of the word."""
        place = row - self.first_row
        return self.observed[place] if place < len(self.observed) else -1


@dataclass(frozen=True)
class Prefixes:
    """Token sequences after which an event is open, one in each place of these arrays and lists.

    Attributes
    ----------
    search
        The number of the search that each belongs to.
    row
        The row of the batch at which it leaves the observed tokens.
    ids
        Its tokens from there on; none while it is on the observed path.
    transitions
        What the next token makes of the event.
    log_prob
        Its log-probability, relative to the observed tokens before the event.
    n_unscored
        How many of the last of its tokens are not part of that log-probability yet.
    """

    search: Ints
    row: Ints
    ids: list[tuple[int, ...]]
    transitions: list[Transitions]
    log_prob: Floats
    n_unscored: Ints

    @classmethod
    def scored(
        cls,
        search: Ints,
        row: Ints,
        log_prob: Floats,
        transitions: list[Transitions],
        ids: list[tuple[int, ...]] | None = None,
    ) -> Prefixes:
        """Return prefixes whose log-probability is that of all their tokens; none has left the text by default."""
        count = len(transitions)
        return cls(search, row, [()] * count if ids is None else ids, transitions, log_prob, np.zeros_like(search))

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, places: Ints) -> Prefixes:
        """Return the prefixes in some places."""
        numbers = places.tolist()
        ids, transitions = [self.ids[n] for n in numbers], [self.transitions[n] for n in numbers]
        return Prefixes(
            self.search[places], self.row[places], ids, transitions, self.log_prob[places], self.n_unscored[places]
        )

    def and_also(self, other: Prefixes) -> Prefixes:
        """Return these prefixes and others."""
        return Prefixes(
            np.concatenate([self.search, other.search]),
            np.concatenate([self.row, other.row]),
            self.ids + other.ids,
            self.transitions + other.transitions,
            np.concatenate([self.log_prob, other.log_prob]),
            np.concatenate([self.n_unscored, other.n_unscored]),
        )

    def with_scored(self, log_probs: Floats) -> Prefixes:
        """Return the prefixes once the log-probability of the rest of their tokens is known."""
        is_possible = self.log_prob > -np.inf  # what the model says after something impossible does not matter
        with np.errstate(invalid="ignore"):  # nor does it relative to something impossible
            scored = self.log_prob + np.where(is_possible, log_probs, 0.0)
        return replace(self, log_prob=scored, n_unscored=np.zeros_like(self.n_unscored))


class FoundSpelling(NamedTuple):
    """A spelling of a word.

    Attributes
    ----------
    row, ids
        Where it leaves the observed tokens, and its tokens from there on.
    mass
        Its mass, scaled.
    last_ids
        Tokens, one of which comes last: it holds the rest of the word and what ends it. Their masses are added up.
        None where the word is written already.
    """

    row: int
    ids: tuple[int, ...]
    mass: float
    last_ids: tuple[int, ...] = ()


ITSELF = -1
"""Instead of the place of a token in :class:`Transitions`: a prefix that waits is its source itself."""

NO_NUMBERS, NO_MASSES = np.zeros(0, dtype=np.int64), np.zeros(0)
NO_PREFIXES = Prefixes(NO_NUMBERS, NO_NUMBERS, [], [], NO_MASSES, NO_NUMBERS)


@dataclass(frozen=True)
class _Waiting:
    """Prefixes that have not been opened, one in each place of these arrays.

    Attributes
    ----------
    search
        The search that each belongs to.
    log_prob
        Its log-probability, relative to the observed tokens before the event.
    bound
        The most that everything that begins with it can have, scaled.
    counted
        How much of that counts in the estimate.
    error
        By how much that is off at most.
    source, place
        The number of the prefix that it comes from, and by which of its transitions.
    """

    search: Ints
    log_prob: Floats
    bound: Floats
    counted: Floats
    source: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.search)

    @property
    def error(self) -> Floats:
        return np.maximum(self.counted, self.bound - self.counted)

    def at(self, places: Ints | Bools) -> _Waiting:
        """Return the prefixes in some places."""
        return _Waiting(
            self.search[places],
            self.log_prob[places],
            self.bound[places],
            self.counted[places],
            self.source[places],
            self.place[places],
        )

    def and_also(self, other: _Waiting) -> _Waiting:
        """Return these prefixes and others."""
        return _Waiting(
            np.concatenate([self.search, other.search]),
            np.concatenate([self.log_prob, other.log_prob]),
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.counted, other.counted]),
            np.concatenate([self.source, other.source]),
            np.concatenate([self.place, other.place]),
        )


class Search:
    """The searches for the mass of some events, side by side.

    Parameters
    ----------
    searched
        What is searched for.
    log_scales
        ``[N]``: what the log-probabilities of each search are relative to.
    tolerances
        ``[N]``: how wide the interval of each may stay, or by how much the estimate may be off, in nats.
    counts_unopened
        Whether a share of what is not opened counts, for an estimate; otherwise only what was found does.
    keep_spellings
        Whether to keep the spellings that are found.
    log_certain
        ``[N]``: the logarithm of what the mass has for certain, where that is known from elsewhere.

    Attributes
    ----------
    found
        ``[N]``: the mass that was found, scaled.
    undecided
        ``[N]``: the mass of which nothing that the model says can decide whether the word has ended, scaled.
    too_long
        ``[N]``: the mass of prefixes that cannot be opened, as they do not fit into the model's context, scaled.
    opened
        ``[N]``: how many prefixes were opened by asking the model.
    spellings
        For each search the spellings that were found, where they are kept.
    """

    def __init__(
        self,
        searched: Sequence[Searched],
        log_scales: Floats,
        tolerances: Floats,
        *,
        counts_unopened: bool = False,
        keep_spellings: bool = False,
        log_certain: Floats | None = None,
    ) -> None:
        self.searched = searched
        self.log_scales = log_scales
        self.tolerances = tolerances
        self._counts_unopened = counts_unopened
        self.log_certain = np.full(len(searched), -np.inf) if log_certain is None else log_certain
        self.found, self.undecided, self.too_long = np.zeros((3, len(searched)))
        self.opened = np.zeros(len(searched), dtype=np.int64)
        self.spellings: list[list[FoundSpelling]] | None = [[] for _ in searched] if keep_spellings else None
        self._waiting = _Waiting(NO_NUMBERS, NO_MASSES, NO_MASSES, NO_MASSES, NO_NUMBERS, NO_NUMBERS)
        # What was not opened of the searches that are done, and how much of it counts in the estimate.
        self._left, self._left_counted = np.zeros((2, len(searched)))
        self._sources = NO_PREFIXES  # what prefixes that wait come from

    # --- what the model says ---

    def wait_for(self, prefixes: Prefixes) -> None:
        """Take up prefixes that are to be opened, or count those at once about which nothing is open."""
        masses = self._scaled(prefixes.search, prefixes.log_prob)
        is_in = np.array(
            [each.is_whole and each.event.ending.labels is None for each in prefixes.transitions], dtype=bool
        )
        is_found = is_in & (prefixes.n_unscored == 0)
        found, others = np.flatnonzero(is_found), np.flatnonzero(~is_found)
        self.count(prefixes.search[found], masses[found])
        self._keep(prefixes.at(found), masses[found])
        self._wait_for_themselves(prefixes.at(others), masses[others], EITHER_SHARE * masses[others])

    def count(self, searches: Ints, masses: Floats) -> None:
        """Count scaled masses of searches as found."""
        self.found += self._sum(searches, masses)

    def open(self, prefixes: Prefixes, log_masses: Floats, atom_log_masses: Floats) -> None:
        """Continue from prefixes.

        Parameters
        ----------
        prefixes
            The prefixes.
        log_masses
            The log-mass of each transition, those of one prefix after the other.
        atom_log_masses
            ``[N, K]``: the log-mass of every atom after each prefix.
        """
        is_whole = np.array([transitions.is_whole for transitions in prefixes.transitions], dtype=bool)
        whole = np.flatnonzero(is_whole)
        self.open_inside(prefixes.at(np.flatnonzero(~is_whole)), log_masses)
        self.open_whole(prefixes.at(whole), atom_log_masses[whole])

    def open_inside(self, prefixes: Prefixes, log_masses: Floats) -> None:
        """Continue from prefixes, given the log-mass of each transition, those of one prefix after the other."""
        if not len(prefixes):
            return
        counts = np.array([len(transitions.outcomes) for transitions in prefixes.transitions])
        outcomes = np.concatenate([transitions.outcomes for transitions in prefixes.transitions])
        places = concat_ranges(np.zeros_like(counts), counts)
        searches = np.repeat(prefixes.search, counts)
        sources = np.repeat(self._add_sources(prefixes), counts)
        before = np.repeat(prefixes.log_prob, counts)
        # What the model says after something impossible does not matter.
        log_probs = np.where(before == -np.inf, -np.inf, before + log_masses)
        masses = self._scaled(searches, log_probs)

        is_ending, is_written = outcomes == Outcome.ENDING, outcomes == Outcome.WRITTEN
        is_found = is_ending | is_written
        self.count(searches[is_found], masses[is_found])
        is_undecided = outcomes == Outcome.UNDECIDED
        self.undecided += self._sum(searches[is_undecided], masses[is_undecided])
        longer = _Waiting(searches, log_probs, masses, EITHER_SHARE * masses, sources, places)
        self._wait(longer.at((outcomes == Outcome.INSIDE) | (outcomes == Outcome.CUT_OFF)))
        if self.spellings is not None:
            written, ending = longer.at(is_written), longer.at(is_ending)
            self._keep(self._prefixes(written), written.bound)
            not_longer = replace(ending, place=np.full(len(ending), ITSELF))
            self._keep(self._prefixes(not_longer), ending.bound, self._tokens_of_sums(ending))

    def open_whole(self, prefixes: Prefixes, atom_log_masses: Floats) -> None:
        """Continue from prefixes that have written their words, given the log-mass of every atom after each."""
        by_event: dict[BoundaryEvent, list[int]] = {}
        for n, transitions in enumerate(prefixes.transitions):
            by_event.setdefault(transitions.event, []).append(n)
        for event, numbers in by_event.items():
            places = np.array(numbers)
            self._open_boundary(event, prefixes.at(places), atom_log_masses[places])

    def _open_boundary(self, event: BoundaryEvent, whole: Prefixes, atom_log_masses: Floats) -> None:
        """Continue from prefixes after which the same atoms end the word."""
        columns = event.columns
        scaled = self._scaled(whole.search, whole.log_prob)
        atom_masses = scaled[:, None] * np.exp(np.asarray(atom_log_masses, dtype=np.float64))
        # Row by row in memory, so that a sum does not depend on how many there are.
        ending = atom_masses.take(columns.ending, axis=1).sum(axis=1)
        self.count(whole.search, ending)
        self._keep(whole, ending)
        self.undecided += self._sum(whole.search, atom_masses.take(columns.undecided, axis=1).sum(axis=1))

        cut_off = atom_masses.take(columns.cut_off, axis=1)
        bounds, counted = cut_off.sum(axis=1), (cut_off * columns.counted).sum(axis=1)
        errors = np.maximum(counted, bounds - counted)
        is_heavy = (errors > self.allowed[whole.search]) & (len(columns.single) > 0)
        light, heavy = np.flatnonzero((bounds > 0.0) & ~is_heavy), np.flatnonzero(is_heavy)
        together = replace(whole.at(light), transitions=[event.cut_off] * len(light))
        self._wait_for_themselves(together, bounds[light], counted[light])
        # What is too heavy to be left is divided at once, as far as the masses of atoms tell.
        divided = replace(whole.at(heavy), transitions=[event.single_cut_off] * len(heavy))
        self.open_inside(divided, atom_log_masses[heavy].take(columns.single, axis=1).ravel())
        if len(columns.grouped):
            rest = replace(divided, transitions=[event.grouped_cut_off] * len(heavy))
            rest_bounds = atom_masses[heavy].take(columns.grouped, axis=1).sum(axis=1)
            self._wait_for_themselves(rest, rest_bounds, EITHER_SHARE * rest_bounds)

    def _wait_for_themselves(self, prefixes: Prefixes, bounds: Floats, counted: Floats) -> None:
        """Take up prefixes that are to be opened themselves, not after one of their transitions."""
        sources = self._add_sources(prefixes)
        itself = np.full(len(prefixes), ITSELF)
        self._wait(_Waiting(prefixes.search, prefixes.log_prob, bounds, counted, sources, itself))

    def _wait(self, more: _Waiting) -> None:
        """Take up prefixes that are possible."""
        if not self._counts_unopened:
            more = replace(more, counted=np.zeros(len(more)))
        self._waiting = self._waiting.and_also(more.at(more.log_prob > -np.inf))

    def _keep(self, prefixes: Prefixes, masses: Floats, last_ids: Sequence[tuple[int, ...]] | None = None) -> None:
        """Keep spellings, if they are to be kept; one of ``last_ids`` comes last."""
        if self.spellings is not None:
            last_ids = [()] * len(prefixes) if last_ids is None else last_ids
            columns = (prefixes.search.tolist(), prefixes.row.tolist(), prefixes.ids, masses.tolist(), last_ids)
            for search, row, ids, mass, last in zip(*columns, strict=True):
                self.spellings[search].append(FoundSpelling(row, ids, mass, last))

    def _tokens_of_sums(self, sums: _Waiting) -> list[tuple[int, ...]]:
        """Return the tokens whose masses are added up, for transitions that are such sums."""
        tokens = []
        for source, place in zip(sums.source.tolist(), sums.place.tolist(), strict=True):
            transitions = self._sources.transitions[source]
            tokens.append(tuple(transitions.sums[place - len(transitions.tokens)].tolist()))
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
        """Return ``[N]``: the sum of the masses of each search."""
        return np.bincount(searches, masses, minlength=len(self.searched)).astype(np.float64, copy=False)

    # --- what to open next ---

    @property
    def allowed(self) -> Floats:
        """``[N]``: how much error may be left, scaled."""
        with np.errstate(over="ignore", invalid="ignore"):
            allowed: Floats = self.found * np.expm1(self.tolerances)
        return np.where(np.isinf(self.tolerances), np.inf, allowed)

    def choose(self, max_open: int | None = None) -> Prefixes:
        """Take out the prefixes to open next, of each search at most ``max_open`` in all.

        They are the heaviest, until what is left fits into the tolerance.
        """
        allowed = self.allowed
        room = np.full(len(self.searched), MAX_OPENED_PER_ROUND)
        if max_open is not None:
            room = np.minimum(room, max_open - self.opened)
        continues = (self._sum(self._waiting.search, self._waiting.error) > allowed) & (room > 0)
        left = self._sum(self._waiting.search, self._waiting.bound)
        self._left = np.where(continues, 0.0, self._left + left)
        counted = self._sum(self._waiting.search, self._waiting.counted)
        self._left_counted = np.where(continues, 0.0, self._left_counted + counted)
        waiting = self._waiting.at(continues[self._waiting.search])
        waiting = waiting.at(np.lexsort((waiting.error, waiting.search)))  # of each search the lightest first
        is_chosen = _heaviest(waiting, allowed, room)
        self._waiting = waiting.at(~is_chosen)
        chosen = waiting.at(is_chosen)
        self.opened += np.bincount(chosen.search, minlength=len(self.searched))
        return self._prefixes(chosen)

    def leave_unopened(self, prefixes: Prefixes) -> None:
        """Put back chosen prefixes that do not fit into the model's context: their mass can be bounded only."""
        self.too_long += self._sum(prefixes.search, self._scaled(prefixes.search, prefixes.log_prob))
        self.opened -= np.bincount(prefixes.search, minlength=len(self.searched))

    def _prefixes(self, chosen: _Waiting) -> Prefixes:
        """Return prefixes from what they come from; while they follow the observed tokens, they stay on their path."""
        sources = self._sources
        rows: list[int] = sources.row[chosen.source].tolist()
        all_ids, all_transitions = [], []
        columns = (chosen.search.tolist(), chosen.source.tolist(), chosen.place.tolist())
        for n, (search, source, place) in enumerate(zip(*columns, strict=True)):
            ids, transitions = sources.ids[source], sources.transitions[source]
            if place != ITSELF:
                token = transitions.tokens[place]
                if not ids and self.searched[search].observed_after(rows[n]) == token:
                    rows[n] += 1
                else:
                    ids = (*ids, token)
                transitions = transitions.event.after(transitions, place)
            all_ids.append(ids)
            all_transitions.append(transitions)
        n_unscored = np.where(chosen.place == ITSELF, sources.n_unscored[chosen.source], 0)
        return Prefixes(
            chosen.search, np.array(rows, dtype=np.int64), all_ids, all_transitions, chosen.log_prob, n_unscored
        )

    # --- the interval ---

    @property
    def log_low(self) -> Floats:
        """``[N]``: the logarithm of the mass that is certain: what was found, or what is known from elsewhere.

        Once no prefix waits, nothing is left to find: then the latter can be more only by rounding, and does not count.
        """
        found = self._log(self.found)
        return np.where(self.log_certain > found, np.minimum(self.log_certain, self.log_high), found)

    @property
    def log_high(self) -> Floats:
        """``[N]``: the logarithm of the mass that was found and all that may be left."""
        waiting = self._sum(self._waiting.search, self._waiting.bound)
        return self._log(self.found + self.undecided + self.too_long + self._left + waiting)

    @property
    def log_estimate(self) -> Floats:
        """``[N]``: the logarithm of the mass that was found and what counts of the rest."""
        waiting = self._sum(self._waiting.search, self._waiting.counted)
        return self._log(self.found + EITHER_SHARE * self.too_long + self._left_counted + waiting)

    def _log(self, masses: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs: Floats = self.log_scales + np.log(masses)
        return logs

    @property
    def is_within(self) -> Bools:
        """``[N]``: True if the interval is as narrow as it was asked for."""
        low, high = self.log_low, self.log_high
        with np.errstate(invalid="ignore"):
            is_narrow: Bools = high - low <= self.tolerances
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
    errors = np.bincount(line * width + place, waiting.error, minlength=len(searches) * width)
    is_too_much = np.cumsum(errors.reshape(-1, width), axis=1) > allowed[searches, None]
    is_too_much[:, -1] = True
    chosen: Bools = may_be_chosen & is_too_much[line, place]
    return chosen


def scored_ids(targets: Floats, n_unscored: Ints) -> Floats:
    """Return the sum of the log-probabilities of the tokens of each prefix that were not scored, end to end."""
    stops = np.cumsum(n_unscored)
    return segment_sums(targets.astype(np.float64), stops - n_unscored, stops)
