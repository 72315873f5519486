"""From hidden states to log p(target) and atom log-masses: one function, a readable path and a fast one behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wordprob.kernels import reference, tiled

if TYPE_CHECKING:
    import torch

Answer = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]
HeadScorer = Callable[["torch.Tensor", "torch.Tensor"], Answer]
"""From hidden states ``[N, H]`` and targets ``[N]`` to log p(target), atom log-masses ``[N, K]`` and normalisers."""


def head_scorer(weight: torch.Tensor, bias: torch.Tensor | None, of: torch.Tensor, count: int) -> HeadScorer:
    """Return the fastest right way to score with this head on its device.

    Parameters
    ----------
    weight, bias
        The head: ``[V, H]`` and ``[V]`` or none.
    of
        ``[V]``: the atom of every token.
    count
        Number of atoms.
    """
    of = of.to(weight.device)
    members = reference.membership(of, count)
    cpu = weight.device.type == "cpu"

    def slow(hidden: torch.Tensor, targets: torch.Tensor) -> Answer:
        score = tiled.score_hidden if cpu else reference.score_hidden
        return score(hidden, weight, bias, targets, members)

    return _fused(weight, bias, of, count, slow) or slow


def _fused(
    weight: torch.Tensor, bias: torch.Tensor | None, of: torch.Tensor, count: int, slow: HeadScorer
) -> HeadScorer | None:
    """Return the fused scorer where it can run and agrees with the readable one on a few rows."""
    import torch

    if not weight.is_cuda or weight.dtype not in (torch.bfloat16, torch.float16):
        return None  # in float32 the tensor cores would round the factors
    try:
        from wordprob.kernels.fused import FusedHead

        fast = partial(FusedHead.score, FusedHead(weight, bias, of, count))
        rows = weight[:64]
        targets = torch.arange(len(rows), device=weight.device)
        agreed = all(
            torch.allclose(a, b, atol=0.05, rtol=0.01)
            for a, b in zip(fast(rows, targets), slow(rows, targets), strict=True)
        )
    except (ImportError, RuntimeError):
        return None
    return fast if agreed else None
