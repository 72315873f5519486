"""Requests that continue from kept key/value states, all in one row without padding or a mask: how a GPU runs them.

What is run is a list of *pieces*. A piece is some tokens of a request: all of them, its context ``ids[:n_context]``, or
the rest after that. Whole requests and contexts come first, and their states are written to slots that follow one
another. Then come rests, each of which attends to its context there (:mod:`.varlen_attention`)::

    row     a0 a1 a2 a3 | c0 c1 c2 | x0 x1 | y0      a request to keep, a context, the rests of two requests after it

A layer writes the states of its contexts before it attends, so a context and its rests can be run in one pass.
:mod:`.prefix_cache` does the same with masks, for networks whose attention cannot be replaced, and for CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Ints, concat_ints, concat_ranges, cumulative_offsets, slices_of
from wordprob.models.batching import group_by_prefix, pack
from wordprob.models.huggingface.forward import Forward, run_within_memory
from wordprob.models.huggingface.kept_sequences import MAX_KEPT_BYTES, KeptSequences
from wordprob.models.huggingface.request_groups import SharedContext, different_contexts
from wordprob.models.huggingface.varlen_attention import KeptPrefixes, VarlenAttention
from wordprob.models.protocol import PrefixStates, Request
from wordprob.models.request_arrays import RequestArrays

if TYPE_CHECKING:
    import torch

KEPT_SHARE_OF_MEMORY = 1 / 16
"""The share of a GPU's free memory that the states of a chunk may take; some four chunks are worked on at a time."""
NOWHERE = -1
"""Stands for the slot of a context that is not kept."""
NO_CONTEXTS: Ints = np.zeros(0, dtype=np.int64)


class Pieces(NamedTuple):
    """Tokens of requests that are run: first those that are kept, then rests, those after one context together.

    Attributes
    ----------
    members
        ``[P]``: the requests, by index.
    begins, ends
        ``[P]``: which of its tokens each has.
    contexts
        ``[P]``: which context each is or continues; some other number for whole requests.
    is_kept
        ``[P]``: whether its states are written to slots.
    is_wanted
        ``[P]``: whether its hidden states are wanted; those of contexts are not.
    """

    members: Ints
    begins: Ints
    ends: Ints
    contexts: Ints
    is_kept: Bools
    is_wanted: Bools

    def choose(self, places: Ints) -> Pieces:
        """Return some of the pieces."""
        return Pieces(
            self.members[places],
            self.begins[places],
            self.ends[places],
            self.contexts[places],
            self.is_kept[places],
            self.is_wanted[places],
        )

    def and_then(self, others: Pieces) -> Pieces:
        """Return these pieces and then others."""
        return Pieces(
            np.concatenate([self.members, others.members]),
            np.concatenate([self.begins, others.begins]),
            np.concatenate([self.ends, others.ends]),
            np.concatenate([self.contexts, others.contexts]),
            np.concatenate([self.is_kept, others.is_kept]),
            np.concatenate([self.is_wanted, others.is_wanted]),
        )

    @property
    def lengths(self) -> Ints:
        """``[P]``: how many tokens each has."""
        lengths: Ints = self.ends - self.begins
        return lengths


class PackedCache:
    """Runs requests from the key/value states of what they begin with, without padding.

    Parameters
    ----------
    forward
        What runs the network.
    varlen
        What runs sequences one after another.

    Attributes
    ----------
    usable
        Whether that gives correct results: see
        :func:`wordprob.models.huggingface.self_checks.cached_contexts_are_correct`.
    contexts_run, tokens_run
        How many sequences whose states were kept have been run so far, and how many tokens they had.
    rest_tokens_run
        How many tokens of rests have been run so far.
    token_bytes
        The memory that the states of one token take; 0 before anything was run.
    max_kept_bytes
        The memory that the states in one :class:`PrefixStates` may take.
    """

    def __init__(self, forward: Forward, varlen: VarlenAttention) -> None:
        self._forward = forward
        self._varlen = varlen
        self.max_kept_bytes = _max_kept_bytes(forward)
        self.token_bytes = 0
        self.usable = False
        self.contexts_run = 0
        self.tokens_run = 0
        self.rest_tokens_run = 0

    @property
    def max_kept_tokens(self) -> int:
        """How many tokens can have their states kept in one :class:`PrefixStates`."""
        return self.max_kept_bytes // max(1, self.token_bytes)

    def fits(self, request: Request) -> bool:
        """Return True if a request can continue from the states of its context, or others from its own."""
        return bool(self._fit(np.array([len(request.ids)]))[0])

    def _fit(self, lengths: Ints) -> Bools:
        fit: Bools = self.usable & (lengths <= self._varlen.max_text_tokens)
        return fit

    def kept_in(self, states: PrefixStates) -> KeptSequences:
        """Return the sequences of this model that are kept in ``states``."""
        if self not in states.entries:
            states.entries[self] = KeptSequences(self.max_kept_bytes)
        kept: KeptSequences = states.entries[self]
        return kept

    def plan(
        self, requests: RequestArrays, states: PrefixStates | None
    ) -> tuple[Ints, Iterator[tuple[Ints, torch.Tensor]]]:
        """Return which requests are run in full, without this, and what runs the others.

        That yields requests by index, with the states of the rows that they ask for, one request after another.
        """
        kept = KeptSequences(self.max_kept_bytes) if states is None else self.kept_in(states)
        has_context = requests.context_tokens > 0
        is_run_here = self._fit(requests.lengths) & (has_context | (states is not None))
        contexts = different_contexts(requests, np.flatnonzero(is_run_here & has_context))
        found, missing = _find(contexts, kept)
        if states is None:
            for context in missing:
                is_run_here[context.members] &= len(context.members) > 1
            missing = [context for context in missing if len(context.members) > 1]
        whole = np.flatnonzero(is_run_here & ~has_context)
        return np.flatnonzero(~is_run_here), self._run(requests, kept, found, missing, whole, states is not None)

    def _run(
        self,
        requests: RequestArrays,
        kept: KeptSequences,
        found: Sequence[tuple[int, SharedContext]],
        missing: Sequence[SharedContext],
        whole: Ints,
        keep: bool,
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Run the rests of contexts that were found in slots, then of missing ones, and whole requests."""
        with kept.in_use():
            starts = np.array([start for start, _ in found], dtype=np.int64)
            pieces = _rests(requests, [context for _, context in found])
            yield from self._run_pieces(pieces, starts, requests, kept, keep)
        room = self.max_kept_tokens if self.token_bytes else self._forward.budget.tokens
        for places in pack([len(context.ids) for context in missing], room):
            contexts = [missing[place] for place in places]
            pieces = _contexts(requests, contexts).and_then(_rests(requests, contexts))
            with kept.in_use():
                starts = np.full(len(contexts), NOWHERE)
                yield from self._run_pieces(pieces, starts, requests, kept, keep)
        for places in pack(requests.lengths[whole].tolist(), room):
            yield from self._run_pieces(_whole(requests, whole[places]), NO_CONTEXTS, requests, kept, keep)

    def _run_pieces(
        self, pieces: Pieces, starts: Ints, requests: RequestArrays, kept: KeptSequences, keep: bool
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Run pieces; ``starts`` are the first slots of contexts, and are filled in for those that are run."""
        lengths = pieces.lengths.tolist()
        n_kept = int(pieces.lengths[pieces.is_kept].sum())
        if self.token_bytes and n_kept:
            # Powers of two, so that memory that one chunk has freed fits what the next one needs.
            kept.reserve(1 << (n_kept - 1).bit_length(), self.token_bytes)
        taken: list[Ints] = []

        def plan(indices: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
            return [[indices[place] for place in batch] for batch in pack(lengths, self._forward.budget.tokens)]

        def run(batch: list[int]) -> tuple[Ints, torch.Tensor]:
            chosen = pieces.choose(np.array(batch))
            slots = self._take_slots(chosen, starts, kept)
            try:
                found = self._run_row(chosen, starts, slots, requests, kept)
            except BaseException:  # there may be too little memory; then a smaller batch is tried
                kept.states.release(slots)
                raise
            taken.append(slots)
            if keep:
                _keep(chosen, slots, requests, kept)
            self._count(chosen)
            return found

        try:
            for members, hidden in run_within_memory(
                list(range(len(lengths))), lengths, self._forward.budget, plan, run
            ):
                if len(members):
                    yield members, hidden
        finally:
            kept.states.release(concat_ints(taken))

    def _take_slots(self, pieces: Pieces, starts: Ints, kept: KeptSequences) -> Ints:
        """Return slots for the tokens of the pieces that are kept; note where those of contexts begin."""
        lengths = pieces.lengths[pieces.is_kept]
        if not len(lengths):
            return concat_ints(())
        slots = kept.states.take_consecutive(int(lengths.sum()))
        is_context = ~pieces.is_wanted[pieces.is_kept]
        firsts = slots[cumulative_offsets(lengths)[:-1]]
        starts[pieces.contexts[pieces.is_kept][is_context]] = firsts[is_context]
        return slots

    def _run_row(
        self, pieces: Pieces, starts: Ints, slots: Ints, requests: RequestArrays, kept: KeptSequences
    ) -> tuple[Ints, torch.Tensor]:
        """Run pieces in one row; return the requests whose states are wanted, and these."""
        from wordprob.models.huggingface.slot_cache import writing_cache

        to_device, lengths = self._forward.to_device, pieces.lengths
        kept_lengths = lengths[pieces.is_kept]
        positions = concat_ranges(pieces.begins, lengths)
        ids = requests.sequences.ids_at(np.repeat(pieces.members, lengths), positions)
        first_slot = int(slots[0]) if len(slots) else 0
        hidden = self._varlen.run(
            self._forward.run_trunk,
            to_device(ids),
            to_device(positions),
            to_device(cumulative_offsets(kept_lengths).astype(np.int32)),
            int(kept_lengths.max(initial=0)),
            writing_cache(kept.states, slice(first_slot, first_slot + len(slots))) if len(slots) else None,
            self._prefixes(pieces, starts, len(slots), kept),
        )
        self.token_bytes = kept.states.token_bytes
        firsts = np.where(pieces.is_wanted, requests.firsts[pieces.members], pieces.ends)
        is_wanted = positions >= np.repeat(firsts, lengths)
        wanted = hidden if is_wanted.all() else hidden[to_device(np.flatnonzero(is_wanted))]
        return pieces.members[pieces.is_wanted], wanted

    @staticmethod
    def _prefixes(pieces: Pieces, starts: Ints, first: int, kept: KeptSequences) -> KeptPrefixes | None:
        """Return what the rests among the pieces continue, which begin with this token of the row."""
        rests = pieces.choose(np.flatnonzero(~pieces.is_kept))
        if not len(rests.members):
            return None
        return KeptPrefixes(
            kept.states, first, cumulative_offsets(rests.lengths), starts[rests.contexts], lengths=rests.begins
        )

    def _count(self, pieces: Pieces) -> None:
        """Count what has been run."""
        self.contexts_run += int(pieces.is_kept.sum())
        self.tokens_run += int(pieces.lengths[pieces.is_kept].sum())
        self.rest_tokens_run += int(pieces.lengths[~pieces.is_kept].sum())


def _max_kept_bytes(forward: Forward) -> int:
    """Return how much memory kept states may take."""
    import torch

    if forward.device.type != "cuda":
        return MAX_KEPT_BYTES
    free_bytes, _ = torch.cuda.mem_get_info(forward.device)
    return int(KEPT_SHARE_OF_MEMORY * free_bytes)


def _find(
    contexts: Sequence[SharedContext], kept: KeptSequences
) -> tuple[list[tuple[int, SharedContext]], list[SharedContext]]:
    """Return the contexts that are kept, with the slot that each begins with, and the others.

    Of the others, those that are prefixes of another are put together with that one.
    """
    found, others = [], []
    for context in contexts:
        slots = kept.find(context.ids)
        if slots is None:
            others.append(context)
        else:
            found.append((int(slots[0]), context))
    missing = []
    for group in group_by_prefix([context.ids for context in others]):
        members = np.concatenate([others[place].members for place in group.members])
        missing.append(SharedContext(others[group.longest].ids, members))
    return found, missing


def _keep(pieces: Pieces, slots: Ints, requests: RequestArrays, kept: KeptSequences) -> None:
    """Keep the pieces whose states are in these slots."""
    members, ends = pieces.members[pieces.is_kept], pieces.ends[pieces.is_kept]
    for member, end, own in zip(members.tolist(), ends.tolist(), slices_of(cumulative_offsets(ends)), strict=True):
        kept.add(requests.sequences.ids_of(member)[:end], slots[own])


def _whole(requests: RequestArrays, members: Ints) -> Pieces:
    """Return all tokens of requests, to be kept."""
    everywhere = np.ones(len(members), dtype=bool)
    none = np.zeros_like(members)
    return Pieces(members, none, requests.lengths[members], none, everywhere, everywhere)


def _contexts(requests: RequestArrays, contexts: Sequence[SharedContext]) -> Pieces:
    """Return the tokens of contexts, each as tokens of a request that begins with it."""
    members = np.array(
        [context.members[requests.context_tokens[context.members].argmax()] for context in contexts], dtype=np.int64
    )
    is_kept = np.ones(len(members), dtype=bool)
    ends = requests.context_tokens[members]
    return Pieces(members, np.zeros_like(members), ends, np.arange(len(members)), is_kept, ~is_kept)


def _rests(requests: RequestArrays, contexts: Sequence[SharedContext]) -> Pieces:
    """Return what comes after their contexts in requests; those that continue the same tokens come together."""
    members = concat_ints(context.members for context in contexts)
    numbers = np.repeat(np.arange(len(contexts)), [len(context.members) for context in contexts])
    begins = requests.context_tokens[members]
    order = np.lexsort((begins, numbers))
    members, numbers, begins = members[order], numbers[order], begins[order]
    is_wanted = np.ones(len(members), dtype=bool)
    return Pieces(members, begins, requests.lengths[members], numbers, ~is_wanted, is_wanted)
