"""What the model is asked beyond the texts: the rest of spellings that leave them, and characters that are cut off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import EITHER_SHARE, Atoms
from wordprob.core.characters import Label
from wordprob.covers.branches import BranchTail
from wordprob.covers.cut_off_tokens import CutOffTokens
from wordprob.covers.rounds import Question, QuestionStep, Reply, ask_questions, ask_together
from wordprob.models.protocol import LanguageModel, PrefixStates
from wordprob.scoring.collect import CollectedScores, EndingColumns, ending_mass
from wordprob.scoring.cut_off_characters import CutOffReader
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import TailScores, ids_before, window_lows

TAILS_AT_ONCE = 2048
"""Spellings that are followed beyond the text together."""


def ask_beyond_texts(
    model: LanguageModel,
    atoms: Atoms,
    cut_off_tokens: CutOffTokens,
    prepared: PreparedBatch,
    collected: CollectedScores,
    states: PrefixStates | None = None,
) -> None:
    """Ask what a batch needs beyond its texts, once the answers along them are collected, and collect that too.

    ``states`` are those of the texts, where the model keeps them.
    """
    reader = CutOffReader(atoms, cut_off_tokens)
    following = follow_tails(prepared, atoms, collected, reader)
    reading = reader.read_boundaries(prepared, collected)
    ask_together([ask_questions([following, reading])], model, atoms, states)


def follow_tails(
    prepared: PreparedBatch, atoms: Atoms, collected: CollectedScores, reader: CutOffReader
) -> QuestionStep:
    """Follow the spellings that leave a text and go on: log p of their ids after the first, and B at their end."""
    branches = np.array(list(prepared.branches.tails), dtype=np.int64)
    all_scores = []
    for low in range(0, len(branches), TAILS_AT_ONCE):
        some = branches[low : low + TAILS_AT_ONCE]
        tails = [prepared.branches.tails[branch] for branch in some.tolist()]
        asked = [n for n, tail in enumerate(tails) if not (tail.pending and len(tail.ids) == 1)]
        questions = _questions(prepared, some[asked], [tails[n] for n in asked])
        replies = dict(zip(asked, (yield questions) if questions else (), strict=True))
        scores = _tail_scores(atoms, some, tails, replies)
        if collected.bounds is not None:
            bounds = [_bounds(tail, atoms, replies.get(n)) for n, tail in enumerate(tails)]
            collected.bounds.add_tails(scores, np.array(bounds).T)
        collected.add_tails(scores)
        all_scores.append(scores)
    yield from reader.read_tails(prepared, collected, all_scores)


def _questions(prepared: PreparedBatch, branches: Ints, tails: Sequence[BranchTail]) -> list[Question]:
    """Return what is asked about branches after the first id, which was asked for with the text."""
    alignment = prepared.alignment
    boundaries = np.array(prepared.branches.boundaries, dtype=np.int64)[branches]
    texts = np.searchsorted(alignment.first_boundaries, boundaries, side="right") - 1
    rows = np.array(prepared.branches.rows, dtype=np.int64)[branches]
    rows -= alignment.boundary_rows[alignment.first_boundaries[texts]]
    endings = [tail.ids for tail in tails]
    lows = window_lows(prepared, texts, rows, room=np.array(list(map(len, endings)), dtype=np.int64))
    distinct = {id(tail): tail for tail in tails}  # the same few come again and again
    lists = {key: [np.array(tail.last_ids)] if tail.last_ids else [] for key, tail in distinct.items()}
    questions = []
    sequences = ids_before(prepared, texts, rows, lows, endings)
    n_kept = np.where(lows == 0, prepared.n_kept_ids[texts], np.iinfo(np.int64).max).tolist()
    for number, tail in enumerate(tails):
        seen = sequences.ids_of(number)
        n_prefix = len(seen) - len(tail.ids)
        questions.append(Question(seen, n_prefix, min(n_prefix, n_kept[number]), lists[id(tail)]))
    return questions


def _tail_scores(atoms: Atoms, branches: Ints, tails: Sequence[BranchTail], replies: dict[int, Reply]) -> TailScores:
    """Return what the replies, by the number of the tail, say about tails."""
    n_tails = len(tails)
    open_shares = np.array([EITHER_SHARE if tail.pending else 0.0 for tail in tails])
    with np.errstate(divide="ignore"):
        log_boundaries = np.log(open_shares)
    scores = TailScores(
        branches=branches,
        log_probs=np.zeros(n_tails),
        log_boundaries=log_boundaries,
        counted=open_shares.copy(),
        error=open_shares.copy(),
        log_masses=np.full((n_tails, len(atoms.labels)), np.nan),
    )
    by_boundary: dict[frozenset[Label], list[int]] = {}
    for n, reply in replies.items():
        tail, target = tails[n], reply.scores.target
        if len(target):
            scores.log_probs[n] = target.sum(dtype=np.float64)
        if tail.last_ids:
            scores.log_boundaries[n] = reply.gathered[0]
        elif not tail.pending:
            scores.log_masses[n] = reply.scores.mass[-1]
            by_boundary.setdefault(tail.boundary, []).append(n)
    for boundary, places in by_boundary.items():
        ending = EndingColumns.of(_members(atoms, boundary), atoms.open_shares(boundary))
        found = ending_mass(scores.log_masses, np.array(places), ending)
        scores.log_boundaries[places], scores.counted[places], scores.error[places] = found
    return scores


def _members(atoms: Atoms, labels: frozenset[Label]) -> Floats:
    """Return ``[K]``: 1 where an atom has one of the labels, else 0."""
    members = np.zeros(len(atoms.labels))
    members[atoms.columns(labels)] = 1.0
    return members


def _bounds(tail: BranchTail, atoms: Atoms, reply: Reply | None) -> tuple[float, float]:
    """Return the least and the most that log B can be at the end of a spelling that left its text."""
    unlisted = None if reply is None else reply.scores.unlisted
    if reply is None or unlisted is None or tail.pending:
        return -np.inf, 0.0  # what the character becomes is not read on
    if tail.last_ids:
        listed, most = unlisted.gathered_listed[reply.lists][0], unlisted.gathered_most[reply.lists][0]
        with np.errstate(divide="ignore"):
            return float(np.log(listed)), float(np.log(listed + most))
    members, perhaps = _members(atoms, tail.boundary) > 0, atoms.open_shares(tail.boundary).error > 0
    return unlisted.log_bounds(len(unlisted.mass) - 1, members, perhaps)
