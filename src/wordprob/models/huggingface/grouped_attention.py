"""Attention in which several query heads share a key/value head, without copies of keys and values.

Transformers copies keys and values for every query head of a group as soon as there is a mask. With a few new tokens
after a long context, these copies take longer than the attention itself. Here the queries of a group stand one after
another instead, as if they were more tokens of one head::

    queries  [B, G · n, L, size]  ->  [B, G, n · L, size]      G key/value heads, n query heads for each
    mask     [B, 1, L, S]         ->  [B, 1, n · L, S]
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from wordprob.models.huggingface.attention_implementation import attention_configs, replaced_attention

if TYPE_CHECKING:
    import torch

ATTENTION_NAME = "wordprob_grouped"
REPLACED_NAME = "sdpa"
"""The implementation of transformers that it stands for."""
NOT_GROUPED = ("softcap", "position_bias", "s_aux", "cache")
"""Options of attention that are left to transformers."""


class GroupedAttention:
    """Lets a network compute its attention without copies of keys and values.

    Parameters
    ----------
    network
        A transformers model.
    """

    def __init__(self, network: Any) -> None:
        import transformers
        from transformers.masking_utils import sdpa_mask

        transformers.AttentionInterface.register(ATTENTION_NAME, attend)
        # Masks are made, or passed on, as for the implementation that is replaced.
        transformers.AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
        self._configs = attention_configs(network)

    def in_use(self) -> AbstractContextManager[None]:
        """Return a context in which it is used, unless the network uses something else than PyTorch's attention."""
        if any(config._attn_implementation != REPLACED_NAME for config in self._configs):
            return nullcontext()
        return replaced_attention(self._configs, ATTENTION_NAME)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Return what transformers' function for PyTorch's attention returns, which is its readable twin.

    From ``[B, heads, L, size]`` to ``[B, L, heads, size]``. The parameters have the names that transformers gives them.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    left_to_transformers = dropout or any(options.get(name) is not None for name in NOT_GROUPED)
    if attention_mask is not None and not left_to_transformers and _can_be_grouped(query, key, attention_mask):
        return _attend_in_groups(query, key, value, attention_mask, scaling), None
    attended: tuple[torch.Tensor, None] = sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
    )
    return attended


def _can_be_grouped(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> bool:
    """Return True if there are more query heads than key heads, and one mask for all of them; not on a GPU."""
    n_query, n_key = query.shape[1], key.shape[1]
    has_groups = n_query > n_key and n_query % n_key == 0
    return has_groups and mask.ndim == 4 and mask.shape[1] == 1 and query.device.type == "cpu"


def _attend_in_groups(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    import torch

    n_rows, n_heads, n_tokens, size = query.shape
    n_groups, n_keys = key.shape[1:3]
    n_in_group = n_heads // n_groups
    queries = query.reshape(n_rows, n_groups, n_in_group * n_tokens, size)
    masks = mask.expand(-1, n_in_group, n_tokens, n_keys).reshape(len(mask), 1, n_in_group * n_tokens, n_keys)
    attended = torch.nn.functional.scaled_dot_product_attention(queries, key, value, attn_mask=masks, scale=scaling)
    by_head = attended.view(n_rows, n_groups, n_in_group, n_tokens, value.shape[3])
    return by_head.permute(0, 3, 1, 2, 4).reshape(n_rows, n_tokens, n_heads, value.shape[3]).contiguous()
