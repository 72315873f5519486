"""Token ids to hidden states: rows of ids through a network in batches, padded or one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Ints, concat_ranges, cumulative_offsets
from wordprob.errors import ModelError
from wordprob.models.batching import pack, padded_batches
from wordprob.models.devices import on_device
from wordprob.models.huggingface.varlen_attention import VarlenAttention
from wordprob.models.request_arrays import RequestArrays

if TYPE_CHECKING:
    import torch

CPU_BATCH_TOKENS = 512
"""Tokens in a batch on a CPU, padding included: larger batches take memory and are no faster."""
MAX_GPU_BATCH_TOKENS = 32768
"""Tokens in a batch on a GPU, if there is memory for so many."""
MIN_GPU_BATCH_TOKENS = 1024
FIRST_IDS: Ints = np.arange(3, 8)
"""Ids that every vocabulary has."""

Result = TypeVar("Result")
Plan = Callable[[Sequence[int], Sequence[int]], list[list[int]]]
"""From the indices of sequences and the lengths of these to batches of the indices."""


class TokenBudget:
    """How many tokens a batch may have; less from the moment that a device runs out of memory."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def shrink(self, lengths: Sequence[int]) -> None:
        """Allow half as many tokens as in a batch of sequences of these lengths, for which memory was too small."""
        self.tokens = max(*lengths, sum(lengths) // 2)


class Forward:
    """Runs rows of token ids through a network.

    Parameters
    ----------
    network
        A transformers model with a language-modelling head.
    probe_ids
        As the attribute.

    Attributes
    ----------
    network
        The network.
    probe_ids
        A few different tokens on which the network is tried: best ones that texts have.
    trunk
        The part of it that is run: all of it, so that "hidden states" are logits, unless another part is set.
    run_whole_batch
        The function that runs batches of whole sequences: :meth:`run_trunk`, or a compiled version of it.
    masks_padding
        Whether the network is told which positions are padding. Causal networks need not be: padding comes last.
    varlen
        What runs sequences one after another without padding; ``None`` where they are padded.
    budget
        How many tokens a batch may have.
    """

    def __init__(self, network: Any, probe_ids: Ints = FIRST_IDS) -> None:
        self.network = network
        self.probe_ids = probe_ids
        self.trunk: Any = network
        self.device: torch.device = network.device
        self.on_gpu = self.device.type == "cuda"
        self.run_whole_batch: Callable[..., Any] = self.run_trunk
        self.masks_padding = True
        self.varlen: VarlenAttention | None = None
        self.budget = TokenBudget(initial_batch_tokens(network))

    def run_trunk(self, **inputs: Any) -> Any:
        """Run the trunk with the inputs that transformers takes; the first output is the hidden states."""
        return self.trunk(**inputs)

    # --- batches ---

    def run_batches(self, requests: RequestArrays, run: Callable[[list[int]], Result]) -> Iterator[Result]:
        """Call ``run`` with the indices of requests that fit together, and yield what it returns."""
        lengths = requests.lengths.tolist()
        yield from run_within_memory(list(range(len(requests))), lengths, self.budget, self._plan_indices, run)

    def plan_batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sequences into batches: of any lengths where they are not padded, and else of similar lengths."""
        padded = []
        unpadded = []
        for index, length in enumerate(lengths):
            if self._runs_unpadded(length):
                unpadded.append(index)
            else:
                padded.append(index)
        similar = self.plan_padded_batches([lengths[index] for index in padded])
        in_order = pack([lengths[index] for index in unpadded], self.budget.tokens)
        batches = [[padded[place] for place in batch] for batch in similar]
        return batches + [[unpadded[place] for place in batch] for batch in in_order]

    def plan_padded_batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sequences that are padded into batches of similar lengths."""
        return padded_batches(lengths, self.budget.tokens, padding_counts_from=self.small_batch_tokens)

    @property
    def small_batch_tokens(self) -> int:
        """How many tokens cost no more than a few: half a batch on a GPU, so that padding up to there costs nothing."""
        return self.budget.tokens // 2 if self.on_gpu else 0

    def _plan_indices(self, indices: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        return [[indices[place] for place in batch] for batch in self.plan_batches(lengths)]

    def _runs_unpadded(self, length: int) -> bool:
        return self.varlen is not None and length <= self.varlen.max_text_tokens

    def run_requests(self, requests: RequestArrays) -> torch.Tensor:
        """Run requests together; return the states of the rows that they ask for, one request after another."""
        lengths = requests.lengths
        if self.varlen is not None and self._runs_unpadded(int(lengths.max())):
            states = self.run_unpadded(self.varlen, requests.sequences.all_ids(), lengths)
            begins = cumulative_offsets(lengths)[:-1]
        else:
            padded, mask = self.pad_joined(requests.sequences.all_ids(), lengths)
            states = self.run_whole_batch(input_ids=padded, attention_mask=mask)[0].flatten(0, 1)
            begins = padded.shape[1] * np.arange(len(requests))
        rows = concat_ranges(begins + requests.firsts, requests.row_counts)
        return states if len(rows) == len(states) else states[self.to_device(rows)]

    def run_unpadded(self, varlen: VarlenAttention, ids: Ints, lengths: Ints) -> torch.Tensor:
        """Return the states of sequences of these lengths, whose ids follow one another, in a single row."""
        positions = concat_ranges(np.zeros_like(lengths), lengths)
        offsets = self.to_device(cumulative_offsets(lengths).astype(np.int32))
        return varlen.run(
            self.run_whole_batch, self.to_device(ids), self.to_device(positions), offsets, int(lengths.max())
        )

    # --- inputs ---

    def pad(self, rows: Sequence[Sequence[int] | Ints]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return ids ``[B, L]``, padded at the end, and which of them are no padding, if the network needs that."""
        return self.pad_joined(np.concatenate(rows), np.array([len(row) for row in rows]))

    def pad_joined(self, ids: Ints, lengths: Ints) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the same for rows of these lengths, whose ids follow one another."""
        filled = np.arange(lengths.max()) < lengths[:, None]
        padded = np.zeros(filled.shape, dtype=np.int64)
        padded[filled] = ids
        mask = self.to_device(filled.astype(np.int64)) if self.masks_padding else None
        return self.to_device(padded), mask

    def to_device(self, values: NDArray[Any]) -> torch.Tensor:
        """Return numbers on the network's device."""
        return on_device(values, self.device)

    @contextmanager
    def ready(self, modules: Sequence[torch.nn.Module] | None = None) -> Iterator[None]:
        """Make the network ready to run; afterwards it is as the user had it, who may be training it.

        It is in evaluation mode, computes no gradients, and keeps no states by itself. Finding its modules takes about
        a millisecond: who makes it ready several times passes them.
        """
        import torch

        training = [module for module in modules or self.network.modules() if module.training]
        configs = [config for config in _distinct_configs(self.network.config) if hasattr(config, "use_cache")]
        uses_cache = [config.use_cache for config in configs]
        for module in training:
            module.training = False
        for config in configs:
            config.use_cache = False
        try:
            with torch.inference_mode(), self._attention():
                yield
        finally:
            for module in training:
                module.training = True
            for config, before in zip(configs, uses_cache, strict=True):
                config.use_cache = before

    def _attention(self) -> AbstractContextManager[None]:
        """Exclude a kind of GPU attention that is prepared anew for every shape: batches come in all shapes."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if not self.on_gpu:
            return nullcontext()
        return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _distinct_configs(config: Any) -> list[Any]:
    """Return a network's configuration, and that of its text part where it has one of its own."""
    text = config.get_text_config(decoder=True)
    return [config] if text is config else [config, text]


def run_within_memory(
    indices: Sequence[int],
    lengths: Sequence[int],
    budget: TokenBudget,
    plan: Plan,
    run: Callable[[list[int]], Result],
) -> Iterator[Result]:
    """Run sequences in batches; when memory is too small, in smaller batches from then on.

    Parameters
    ----------
    indices
        The sequences to run.
    lengths
        The length of every sequence, by index.
    budget
        What shrinks when memory is too small.
    plan
        Groups sequences into batches within the budget.
    run
        Runs a batch.
    """
    import torch

    waiting = deque(plan(indices, [lengths[index] for index in indices]))
    while waiting:
        batch = waiting.popleft()
        result = None
        try:
            result = run(batch)
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise ModelError(
                    f"the device has too little memory for one text of {lengths[batch[0]]} tokens; use cpu as the "
                    "device, or a smaller model."
                ) from error
        # What follows is outside of the except block because an exception keeps the batch's tensors in memory.
        if result is not None:
            yield result
            continue
        torch.cuda.empty_cache()
        budget.shrink([lengths[index] for index in batch])
        remaining = [*batch, *chain.from_iterable(waiting)]
        waiting = deque(plan(remaining, [lengths[index] for index in remaining]))


def initial_batch_tokens(network: Any) -> int:
    """Return how many tokens to run at a time: on a GPU as many as fit into half of its free memory."""
    import torch

    if network.device.type != "cuda":
        return CPU_BATCH_TOKENS
    free_bytes, _ = torch.cuda.mem_get_info(network.device)
    config = network.config.get_text_config(decoder=True)
    hidden_size = int(getattr(config, "hidden_size", None) or 4096)
    inner_size = int(getattr(config, "intermediate_size", None) or 4 * hidden_size)
    number_bytes = torch.finfo(network.dtype).bits // 8
    # Measured: about twice as much as these intermediate results of one layer.
    token_bytes = 2 * number_bytes * (8 * hidden_size + 3 * inner_size)
    return int(min(max(free_bytes // 2 // token_bytes, MIN_GPU_BATCH_TOKENS), MAX_GPU_BATCH_TOKENS))
