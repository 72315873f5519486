"""Checks that a network makes on itself, on a few tokens, before a shortcut is trusted.

The tokens are ordinary ones (:attr:`Forward.probe_ids`). On tokens that it never saw in training, a network may not
care about their order, or magnify every rounding error.

Every check compares a shortcut with the plain way. A network on which a shortcut fails, or gives other numbers, takes
the plain way from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import ModelError, UnsupportedError
from wordprob.models.huggingface.forward import Forward
from wordprob.models.huggingface.kept_sequences import KeptSequences
from wordprob.models.huggingface.tokenizer import first_line
from wordprob.models.huggingface.varlen_attention import VarlenAttention
from wordprob.models.protocol import PrefixStates, Request
from wordprob.models.request_arrays import RequestArrays

if TYPE_CHECKING:
    import torch

    from wordprob.models.huggingface.head import Head
    from wordprob.models.huggingface.packed_cache import PackedCache
    from wordprob.models.huggingface.prefix_cache import PrefixCache

LONG_ROW = [0, 1, 2, 3, 4]
SHORT_ROW = [0, 1, 4]
"""Rows of probe tokens, by number."""
UNSUPPORTED = (
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What networks raise that do not support a shortcut."""
MAX_STATE_DIFFERENCE = 1e-3
MAX_STATE_DIFFERENCE_IN_HALF_PRECISION = 0.05
"""How far states may be apart, as a share of their norm: rounding stays below it, a wrong mask does not."""
MAX_LOOK_AHEAD_DIFFERENCE = 1e-4
MAX_LOOK_AHEAD_DIFFERENCE_IN_HALF_PRECISION = 0.005
"""How far logits before a token may be apart when that token is another one, as a share of their norm."""
MAX_LOG_PROB_DIFFERENCE_NATS = 1e-3
"""How far log-probabilities may be apart."""
MAX_MEAN_DIFFERENCE_IN_HALF_PRECISION_NATS = 0.1
"""How far they may be apart in half precision, where only the mean over next tokens by their probability is steady.

Measured with trained models in bfloat16: at most 0.05; with positions that are off by one, 0.17 and more.
"""
HEAD_FACTOR = 100
"""What the head's output is multiplied with, so that a cap or a scale after it shows."""


def is_full_precision(dtype: torch.dtype) -> bool:
    """Return True for numbers of 32 bits or more, whose rounding is far below any mistake."""
    import torch

    return dtype in (torch.float32, torch.float64)


def states_agree(states: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return True if two computations of the same states differ by rounding only."""
    full = is_full_precision(expected.dtype)
    most = MAX_STATE_DIFFERENCE if full else MAX_STATE_DIFFERENCE_IN_HALF_PRECISION
    return relative_difference(states, expected) <= most


def relative_difference(states: torch.Tensor, expected: torch.Tensor) -> float:
    """Return how far states are apart, as a share of the norm of those that are expected."""
    difference = (states.float() - expected.float()).norm()
    return float(difference / expected.float().norm())


def require_causal_logits(forward: Forward, name: str) -> int:
    """Raise, unless a network returns logits for every token, which do not depend on later ones.

    Returns how many logits there are for a token. The network is to be run with its own head.
    """
    import torch

    kind = type(forward.network).__name__
    changed = [*LONG_ROW[:-1], SHORT_ROW[0]]
    ids = forward.to_device(forward.probe_ids[[LONG_ROW, changed]])
    try:
        with forward.ready():
            logits = getattr(forward.network(input_ids=ids), "logits", None)
    except Exception as error:  # a network that needs other inputs, or does not fit its configuration, raises anything
        raise ModelError(f"{name} ({kind}) could not be run on a few tokens: {first_line(error)}") from error
    if logits is None or logits.shape[:2] != ids.shape:
        raise UnsupportedError(
            f"{name} ({kind}) does not return logits for every token: it has no language-model head. Load it with "
            "transformers.AutoModelForCausalLM."
        )
    # Logits that are no numbers are found later, with the reason.
    is_finite = bool(torch.isfinite(logits).all())
    full = is_full_precision(forward.network.dtype)
    most = MAX_LOOK_AHEAD_DIFFERENCE if full else MAX_LOOK_AHEAD_DIFFERENCE_IN_HALF_PRECISION
    if is_finite and relative_difference(logits[0, :-1], logits[1, :-1]) > most:
        raise UnsupportedError(
            f"{name} ({kind}) is not causal: what it returns for a token depends on the tokens after it. Models "
            "such as BERT need is_decoder=True in their configuration, and weights that were trained in that way."
        )
    return int(logits.shape[2])


def head_is_plain(forward: Forward, head: Any) -> bool:
    """Return True if the logits are the head's weights times the last hidden state, and nothing else.

    Something else may be a cap or a scale, an adapter, weights in fewer bits, a hook, or weights that are elsewhere.
    """
    import torch

    network = forward.network
    if not isinstance(head, torch.nn.Linear) or type(head.weight.data) is not torch.Tensor:
        return False
    if not head.weight.is_floating_point() or head.weight.device != forward.device:
        return False
    ids = forward.to_device(forward.probe_ids[[LONG_ROW]])
    seen: list[torch.Tensor] = []

    def enlarge(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        seen.extend((inputs[0], output * HEAD_FACTOR))
        return output * HEAD_FACTOR

    hook = head.register_forward_hook(enlarge)
    try:
        with forward.ready():
            logits = network(input_ids=ids).logits
            hidden = network.base_model(input_ids=ids)[0]
            product = torch.nn.functional.linear(hidden, head.weight, head.bias) * HEAD_FACTOR
    except UNSUPPORTED:
        return False
    finally:
        hook.remove()
    if len(seen) != 2 or hidden.device != head.weight.device:
        return False
    head_input, head_output = seen
    return _equal(head_input, hidden) and _equal(head_output, logits) and _equal(product, logits)


def _equal(values: torch.Tensor, others: torch.Tensor) -> bool:
    import torch

    return values.shape == others.shape and torch.allclose(values, others.to(values.dtype), rtol=1e-2)


def _run_alone(forward: Forward, ids: Ints) -> torch.Tensor:
    """Return the states of one sequence."""
    return forward.run_requests(RequestArrays.of([Request(ids)]))


def padding_is_unseen(forward: Forward) -> bool:
    """Return True if what comes after a text changes nothing in it, as in every causal network."""
    masked = forward.masks_padding
    forward.masks_padding = True
    ids, mask = forward.pad([forward.probe_ids[LONG_ROW], forward.probe_ids[SHORT_ROW]])
    forward.masks_padding = masked
    with forward.ready():
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

    rows = [forward.probe_ids[row] for row in (LONG_ROW, SHORT_ROW, [2, 0, 1, 4])]
    ids, mask = forward.pad(rows)
    with forward.ready():
        try:
            varlen = VarlenAttention(forward.network)
            states = forward.run_unpadded(varlen, np.concatenate(rows), np.array([len(row) for row in rows]))
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
    ids, mask = forward.pad([forward.probe_ids[LONG_ROW], forward.probe_ids[SHORT_ROW]])
    try:
        with forward.ready():
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
    rows = ([0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 0], [0, 1, 2, 3, 0, 2, 4], [4, 0])
    sequences = [forward.probe_ids[row] for row in rows]
    before = cache.shares_beginnings, cache.contexts_run, cache.tokens_run
    cache.shares_beginnings = True
    try:
        with forward.ready():
            found = [sequence for batch in cache.run_sequences(sequences, KeptSequences()) for sequence in batch]
            alone = [_run_alone(forward, sequences[sequence.number]) for sequence in found]
    except UNSUPPORTED:
        return False
    finally:
        cache.shares_beginnings, cache.contexts_run, cache.tokens_run = before
    pairs = zip(found, alone, strict=True)
    return all(states_agree(sequence.hidden, expected) for sequence, expected in pairs)


def choose_prefix_cache(forward: Forward, head: Head) -> PackedCache | PrefixCache:
    """Return what lets requests continue from kept states in a correct way: without padding where that can be done."""
    from wordprob.models.huggingface.packed_cache import PackedCache
    from wordprob.models.huggingface.prefix_cache import PrefixCache

    if forward.varlen is not None:
        packed = PackedCache(forward, forward.varlen)
        packed.usable = cached_contexts_are_correct(packed, forward, head)
        if packed.usable:
            return packed
    cache = PrefixCache(forward)
    choose_copies(cache, forward, head)
    return cache


def choose_copies(cache: PrefixCache, forward: Forward, head: Head) -> None:
    """Let requests continue from kept states, with few copies of these or with many, in a way that is correct."""
    for saves_copies in (True, False):
        cache.saves_copies = saves_copies
        cache.usable = cached_contexts_are_correct(cache, forward, head)
        if cache.usable:
            break
    cache.shares_beginnings = cache.usable and trees_are_correct(cache, forward)


def cached_contexts_are_correct(cache: PackedCache | PrefixCache, forward: Forward, head: Head) -> bool:
    """Return True if going on from kept states gives what running in full gives."""
    ids = forward.probe_ids
    requests = [
        Request(ids[[0, 1, 4]], first=2, is_extended_later=True),
        Request(ids[[0, 1, 2, 4, 3]], first=3, is_extended_later=True),
        Request(ids[[2, 0, 1]], first=2),
    ]
    longer = Request(ids[[0, 1, 2, 4, 3, 0, 2, 1, 4, 0]], first=3)
    extended = [
        Request(ids[[0, 1, 4, 2]], first=3, context_tokens=2),
        Request(ids[[0, 1, 2, 4, 3, 1, 0]], first=5, context_tokens=3),
    ]
    before = cache.usable, cache.contexts_run, cache.tokens_run, cache.rest_tokens_run
    cache.usable = True
    try:
        if not all(cache.fits(request) for request in requests):
            return False
        # A network may attend to a few tokens only.
        rounds = [[*requests, longer], extended]
        fitting = [[request for request in some if cache.fits(request)] for some in rounds]
        with forward.ready():
            states = PrefixStates()
            return all(_resumed_are_correct(some, states, cache, forward, head) for some in fitting)
    except UNSUPPORTED:
        return False
    finally:
        cache.usable, cache.contexts_run, cache.tokens_run, cache.rest_tokens_run = before


def _resumed_are_correct(
    requests: Sequence[Request],
    states: PrefixStates,
    cache: PackedCache | PrefixCache,
    forward: Forward,
    head: Head,
) -> bool:
    """Return True if requests that go on from what is kept have the distributions that they have alone."""
    import torch

    arrays = RequestArrays.of(requests)
    _, others = cache.plan(arrays, states)
    for indices, hidden in others:
        expected = torch.log_softmax(head.logits(forward.run_requests(arrays.choose(indices))), dim=-1)
        resumed = torch.log_softmax(head.logits(hidden), dim=-1)
        differences = (resumed - expected).abs().masked_fill(resumed == expected, 0.0)  # both may be minus infinity
        if is_full_precision(forward.network.dtype):
            agree = float(differences.max()) <= MAX_LOG_PROB_DIFFERENCE_NATS
        else:
            mean = (expected.exp() * differences).sum(dim=-1).mean()
            agree = float(mean) <= MAX_MEAN_DIFFERENCE_IN_HALF_PRECISION_NATS
        if not agree:
            return False
    return True
