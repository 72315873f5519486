"""Texts of any length one after another in a single row: attention keeps them apart, and nothing is padded.

Everything in a transformer except attention treats each token by itself. So texts can follow one another in one row, as
long as attention knows where each begins. Transformers lets that one function be replaced.

The last sequences of a row may each continue a *prefix*, whose keys and values are kept in slots one after another::

    row       a0 a1 a2 a3 | b0 b1 | c0 c1 | d0      two texts, then two sequences after prefixes
    query c1  a0 a1 a2 and c0 c1                    the prefix of c is the first three tokens of a
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Ints, concat_ranges
from wordprob.models.huggingface.attention_implementation import (
    attention_configs,
    attention_window,
    replaced_attention,
)

if TYPE_CHECKING:
    import torch

    from wordprob.models.huggingface.token_states import TokenStates

ATTENTION_NAME = "wordprob_varlen"


class Projections(NamedTuple):
    """The queries, keys and values of some tokens, ``[N, heads, size]``."""

    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    def part(self, begin: int, end: int | None = None) -> Projections:
        """Return those of some of the tokens."""
        return Projections(self.queries[begin:end], self.keys[begin:end], self.values[begin:end])


@dataclass(frozen=True)
class KeptPrefixes:
    """The prefixes that the last sequences of a row continue: R of them.

    Attributes
    ----------
    states
        What has their keys and values.
    first
        The first token of the row that has a prefix; so have all after it.
    offsets
        ``[R + 1]``: where each of these sequences begins, counted from ``first``, and where the last ends.
    starts, lengths
        ``[R]``: the slot of the first token of each prefix, which the others follow, and the number of its tokens.
    """

    states: TokenStates
    first: int
    offsets: Ints
    starts: Ints
    lengths: Ints

    @cached_property
    def _tiles(self) -> dict[tuple[int, torch.device], torch.Tensor]:
        return {}

    def tiles(self, n_tokens: int, device: torch.device) -> torch.Tensor:
        """Return the sequences in tiles of at most N tokens, as :func:`wordprob.kernels.resumed.attend` takes them.

        They are the same in all layers, and made once.
        """
        from wordprob.models.devices import on_device

        if (n_tokens, device) not in self._tiles:
            counts = -(-np.diff(self.offsets) // n_tokens)
            sequence = np.repeat(np.arange(len(counts)), counts)
            own, ends = self.offsets[sequence], self.offsets[sequence + 1]
            begins = own + n_tokens * concat_ranges(np.zeros_like(counts), counts)
            stops = np.minimum(begins + n_tokens, ends)
            tiles = np.stack([begins, stops, own, self.starts[sequence], self.lengths[sequence]], axis=1)
            self._tiles[n_tokens, device] = on_device(tiles, device)
        return self._tiles[n_tokens, device]


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
            ``[T + 1]``: where each text begins, and where the last ends; what comes after it has prefixes.
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
    import torch

    if any(given is not None for given in (attention_mask, softcap, position_bias, s_aux)):
        raise NotImplementedError("attention with a mask, a cap, a bias or sinks")
    row = Projections(*(tensor[0].transpose(0, 1) for tensor in (query, key, value)))
    n_texts = query.shape[2] if kept_prefixes is None else kept_prefixes.first
    parts = []
    if n_texts:
        attend_to_texts = _attend_flash if query.is_cuda else _attend_one_by_one
        parts.append(attend_to_texts(row.part(0, n_texts), cu_seq_lens_q, max_length_q, scaling))
    if kept_prefixes is not None:
        continue_prefixes = _continue_fused if query.is_cuda else _continue_one_by_one
        parts.append(continue_prefixes(row.part(n_texts), kept_prefixes, module.layer_idx, scaling))
    return (parts[0] if len(parts) == 1 else torch.cat(parts))[None], None


# --- on a GPU, and the readable twins ---------------------------------------------------------------------------------


def _attend_flash(
    texts: Projections,
    offsets: torch.Tensor,
    longest: int,
    scaling: float | None,
) -> torch.Tensor:
    import torch

    # The arguments after the lengths: no dropout, causal, no debugging mask.
    attended: torch.Tensor = torch.ops.aten._flash_attention_forward(
        *texts, offsets, offsets, longest, longest, 0.0, True, False, scale=scaling
    )[0]
    return attended


def _attend_one_by_one(
    texts: Projections,
    offsets: torch.Tensor,
    _: int,
    scaling: float | None,
) -> torch.Tensor:
    """Attend within one text after the other: the readable twin of :func:`_attend_flash`."""
    import torch

    bounds = pairwise(offsets.tolist())
    return torch.cat([_attend_plainly(texts.part(begin, end), scaling) for begin, end in bounds])


def _continue_fused(
    rests: Projections,
    prefixes: KeptPrefixes,
    layer: int,
    scaling: float | None,
) -> torch.Tensor:
    try:
        from wordprob.kernels import resumed
    except ImportError as error:
        raise NotImplementedError("attention to kept prefixes without triton") from error
    queries, keys, values = rests
    if keys.shape != values.shape:
        raise NotImplementedError("keys and values of unequal sizes")
    tiles = prefixes.tiles(resumed.tile_tokens(queries.shape[1], keys.shape[1]), queries.device)
    scale = queries.shape[2] ** -0.5 if scaling is None else scaling
    return resumed.attend(queries, keys, values, *prefixes.states.layer(layer), tiles, scale)


def _continue_one_by_one(
    rests: Projections,
    prefixes: KeptPrefixes,
    layer: int,
    scaling: float | None,
) -> torch.Tensor:
    """Attend to one prefix and what continues it after the other: the readable twin of :func:`_continue_fused`."""
    import torch

    kept_keys, kept_values = prefixes.states.layer(layer)
    attended = []
    bounds = pairwise(prefixes.offsets.tolist())
    for (begin, end), start, length in zip(bounds, prefixes.starts.tolist(), prefixes.lengths.tolist(), strict=True):
        slots = slice(start, start + length)
        queries, keys, values = rests.part(begin, end)
        whole = Projections(queries, torch.cat([kept_keys[slots], keys]), torch.cat([kept_values[slots], values]))
        attended.append(_attend_plainly(whole, scaling))
    return torch.cat(attended)


def _attend_plainly(tokens: Projections, scaling: float | None) -> torch.Tensor:
    """Return the causal attention of queries to keys, of which the last are those of the same tokens."""
    import torch

    n_queries, n_keys = len(tokens.queries), len(tokens.keys)
    visible = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
    query, key, value = (tensor.transpose(0, 1)[None] for tensor in tokens)
    attended = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, scale=scaling, enable_gqa=True
    )
    return attended[0].transpose(0, 1)
