"""From hidden states to log p(target) and atom log-masses: one function, with a readable and fast paths behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wordprob.kernels import reference, tiled

if TYPE_CHECKING:
    import torch

HeadScores = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]
HeadScorer = Callable[["torch.Tensor", "torch.Tensor"], HeadScores]
"""From hidden states ``[N, H]`` and targets ``[N]`` to log p(target), atom log-masses ``[N, K]`` and normalisers."""


def head_scorer(weight: torch.Tensor, bias: torch.Tensor | None, atom_of_token: torch.Tensor, count: int) -> HeadScorer:
    """Return the fastest correct way to score with this head on its device.

    Parameters
    ----------
    weight, bias
        The head: ``[V, H]`` and ``[V]`` or none.
    atom_of_token
        ``[V]``: the atom of every token.
    count
        Number of atoms.
    """
    atom_of_token = atom_of_token.to(weight.device)
    members = reference.membership(atom_of_token, count)
    score_hidden = tiled.score_hidden if weight.device.type == "cpu" else reference.score_hidden

    def unfused(hidden: torch.Tensor, targets: torch.Tensor) -> HeadScores:
        return score_hidden(hidden, weight, bias, targets, members)

    return _fused(weight, bias, atom_of_token, count, unfused) or unfused


def _fused(
    weight: torch.Tensor, bias: torch.Tensor | None, atom_of_token: torch.Tensor, count: int, unfused: HeadScorer
) -> HeadScorer | None:
    """Return the fused scorer where it can run and agrees with the readable one on a few rows."""
    import torch

    if not weight.is_cuda or weight.dtype not in (torch.bfloat16, torch.float16):
        return None  # tensor cores would round float32 factors to fewer digits
    try:
        from wordprob.kernels.fused import FusedHead

        fused = partial(FusedHead.score, FusedHead(weight, bias, atom_of_token, count))
        hidden = weight[:64]  # any states will do
        targets = torch.arange(len(hidden), device=weight.device)
        results = zip(fused(hidden, targets), unfused(hidden, targets), strict=True)
        agrees = all(torch.allclose(values, expected, atol=0.05, rtol=0.01) for values, expected in results)
    except (ImportError, RuntimeError):
        return None
    return fused if agrees else None
