"""Contexts that many requests share: each is run once, and the requests go on from its key/value states.

A request splits its ids into a context ``ids[:n_context]`` and a *rest*, whose states are wanted from ``first`` on.
Contexts of which one is a prefix of another need one run, of the longest. Then rests are run in rows. A row belongs to
one context and holds several rests one after another::

    keys     c0 c1 c2 c3 | a0 a1 | b0        context, then rest a (of a request whose context is c0 c1 c2 c3)
    query a1  x  x  x  x    x  x               and rest b (of one whose context is c0 c1 only)
    query b0  x  x                   x       x: attends to

A batch has rows of several contexts, so the mask is ``[B, 1, Q, L + Q]``: B rows, L the length of the longest context,
Q the length of the longest row.

Sequences that are run in full, contexts among them, are run as trees where they begin alike
(:mod:`wordprob.models.prefix_trees`): each shared token once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges
from wordprob.models.batching import PrefixGroup, group_by_prefix, pack, padded_batches
from wordprob.models.huggingface.context_states import ContextStates, KeptContexts
from wordprob.models.huggingface.forward import Forward, TokenBudget, run_within_memory
from wordprob.models.huggingface.varlen_attention import attention_window
from wordprob.models.prefix_trees import PrefixTree, grow_trees, lone_tree
from wordprob.models.protocol import PrefixStates, Request

if TYPE_CHECKING:
    import torch

MAX_ROUND_BYTES = 1 << 30
"""Key/value states of the contexts that are worked on at a time, about."""
BATCHES_IN_ROUND = 4
"""Batches of contexts that are run before their rests are, at most."""
ROW_TOKENS = 512
"""Tokens of rests in a row after one context, at most, unless one rest is longer."""

PADDING = -1
"""Stands for the number of a rest where a row has none."""


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

    in_full: list[int]
    kept: list[int]
    shared: list[tuple[Ints, list[int]]]


class SequenceStates(NamedTuple):
    """What a sequence that was run in full comes to.

    Attributes
    ----------
    number
        Which sequence.
    hidden
        Its hidden states, ``[length, H]``.
    states
        Its key/value states.
    """

    number: int
    hidden: torch.Tensor
    states: ContextStates


class RestRow(NamedTuple):
    """Rests that are run in one row after one context: the states of the context, and the requests by index."""

    context: ContextStates
    members: list[int]
    tokens: int


class PrefixCache:
    """Runs requests from the key/value states of their contexts.

    Parameters
    ----------
    forward
        What runs the network.

    Attributes
    ----------
    usable
        Whether the network has key/value states that give correct results: see
        :func:`wordprob.models.huggingface.self_checks.cached_contexts_are_correct`.
    shares_beginnings
        Whether sequences that begin alike may be run as trees: see
        :func:`wordprob.models.huggingface.self_checks.trees_are_correct`.
    contexts_run
        How many sequences have been run in full so far.
    tokens_run
        How many tokens they had, those of a shared beginning counted once.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._window = attention_window(forward.network)
        self._rest_budget = TokenBudget(forward.budget.tokens)
        self._token_bytes = 0
        self.usable = False
        self.shares_beginnings = False
        self.contexts_run = 0
        self.tokens_run = 0

    def fits(self, request: Request) -> bool:
        """Return True if a request can go on from the states of its context, or others from its own.

        A network that attends to a window would need another mask for what lies beyond it.
        """
        return self.usable and len(request.ids) < self._window

    def kept_in(self, states: PrefixStates) -> KeptContexts:
        """Return the contexts of this model that are kept in ``states``."""
        kept: KeptContexts = states.entries.setdefault(self, KeptContexts())
        return kept

    def split(self, requests: Sequence[Request], states: PrefixStates | None) -> RequestGroups:
        """Return which requests are run in full, and the others by their contexts.

        A request that has no context is run in full; so is one that alone has its context, unless that is kept for
        later calls.
        """
        usable = [index for index, request in enumerate(requests) if self.fits(request)]
        fitting = [index for index in usable if requests[index].n_context > 0]
        kept = [index for index in usable if requests[index].n_context == 0] if states is not None else []
        groups = group_by_prefix([requests[index].ids[: requests[index].n_context] for index in fitting])
        in_full = set(range(len(requests))) - set(fitting) - set(kept)
        shared = []
        for group in groups:
            members = [fitting[place] for place in group.members]
            if len(members) == 1 and states is None:
                in_full.add(members[0])
            else:
                shared.append((_context_of(requests, fitting, group), members))
        return RequestGroups(sorted(in_full), kept, shared)

    def run_and_keep(
        self, requests: Sequence[Request], indices: Sequence[int], states: PrefixStates
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for; keep all for later calls."""
        import torch

        kept = self.kept_in(states)
        for batch in self.run_sequences([requests[index].ids for index in indices]):
            wanted = []
            members = []
            for sequence in batch:
                request = requests[indices[sequence.number]]
                kept.add(request.ids, sequence.states)
                wanted.append(sequence.hidden[request.first :])
                members.append(indices[sequence.number])
            yield members, torch.cat(wanted)

    def run_shared(
        self,
        requests: Sequence[Request],
        shared: Sequence[tuple[Ints, list[int]]],
        states: PrefixStates | None,
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for, one request after another.

        ``shared`` pairs a context with the requests that it serves.
        """
        kept = None if states is None else self.kept_in(states)
        lengths = [len(context) for context, _ in shared]
        for places in pack(lengths, self._round_tokens()):
            contexts = self._context_states([shared[place][0] for place in places], kept)
            rows = []
            for place, context in zip(places, contexts, strict=True):
                rows += _rest_rows(context, shared[place][1], requests)
            yield from self._run_rows(rows, requests)

    def _round_tokens(self) -> int:
        most = BATCHES_IN_ROUND * self._forward.budget.tokens
        return min(most, max(1, MAX_ROUND_BYTES // max(1, self._token_bytes)))

    # --- contexts ---

    def _context_states(self, contexts: Sequence[Ints], kept: KeptContexts | None) -> list[ContextStates]:
        """Return the states of contexts; those that are not kept already are run, and kept."""
        found = [None if kept is None else kept.find(context) for context in contexts]
        missing = [place for place, states in enumerate(found) if states is None]
        new = dict(zip(missing, self.run_contexts([contexts[place] for place in missing]), strict=True))
        if kept is not None:
            for place, states in new.items():
                kept.add(contexts[place], states)
        return [new[place] if states is None else states for place, states in enumerate(found)]

    def run_contexts(self, contexts: Sequence[Ints]) -> list[ContextStates]:
        """Run contexts and return their states."""
        states: dict[int, ContextStates] = {}
        for batch in self.run_sequences(contexts):
            states.update((sequence.number, sequence.states) for sequence in batch)
        return [states[index] for index in range(len(contexts))]

    # --- whole sequences ---

    def run_sequences(self, sequences: Sequence[Ints]) -> Iterator[list[SequenceStates]]:
        """Run sequences in full, and yield their states, some at a time; what they begin with alike is run once."""
        if self.shares_beginnings:
            trees = grow_trees(sequences)
        else:
            trees = [lone_tree(index, sequence) for index, sequence in enumerate(sequences)]

        def plan(indices: Sequence[int], _: Sequence[int]) -> list[list[int]]:
            alone = [index for index in indices if not trees[index].branches]
            together = [index for index in indices if trees[index].branches]
            batches = []
            for places in (alone, together):
                for batch in padded_batches([len(trees[index].ids) for index in places], self._forward.budget.tokens):
                    batches.append([places[place] for place in batch])
            return batches

        def run(batch: list[int]) -> list[SequenceStates]:
            return self._run_tree_batch([trees[index] for index in batch])

        lengths = [len(tree.ids) for tree in trees]
        yield from run_within_memory(list(range(len(trees))), lengths, self._forward.budget, plan, run)

    def _run_tree_batch(self, trees: Sequence[PrefixTree]) -> list[SequenceStates]:
        """Run a padded batch of trees; return the states of all their sequences."""
        from transformers import DynamicCache

        ids, mask = self._forward.pad([tree.ids for tree in trees])
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if any(tree.branches for tree in trees):
            positions, _ = self._forward.pad([tree.positions for tree in trees])
            inputs |= {"position_ids": positions, "attention_mask": self._tree_mask(trees)}
        # A cache that keeps everything. One made for the network's configuration would drop what is out of a window.
        cache = DynamicCache()
        hidden: torch.Tensor = self._forward.run_trunk(**inputs, past_key_values=cache, use_cache=True)[0]
        self.contexts_run += sum(len(tree.members) for tree in trees)
        self.tokens_run += sum(len(tree.ids) for tree in trees)
        found = []
        for row, tree in enumerate(trees):
            for member, path in zip(tree.members, tree.paths, strict=True):
                # A lone sequence is a slice of its row, what comes after it being padding; others are copied.
                chosen: Any = self._forward.to_device(path) if tree.branches else slice(len(path))
                layers = [(layer.keys[row][:, chosen], layer.values[row][:, chosen]) for layer in cache.layers]
                states = ContextStates(len(path), layers, is_view=not tree.branches)
                found.append(SequenceStates(member, hidden[row][chosen], states))
        self._token_bytes = found[0].states.size_bytes // found[0].states.length
        return found

    def _tree_mask(self, trees: Sequence[PrefixTree]) -> torch.Tensor:
        """Return ``[B, 1, T, T]``: what is added to the attention of the tokens of each row to each other.

        Padding attends to itself, so that no softmax is over nothing.
        """
        longest = max(len(tree.ids) for tree in trees)
        visible = np.zeros((len(trees), 1, longest, longest), dtype=bool)
        visible[:, 0, np.arange(longest), np.arange(longest)] = True
        for row, tree in enumerate(trees):
            length = len(tree.ids)
            visible[row, 0, :length, :length] = tree.visible()
        return self._added_to_attention(self._forward.to_device(visible))

    def _added_to_attention(self, visible: torch.Tensor) -> torch.Tensor:
        """Return 0 where a token attends to another, and elsewhere the least number there is."""
        import torch

        dtype = self._forward.network.dtype
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(dtype).min)

    # --- rests ---

    def _run_rows(
        self, rows: Sequence[RestRow], requests: Sequence[Request]
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        def plan(indices: Sequence[int], _: Sequence[int]) -> list[list[int]]:
            return self._plan_rows([rows[index] for index in indices], indices)

        def run(batch: list[int]) -> tuple[list[int], torch.Tensor]:
            chosen = [rows[index] for index in batch]
            members = [member for row in chosen for member in row.members]
            return members, self._run_row_batch(chosen, requests)

        lengths = [row.tokens for row in rows]
        yield from run_within_memory(list(range(len(rows))), lengths, self._rest_budget, plan, run)

    def _plan_rows(self, rows: Sequence[RestRow], indices: Sequence[int]) -> list[list[int]]:
        """Group rows into batches that are within the budget for rests, and whose contexts are within that of a round.

        Contexts of similar lengths go together: a batch has copies of its contexts' states, padded to the longest.
        """
        by_context = sorted(range(len(rows)), key=lambda place: -rows[place].context.length)
        max_context_tokens = self._round_tokens()
        batches: list[list[int]] = []
        row_tokens = 0
        context_tokens = 0
        for place in by_context:
            count = len(batches[-1]) + 1 if batches else 1
            longest = max(row_tokens, rows[place].tokens)
            fits = count * longest <= self._rest_budget.tokens and count * context_tokens <= max_context_tokens
            if batches and fits:
                batches[-1].append(indices[place])
                row_tokens = longest
            else:
                batches.append([indices[place]])
                row_tokens = rows[place].tokens
                context_tokens = rows[place].context.length
        return batches

    def _run_row_batch(self, rows: Sequence[RestRow], requests: Sequence[Request]) -> torch.Tensor:
        """Run a batch of rows; return the states of all rests, one after another."""
        longest_context = max(row.context.length for row in rows)
        longest_row = max(row.tokens for row in rows)
        ids = np.zeros((len(rows), longest_row), dtype=np.int64)
        positions = np.zeros_like(ids)
        context_lengths = np.zeros_like(ids)  # how much of its row's context each token attends to
        rest_numbers = np.full_like(ids, PADDING)  # which of its row's rests each token belongs to
        wanted = np.zeros(ids.shape, dtype=bool)
        for number, row in enumerate(rows):
            members = [requests[member] for member in row.members]
            contexts = np.array([request.n_context for request in members])
            lengths = np.array([len(request.ids) for request in members]) - contexts
            own = slice(row.tokens)
            ids[number, own] = np.concatenate([request.ids[request.n_context :] for request in members])
            positions[number, own] = concat_ranges(contexts, lengths)
            context_lengths[number, own] = np.repeat(contexts, lengths)
            rest_numbers[number, own] = np.repeat(np.arange(len(members)), lengths)
            firsts = np.array([request.first for request in members])
            wanted[number, own] = positions[number, own] >= np.repeat(firsts, lengths)
        visible = _visible(
            longest_context, self._forward.to_device(context_lengths), self._forward.to_device(rest_numbers)
        )
        states: torch.Tensor = self._forward.run_trunk(
            input_ids=self._forward.to_device(ids),
            position_ids=self._forward.to_device(positions),
            attention_mask=self._added_to_attention(visible),
            past_key_values=_stacked([row.context for row in rows], longest_context),
            use_cache=True,
        )[0]
        return states.flatten(0, 1)[self._forward.to_device(np.flatnonzero(wanted))]


def _visible(longest_context: int, context_lengths: torch.Tensor, rest_numbers: torch.Tensor) -> torch.Tensor:
    """Return ``[B, 1, Q, L + Q]``: True where a token of a row attends to the context, or to the row itself.

    ``context_lengths`` and ``rest_numbers`` are ``[B, Q]``. Padding is treated as a rest without a context: it attends
    to itself, so that no softmax is over nothing.
    """
    import torch

    places = torch.arange(rest_numbers.shape[1], device=rest_numbers.device)
    context = torch.arange(longest_context, device=rest_numbers.device) < context_lengths[:, :, None]
    same_rest = rest_numbers[:, :, None] == rest_numbers[:, None, :]
    not_later = places[:, None] >= places[None, :]
    return torch.cat([context, same_rest & not_later], dim=2)[:, None]


def _context_of(requests: Sequence[Request], fitting: Sequence[int], group: PrefixGroup) -> Ints:
    request = requests[fitting[group.longest]]
    return request.ids[: request.n_context]


def _rest_rows(context: ContextStates, members: Sequence[int], requests: Sequence[Request]) -> list[RestRow]:
    """Return the rests of requests in rows of at most :data:`ROW_TOKENS` tokens."""
    lengths = [len(requests[member].ids) - requests[member].n_context for member in members]
    rows = []
    for places in pack(lengths, ROW_TOKENS):
        tokens = sum(lengths[place] for place in places)
        rows.append(RestRow(context, [members[place] for place in places], tokens))
    return rows


def _stacked(contexts: Sequence[ContextStates], longest: int) -> object:
    """Return a cache that holds the states of contexts as a batch, padded with zeros to the longest."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache()
    for number in range(len(contexts[0].layers)):
        keys, values = (
            torch.stack([_padded(context.layers[number][which], longest) for context in contexts]) for which in (0, 1)
        )
        cache.update(keys, values, number)
    return cache


def _padded(states: torch.Tensor, length: int) -> torch.Tensor:
    """Return states ``[heads, n, size]`` as ``[heads, length, size]``: cut, or with zeros at the end."""
    import torch

    missing = length - states.shape[1]
    return torch.nn.functional.pad(states, (0, 0, 0, missing))
