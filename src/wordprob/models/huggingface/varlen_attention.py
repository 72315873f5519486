"""Texts of any length one after another in a single row: attention keeps them apart, and nothing is padded.

Everything in a transformer except attention treats each token by itself. So texts can follow one another in one row, as
long as attention knows where each begins. Transformers lets that one function be replaced.

The last sequences of a row may each continue a *prefix* whose keys and values are kept. Attention to the prefix and to
the sequence itself are computed apart and put together by the logarithms of their sums of exponentials::

    row       a0 a1 a2 a3 | b0 b1 | c0 c1 | d0      two texts, then two sequences after prefixes
    query c1  a0 a1 a2 and c0 c1                    the prefix of c is the first three tokens of a
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wordprob.models.huggingface.attention_implementation import (
    attention_configs,
    attention_window,
    replaced_attention,
)

if TYPE_CHECKING:
    import torch

    from wordprob.models.huggingface.token_states import TokenStates

ATTENTION_NAME = "wordprob_varlen"

Attended = tuple["torch.Tensor", "torch.Tensor"]
"""What queries attend to, ``[N, heads, size]``, and the logarithms of the sums of exponentials, ``[N, heads]``."""


@dataclass(frozen=True)
class KeptPrefixes:
    """The prefixes of the last tokens of a row.

    Neighbours with the same prefix are one group. Groups and slots are counted in ``int32``, as attention takes them.

    Attributes
    ----------
    states
        What has their keys and values.
    first
        The first token of the row that has a prefix; so have all after it.
    offsets
        ``[G + 1]``: where the tokens of each group begin, counted from ``first``, and where the last ends.
    starts, lengths
        ``[G + 1]``, of which the last means nothing, and ``[G]``: the slot of the first token of each prefix, which the
        others follow, and the number of its tokens.
    largest_group, longest
        The most tokens of a group, and the longest prefix.
    """

    states: TokenStates
    first: int
    offsets: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    largest_group: int
    longest: int


class VarlenAttention:
    """Runs a network on texts that follow one another in a row.

    Parameters
    ----------
    network
        A transformers model.

    Attributes
    ----------
    max_text_tokens
        How long texts can be. A network that attends to a window only treats longer texts in a way that is not done
        here.
    """

    def __init__(self, network: Any) -> None:
        import transformers

        transformers.AttentionInterface.register(ATTENTION_NAME, attend)
        self._configs = attention_configs(network)
        self.max_text_tokens = attention_window(network)

    def run(
        self,
        trunk: Callable[..., Any],
        ids: torch.Tensor,
        positions: torch.Tensor,
        offsets: torch.Tensor,
        longest: int,
        cache: Any = None,
        prefixes: KeptPrefixes | None = None,
    ) -> torch.Tensor:
        """Return the last hidden states ``[N, H]`` of a row of texts.

        Parameters
        ----------
        trunk
            The function that runs the network.
        ids, positions
            ``[N]``: the tokens of the row, and the position of each in its text.
        offsets
            ``[T + 1]``: where each text begins, and where the last ends.
        longest
            The length of the longest text.
        cache
            What takes the keys and values of the row, if they are to be kept.
        prefixes
            What the last tokens of the row continue, if anything.
        """
        kept = {} if cache is None else {"past_key_values": cache}
        continued = {} if prefixes is None else {"kept_prefixes": prefixes}
        with replaced_attention(self._configs, ATTENTION_NAME):
            states: torch.Tensor = trunk(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=cache is not None,
                cu_seq_lens_q=offsets,
                cu_seq_lens_k=offsets,
                max_length_q=longest,
                max_length_k=longest,
                **kept,
                **continued,
            )[0][0]
        return states


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    kept_prefixes: KeptPrefixes | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """Let every token attend to itself, to those before it in its own text, and to the prefix that it continues.

    From ``[1, heads, N, size]`` to ``[1, N, heads, size]``. The parameters have the names that transformers gives them.
    """
    if any(given is not None for given in (attention_mask, softcap, position_bias, s_aux)):
        raise NotImplementedError("attention with a mask, a cap, a bias or sinks")
    queries, keys, values = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    attend_to_texts = _attend_flash if query.is_cuda else _attend_one_by_one
    attended, log_sums = attend_to_texts(queries, keys, values, cu_seq_lens_q, max_length_q, scaling)
    if kept_prefixes is not None:
        first = kept_prefixes.first
        of_prefixes = _attend_to_prefixes(queries[first:], kept_prefixes, module.layer_idx, scaling)
        attended[first:] = _joined((attended[first:], log_sums[first:]), of_prefixes)
    return attended[None], None


def _attend_to_prefixes(queries: torch.Tensor, prefixes: KeptPrefixes, layer: int, scaling: float | None) -> Attended:
    """Let every token attend to all of its prefix.

    The query heads that share a key/value head are further queries of that head, so that its keys are read once::

        [M, heads, size]  ->  [M · n, G, size]      G key/value heads, n query heads for each
    """
    keys, values = prefixes.states.layer(layer)
    n_tokens, n_heads, size = queries.shape
    n_groups = keys.shape[1]
    n_each = n_heads // n_groups
    by_group = queries.view(n_tokens, n_groups, n_each, size).transpose(1, 2).reshape(-1, n_groups, size)
    attend_to_slots = _attend_to_slots_flash if queries.is_cuda else _attend_to_slots_one_by_one
    attended, log_sums = attend_to_slots(by_group, keys, values, prefixes, n_each, scaling)
    by_head = attended.view(n_tokens, n_each, n_groups, -1).transpose(1, 2).reshape(n_tokens, n_heads, -1)
    return by_head, log_sums.view(n_tokens, n_each, n_groups).transpose(1, 2).reshape(n_tokens, n_heads)


def _joined(own: Attended, other: Attended) -> torch.Tensor:
    """Return what queries attend to among the keys of both."""
    import torch

    share = torch.sigmoid(other[1] - own[1])[:, :, None]  # of the other's exponentials in those of both
    return torch.lerp(own[0].float(), other[0].float(), share).to(own[0].dtype)


# --- on a GPU, and the readable twins ---------------------------------------------------------------------------------


def _attend_flash(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scaling: float | None,
) -> Attended:
    import torch

    # The arguments after the lengths: no dropout, causal, no debugging mask.
    attended, log_sums = torch.ops.aten._flash_attention_forward(
        queries, keys, values, offsets, offsets, longest, longest, 0.0, True, False, scale=scaling
    )[:2]
    return attended, log_sums.T


def _attend_one_by_one(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    _: int,
    scaling: float | None,
) -> Attended:
    """Attend within one text after the other: the readable twin of :func:`_attend_flash`."""
    import torch

    parts = []
    for begin, end in pairwise(offsets.tolist()):
        visible = torch.ones(end - begin, end - begin, dtype=torch.bool).tril()
        parts.append(_attend_plainly(queries[begin:end], keys[begin:end], values[begin:end], visible, scaling))
    attended, log_sums = zip(*parts, strict=True)
    return torch.cat(attended), torch.cat(log_sums)


def _attend_to_slots_flash(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    prefixes: KeptPrefixes,
    n_each: int,
    scaling: float | None,
) -> Attended:
    import torch

    # With the number of keys given for each group, the offsets of keys are where each group's begin: any slots. One
    # query at a time would be laid out in another way.
    largest = max(2, prefixes.largest_group * n_each)
    attended, log_sums = torch.ops.aten._flash_attention_forward(
        queries, keys, values, prefixes.offsets * n_each, prefixes.starts, largest, prefixes.longest,
        0.0, False, False, scale=scaling, seqused_k=prefixes.lengths,
    )[:2]  # fmt: skip
    return attended, log_sums.T


def _attend_to_slots_one_by_one(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    prefixes: KeptPrefixes,
    n_each: int,
    scaling: float | None,
) -> Attended:
    """Attend to one prefix after the other: the readable twin of :func:`_attend_to_slots_flash`."""
    import torch

    parts = []
    ranges = pairwise((prefixes.offsets * n_each).tolist())
    for (begin, end), start, length in zip(ranges, prefixes.starts.tolist(), prefixes.lengths.tolist(), strict=False):
        slots = slice(start, start + length)
        parts.append(_attend_plainly(queries[begin:end], keys[slots], values[slots], None, scaling))
    attended, log_sums = zip(*parts, strict=True)
    return torch.cat(attended), torch.cat(log_sums)


def _attend_plainly(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    visible: torch.Tensor | None,
    scaling: float | None,
) -> Attended:
    """Return the attention of queries to keys, ``[N, heads, size]`` and ``[K, heads, size]``, by its definition."""
    import torch

    n_each = queries.shape[1] // keys.shape[1]
    keys, values = (tensor.repeat_interleave(n_each, dim=1).float() for tensor in (keys, values))
    scale = queries.shape[2] ** -0.5 if scaling is None else scaling
    scores = scale * torch.einsum("qhd,khd->qhk", queries.float(), keys)
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], float("-inf"))
    attended = torch.einsum("qhk,khd->qhd", scores.softmax(dim=2), values)
    return attended.to(queries.dtype), scores.logsumexp(dim=2)
