"""Target and atom masses on a CPU, in tiles of vocabulary × rows that stay in the cache.

Of each tile the sums of exponentials are kept, atom by atom, below the largest logit seen so far; the tile itself is
written over by the next one. :mod:`wordprob.kernels.reference` is its readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROWS, TILE = 512, 2048
"""Rows of hidden states and tokens of the vocabulary in a tile: four megabytes of logits."""


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
    top = hidden.new_full((1, len(hidden)), float("-inf"))
    mass = hidden.new_zeros((members.shape[1], len(hidden)))
    for low in range(0, len(weight), TILE):
        tile, atoms = weight[low : low + TILE].float(), members[low : low + TILE].T
        added = None if bias is None else bias[low : low + TILE].float()[:, None]
        for first in range(0, len(hidden), ROWS):
            here = slice(first, first + ROWS)
            logits = tile @ hidden[here].T  # the vocabulary down, which the matrix product does faster than across
            if added is not None:
                logits += added
            peak = torch.maximum(top[:, here], logits.amax(dim=0, keepdim=True))
            mass[:, here] *= (top[:, here] - peak).exp()
            mass[:, here] += atoms @ logits.sub_(peak).exp_()
            top[:, here] = peak
    normaliser = top + mass.sum(dim=0, keepdim=True).log()
    target = (hidden * weight[targets].float()).sum(dim=1)
    if bias is not None:
        target += bias[targets].float()
    return target - normaliser[0], (mass.log() + top - normaliser).T, normaliser[0]
