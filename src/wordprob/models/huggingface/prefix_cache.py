"""Requests that go on from kept key/value states: of a context that many share, or of an earlier request.

A request splits its ids into a context ``ids[:n_context]`` and a *rest*, whose states are wanted from ``first`` on.
Contexts of which one is a prefix of another need one run, of the longest. Then rests are run in rows. A row belongs to
one context and holds several rests one after another::

    keys     c0 c1 c2 c3 | a0 | a1 a2 | b0     context, then rest a (of a request whose context is c0 c1 c2 c3)
    query a2  x  x  x  x    x    x  x            and rest b (of one whose context is c0 c1 only)
    query b0  x  x                     x       x: attends to

Only ``a1 a2`` and ``b0`` are run: the states of ``a0`` were kept when a request ended there that was to be extended. A
batch has rows of several contexts, so the mask is ``[B, 1, Q, L + Q]``: B rows, Q the length of the longest row, L the
largest number of tokens that are kept for a row. :mod:`.packed_cache` does without padding and masks, where a network's
attention can be replaced.

Sequences that are run in full, contexts among them, are run as trees where they begin alike
(:mod:`wordprob.models.prefix_trees`): each shared token once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Ints, concat_ranges, cumulative_offsets
from wordprob.models.batching import pack
from wordprob.models.huggingface.attention_implementation import attention_window
from wordprob.models.huggingface.forward import Forward, TokenBudget, run_within_memory
from wordprob.models.huggingface.grouped_attention import GroupedAttention
from wordprob.models.huggingface.kept_sequences import KeptSequences
from wordprob.models.huggingface.request_groups import (
    NO_REQUESTS,
    RequestGroups,
    SharedContext,
    group_requests,
    with_common_tokens,
)
from wordprob.models.huggingface.rest_rows import (
    RestBatch,
    RestRow,
    Rests,
    best_row_tokens,
    rows_after_contexts,
    visible,
)
from wordprob.models.huggingface.token_states import PADDING_SLOT
from wordprob.models.prefix_trees import PrefixTree, grow_trees, lone_tree
from wordprob.models.protocol import PrefixStates, Request
from wordprob.models.request_arrays import RequestArrays

if TYPE_CHECKING:
    import torch

MAX_ROUND_BYTES = 1 << 30
"""Key/value states of the contexts that are worked on at a time, about."""
BATCHES_IN_ROUND = 4
"""Batches of contexts that are run before their rests are, at most."""
KEPT_BATCHES_BEFORE_ROWS = 8
"""As many tokens as in so many batches may be kept for the rows of one batch of rests."""
NO_SLOTS: Ints = np.zeros(0, dtype=np.int64)


class SequenceStates(NamedTuple):
    """The result of running a sequence in full.

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
    saves_copies
        Whether rests are run with fewer copies of key/value states: see
        :func:`wordprob.models.huggingface.self_checks.choose_copies`.
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
        self._grouped_attention = GroupedAttention(forward.network)
        self.usable = False
        self.saves_copies = True
        self.shares_beginnings = False
        self.contexts_run = 0
        self.tokens_run = 0
        self.rest_tokens_run = 0

    def fits(self, request: Request) -> bool:
        """Return True if a request can go on from the states of its context, or others from its own.

        A network that attends to a window would need another mask for what lies beyond it.
        """
        return bool(self._fit(np.array([len(request.ids)]))[0])

    def _fit(self, lengths: Ints) -> Bools:
        fit: Bools = self.usable & (lengths < self._window)
        return fit

    def kept_in(self, states: PrefixStates) -> KeptSequences:
        """Return the sequences of this model that are kept in ``states``."""
        kept: KeptSequences = states.entries.setdefault(self, KeptSequences())
        return kept

    def split(self, requests: RequestArrays, states: PrefixStates | None) -> RequestGroups:
        """Return which requests are run in full, and the others by their contexts.

        All are run in full where that takes one small batch: contexts and rests would take two.
        """
        if states is None and requests.lengths.sum() <= self._forward.small_batch_tokens:
            return RequestGroups(np.arange(len(requests)), NO_REQUESTS, [])
        return group_requests(requests, self._fit(requests.lengths), keeps_states=states is not None)

    def plan(
        self, requests: RequestArrays, states: PrefixStates | None
    ) -> tuple[Ints, Iterator[tuple[Ints, torch.Tensor]]]:
        """Return which requests are run in full, without this, and what runs the others.

        That yields requests by index, with the states of the rows that they ask for, one request after another.
        """
        groups = self.split(requests, states)
        runs = [self.run_shared(requests, groups.shared, states)]
        if states is not None:
            runs.append(self.run_and_keep(requests, groups.kept, states))
        return groups.in_full, chain.from_iterable(runs)

    def run_and_keep(
        self, requests: RequestArrays, indices: Ints, states: PrefixStates
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for; keep all for later calls."""
        import torch

        kept = self.kept_in(states)
        chosen = [requests[index] for index in indices.tolist()]
        for batch in self.run_sequences([request.ids for request in chosen], kept):
            wanted = []
            for sequence in batch:
                request = chosen[sequence.number]
                kept.add(request.ids, sequence.slots)
                kept.states.release(sequence.slots)
                wanted.append(sequence.hidden[request.first :])
            yield indices[[sequence.number for sequence in batch]], torch.cat(wanted)

    def run_shared(
        self, requests: RequestArrays, shared: Sequence[SharedContext], states: PrefixStates | None
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Yield requests by index, with the states of the rows that they ask for, one request after another."""
        kept = KeptSequences() if states is None else self.kept_in(states)
        for places in pack([len(context.ids) for context in shared], self._most_tokens(BATCHES_IN_ROUND)):
            contexts = [shared[place] for place in places]
            contexts = [
                each if kept.find(each.ids) is not None else with_common_tokens(each, requests) for each in contexts
            ]
            rests = self._rests(contexts, requests, kept)
            try:
                yield from self._run_after_contexts(contexts, rests, requests, kept, keep=states is not None)
            finally:
                for slots in rests.own_slots.values():
                    kept.states.release(slots)

    def _run_after_contexts(
        self, contexts: Sequence[SharedContext], rests: Rests, requests: RequestArrays, kept: KeptSequences, keep: bool
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Run contexts, those that are not kept already, and then the rests."""
        slots_of_contexts, hidden = self._run_contexts(contexts, kept, keep)
        row_tokens = best_row_tokens(rests, [len(context.ids) for context in contexts])
        rows = rows_after_contexts(rests, slots_of_contexts, row_tokens)
        try:
            yield from self._run_rows(rows, rests, requests, kept, hidden)
        finally:
            for slots in slots_of_contexts:
                kept.states.release(slots)

    def _most_tokens(self, n_batches: int) -> int:
        """Return how many tokens so many batches have, as far as there is memory for their states."""
        most = n_batches * self._forward.budget.tokens
        return min(most, max(1, MAX_ROUND_BYTES // max(1, self._token_bytes)))

    # --- contexts ---

    def _run_contexts(
        self, contexts: Sequence[SharedContext], kept: KeptSequences, keep: bool
    ) -> tuple[list[Ints], list[torch.Tensor | None]]:
        """Run contexts that are not kept already.

        Returns where the states of all of them are, which the caller holds, and the hidden states of those tokens that
        come next in all requests.
        """
        found = [kept.find(context.ids) for context in contexts]
        hidden: list[torch.Tensor | None] = [None] * len(contexts)
        missing = []
        for place, slots in enumerate(found):
            if slots is None:
                missing.append(place)
            else:
                kept.states.hold(slots)
        for batch in self.run_sequences([contexts[place].ids for place in missing], kept):
            for sequence in batch:
                place = missing[sequence.number]
                found[place] = sequence.slots
                if contexts[place].n_more:
                    hidden[place] = sequence.hidden[-contexts[place].n_more :]
                if keep:
                    kept.add(contexts[place].ids, sequence.slots)
        return [slots for slots in found if slots is not None], hidden

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
        if self._token_bytes and lengths:
            # A batch of rests that is run after them has slots for a time.
            n_rest = self._rest_budget.tokens if self.saves_copies else 0
            kept.reserve(sum(lengths) + n_rest, self._token_bytes)
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
        attends_to = np.zeros((len(trees), 1, longest, longest), dtype=bool)
        attends_to[:, 0, np.arange(longest), np.arange(longest)] = True
        for row, tree in enumerate(trees):
            length = len(tree.ids)
            attends_to[row, 0, :length, :length] = tree.visible()
        return self._added_to_attention(self._forward.to_device(attends_to))

    def _added_to_attention(self, attends_to: torch.Tensor) -> torch.Tensor:
        """Return 0 where a token attends to another, and elsewhere the least number there is."""
        import torch

        dtype = self._forward.network.dtype
        mask = torch.zeros(attends_to.shape, dtype=dtype, device=attends_to.device)
        return mask.masked_fill_(~attends_to, torch.finfo(dtype).min)

    # --- rests ---

    def _rests(self, contexts: Sequence[SharedContext], requests: RequestArrays, kept: KeptSequences) -> Rests:
        """Return what is to be run of the requests of contexts; the caller holds what is kept of them."""
        members = np.concatenate([context.members for context in contexts])
        n_more = np.repeat([context.n_more for context in contexts], [len(context.members) for context in contexts])
        n_context = requests.context_tokens[members] + n_more
        n_own = np.zeros_like(members)
        own_slots = {}
        for number, member in enumerate(members.tolist()):
            own = self._own_slots(requests[member], int(n_context[number]), kept)
            if own is not None:
                own_slots[number] = own
                n_own[number] = len(own)
        return Rests(
            members=members,
            context_offsets=cumulative_offsets([len(context.members) for context in contexts]),
            n_context=n_context,
            n_before=np.maximum(0, n_context - requests.firsts[members]),
            n_own=n_own,
            n_run=requests.lengths[members] - n_context - n_own,
            own_slots=own_slots,
        )

    def _own_slots(self, request: Request, n_context: int, kept: KeptSequences) -> Ints | None:
        """Return the states that are kept of a request's tokens after its context, if there are any; hold them."""
        # What is wanted begins after the token at ``first``, which must be run.
        longest = kept.find_longest(request.ids[: request.first], n_context)
        if longest is None:
            return None
        own = longest[n_context:]
        kept.states.hold(own)
        return own

    def _run_rows(
        self,
        rows: Sequence[RestRow],
        rests: Rests,
        requests: RequestArrays,
        kept: KeptSequences,
        hidden_of_contexts: Sequence[torch.Tensor | None],
    ) -> Iterator[tuple[Ints, torch.Tensor]]:
        """Run rows; ``hidden_of_contexts`` are the states of contexts that requests want."""
        import torch

        offsets = cumulative_offsets([0 if states is None else len(states) for states in hidden_of_contexts])
        before = [states for states in hidden_of_contexts if states is not None]

        def plan(indices: Sequence[int], _: Sequence[int]) -> list[list[int]]:
            return self._plan_rows([rows[index] for index in indices], indices)

        def run(indices: list[int]) -> tuple[Ints, torch.Tensor]:
            chosen = [rows[index] for index in indices]
            batch = RestBatch(chosen, rests, requests, offsets)
            if self.saves_copies and batch.slots.size:
                hidden, new = self._run_row_batch_in_slots(batch, kept)
            else:
                hidden, cache = self._run_row_batch(batch, kept)
                new = self._extended_slots(batch, cache, kept)
            self._keep_extended(new, chosen, rests, requests, kept)
            self.rest_tokens_run += sum(row.n_run for row in chosen)
            hidden = torch.cat([hidden.flatten(0, 1), *before])
            return batch.members, hidden[self._forward.to_device(batch.wanted)]

        lengths = [row.n_run for row in rows]
        yield from run_within_memory(list(range(len(rows))), lengths, self._rest_budget, plan, run)

    def _plan_rows(self, rows: Sequence[RestRow], indices: Sequence[int]) -> list[list[int]]:
        """Group rows into batches that are within the budget for rests, and what is kept for them within a round's.

        Rows with similarly many kept tokens go together: a batch has copies of these states, padded to the longest.
        """
        by_kept = sorted(range(len(rows)), key=lambda place: -rows[place].n_kept)
        max_kept_tokens = self._most_tokens(KEPT_BATCHES_BEFORE_ROWS)
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

    def _run_row_batch(self, batch: RestBatch, kept: KeptSequences) -> tuple[torch.Tensor, Any]:
        """Run a batch of rows; return the hidden states of all tokens ``[B, Q, H]``, and the key/value states.

        The readable twin of :meth:`_run_row_batch_in_slots`.
        """
        cache = _cache_of(kept.states.read(batch.slots) if batch.slots.size else [])
        return self._run_row_batch_after(cache, batch), cache

    def _run_row_batch_in_slots(self, batch: RestBatch, kept: KeptSequences) -> tuple[torch.Tensor, Ints]:
        """Run a batch of rows; return the hidden states of all tokens ``[B, Q, H]``, and where states are kept.

        All tokens have slots while they are run, padding too. The caller holds those of the tokens that are to be kept.
        """
        from wordprob.models.huggingface.slot_cache import slot_cache

        new = kept.states.take(batch.ids.size).reshape(batch.ids.shape)
        try:
            with self._grouped_attention.in_use():
                hidden = self._run_row_batch_after(slot_cache(kept.states, batch.slots, new), batch)
        except BaseException:  # there may be too little memory; then a smaller batch is tried
            kept.states.release(new.ravel())
            raise
        kept.states.release(new[~batch.extended])
        return hidden, np.where(batch.extended, new, PADDING_SLOT)

    def _run_row_batch_after(self, cache: Any, batch: RestBatch) -> torch.Tensor:
        """Run a batch of rows after what is in a cache; return the hidden states of all tokens ``[B, Q, H]``."""
        to_device = self._forward.to_device
        attends_to = visible(to_device(batch.owners), to_device(batch.context_lengths), to_device(batch.rest_numbers))
        hidden: torch.Tensor = self._forward.run_trunk(
            input_ids=to_device(batch.ids),
            position_ids=to_device(batch.positions),
            attention_mask=self._added_to_attention(attends_to),
            past_key_values=cache,
            use_cache=True,
        )[0]
        return hidden

    def _extended_slots(self, batch: RestBatch, cache: Any, kept: KeptSequences) -> Ints:
        """Put the states of tokens that are kept into slots, which the caller holds; return ``[B, Q]``."""
        slots = np.full(batch.extended.shape, PADDING_SLOT)
        if batch.extended.any():
            rows, columns = np.nonzero(batch.extended)
            slots[batch.extended] = self._write(cache, rows, columns + batch.slots.shape[1], kept)
        return slots

    def _keep_extended(
        self, new: Ints, rows: Sequence[RestRow], rests: Rests, requests: RequestArrays, kept: KeptSequences
    ) -> None:
        """Keep requests that later ones will begin with; ``new`` are the slots of their tokens, which are released."""
        is_kept = new != PADDING_SLOT
        if not is_kept.any():
            return
        try:
            for number, row in enumerate(rows):
                column = 0
                for rest in range(row.first, row.stop):
                    n_run = int(rests.n_run[rest])
                    member = int(rests.members[rest])
                    if requests.is_extended_later[member]:
                        request = requests[member]
                        context = row.context_slots[: rests.n_context[rest]]
                        own = new[number, column : column + n_run]
                        kept.add(request.ids, np.concatenate([context, rests.own_slots.get(rest, NO_SLOTS), own]))
                    column += n_run
        finally:
            kept.states.release(new[is_kept])


def _cache_of(layers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """Return key/value states as transformers takes them."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache
