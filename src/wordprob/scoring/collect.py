"""What the model said about a batch, put where it belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints, concat_ints, concat_ranges, row_sums, segment_sums
from wordprob.core.atoms import OpenShares
from wordprob.core.equation import effective_boundaries, logsumexp
from wordprob.models.protocol import log_sum_exp
from wordprob.scoring.boundary_sets import BoundarySets
from wordprob.scoring.mass_bounds import MassBounds
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import Answers, TailScores, WindowRequests

NO_NUMBERS: Ints = np.zeros(0, dtype=np.int64)

SMALLEST_MASS = 1e-30
"""Sums below this are computed again from the logarithms: in single precision, terms below 1e-38 are lost."""


PLACES_AT_ONCE = 2048
"""Places whose masses are added up together: few enough for the processor's cache, and for memory that is at hand."""


class EndingMass(NamedTuple):
    """What ends a word at each of several places.

    Attributes
    ----------
    log_mass
        ``[N]``: log B.
    counted, error
        ``[N]``: the mass in B of cut-off characters of which only some end the word, and by how much that may be off.
    """

    log_mass: Floats
    counted: Floats
    error: Floats


class EndingColumns(NamedTuple):
    """The columns of the atoms that end a word, or may do so.

    Attributes
    ----------
    columns
        Those that surely end it, and those with cut-off characters of which only some do.
    n_sure
        How many the first of these are.
    open_shares
        What is made of the others, an entry for each.
    """

    columns: Ints
    n_sure: int
    open_shares: OpenShares

    @classmethod
    def of(cls, members: Floats, open_shares: OpenShares) -> EndingColumns:
        """Return the columns of atoms: ``members`` is 1 where one ends a word, all are ``[K]``."""
        sure, others = np.flatnonzero(members), np.flatnonzero(open_shares.error)
        shares = OpenShares(open_shares.counted[others], open_shares.error[others])
        return cls(np.concatenate([sure, others]), len(sure), shares)


def ending_mass(log_masses: Floats, rows: Ints, ending: EndingColumns) -> EndingMass:
    """Return the mass of what ends a word at places where the same atoms do.

    Parameters
    ----------
    log_masses
        ``[R, K]``: the log-mass of every atom, in single or double precision.
    rows
        ``[N]``: the rows of the places.
    ending
        Which atoms end a word there.
    """
    sure, counted, error = np.empty((3, len(rows)))
    for low in range(0, len(rows), PLACES_AT_ONCE):
        some = slice(low, low + PLACES_AT_ONCE)
        masses = np.exp(log_masses.take(rows[some], axis=0).take(ending.columns, axis=1)).astype(np.float64)
        sure[some] = row_sums(masses[:, : ending.n_sure])
        others = masses[:, ending.n_sure :]
        counted[some] = row_sums(others * ending.open_shares.counted)
        error[some] = row_sums(others * ending.open_shares.error)
    total = sure + counted
    with np.errstate(divide="ignore"):
        log_mass = np.log(total)
    tiny = np.flatnonzero(total < SMALLEST_MASS)
    if len(tiny):
        terms = log_masses[rows[tiny]][:, ending.columns].astype(np.float64)
        with np.errstate(divide="ignore"):
            terms[:, ending.n_sure :] += np.log(ending.open_shares.counted)
        log_mass[tiny] = log_sum_exp(terms)
    return EndingMass(log_mass, counted, error)


class BoundaryMasses:
    """The log-mass of every atom at every boundary, left in the answers about windows that have them."""

    def __init__(self, prepared: PreparedBatch) -> None:
        self._rows = prepared.alignment.boundary_rows
        self._n_atoms = prepared.set_members.shape[1]
        self._asked: WindowRequests | None = None
        self._answers: list[Floats] = []
        # Of each window: which of the answers it is in, and where there.
        self._answer_numbers: Ints = NO_NUMBERS
        self._answer_rows: Ints = NO_NUMBERS

    def add(self, answers: Answers) -> None:
        """Keep the masses of answers about windows."""
        if self._asked is None:
            self._asked = answers.asked
            self._answer_numbers = np.full(len(answers.asked), -1)
            self._answer_rows = np.zeros(len(answers.asked), dtype=np.int64)
        scores = answers.scores
        self._answer_numbers[scores.numbers] = len(self._answers)
        self._answer_rows[scores.numbers] = scores.offsets[:-1]
        self._answers.append(scores.mass)

    def __getitem__(self, boundaries: Ints) -> Floats:
        """Return ``[N, K]``: the masses at some boundaries; not a number where the model said nothing."""
        found = np.full((len(boundaries), self._n_atoms), np.nan)
        if self._asked is None:
            return found
        ranges = self._asked.boundaries
        windows = np.searchsorted(ranges.starts, boundaries, side="right") - 1
        is_asked = (windows >= 0) & (boundaries < ranges.stops[windows])
        answer_numbers = np.where(is_asked, self._answer_numbers[windows], -1)
        rows = self._rows[boundaries] - self._asked.first_rows[windows] + self._answer_rows[windows]
        for number, masses in enumerate(self._answers):
            places = np.flatnonzero(answer_numbers == number)
            found[places] = masses[rows[places]]
        return found


@dataclass
class UnreadMasses:
    """What was counted in own spellings before cut-off characters were read on.

    Attributes
    ----------
    boundaries
        ``[W + D]``: log B after the observed tokens.
    after_leaving
        For every branch, log B at its end.
    counted, error
        For every branch, the mass in that B of cut-off characters, and by how much it may be off.
    """

    boundaries: Floats
    after_leaving: Floats
    counted: Floats
    error: Floats

    @classmethod
    def empty(cls, n_branches: int) -> UnreadMasses:
        """Make room for what is known of branches."""
        return cls(np.zeros(0), *np.zeros((3, n_branches)))

    def add_tails(self, tails: TailScores) -> None:
        """Take what the model said of the rest of spellings that left a text."""
        self.after_leaving[tails.branches] = tails.log_boundaries
        self.counted[tails.branches] = tails.counted
        self.error[tails.branches] = tails.error


@dataclass
class CollectedScores:
    """Everything in natural logarithms, along the batch; not a number where the model said nothing.

    Attributes
    ----------
    token_log_probs
        ``[T]``: log p of every token.
    boundaries
        ``[W + D]``: log B at every boundary, and log B̃ once other spellings are added.
    ends
        ``[D]``: log p of each text ending after its last token.
    leaving
        For every branch, log p of leaving the text; with its tail, once that is known.
    after_leaving
        For every branch, log B at its end.
    statistics
        By name, ``[W]``: statistics of the distribution where each word begins.
    undecided
        By boundary: the share of what may follow that leaves open whether a word has ended.
    counted, error
        ``[W + D]``: the mass that counts, at every boundary, of cut-off characters of which only some end a word, and
        by how much that may be off where they are not read on.
    read_on
        ``[W + D]``: where they were read on, the mass of those that end it; otherwise not a number.
    step_masses
        The log-masses that searches for every spelling need along the texts.
    boundary_masses
        The log-mass of every atom at every boundary.
    bounds
        How far masses may be off, of a model that lists only its most probable tokens.
    unread
        What was counted before cut-off characters were read on, where every spelling is searched for.
    """

    token_log_probs: Floats
    boundaries: Floats
    ends: Floats
    leaving: Floats
    after_leaving: Floats
    statistics: dict[str, Floats]
    counted: Floats
    error: Floats
    read_on: Floats
    step_masses: Floats
    boundary_masses: BoundaryMasses
    bounds: MassBounds | None = None
    unread: UnreadMasses | None = None
    undecided: dict[int, float] = field(default_factory=dict)
    _columns_of_set: dict[int, EndingColumns] = field(default_factory=dict, repr=False)

    @classmethod
    def empty(cls, prepared: PreparedBatch) -> CollectedScores:
        """Make room for what a batch needs."""
        alignment, plan = prepared.alignment, prepared.search_plan
        n_boundaries = alignment.n_words + alignment.n_texts
        return cls(
            token_log_probs=np.full(len(alignment.ids), np.nan),
            boundaries=np.full(n_boundaries, np.nan),
            ends=np.full(alignment.n_texts, np.nan),
            leaving=np.zeros(len(prepared.branches)),
            after_leaving=np.zeros(len(prepared.branches)),
            statistics={name: np.full(alignment.n_words, np.nan) for name in prepared.settings.statistics},
            counted=np.zeros(n_boundaries),
            error=np.zeros(n_boundaries),
            read_on=np.full(n_boundaries, np.nan),
            step_masses=np.full(0 if plan is None else len(plan.rows), np.nan),
            boundary_masses=BoundaryMasses(prepared),
            bounds=None if prepared.settings.max_width is None else MassBounds.empty(prepared),
            unread=None if plan is None else UnreadMasses.empty(len(prepared.branches)),
        )

    def add(self, prepared: PreparedBatch, answers: Answers) -> None:
        """Put answers about windows where they belong."""
        self._add_observed(prepared, answers)
        self._add_gathered(answers)
        self.boundary_masses.add(answers)
        if self.bounds is not None:
            self.bounds.add(prepared, answers)
        if self.statistics:
            words = concat_ints(answers.asked.words[window] for window in answers.scores.numbers.tolist())
            for name, values in answers.scores.statistics.items():
                self.statistics[name][words] = values
        if prepared.undecided_atoms:
            self._add_undecided(prepared, answers)

    def _add_observed(self, prepared: PreparedBatch, answers: Answers) -> None:
        """Take log p of the tokens, B at the boundaries and p(end), of all answers at once."""
        asked, scores = answers
        windows = scores.numbers
        first_rows, texts, reaches_end = asked.first_rows[windows], asked.texts[windows], asked.reaches_end[windows]

        # The token after row r of text d is token r - d of the batch.
        log_mass, mass_offsets = scores.mass, scores.offsets
        self.token_log_probs[concat_ranges(first_rows - texts, np.diff(mass_offsets) - 1)] = scores.target
        boundaries = asked.boundaries.numbers(windows)
        shifts = np.repeat(mass_offsets[:-1] - first_rows, asked.boundaries.counts(windows))
        rows = prepared.alignment.boundary_rows[boundaries] + shifts
        sets = prepared.boundary_sets[boundaries]
        for number in np.flatnonzero(np.bincount(sets)).tolist():
            places = np.flatnonzero(sets == number)
            here = boundaries[places]
            found = ending_mass(log_mass, rows[places], self._ending_columns(prepared, number))
            self.boundaries[here], self.counted[here], self.error[here] = found
        is_end = prepared.set_members[BoundarySets.END_OF_TEXT] > 0
        last_rows = mass_offsets[1:][reaches_end] - 1
        self.ends[texts[reaches_end]] = log_sum_exp(log_mass[last_rows][:, is_end].astype(np.float64))

    def _ending_columns(self, prepared: PreparedBatch, set_number: int) -> EndingColumns:
        if set_number not in self._columns_of_set:
            shares = OpenShares(*(each[set_number] for each in prepared.open_shares))
            columns = EndingColumns.of(prepared.set_members[set_number], shares)
            self._columns_of_set[set_number] = columns
        return self._columns_of_set[set_number]

    def _add_gathered(self, answers: Answers) -> None:
        """Take log p of leaving the texts, and what searches need along them: of each window, the one and the other."""
        asked, scores = answers
        windows = scores.numbers
        branch_counts, step_counts = asked.branches.counts(windows), asked.steps.counts(windows)
        is_branch = np.repeat(
            np.tile([True, False], len(windows)), np.stack([branch_counts, step_counts], axis=1).ravel()
        )
        if not len(is_branch):
            return
        self.leaving[asked.branch_order[asked.branches.numbers(windows)]] = scores.gathered[is_branch]
        self.step_masses[asked.step_order[asked.steps.numbers(windows)]] = scores.gathered[~is_branch]

    def _add_undecided(self, prepared: PreparedBatch, answers: Answers) -> None:
        asked, scores = answers
        windows = scores.numbers
        counts = asked.boundaries.counts(windows)
        numbers = np.repeat(np.arange(len(windows)), counts)
        for boundary, number in zip(asked.boundaries.numbers(windows).tolist(), numbers.tolist(), strict=True):
            if boundary in prepared.undecided_atoms:
                row = prepared.alignment.boundary_rows[boundary] - asked.first_rows[windows[number]]
                masses = scores.mass[scores.offsets[number] + row, prepared.undecided_atoms[boundary]]
                self.undecided[boundary] = float(np.exp(logsumexp(masses.astype(np.float64))))

    def add_tails(self, tails: TailScores) -> None:
        """Take what the model said of the rest of spellings that left a text."""
        self.leaving[tails.branches] += tails.log_probs
        self.after_leaving[tails.branches] = tails.log_boundaries
        if self.unread is not None:
            self.unread.add_tails(tails)

    def apply_spellings(self, prepared: PreparedBatch) -> None:
        """Turn B into B̃: 1 where a boundary is certain, all spellings together, nothing where there is no boundary."""
        if self.unread is not None:
            self.unread.boundaries = self.boundaries.copy()
        read = ~np.isnan(self.read_on)
        if read.any():
            decided = np.maximum(np.exp(self.boundaries[read]) - self.counted[read], 0.0)
            with np.errstate(divide="ignore"):
                self.boundaries[read] = np.log(decided + self.read_on[read])
        self.boundaries[prepared.boundary_sets == BoundarySets.EVERYTHING] = 0.0
        if len(prepared.branches):
            self._add_branches(prepared)
        self.boundaries[prepared.missing] = np.nan
        if self.bounds is not None:
            self.bounds.apply_spellings(prepared, self._replaced(prepared))

    def branch_ratios(self, prepared: PreparedBatch) -> Floats:
        """Return, for every branch, log p of its tokens relative to the observed ones.

        What both paths share, up to where the branch leaves, cancels.
        """
        with np.errstate(invalid="ignore"):  # a spelling of probability zero has no ratio to others
            return self.leaving - self._replaced(prepared)

    def _replaced(self, prepared: PreparedBatch) -> Floats:
        """Return, for every branch, log p of the observed tokens that it replaces."""
        alignment = prepared.alignment
        boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)
        text = np.searchsorted(alignment.first_boundaries, boundaries, side="right") - 1
        leaves = np.array(prepared.branches.rows, dtype=np.int64) - text
        stops = alignment.boundary_rows[boundaries] - text
        return segment_sums(self.token_log_probs, leaves, stops)

    def _add_branches(self, prepared: PreparedBatch) -> None:
        """Add the other spellings to the observed one."""
        boundaries = np.array(prepared.branches.boundaries)
        others = self.branch_ratios(prepared) + self.after_leaving
        self.boundaries[:] = effective_boundaries(self.boundaries, boundaries, others)
