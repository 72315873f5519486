"""What the model said about a batch, put where it belongs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ints, concat_ranges, row_sums, segment_sums
from wordprob.core.atoms import OpenShares
from wordprob.core.equation import logsumexp
from wordprob.models.protocol import log_sum_exp
from wordprob.scoring.mass_bounds import MassBounds
from wordprob.scoring.prepared_batch import BoundarySets, PreparedBatch
from wordprob.scoring.requests import Answers, WindowRequests

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
    counted
        ``[N]``: the mass in B of cut-off characters of which only some end the word.
    error
        ``[N]``: by how much that is off at most.
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
        How the others are counted, an entry for each.
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
    certain
        ``[W + D]``: log B̃, as far as it is certain whatever cut-off characters become.
    leaving
        For every branch, log p of leaving the text; with all its tokens, once that is known.
    is_tail_scored
        For every branch, whether that is known.
    statistics
        By name, ``[W]``: statistics of the distribution where each word begins.
    undecided
        By boundary: the share of what may follow that leaves open whether a word has ended.
    counted, error
        ``[W + D]``: the mass that counts, at every boundary, of cut-off characters of which only some end a word, and
        by how much it is off at most.
    step_masses
        The log-masses that searches for every spelling need along the texts.
    boundary_masses
        The log-mass of every atom at every boundary.
    bounds
        How far masses may be off, of a model that lists only its most probable tokens.
    """

    token_log_probs: Floats
    boundaries: Floats
    certain: Floats
    ends: Floats
    leaving: Floats
    is_tail_scored: Bools
    statistics: dict[str, Floats]
    counted: Floats
    error: Floats
    step_masses: Floats
    boundary_masses: BoundaryMasses
    bounds: MassBounds | None = None
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
            certain=np.full(n_boundaries, np.nan),
            ends=np.full(alignment.n_texts, np.nan),
            leaving=np.zeros(len(prepared.branches)),
            is_tail_scored=np.zeros(len(prepared.branches), dtype=bool),
            statistics={name: np.full(alignment.n_words, np.nan) for name in prepared.settings.statistics},
            counted=np.zeros(n_boundaries),
            error=np.zeros(n_boundaries),
            step_masses=np.full(0 if plan is None else len(plan.rows), np.nan),
            boundary_masses=BoundaryMasses(prepared),
            bounds=None if prepared.settings.max_width is None else MassBounds.empty(prepared),
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

    def branch_ratios(self, prepared: PreparedBatch) -> Floats:
        """Return, for every branch, log p of its tokens relative to the observed ones.

        What both paths share, up to where the branch leaves, cancels.
        """
        with np.errstate(invalid="ignore"):  # a spelling of probability zero has no ratio to others
            return self.leaving - self.replaced(prepared)

    def replaced(self, prepared: PreparedBatch) -> Floats:
        """Return, for every branch, log p of the observed tokens that it replaces."""
        alignment = prepared.alignment
        boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)
        text = np.searchsorted(alignment.first_boundaries, boundaries, side="right") - 1
        leaves = np.array(prepared.branches.rows, dtype=np.int64) - text
        stops = alignment.boundary_rows[boundaries] - text
        return segment_sums(self.token_log_probs, leaves, stops)
