"""Target and atom masses on a CPU, in tiles of rows × vocabulary that stay in the cache.

Of each tile the sums of exponentials are kept, atom by atom, below the largest logit seen so far; the tile itself is
written over by the next one. :mod:`wordprob.kernels.reference` is its readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROWS, TILE = 128, 2048
"""Rows of hidden states and tokens of the vocabulary in a tile: a megabyte of logits."""


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    members: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log p(target) ``[N]``, log-mass of every atom ``[N, K]`` and the log-normaliser ``[N]``.

    Parameters
    ----------
    hidden
        ``[N, H]``.
    weight, bias
        The head: ``[V, H]`` and ``[V]`` or none.
    targets
        ``[N]`` ids.
    members
        ``[V, K]``, the partition of the vocabulary.
    """
    import torch

    hidden = hidden.float()
    top = hidden.new_full((len(hidden), 1), float("-inf"))
    mass = hidden.new_zeros((len(hidden), members.shape[1]))
    for low in range(0, len(weight), TILE):
        tile = weight[low : low + TILE].float().T
        added = None if bias is None else bias[low : low + TILE].float()
        for first in range(0, len(hidden), ROWS):
            here = slice(first, first + ROWS)
            logits = hidden[here] @ tile
            if added is not None:
                logits += added
            largest = logits.amax(dim=1, keepdim=True)
            sums = logits.sub_(largest).exp_() @ members[low : low + TILE]
            peak = torch.maximum(top[here], largest)
            mass[here] = mass[here] * (top[here] - peak).exp() + sums * (largest - peak).exp()
            top[here] = peak
    normaliser = top + mass.sum(dim=1, keepdim=True).log()
    target = (hidden * weight[targets].float()).sum(dim=1, keepdim=True)
    if bias is not None:
        target += bias[targets].float()[:, None]
    return (target - normaliser)[:, 0], mass.log() + top - normaliser, normaliser[:, 0]
