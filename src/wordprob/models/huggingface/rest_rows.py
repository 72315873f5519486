"""Rests of requests in rows: each row goes on from one context and holds several rests one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges, cumulative_offsets
from wordprob.models.batching import pack
from wordprob.models.huggingface.token_states import PADDING_SLOT
from wordprob.models.request_arrays import RequestArrays

if TYPE_CHECKING:
    import torch

MAX_ROW_TOKENS = 512
"""Tokens of rests in a row after one context, at most, unless one rest is longer."""
KEPT_TOKEN_COST = 1 / 25
"""What a token costs whose states are put before a row, compared with one that is run: measured on a CPU."""

PADDING = -1
"""Stands for the number of a rest where a row has none."""
NO_REST = -2
"""Stands for the number of a rest where tokens before a row belong to its context, or are padding."""


class Rests(NamedTuple):
    """What is run of the requests of several contexts, those of one context after those of another.

    Attributes
    ----------
    members
        The requests, by index.
    context_offsets
        Where the rests of each context begin, and where the last ones end.
    n_context
        How many tokens each request has in common with its context.
    n_before
        How many of these it wants states of: those of the context.
    n_own
        How many of its first tokens after the context are kept.
    n_run
        How many tokens are run.
    own_slots
        The states of the tokens that are kept, by the number of the rest, where there are any.
    """

    members: Ints
    context_offsets: Ints
    n_context: Ints
    n_before: Ints
    n_own: Ints
    n_run: Ints
    own_slots: Mapping[int, Ints]


class RestRow(NamedTuple):
    """Rests that are run in one row after one context.

    Attributes
    ----------
    context_slots
        The states of the context.
    first, stop
        The rests: from which number up to which.
    n_kept, n_run
        How many tokens are kept for the row, and how many are run.
    context
        The number of the context.
    """

    context_slots: Ints
    first: int
    stop: int
    n_kept: int
    n_run: int
    context: int


def rows_after_contexts(rests: Rests, slots_of_contexts: Sequence[Ints], max_tokens: int) -> list[RestRow]:
    """Return rests in rows of at most so many tokens that are run; the states of their contexts are kept."""
    rows = []
    n_own, n_run = rests.n_own.tolist(), rests.n_run.tolist()
    bounds = rests.context_offsets.tolist()
    for context, (slots, (low, high)) in enumerate(zip(slots_of_contexts, pairwise(bounds), strict=True)):
        for places in pack(n_run[low:high], max_tokens):
            first, stop = low + places[0], low + places[-1] + 1
            n_kept = len(slots) + sum(n_own[first:stop])
            rows.append(RestRow(slots, first, stop, n_kept, sum(n_run[first:stop]), context))
    return rows


def best_row_tokens(rests: Rests, context_lengths: Sequence[int]) -> int:
    """Return how long rows are to be: long ones are padded, and before each short one its context stands again."""
    longest = int(rests.n_run.max())
    tokens = np.add.reduceat(rests.n_run, rests.context_offsets[:-1])
    choices = [longest]
    while 2 * choices[-1] <= MAX_ROW_TOKENS and choices[-1] < tokens.max():
        choices.append(2 * choices[-1])

    def cost(row_tokens: int) -> float:
        n_rows = np.ceil(tokens / row_tokens)
        padded_to = min(row_tokens, int(tokens.max()))
        return float((n_rows * (padded_to + KEPT_TOKEN_COST * np.array(context_lengths))).sum())

    return min(choices, key=cost)


class RestBatch:
    """Rows of rests as arrays: B rows, Q tokens that are run in each, L tokens that are kept for each.

    Attributes
    ----------
    members
        The requests, by index.
    slots, owners
        ``[B, L]``: where the states of kept tokens are, and the number of the rest in its row that each belongs to.
    ids, positions
        ``[B, Q]``: the tokens that are run, and their places in their sequences.
    context_lengths
        ``[B, Q]``: how much of its row's context each token attends to.
    rest_numbers
        ``[B, Q]``: which of its row's rests each token belongs to.
    extended
        ``[B, Q]``: whether the key/value states of a token are to be kept.
    wanted
        Which hidden states are wanted, request by request: numbers up to B · Q are those of the rows, larger ones those
        of the contexts, as far as any of them are wanted, one context after the other.
    """

    def __init__(self, rows: Sequence[RestRow], rests: Rests, requests: RequestArrays, context_offsets: Ints) -> None:
        shape = len(rows), max(row.n_run for row in rows)
        self.slots = np.full((len(rows), max(row.n_kept for row in rows)), PADDING_SLOT)
        self.owners = np.full(self.slots.shape, NO_REST)
        self.ids = np.zeros(shape, dtype=np.int64)
        self.positions = np.zeros(shape, dtype=np.int64)
        self.context_lengths = np.zeros(shape, dtype=np.int64)
        self.rest_numbers = np.full(shape, PADDING)
        self.extended = np.zeros(shape, dtype=bool)
        for number, row in enumerate(rows):
            kept = [
                row.context_slots,
                *(rests.own_slots[n] for n in range(row.first, row.stop) if n in rests.own_slots),
            ]
            self.slots[number, : row.n_kept] = np.concatenate(kept)
        self._fill(rows, rests, requests)
        self.wanted = self._wanted(rows, rests, requests, context_offsets)

    def _fill(self, rows: Sequence[RestRow], rests: Rests, requests: RequestArrays) -> None:
        """Fill in what is known of the rests, those of one row after those of another, all at once."""
        rests_of_rows = np.array([row.stop - row.first for row in rows])
        chosen = concat_ranges(np.array([row.first for row in rows]), rests_of_rows)
        row_of_rest = np.repeat(np.arange(len(rows)), rests_of_rows)
        number_of_rest = concat_ranges(np.zeros_like(rests_of_rows), rests_of_rows)
        members, n_own, n_run = rests.members[chosen], rests.n_own[chosen], rests.n_run[chosen]
        begins = rests.n_context[chosen] + n_own

        n_run_of_rows = np.array([row.n_run for row in rows])
        columns = concat_ranges(np.zeros_like(n_run_of_rows), n_run_of_rows)
        run = np.repeat(row_of_rest, n_run), columns
        positions = concat_ranges(begins, n_run)
        self.members = members
        self.ids[run] = requests.sequences.ids_at(np.repeat(members, n_run), positions)
        self.positions[run] = positions
        self.context_lengths[run] = np.repeat(rests.n_context[chosen], n_run)
        self.rest_numbers[run] = np.repeat(number_of_rest, n_run)
        self.extended[run] = np.repeat(requests.is_extended_later[members], n_run)
        if n_own.any():
            context_ends = np.array([len(row.context_slots) for row in rows])
            n_own_of_rows = np.array([row.n_kept for row in rows]) - context_ends
            own = np.repeat(row_of_rest, n_own), concat_ranges(context_ends, n_own_of_rows)
            self.owners[own] = np.repeat(number_of_rest, n_own)

    def _wanted(self, rows: Sequence[RestRow], rests: Rests, requests: RequestArrays, context_offsets: Ints) -> Ints:
        """Return which hidden states are wanted; ``context_offsets`` are where those of contexts begin."""
        rests_of_rows = np.array([row.stop - row.first for row in rows])
        chosen = concat_ranges(np.array([row.first for row in rows]), rests_of_rows)
        n_before, n_run, firsts = rests.n_before[chosen], rests.n_run[chosen], requests.firsts[self.members]
        is_wanted = self.rest_numbers >= 0
        is_wanted[is_wanted] = self.positions[is_wanted] >= np.repeat(firsts, n_run)
        own = np.flatnonzero(is_wanted)
        n_wanted = requests.row_counts[self.members]
        if not n_before.any():
            return own
        contexts = np.repeat([row.context for row in rows], rests_of_rows)
        # Of a context, the last ones are there that all its requests have in common.
        begins = self.ids.size + context_offsets[contexts + 1] - n_before
        offsets = cumulative_offsets(n_wanted)[:-1]
        wanted = np.empty(int(n_wanted.sum()), dtype=np.int64)
        wanted[concat_ranges(offsets, n_before)] = concat_ranges(begins, n_before)
        wanted[concat_ranges(offsets + n_before, n_wanted - n_before)] = own
        return wanted


def visible(owners: torch.Tensor, context_lengths: torch.Tensor, rest_numbers: torch.Tensor) -> torch.Tensor:
    """Return ``[B, 1, Q, L + Q]``: True where a token of a row attends to a kept token, or to one of the row.

    The arguments are those of :class:`RestBatch`. Padding is treated as a rest without a context: it attends to itself,
    so that no softmax is over nothing.
    """
    import torch

    places = torch.arange(rest_numbers.shape[1], device=rest_numbers.device)
    context = torch.arange(owners.shape[1], device=owners.device) < context_lengths[:, :, None]
    own = owners[:, None, :] == rest_numbers[:, :, None]
    same_rest = rest_numbers[:, :, None] == rest_numbers[:, None, :]
    not_later = places[:, None] >= places[None, :]
    return torch.cat([context | own, same_rest & not_later], dim=2)[:, None]
