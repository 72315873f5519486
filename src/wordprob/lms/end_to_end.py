"""Texts of any length end to end in one long row: attention keeps them apart, and nothing is padded.

Everything in a transformer but attention looks at one token at a time. So texts can stand one after another as long as
attention is told where each begins; transformers lets that one function be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

NAME = "wordprob_end_to_end"
WINDOWS = ("sliding_window", "attention_chunk_size")
FAR = 1 << 30


class Row(NamedTuple):
    """Where texts stand in a row."""

    edges: torch.Tensor
    """``[T + 1]``: where each begins, and where the last ends."""
    longest: int


NOW: ContextVar[Row] = ContextVar("row")


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

    def run(self, trunk: Any, ids: torch.Tensor, places: torch.Tensor, row: Row) -> torch.Tensor:
        """Return the states of all ids of a row; ``places`` are their numbers in their texts."""
        with self._exchanged(row):
            states: torch.Tensor = trunk(input_ids=ids[None], position_ids=places[None], use_cache=False)[0][0]
        return states

    @contextmanager
    def _exchanged(self, row: Row) -> Iterator[None]:
        before = [c._attn_implementation for c in self._configs]
        token = NOW.set(row)
        try:
            for config in self._configs:
                config._attn_implementation = NAME
            yield
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name
            NOW.reset(token)


def attend(
    _: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Let every token look at those before it in its own text.

    From ``[1, heads, N, size]`` to ``[1, N, heads, size]``, as transformers has it.
    """
    asked = [name for name in ("position_bias", "s_aux") if others.get(name) is not None]
    if attention_mask is not None or softcap is not None or asked:
        raise NotImplementedError(f"attention with more than keys and values: {asked or 'mask or cap'}")
    apart = _flash if query.is_cuda else _each
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return apart(q, k, v, NOW.get(), scaling)[None], None


def _flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, row: Row, scaling: float | None) -> torch.Tensor:
    import torch

    edges, longest = row
    found: torch.Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, edges, edges, longest, longest, 0.0, True, False, scale=scaling
    )[0]
    return found


def _each(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, row: Row, scaling: float | None) -> torch.Tensor:
    """Take one text after the other: the readable twin of :func:`_flash`."""
    import torch

    found = []
    for low, high in pairwise(row.edges.tolist()):
        mine, keys, values = (x[low:high].transpose(0, 1)[None] for x in (q, k, v))
        looked = torch.nn.functional.scaled_dot_product_attention(
            mine, keys, values, is_causal=True, scale=scaling, enable_gqa=True
        )
        found.append(looked[0].transpose(0, 1))
    return torch.cat(found)
