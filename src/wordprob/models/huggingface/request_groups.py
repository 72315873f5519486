"""Requests grouped by how they are run: in full, or from the context that they share with others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Ints
from wordprob.models.batching import group_by_prefix, keys_of_parts
from wordprob.models.request_arrays import RequestArrays

NO_REQUESTS: Ints = np.zeros(0, dtype=np.int64)


class SharedContext(NamedTuple):
    """A context, and the requests that go on from it or from a part of it, by index.

    ``n_more`` of its tokens, the last ones, are not of the requests' contexts, but come next in all of them.
    """

    ids: Ints
    members: Ints
    n_more: int = 0


class RequestGroups(NamedTuple):
    """Requests by how they are run, as indices.

    Attributes
    ----------
    in_full
        Those that are run in full, and of which nothing is kept.
    kept
        Those that are run in full, and whose states are kept.
    shared
        Contexts, each with the requests that go on from it.
    """

    in_full: Ints
    kept: Ints
    shared: list[SharedContext]


def group_requests(requests: RequestArrays, fits: Bools, keeps_states: bool) -> RequestGroups:
    """Return which requests are run in full, and the others by their contexts.

    A request that has no context is run in full; so is one that alone has its context, unless that is kept for later
    calls.

    Parameters
    ----------
    requests
        The requests.
    fits
        For each of them, whether it can go on from the states of its context.
    keeps_states
        Whether states are kept for later calls.
    """
    has_context = requests.context_tokens > 0
    is_in_full = ~fits | (False if keeps_states else ~has_context)
    contexts = different_contexts(requests, np.flatnonzero(fits & has_context))
    shared = []
    for group in group_by_prefix([context.ids for context in contexts]):
        members = np.concatenate([contexts[place].members for place in group.members])
        if len(members) == 1 and not keeps_states:
            is_in_full[members] = True
        else:
            shared.append(SharedContext(contexts[group.longest].ids, members))
    kept = np.flatnonzero(fits & ~has_context) if keeps_states else NO_REQUESTS
    return RequestGroups(np.flatnonzero(is_in_full), kept, shared)


def different_contexts(requests: RequestArrays, numbers: Ints) -> list[SharedContext]:
    """Return the contexts of some requests: one for all that are within the same head, and those that go beyond one."""
    sequences, n_context = requests.sequences, requests.context_tokens
    n_beyond = n_context[numbers] - sequences.head_lengths[numbers]
    contexts = []
    in_heads = numbers[n_beyond <= 0]
    by_head = in_heads[np.argsort(sequences.head_numbers[in_heads], kind="stable")]
    heads, firsts = np.unique(sequences.head_numbers[by_head], return_index=True)
    if len(heads):
        longest = np.maximum.reduceat(n_context[by_head], firsts)
        for head, length, members in zip(heads.tolist(), longest.tolist(), np.split(by_head, firsts[1:]), strict=True):
            contexts.append(SharedContext(sequences.heads[head][:length], members))

    members_of: dict[tuple[int, int, bytes], list[int]] = {}
    beyond = n_beyond > 0
    others = numbers[beyond]
    starts = sequences.own_offsets[others]
    for number, head, length, key in zip(
        others.tolist(),
        sequences.head_numbers[others].tolist(),
        sequences.head_lengths[others].tolist(),
        keys_of_parts(sequences.own_ids, starts, starts + n_beyond[beyond]),
        strict=True,
    ):
        members_of.setdefault((head, length, key), []).append(number)
    for same in members_of.values():
        contexts.append(SharedContext(sequences.ids_of(same[0])[: n_context[same[0]]], np.array(same)))
    return contexts


def with_common_tokens(context: SharedContext, requests: RequestArrays) -> SharedContext:
    """Return a context with the tokens that come next in all its requests, so that these are run once."""
    members, length = context.members, len(context.ids)
    if len(members) < 2 or (requests.context_tokens[members] != length).any():
        return context
    shortest = int(requests.lengths[members].min())
    more: list[int] = []
    while length + len(more) < shortest - 1:  # something is left to run of each
        following = requests.sequences.ids_at(members, np.full(len(members), length + len(more)))
        if (following != following[0]).any():
            break
        more.append(int(following[0]))
    return SharedContext(np.append(context.ids, more).astype(np.int64), members, len(more))
