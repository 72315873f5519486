"""Texts of any length one after another in a single row: attention keeps them apart, and nothing is padded.

Everything in a transformer except attention treats each token by itself. So texts can follow one another in one row, as
long as attention knows where each begins. Transformers lets that one function be replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wordprob.models.huggingface.attention_implementation import (
    attention_configs,
    attention_window,
    replaced_attention,
)

if TYPE_CHECKING:
    import torch

ATTENTION_NAME = "wordprob_varlen"


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
        """
        with replaced_attention(self._configs, ATTENTION_NAME):
            states: torch.Tensor = trunk(
                input_ids=ids[None],
                position_ids=positions[None],
                use_cache=False,
                cu_seq_lens_q=offsets,
                cu_seq_lens_k=offsets,
                max_length_q=longest,
                max_length_k=longest,
            )[0][0]
        return states


def attend(
    _: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """Let every token attend to itself and to those before it in its own text.

    From ``[1, heads, N, size]`` to ``[1, N, heads, size]``. The parameters have the names that transformers gives them.
    """
    if any(given is not None for given in (attention_mask, softcap, position_bias, s_aux)):
        raise NotImplementedError("attention with a mask, a cap, a bias or sinks")
    queries, keys, values = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    attend_to_texts = _attend_flash if query.is_cuda else _attend_one_by_one
    return attend_to_texts(queries, keys, values, cu_seq_lens_q, max_length_q, scaling)[None], None


def _attend_flash(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scaling: float | None,
) -> torch.Tensor:
    import torch

    # The arguments after the lengths: no dropout, causal, no debugging mask.
    attended: torch.Tensor = torch.ops.aten._flash_attention_forward(
        queries, keys, values, offsets, offsets, longest, longest, 0.0, True, False, scale=scaling
    )[0]
    return attended


def _attend_one_by_one(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    _: int,
    scaling: float | None,
) -> torch.Tensor:
    """Attend within one text after the other: the readable twin of :func:`_attend_flash`."""
    import torch

    attended = []
    for begin, end in pairwise(offsets.tolist()):
        query, key, value = (tensor[begin:end].transpose(0, 1)[None] for tensor in (queries, keys, values))
        states = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
        attended.append(states[0].transpose(0, 1))
    return torch.cat(attended)
