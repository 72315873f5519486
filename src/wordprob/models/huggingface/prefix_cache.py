"""Requests that go on from kept key/value states: of a context that many share, or of an earlier request.

A request splits its ids into a context ``ids[:n_context]`` and a *rest*, whose states are wanted from ``first`` on.
Contexts of which one is a prefix of another need one run, of the longest. Then rests are run in rows. A row belongs to
one context and holds several rests one after another::

    keys     c0 c1 c2 c3 | a0 | a1 a2 | b0     context, then rest a (of a request whose context is c0 c1 c2 c3)
    query a2  x  x  x  x    x    x  x            and rest b (of one whose context is c0 c1 only)
    query b0  x  x                     x       x: attends to

Only ``a1 a2`` and ``b0`` are run: the states of ``a0`` were kept when a request ended there that was to be extended. A
batch has rows of several contexts, so the mask is ``[B, 1, Q, L + Q]``: B rows, Q the length of the longest row, L the
largest number of tokens that are kept for a row.

Sequences that are run in full, contexts among them, are run as trees where they begin alike
(:mod:`wordprob.models.prefix_trees`): each shared token once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges
from wordprob.models.batching import group_by_prefix, pack
from wordprob.models.huggingface.forward import Forward, TokenBudget, run_within_memory
from wordprob.models.huggingface.kept_sequences import KeptSequences
from wordprob.models.huggingface.rest_rows import Rest, RestBatch, RestRow, best_row_tokens, rows_of, visible
from wordprob.models.huggingface.token_states import PADDING_SLOT
from wordprob.models.huggingface.varlen_attention import attention_window
from wordprob.models.prefix_trees import PrefixTree, grow_trees, lone_tree
from wordprob.models.protocol import PrefixStates, Request

if TYPE_CHECKING:
    import torch

MAX_ROUND_BYTES = 1 << 30
"""Key/value states of the contexts that are worked on at a time, about."""
BATCHES_IN_ROUND = 4
"""Batches of contexts that are run before their rests are, at most."""
NO_SLOTS: Ints = np.zeros(0, dtype=np.int64)


class SharedContext(NamedTuple):
    """A context, and the requests that go on from it or from a part of it, by index."""

    ids: Ints
    members: list[int]


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
    shared: list[SharedContext]


class SequenceStates(NamedTuple):
    """What a sequence that was run in full comes to.

    Attributes
    ----------
    number
        Which sequence.
    hidden
        Its hidden states, ``[length, H]``.
    slots
        Where the key/value states of its tokens are.
    """

    number: int
    hidden: torch.Tensor
    slots: Ints


class PrefixCache:
    """Runs requests from the key/value states of what they begin with.

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
    rest_tokens_run
        How many tokens of rests have been run so far.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._window = attention_window(forward.network)
        self._rest_budget = TokenBudget(forward.budget.tokens)
        self._token_bytes = 0
        # A GPU runs a few tokens more in no more time; a processor does not.
        self._keeps_rests = not forward.on_gpu
        self.usable = False
        self.shares_beginnings = False
        self.contexts_run = 0
        self.tokens_run = 0
        self.rest_tokens_run = 0

    def fits(self, request: Request) -> bool:
        """Return True if a request can go on from the states of its context, or others from its own.

        A network that attends to a window would need another mask for what lies beyond it.
        """
        return self.usable and len(request.ids) < self._window

    def kept_in(self, states: PrefixStates) -> KeptSequences:
        """Return the sequences of this model that are kept in ``states``."""
        kept: KeptSequences = states.entries.setdefault(self, KeptSequences())
        return kept

    def split(self, requests: Sequence[Request], states: PrefixStates | None) -> RequestGroups:
        """Return which requests are run in full, and the others by their contexts.

        A request that has no context is run in full; so is one that alone has its context, unless that is kept for
        later calls. All are where that takes one small batch: contexts and rests would take two.
        """
        if states is None and sum(len(request.ids) for request in requests) <= self._forward.small_batch_tokens:
            return RequestGroups(list(range(len(requests))), [], [])
        in_full: list[int] = []
        kept: list[int] = []
        going_on: list[int] = []
        contexts: list[Ints] = []
        for index, request in enumerate(requests):
            n_context = request.n_context
            if not self.fits(request) or (not n_context and states is None):
                in_full.append(index)
            elif not n_context:
                kept.append(index)
            else:
                going_on.append(index)
                contexts.append(request.ids[:n_context])
        shared = []
        for group in group_by_prefix(contexts):
            members = [going_on[place] for place in group.members]
            if len(members) == 1 and states is None:
                in_full += members
            else:
                shared.append(SharedContext(contexts[group.longest], members))
        return RequestGroups(in_full, kept, shared)

    def run_and_keep(
        self, requests: Sequence[Request], indices: Sequence[int], states: PrefixStates
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for; keep all for later calls."""
        import torch

        kept = self.kept_in(states)
        for batch in self.run_sequences([requests[index].ids for index in indices], kept):
            wanted = []
            members = []
            for sequence in batch:
                request = requests[indices[sequence.number]]
                kept.add(request.ids, sequence.slots)
                kept.states.release(sequence.slots)
                wanted.append(sequence.hidden[request.first :])
                members.append(indices[sequence.number])
            yield members, torch.cat(wanted)

    def run_shared(
        self, requests: Sequence[Request], shared: Sequence[SharedContext], states: PrefixStates | None
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for, one request after another."""
        kept = KeptSequences() if states is None else self.kept_in(states)
        for places in pack([len(context.ids) for context in shared], self._round_tokens()):
            some = [shared[place] for place in places]
            slots_of_contexts = self._context_slots([context.ids for context in some], kept, keep=states is not None)
            held = list(slots_of_contexts)
            rows = []
            rests = [self._rests(context, requests, kept) for context in some]
            row_tokens = best_row_tokens(rests, [len(context.ids) for context in some])
            for slots, own in zip(slots_of_contexts, rests, strict=True):
                held += [rest.own_slots for rest in own if len(rest.own_slots)]
                rows += rows_of(slots, own, row_tokens)
            try:
                yield from self._run_rows(rows, requests, kept)
            finally:
                for slots in held:
                    kept.states.release(slots)

    def _round_tokens(self) -> int:
        most = BATCHES_IN_ROUND * self._forward.budget.tokens
        return min(most, max(1, MAX_ROUND_BYTES // max(1, self._token_bytes)))

    # --- contexts ---

    def _context_slots(self, contexts: Sequence[Ints], kept: KeptSequences, keep: bool) -> list[Ints]:
        """Return where the states of contexts are; the caller holds them. Those that are not kept already are run."""
        found = [kept.find(context) for context in contexts]
        missing = []
        for place, slots in enumerate(found):
            if slots is None:
                missing.append(place)
            else:
                kept.states.hold(slots)
        for batch in self.run_sequences([contexts[place] for place in missing], kept):
            for sequence in batch:
                place = missing[sequence.number]
                found[place] = sequence.slots
                if keep:
                    kept.add(contexts[place], sequence.slots)
        return [slots for slots in found if slots is not None]

    # --- whole sequences ---

    def run_sequences(self, sequences: Sequence[Ints], kept: KeptSequences) -> Iterator[list[SequenceStates]]:
        """Run sequences in full, and yield their states, some at a time; what they begin with alike is run once.

        The slots of their tokens are the caller's, who is to release them.
        """
        if self.shares_beginnings:
            trees = grow_trees(sequences)
        else:
            trees = [lone_tree(index, sequence) for index, sequence in enumerate(sequences)]

        def plan(indices: Sequence[int], _: Sequence[int]) -> list[list[int]]:
            alone = [index for index in indices if not trees[index].branches]
            together = [index for index in indices if trees[index].branches]
            batches = []
            for places in (alone, together):
                for batch in self._forward.plan_padded_batches([len(trees[index].ids) for index in places]):
                    batches.append([places[place] for place in batch])
            return batches

        def run(batch: list[int]) -> list[SequenceStates]:
            return self._run_tree_batch([trees[index] for index in batch], kept)

        lengths = [len(tree.ids) for tree in trees]
        if self._token_bytes:
            kept.reserve(sum(lengths), self._token_bytes)
        yield from run_within_memory(list(range(len(trees))), lengths, self._forward.budget, plan, run)

    def _run_tree_batch(self, trees: Sequence[PrefixTree], kept: KeptSequences) -> list[SequenceStates]:
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
        lengths = np.array([len(tree.ids) for tree in trees])
        self.tokens_run += int(lengths.sum())
        rows = np.repeat(np.arange(len(trees)), lengths)
        columns = concat_ranges(np.zeros(len(trees), dtype=np.int64), lengths)
        slots = self._write(cache, rows, columns, kept)
        slots_of_trees = np.split(slots, np.cumsum(lengths)[:-1])
        found = []
        for row, (tree, slots_of_tree) in enumerate(zip(trees, slots_of_trees, strict=True)):
            for member, path in zip(tree.members, tree.paths, strict=True):
                # A lone sequence is a slice of its row, what comes after it being padding; others are copied.
                chosen: Any = self._forward.to_device(path) if tree.branches else slice(len(path))
                own_slots = slots_of_tree[path]
                kept.states.hold(own_slots)
                found.append(SequenceStates(member, hidden[row][chosen], own_slots))
        kept.states.release(slots)
        return found

    def _write(self, cache: Any, rows: Ints, columns: Ints, kept: KeptSequences) -> Ints:
        """Put states of tokens of a batch into slots, which the caller holds; return these."""
        slots = kept.states.take(len(rows))
        try:
            kept.states.write(slots, [(layer.keys, layer.values) for layer in cache.layers], rows, columns)
        except BaseException:  # there may be too little memory; then a smaller batch is tried
            kept.states.release(slots)
            raise
        self._token_bytes = kept.states.token_bytes
        return slots

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

    def _rests(self, context: SharedContext, requests: Sequence[Request], kept: KeptSequences) -> list[Rest]:
        """Return what is to be run of the requests of a context; the caller holds what is kept of them."""
        rests = []
        for member in context.members:
            request = requests[member]
            # What is wanted begins after the token at ``first``, which must be run.
            longest = kept.find_longest(request.ids[: request.first], request.n_context) if self._keeps_rests else None
            own_slots = NO_SLOTS
            if longest is not None:
                own_slots = longest[request.n_context :]
                kept.states.hold(own_slots)
            rests.append(Rest(member, own_slots, len(request.ids) - request.n_context - len(own_slots)))
        return rests

    def _run_rows(
        self, rows: Sequence[RestRow], requests: Sequence[Request], kept: KeptSequences
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        def plan(indices: Sequence[int], _: Sequence[int]) -> list[list[int]]:
            return self._plan_rows([rows[index] for index in indices], indices)

        def run(batch: list[int]) -> tuple[list[int], torch.Tensor]:
            chosen = [rows[index] for index in batch]
            members = [rest.member for row in chosen for rest in row.rests]
            return members, self._run_row_batch(chosen, requests, kept)

        lengths = [row.n_run for row in rows]
        yield from run_within_memory(list(range(len(rows))), lengths, self._rest_budget, plan, run)

    def _plan_rows(self, rows: Sequence[RestRow], indices: Sequence[int]) -> list[list[int]]:
        """Group rows into batches that are within the budget for rests, and what is kept for them within a round's.

        Rows with similarly many kept tokens go together: a batch has copies of these states, padded to the longest.
        """
        by_kept = sorted(range(len(rows)), key=lambda place: -rows[place].n_kept)
        max_kept_tokens = self._round_tokens()
        batches: list[list[int]] = []
        row_tokens = 0
        kept_tokens = 0
        for place in by_kept:
            count = len(batches[-1]) + 1 if batches else 1
            longest = max(row_tokens, rows[place].n_run)
            fits = count * longest <= self._rest_budget.tokens and count * kept_tokens <= max_kept_tokens
            if batches and fits:
                batches[-1].append(indices[place])
                row_tokens = longest
            else:
                batches.append([indices[place]])
                row_tokens = rows[place].n_run
                kept_tokens = rows[place].n_kept
        return batches

    def _run_row_batch(self, rows: Sequence[RestRow], requests: Sequence[Request], kept: KeptSequences) -> torch.Tensor:
        """Run a batch of rows; return the states of all rests that are wanted, one after another."""
        batch = RestBatch(rows, requests)
        to_device = self._forward.to_device
        attends_to = visible(to_device(batch.owners), to_device(batch.context_lengths), to_device(batch.rest_numbers))
        cache = _cache_of(kept.states.read(batch.slots))
        hidden: torch.Tensor = self._forward.run_trunk(
            input_ids=to_device(batch.ids),
            position_ids=to_device(batch.positions),
            attention_mask=self._added_to_attention(attends_to),
            past_key_values=cache,
            use_cache=True,
        )[0]
        self.rest_tokens_run += sum(row.n_run for row in rows)
        self._keep_extended(batch, rows, requests, cache, kept)
        return hidden.flatten(0, 1)[to_device(np.flatnonzero(batch.wanted))]

    def _keep_extended(
        self, batch: RestBatch, rows: Sequence[RestRow], requests: Sequence[Request], cache: Any, kept: KeptSequences
    ) -> None:
        """Keep the states of requests that later ones will begin with."""
        extended = batch.extended
        if not self._keeps_rests or not extended.any():
            return
        batch_rows, columns = np.nonzero(extended)
        slots = np.full(extended.shape, PADDING_SLOT)
        new = self._write(cache, batch_rows, columns + batch.slots.shape[1], kept)
        slots[extended] = new
        for number, row in enumerate(rows):
            column = 0
            for rest in row.rests:
                request = requests[rest.member]
                if request.is_extended_later:
                    context = row.context_slots[: request.n_context]
                    own = slots[number, column : column + rest.n_run]
                    kept.add(request.ids, np.concatenate([context, rest.own_slots, own]))
                column += rest.n_run
        kept.states.release(new)


def _cache_of(layers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """Return key/value states as transformers takes them."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache
