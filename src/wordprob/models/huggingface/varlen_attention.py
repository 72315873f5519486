"""Texts of any length end to end in one long row: attention keeps them apart, and nothing is padded.

Everything in a transformer but attention looks at one token at a time. So texts can stand one after another as long as
attention is told where each begins; transformers lets that one function be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NAME = "wordprob_end_to_end"
WINDOWS = ("sliding_window", "attention_chunk_size")
FAR = 1 << 30


class EndToEnd:
    """A trunk that takes texts end to end.

    Parameters
    ----------
    model
        A transformers model.

    Attributes
    ----------
    reach
        How long texts can be: what a window within a model's attention does beyond its size is not done here.
    """

    def __init__(self, model: Any) -> None:
        import transformers

        transformers.AttentionInterface.register(NAME, attend)
        configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
        self._configs = list({id(c): c for c in configs if hasattr(c, "_attn_implementation")}.values())
        windows = [getattr(c, name, None) for c in self._configs for name in WINDOWS]
        self.reach = min([size for size in windows if size], default=FAR)

    def run(
        self, trunk: Callable[..., Any], ids: torch.Tensor, places: torch.Tensor, edges: torch.Tensor, longest: int
    ) -> torch.Tensor:
        """Return the states of a row.

        Parameters
        ----------
        trunk
            What runs the model.
        ids, places
            ``[N]``: the tokens of the row, and their numbers in their texts.
        edges
            ``[T + 1]``: where each text begins, and where the last ends.
        longest
            The length of the longest.
        """
        with self._exchanged():
            states: torch.Tensor = trunk(
                input_ids=ids[None],
                position_ids=places[None],
                use_cache=False,
                cu_seq_lens_q=edges,
                cu_seq_lens_k=edges,
                max_length_q=longest,
                max_length_k=longest,
            )[0][0]
        return states

    @contextmanager
    def _exchanged(self) -> Iterator[None]:
        before = [c._attn_implementation for c in self._configs]
        try:
            for config in self._configs:
                config._attn_implementation = NAME
            yield
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name


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
    """Let every token look at those before it in its own text.

    From ``[1, heads, N, size]`` to ``[1, N, heads, size]``, with the names that transformers has for these.
    """
    if any(x is not None for x in (attention_mask, softcap, position_bias, s_aux)):
        raise NotImplementedError("attention with a mask, a cap, a bias or sinks")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    apart = _flash if query.is_cuda else _each
    return apart(q, k, v, cu_seq_lens_q, max_length_q, scaling)[None], None


def _flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, edges: torch.Tensor, longest: int, scaling: float | None
) -> torch.Tensor:
    import torch

    found: torch.Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, edges, edges, longest, longest, 0.0, True, False, scale=scaling
    )[0]
    return found


def _each(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, edges: torch.Tensor, _: int, scaling: float | None
) -> torch.Tensor:
    """Take one text after the other: the readable twin of :func:`_flash`."""
    import torch

    found = []
    for low, high in pairwise(edges.tolist()):
        mine, keys, values = (x[low:high].transpose(0, 1)[None] for x in (q, k, v))
        looked = torch.nn.functional.scaled_dot_product_attention(
            mine, keys, values, is_causal=True, scale=scaling, enable_gqa=True
        )
        found.append(looked[0].transpose(0, 1))
    return torch.cat(found)
