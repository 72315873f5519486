"""Rests of requests in rows: each row goes on from one context and holds several rests one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges
from wordprob.models.batching import pack
from wordprob.models.huggingface.token_states import PADDING_SLOT
from wordprob.models.protocol import Request

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


class Rest(NamedTuple):
    """What is run of a request.

    Attributes
    ----------
    member
        The request, by index.
    own_slots
        The states that are kept of its first tokens after the context.
    n_run
        How many tokens are run.
    """

    member: int
    own_slots: Ints
    n_run: int


class RestRow(NamedTuple):
    """Rests that are run in one row after one context.

    Attributes
    ----------
    context_slots
        The states of the context.
    rests
        The rests.
    n_kept, n_run
        How many tokens are kept for the row, and how many are run.
    """

    context_slots: Ints
    rests: list[Rest]
    n_kept: int
    n_run: int


def rows_of(context_slots: Ints, rests: Sequence[Rest], max_tokens: int) -> list[RestRow]:
    """Return the rests of a context in rows of at most so many tokens that are run."""
    rows = []
    for places in pack([rest.n_run for rest in rests], max_tokens):
        own = [rests[place] for place in places]
        n_kept = len(context_slots) + sum(len(rest.own_slots) for rest in own)
        rows.append(RestRow(context_slots, own, n_kept, sum(rest.n_run for rest in own)))
    return rows


def best_row_tokens(rests: Sequence[Sequence[Rest]], context_lengths: Sequence[int]) -> int:
    """Return how long rows are to be: long ones are padded, and before each short one its context stands again."""
    longest = max(rest.n_run for own in rests for rest in own)
    tokens = np.array([sum(rest.n_run for rest in own) for own in rests])
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
    slots, owners
        ``[B, L]``: where the states of kept tokens are, and the number of the rest in its row that each belongs to.
    ids, positions
        ``[B, Q]``: the tokens that are run, and their places in their sequences.
    context_lengths
        ``[B, Q]``: how much of its row's context each token attends to.
    rest_numbers
        ``[B, Q]``: which of its row's rests each token belongs to.
    wanted, extended
        ``[B, Q]``: whether the hidden states of a token are wanted, and whether its key/value states are to be kept.
    """

    def __init__(self, rows: Sequence[RestRow], requests: Sequence[Request]) -> None:
        shape = len(rows), max(row.n_run for row in rows)
        self.slots = np.full((len(rows), max(row.n_kept for row in rows)), PADDING_SLOT)
        self.owners = np.full(self.slots.shape, NO_REST)
        self.ids = np.zeros(shape, dtype=np.int64)
        self.positions = np.zeros(shape, dtype=np.int64)
        self.context_lengths = np.zeros(shape, dtype=np.int64)
        self.rest_numbers = np.full(shape, PADDING)
        self.wanted = np.zeros(shape, dtype=bool)
        self.extended = np.zeros(shape, dtype=bool)
        for number, row in enumerate(rows):
            kept = [row.context_slots, *(rest.own_slots for rest in row.rests if len(rest.own_slots))]
            self.slots[number, : row.n_kept] = np.concatenate(kept)
        self._fill(rows, [requests[rest.member] for row in rows for rest in row.rests])

    def _fill(self, rows: Sequence[RestRow], members: Sequence[Request]) -> None:
        """Fill in what is known of the members, those of one row after those of another, all at once."""
        rests = [rest for row in rows for rest in row.rests]
        rests_of_rows = np.array([len(row.rests) for row in rows])
        row_of_rest = np.repeat(np.arange(len(rows)), rests_of_rows)
        number_of_rest = concat_ranges(np.zeros_like(rests_of_rows), rests_of_rows)
        contexts = np.array([request.n_context for request in members])
        firsts = np.array([request.first for request in members])
        n_own = np.array([len(rest.own_slots) for rest in rests])
        n_run = np.array([rest.n_run for rest in rests])
        begins = contexts + n_own
        tokens = [request.ids[begin:] for request, begin in zip(members, begins.tolist(), strict=True)]

        run = np.repeat(row_of_rest, n_run), concat_ranges(np.zeros_like(rests_of_rows), [row.n_run for row in rows])
        positions = concat_ranges(begins, n_run)
        self.ids[run] = np.concatenate(tokens)
        self.positions[run] = positions
        self.context_lengths[run] = np.repeat(contexts, n_run)
        self.rest_numbers[run] = np.repeat(number_of_rest, n_run)
        self.wanted[run] = positions >= np.repeat(firsts, n_run)
        self.extended[run] = np.repeat([request.is_extended_later for request in members], n_run)
        if n_own.any():
            context_ends = np.array([len(row.context_slots) for row in rows])
            n_own_of_rows = np.array([row.n_kept for row in rows]) - context_ends
            own = np.repeat(row_of_rest, n_own), concat_ranges(context_ends, n_own_of_rows)
            self.owners[own] = np.repeat(number_of_rest, n_own)


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
