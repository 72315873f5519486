"""The sums over own spellings: what the model is asked beyond the texts, until boundary masses are known well enough.

Along the texts the model has told what follows the observed tokens at every boundary. Two things may be missing there:
other own spellings of several tokens, and what becomes of characters that a token cuts off. Where they may change a
word by more than the model's own arithmetic, both are prefixes of a search (:mod:`wordprob.covers.search`).
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.equation import effective_boundaries
from wordprob.covers.ask import Step, ask_together, open_prefixes, search_rounds
from wordprob.covers.branches import BranchTail
from wordprob.covers.events import BoundaryEvents, Transitions
from wordprob.covers.search import Prefixes, Search, Searched, scored_ids
from wordprob.models.protocol import LanguageModel, PrefixStates
from wordprob.models.request_arrays import ScoreArrays
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.contexts import TextContexts
from wordprob.scoring.mass_bounds import tail_bounds
from wordprob.scoring.prepared_batch import BoundarySets, PreparedBatch

SHARE_AT_START = 1 / 10
"""Which part of the error of a word its text's start may have: that is computed once for all texts."""

NEGLIGIBLE_TAIL = 1e-9
"""A spelling of several tokens is not followed if its first token has no more than this share of what is known."""

FOLLOWS_ALL_TAILS = 1e-3
"""Up to this error, in nats, other spellings are followed even where they would change a word by less."""


def ask_beyond_texts(
    model: LanguageModel,
    atoms: Atoms,
    events: BoundaryEvents,
    prepared: PreparedBatch,
    collected: CollectedScores,
    states: PrefixStates | None = None,
) -> None:
    """Turn B into B̃ at every boundary, once the answers along the texts are collected; ask what is missing.

    ``states`` are those of the texts, where the model keeps them.
    """
    ask_together([own_sums(events, prepared, collected)], model, atoms, states)


def own_sums(events: BoundaryEvents, prepared: PreparedBatch, collected: CollectedScores) -> Step[None]:
    """Turn B into B̃ at every boundary of a batch: the same, asking together with other batches."""
    sums = _OwnSums(prepared, collected, events)
    collected.boundaries, collected.certain = sums.log_known, sums.log_sure
    boundaries = sums.to_search()
    yield from _search(sums, prepared, collected, boundaries)
    sums.remember_starts(boundaries)
    collected.boundaries[prepared.missing] = np.nan
    if collected.bounds is not None:
        collected.bounds.apply_spellings(prepared, collected.replaced(prepared))


def _search(sums: _OwnSums, prepared: PreparedBatch, collected: CollectedScores, boundaries: Ints) -> Step[None]:
    """Search for the sums at some boundaries."""
    if not len(boundaries):
        return
    search, tails, branches = sums.begin(boundaries)
    contexts = TextContexts(prepared, shortens=True)
    is_followed = sums.are_followed(search, tails)
    search.wait_for(tails.at(np.flatnonzero(~is_followed)))
    followed = tails.at(np.flatnonzero(is_followed))
    answers = yield from open_prefixes(search, followed, contexts)
    if answers is not None:
        sums.add_tails(branches[is_followed], followed, answers)
    yield from search_rounds(search, contexts)
    collected.boundaries[boundaries], collected.certain[boundaries] = search.log_estimate, search.log_low


class _OwnSums:
    """The sums over own spellings at the boundaries of a batch, as far as the pass along the texts tells.

    Parameters
    ----------
    prepared, collected
        The batch, and what the model said along its texts.
    events
        What may follow at boundaries.

    Attributes
    ----------
    log_known
        ``[W + D]``: log B̃ without spellings of several tokens, cut-off characters counted by what they usually become.
    log_sure
        ``[W + D]``: the same without cut-off characters.
    """

    def __init__(self, prepared: PreparedBatch, collected: CollectedScores, events: BoundaryEvents) -> None:
        self._prepared = prepared
        self._collected = collected
        self._events = events
        self._start_keys: dict[Hashable, Hashable] = {}
        branches = prepared.branches
        self._tails = np.array(sorted(branches.tails), dtype=np.int64)
        self._boundary_of_branch = np.array(branches.boundaries, dtype=np.int64)
        self._ratios = collected.branch_ratios(prepared)
        has_no_tail = np.ones(len(branches), dtype=bool)
        has_no_tail[self._tails] = False
        self._alone = np.flatnonzero(has_no_tail)
        observed = collected.boundaries.copy()
        observed[prepared.boundary_sets == BoundarySets.EVERYTHING] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = np.log(np.maximum(np.exp(observed) - collected.counted, 0.0))
        is_uncertain = collected.counted > 0.0
        self.log_known = self._with_branches(observed)
        self.log_sure = self._with_branches(np.where(is_uncertain, sure, observed))

    def _with_branches(self, observed: Floats) -> Floats:
        """Return log B̃ of the observed spelling and of those that end with the token by which they leave it."""
        if not len(self._alone):
            return observed.copy()
        return effective_boundaries(observed, self._boundary_of_branch[self._alone], self._ratios[self._alone])

    # --- where to search ---

    def to_search(self) -> Ints:
        """Return the boundaries whose mass is not known well enough; take those of starts that are known already."""
        needed = self._is_needed
        for boundary in self._starts(np.flatnonzero(needed)):
            known = self._events.known_starts.get(self._start_key(boundary))
            if known is not None:
                self._collected.certain[boundary], self._collected.boundaries[boundary] = known
                needed[boundary] = False
        return np.flatnonzero(needed)

    @property
    def _is_needed(self) -> Bools:
        """``[W + D]``: True for boundaries whose mass is not known well enough from the pass along the texts."""
        needed = np.zeros(len(self.log_known), dtype=bool)
        if self._collected.bounds is None:  # bounds allow for whatever cut-off characters become
            needed = self._errors > self.tolerances
        needed[self._boundary_of_branch[self._tails]] = True
        needed &= ~self._prepared.missing & ~self._is_unknown
        return needed

    @property
    def _errors(self) -> Floats:
        """``[W + D]``: by how much log B̃ is off at every boundary, at most, because of cut-off characters."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            errors = np.exp(np.log(self._collected.error) - self.log_sure)
        errors[self._prepared.boundary_sets <= BoundarySets.NOTHING] = 0.0
        return np.nan_to_num(errors, nan=0.0, posinf=np.inf)

    @property
    def tolerances(self) -> Floats:
        """``[W + D]``: by how much it may be off: half of the error of a word, which has two boundaries.

        What one of them does not need is not given to the other: a value does not depend on what comes later.
        """
        largest = self._prepared.settings.precision_nats
        tolerances = np.full(len(self.log_known), largest / 2)
        tolerances[self._prepared.alignment.first_boundaries] = SHARE_AT_START * largest
        return tolerances

    @property
    def _is_unknown(self) -> Bools:
        """``[W + D]``: True where the model said nothing, although the observed tokens end there."""
        ends_there = self._prepared.boundary_sets != BoundarySets.NOTHING
        unknown: Bools = ends_there & np.isnan(self._collected.boundaries)
        return unknown

    # --- the search ---

    def begin(self, boundaries: Ints) -> tuple[Search, Prefixes, Ints]:
        """Return a search for each boundary with what is known, the spellings of several tokens, and their branches."""
        prepared, alignment = self._prepared, self._prepared.alignment
        texts = np.searchsorted(alignment.first_boundaries, boundaries, side="right") - 1
        rows = alignment.boundary_rows[boundaries]
        searched = list(map(Searched, boundaries.tolist(), texts.tolist(), rows.tolist()))
        number = np.full(len(self.log_known), -1)
        number[boundaries] = np.arange(len(boundaries))
        tails = self._tails[number[self._boundary_of_branch[self._tails]] >= 0]
        scales = self._log_scales(boundaries, tails, number)
        tolerances = self.tolerances[boundaries] if self._collected.bounds is None else np.full(len(searched), np.inf)
        search = Search(searched, scales, tolerances, counts_unopened=True)

        alone = self._alone[number[self._boundary_of_branch[self._alone]] >= 0]
        of_alone = number[self._boundary_of_branch[alone]]
        search.count(of_alone, np.exp(self._ratios[alone] - scales[of_alone]))
        sets = prepared.boundary_sets[boundaries]
        certain = np.flatnonzero(sets == BoundarySets.EVERYTHING)
        search.count(certain, np.exp(-scales[certain]))
        self._open_observed(search, boundaries, rows, np.flatnonzero(sets > BoundarySets.NOTHING))
        of_tails = number[self._boundary_of_branch[tails]]
        return search, self._tail_prefixes(tails, of_tails), tails

    def _open_observed(self, search: Search, boundaries: Ints, rows: Ints, places: Ints) -> None:
        """Continue from the observed tokens: the pass along the texts has told the mass of every atom after them."""
        prepared = self._prepared
        numbers = prepared.boundary_sets[boundaries[places]].tolist()
        whole = [self._events.ending_with(prepared.sets.labels(number) or frozenset()).whole for number in numbers]
        prefixes = Prefixes.scored(places, rows[places], np.zeros(len(places)), whole)
        search.open_whole(prefixes, self._collected.boundary_masses[boundaries[places]])

    def _tail_prefixes(self, tails: Ints, searches: Ints) -> Prefixes:
        """Return spellings of several tokens as prefixes, of which the first token is scored."""
        branches = self._prepared.branches
        described = [branches.tails[number] for number in tails.tolist()]
        return Prefixes(
            search=searches,
            row=np.array(branches.rows, dtype=np.int64)[tails],
            ids=[tail.ids for tail in described],
            transitions=[self._transitions(tail) for tail in described],
            log_prob=self._ratios[tails],
            n_unscored=np.array([len(tail.ids) - 1 for tail in described], dtype=np.int64),
        )

    def _transitions(self, tail: BranchTail) -> Transitions:
        """Return what the next token makes of a spelling once all its ids are written."""
        event = self._events.ending_with(tail.boundary)
        if tail.last_ids:
            return event.by_one_of(tail.last_ids)
        return event.inside_character(tail.pending) if tail.pending else event.whole

    def _log_scales(self, boundaries: Ints, tails: Ints, number: Ints) -> Floats:
        """Return about the logarithm of each boundary's mass, so that masses relative to it are near 1."""
        scales = np.where(np.isfinite(self.log_known), self.log_known, -np.inf)[boundaries]
        ratios = np.where(np.isfinite(self._ratios), self._ratios, -np.inf)
        np.maximum.at(scales, number[self._boundary_of_branch[tails]], ratios[tails])
        return np.where(np.isfinite(scales), scales, 0.0)

    def are_followed(self, search: Search, tails: Prefixes) -> Bools:
        """Return True for spellings that are followed at once, whether they change a word by much or not."""
        is_cut_off = np.array([bool(transitions.tokens) for transitions in tails.transitions], dtype=bool)
        is_asked: Bools = (tails.n_unscored > 0) | ~is_cut_off
        if self._collected.bounds is not None:
            return is_asked
        if self._prepared.settings.precision_nats > FOLLOWS_ALL_TAILS:
            return np.zeros(len(tails), dtype=bool)
        is_heavy: Bools = np.exp(tails.log_prob - search.log_scales[tails.search]) > NEGLIGIBLE_TAIL
        return is_asked & is_heavy

    def add_tails(self, branches: Ints, tails: Prefixes, answers: ScoreArrays) -> None:
        """Note what the model said about spellings of several tokens."""
        collected = self._collected
        log_probs = scored_ids(answers.target, tails.n_unscored)
        collected.leaving[branches] += log_probs
        collected.is_tail_scored[branches] = True
        if collected.bounds is not None:
            described = [self._prepared.branches.tails[number] for number in branches.tolist()]
            events = [transitions.event for transitions in tails.transitions]
            scores = [scores for _, scores in answers]
            after = list(map(tail_bounds, described, events, scores))
            collected.bounds.add_tails(branches, log_probs, np.array(after).reshape(-1, 2).T)

    # --- starts of texts, which are alike ---

    def _starts(self, boundaries: Ints) -> list[int]:
        """Return those of the boundaries that are the start of a text with nothing of its own before it."""
        if self._prepared.head_lengths.any():
            return []
        found: list[int] = boundaries[np.isin(boundaries, self._prepared.alignment.first_boundaries)].tolist()
        return found

    def _start_key(self, boundary: int) -> Hashable:
        """Return what the mass at the start of a text depends on."""
        branches, first = self._prepared.branches, np.searchsorted(self._sorted_boundaries, boundary)
        stop = np.searchsorted(self._sorted_boundaries, boundary, side="right")
        numbers = self._by_boundary[first:stop].tolist()
        ways = tuple((branches.lists[number], branches.tails.get(number)) for number in numbers)
        in_batch = (int(self._prepared.boundary_sets[boundary]), ways)
        if in_batch not in self._start_keys:
            # Numbers of sets and lists are those of a batch; what they stand for is the same in all of them.
            settings = self._prepared.settings
            labels = self._prepared.sets.labels(in_batch[0])
            leaving = tuple((branches.id_lists[number], tail) for number, tail in ways)
            self._start_keys[in_batch] = (settings.start_ids, settings.precision_nats, labels, leaving)
        return self._start_keys[in_batch]

    @cached_property
    def _by_boundary(self) -> Ints:
        """The branches in the order of the boundaries that they lead to."""
        return np.argsort(self._boundary_of_branch, kind="stable")

    @cached_property
    def _sorted_boundaries(self) -> Ints:
        boundaries: Ints = self._boundary_of_branch[self._by_boundary]
        return boundaries

    def remember_starts(self, boundaries: Ints) -> None:
        """Keep what was found at the starts of texts, unless it is bounds."""
        if self._collected.bounds is None:
            for boundary in self._starts(boundaries):
                values = (float(self._collected.certain[boundary]), float(self._collected.boundaries[boundary]))
                self._events.known_starts.setdefault(self._start_key(boundary), values)
