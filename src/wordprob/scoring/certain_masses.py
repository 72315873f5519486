"""What the tokenizer's own spellings are certain to have, whatever characters that are cut off become.

B counts a share of cut-off characters, which may turn out not to end a word. How much too much that may be is known:
all that was counted, where they were not read on; where they were, no more than reading on leaves open.
"""

from __future__ import annotations

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.core.atoms import RARE_ERROR_SHARE
from wordprob.core.equation import effective_boundaries
from wordprob.covers.cut_off_tokens import LARGEST_ERROR
from wordprob.scoring.boundary_sets import BoundarySets
from wordprob.scoring.collect import CollectedScores, UnreadMasses
from wordprob.scoring.cut_off_characters import allowed_errors
from wordprob.scoring.prepared_batch import PreparedBatch

LARGEST_OVERCOUNT = LARGEST_ERROR / RARE_ERROR_SHARE
"""How much of B may be counted too much of cut-off characters that were read on.

Where one of the two outcomes is rare, all of a mass may be wrong, and a quarter of it is reckoned as error.
"""


def certain_boundaries(prepared: PreparedBatch, collected: CollectedScores, unread: UnreadMasses) -> Floats:
    """Return ``[W + D]``: the logarithm of the least that B̃ can be at every boundary."""
    observed = _certain_observed(collected, unread)
    observed[prepared.boundary_sets == BoundarySets.EVERYTHING] = 0.0
    if not len(prepared.branches):
        return observed
    boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)
    ratios = collected.branch_ratios(prepared)
    with np.errstate(invalid="ignore", over="ignore"):
        all_spellings = effective_boundaries(unread.boundaries, boundaries, ratios + unread.after_leaving)
        known = np.exp(all_spellings[boundaries] - ratios)
    return effective_boundaries(observed, boundaries, ratios + _certain_after_leaving(collected, unread, known))


def _certain_observed(collected: CollectedScores, unread: UnreadMasses) -> Floats:
    """Return log B after the observed tokens at every boundary, less what may be counted too much."""
    known = np.exp(unread.boundaries)
    overcount = allowed_errors(known, collected.counted) / RARE_ERROR_SHARE
    read_on = np.maximum(collected.read_on - overcount, 0.0)
    sure = np.maximum(known - collected.counted, 0.0)
    with np.errstate(divide="ignore"):
        certain: Floats = np.log(sure + np.where(np.isnan(read_on), 0.0, read_on))
    return certain


def _certain_after_leaving(collected: CollectedScores, unread: UnreadMasses, known: Floats) -> Floats:
    """Return log B at the end of every branch, less what may be counted too much.

    ``known`` is for every branch B̃ at its boundary before anything was read on, relative to the branch.
    """
    was_read_on = unread.error > LARGEST_ERROR * known
    overcount = np.where(was_read_on, LARGEST_OVERCOUNT * known, unread.counted)
    with np.errstate(divide="ignore"):
        certain: Floats = np.log(np.maximum(np.exp(collected.after_leaving) - overcount, 0.0))
    return certain
