"""Bounds on the boundary masses, for models that list only their most probable tokens.

What such a model lists is certain, and what it does not list is bounded. So every log B̃ lies in an interval, and with
it the surprisal of every word; that of its tokens is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.equation import effective_boundaries
from wordprob.covers.branches import BranchTail
from wordprob.covers.events import BoundaryEvent
from wordprob.models.protocol import Scores
from wordprob.scoring.prepared_batch import BoundarySets, PreparedBatch
from wordprob.scoring.requests import Answers


@dataclass
class MassBounds:
    """The least and the most that masses along a batch can be, in natural logarithms.

    Attributes
    ----------
    boundaries
        ``[2, W + D]``: log B at every boundary, and log B̃ once other spellings are added.
    leaving
        ``[2, branches]``: log p of leaving the text; with its tail, once that is known.
    after_leaving
        ``[2, branches]``: log B at its end.
    """

    boundaries: Floats
    leaving: Floats
    after_leaving: Floats

    @classmethod
    def empty(cls, prepared: PreparedBatch) -> MassBounds:
        """Make room for what a batch needs."""
        n_boundaries = prepared.alignment.n_words + prepared.alignment.n_texts
        n_branches = len(prepared.branches)
        return cls(np.full((2, n_boundaries), np.nan), np.zeros((2, n_branches)), np.zeros((2, n_branches)))

    def add(self, prepared: PreparedBatch, answers: Answers) -> None:
        """Take what answers about windows leave open."""
        asked = answers.asked
        for window, scores in answers.scores:
            unlisted = scores.unlisted
            if unlisted is None:
                continue
            for boundary in range(asked.boundaries.starts[window], asked.boundaries.stops[window]):
                row = int(prepared.alignment.boundary_rows[boundary] - asked.first_rows[window])
                number = int(prepared.boundary_sets[boundary])
                members = prepared.set_members[number] > 0
                ambiguous = prepared.open_shares.error[number] > 0
                self.boundaries[:, boundary] = unlisted.log_bounds(row, members, ambiguous)
            branches = asked.branch_order[asked.branches.starts[window] : asked.branches.stops[window]]
            n_branches = len(branches)
            if n_branches:
                listed = unlisted.gathered_listed[:n_branches]
                most = unlisted.gathered_most[:n_branches]
                with np.errstate(divide="ignore"):
                    self.leaving[:, branches] = np.log([listed, listed + most])

    def add_tails(self, branches: Ints, log_probs: Floats, after: Floats) -> None:
        """Take what the model said about spellings that left a text.

        ``log_probs`` are those of all their tokens but the first, ``after`` is ``[2, N]``: log B at their ends.
        """
        self.leaving[:, branches] += log_probs
        self.after_leaving[:, branches] = after

    def apply_spellings(self, prepared: PreparedBatch, observed: Floats) -> None:
        """Turn B into B̃; ``observed`` are the log-probabilities of the tokens that each branch replaces."""
        branch_boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)
        for values, leaving, after in zip(self.boundaries, self.leaving, self.after_leaving, strict=True):
            values[prepared.boundary_sets == BoundarySets.EVERYTHING] = 0.0
            if len(prepared.branches):
                with np.errstate(invalid="ignore"):
                    others = leaving - observed + after
                values[:] = effective_boundaries(values, branch_boundaries, others)
            values[prepared.missing] = np.nan


def tail_bounds(tail: BranchTail, event: BoundaryEvent, scores: Scores) -> tuple[float, float]:
    """Return the least and the most that log B can be at the end of a spelling that left its text."""
    unlisted = scores.unlisted
    if unlisted is None or tail.pending:
        return -np.inf, 0.0  # what the character becomes is not read on
    if tail.last_ids:
        listed, most = unlisted.gathered_listed[0], unlisted.gathered_most[0]
        with np.errstate(divide="ignore"):
            return float(np.log(listed)), float(np.log(listed + most))
    members, perhaps = np.zeros((2, unlisted.listed.shape[1]), dtype=bool)
    members[event.columns.ending] = True
    perhaps[event.columns.cut_off] = True
    return unlisted.log_bounds(len(unlisted.mass) - 1, members, perhaps)
