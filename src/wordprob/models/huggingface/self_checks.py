"""Checks that a network makes on itself, on a few ids, before a shortcut is trusted.

Every check compares a shortcut with the plain way. A network on which a shortcut fails, or gives other numbers, takes
the plain way from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.errors import ModelError
from wordprob.models.huggingface.forward import Forward
from wordprob.models.huggingface.tokenizer import first_line
from wordprob.models.huggingface.varlen_attention import VarlenAttention
from wordprob.models.protocol import PrefixStates, Request

if TYPE_CHECKING:
    import torch

    from wordprob.models.huggingface.head import Head
    from wordprob.models.huggingface.prefix_cache import PrefixCache

LONG_ROW = [3, 4, 5, 6, 7]
SHORT_ROW = [3, 4, 7]
UNSUPPORTED = (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What networks raise that do not support a shortcut."""
MAX_STATE_DIFFERENCE = 0.05
"""How far states may be apart, as a share of their norm: rounding in bfloat16 stays below it, a wrong mask does not."""
MAX_LOG_PROB_DIFFERENCE = 0.01
"""How far log-probabilities may be apart, absolutely plus relatively."""
HEAD_FACTOR = 100
"""What the head's output is multiplied with, so that a cap or a scale after it shows."""


def states_agree(states: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return True if two computations of the same states differ by rounding only."""
    difference = (states.float() - expected.float()).norm()
    return bool(difference <= MAX_STATE_DIFFERENCE * expected.float().norm())


def head_is_plain(network: Any, head: Any) -> bool:
    """Return True if the logits are the head applied to the last hidden state, and nothing else."""
    import torch

    if not isinstance(head, torch.nn.Linear):
        return False
    ids = torch.tensor([LONG_ROW], device=network.device)
    seen: list[torch.Tensor] = []

    def enlarge(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        seen.extend((inputs[0], output * HEAD_FACTOR))
        return output * HEAD_FACTOR

    hook = head.register_forward_hook(enlarge)
    try:
        with torch.inference_mode():
            logits = network(input_ids=ids).logits
            hidden = network.base_model(input_ids=ids)[0]
    except (RuntimeError, TypeError, ValueError):
        return False
    finally:
        hook.remove()
    if len(seen) != 2:
        return False
    head_input, head_output = seen
    return _equal(head_input, hidden) and _equal(head_output, logits)


def _equal(values: torch.Tensor, others: torch.Tensor) -> bool:
    import torch

    return values.shape == others.shape and torch.allclose(values, others.to(values.dtype), rtol=1e-2)


def padding_is_unseen(forward: Forward) -> bool:
    """Return True if what comes after a text changes nothing in it, as in every causal network."""
    import torch

    masked = forward.masks_padding
    forward.masks_padding = True
    ids, mask = forward.pad([LONG_ROW, SHORT_ROW])
    forward.masks_padding = masked
    with torch.inference_mode():
        try:
            plain = forward.run_trunk(input_ids=ids)[0]
            told = forward.run_trunk(input_ids=ids, attention_mask=mask)[0]
        except UNSUPPORTED:
            return False
    length = len(SHORT_ROW)
    return states_agree(plain[1, :length], told[1, :length]) and states_agree(plain[0], told[0])


def checked_varlen_attention(forward: Forward) -> VarlenAttention | None:
    """Return what runs sequences one after another, if that gives what padding them gives; else ``None``."""
    import torch

    rows = [np.array(row) for row in (LONG_ROW, SHORT_ROW, [5, 3, 4, 7])]
    ids, mask = forward.pad(rows)
    with torch.inference_mode(), forward.attention():
        try:
            varlen = VarlenAttention(forward.network)
            states = forward.run_unpadded(varlen, rows)
            padded = forward.run_trunk(input_ids=ids, attention_mask=mask)[0]
        except UNSUPPORTED:
            return None
    expected = torch.cat([padded[number, : len(row)] for number, row in enumerate(rows)])
    agree = all(states_agree(state, other) for state, other in zip(states, expected, strict=True))
    return varlen if agree else None


def compiled_trunk(forward: Forward) -> Callable[..., Any]:
    """Return the trunk compiled for batches of any shape; a network that cannot be compiled is an error."""
    import torch

    compiled: Callable[..., Any] = torch.compile(forward.trunk.forward, dynamic=True)
    ids, mask = forward.pad([LONG_ROW, SHORT_ROW])
    try:
        with torch.inference_mode(), forward.attention():
            states = compiled(input_ids=ids, attention_mask=mask)[0]
            expected = forward.run_trunk(input_ids=ids, attention_mask=mask)[0]
    except Exception as error:  # a compiler may raise anything
        raise ModelError(
            f"the model could not be compiled: {first_line(error)}. Leave out the option compile."
        ) from error
    length = len(SHORT_ROW)
    if not (states_agree(states[0], expected[0]) and states_agree(states[1, :length], expected[1, :length])):
        raise ModelError("the compiled model does not agree with the model itself. Leave out the option compile.")
    return compiled


def trees_are_correct(cache: PrefixCache, forward: Forward) -> bool:
    """Return True if sequences that are run as a tree have the states that they have alone."""
    import torch

    sequences = [np.array(row) for row in ([3, 4, 5, 6, 7, 3], [3, 4, 5, 6, 3], [3, 4, 5, 6, 3, 5, 7], [7, 3])]
    before = cache.shares_beginnings, cache.contexts_run, cache.tokens_run
    cache.shares_beginnings = True
    try:
        with torch.inference_mode(), forward.attention():
            found = [sequence for batch in cache.run_sequences(sequences) for sequence in batch]
            alone = [forward.run_requests([Request(sequences[sequence.number])]) for sequence in found]
    except UNSUPPORTED:
        return False
    finally:
        cache.shares_beginnings, cache.contexts_run, cache.tokens_run = before
    pairs = zip(found, alone, strict=True)
    return all(states_agree(sequence.hidden, expected) for sequence, expected in pairs)


def cached_contexts_are_correct(cache: PrefixCache, forward: Forward, head: Head) -> bool:
    """Return True if going on from the states of contexts gives what running in full gives."""
    import torch

    requests = [
        Request(np.array([3, 4, 7]), first=2),
        Request(np.array([3, 4, 5, 7, 6]), first=3),
        Request(np.array([5, 3, 4]), first=2),
    ]
    before = cache.usable, cache.contexts_run, cache.tokens_run
    cache.usable = True
    if not all(cache.fits(request) for request in requests):
        cache.usable, cache.contexts_run, cache.tokens_run = before
        return False
    try:
        with torch.inference_mode(), forward.attention():
            groups = cache.split(requests, PrefixStates())
            for indices, states in cache.run_shared(requests, groups.shared, None):
                whole = [requests[index] for index in indices]
                expected = torch.log_softmax(head.logits(forward.run_requests(whole)), dim=-1)
                resumed = torch.log_softmax(head.logits(states), dim=-1)
                if not torch.allclose(resumed, expected, MAX_LOG_PROB_DIFFERENCE, MAX_LOG_PROB_DIFFERENCE):
                    return False
    except UNSUPPORTED:
        return False
    finally:
        cache.usable, cache.contexts_run, cache.tokens_run = before
    return True
