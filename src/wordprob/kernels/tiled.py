"""Target and atom masses on a CPU, in tiles of vocabulary × rows that stay in the processor's cache.

Of each tile only the sums of exponentials are kept, atom by atom, relative to the largest logit so far (as in online
softmax); the next tile overwrites it. :mod:`wordprob.kernels.reference` is its readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

TILE_ROWS = 512
TILE_TOKENS = 2048
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
    # Everything here has the vocabulary or the atoms down and the rows across: the matrix product is faster that way.
    top = hidden.new_full((1, len(hidden)), float("-inf"))
    mass = hidden.new_zeros((members.shape[1], len(hidden)))
    for low in range(0, len(weight), TILE_TOKENS):
        tokens = slice(low, low + TILE_TOKENS)
        tile_weight = weight[tokens].float()
        tile_members = members[tokens].T
        tile_bias = None if bias is None else bias[tokens].float()[:, None]
        for first in range(0, len(hidden), TILE_ROWS):
            rows = slice(first, first + TILE_ROWS)
            logits = tile_weight @ hidden[rows].T
            if tile_bias is not None:
                logits += tile_bias
            new_top = torch.maximum(top[:, rows], logits.amax(dim=0, keepdim=True))
            mass[:, rows] *= (top[:, rows] - new_top).exp()
            mass[:, rows] += tile_members @ logits.sub_(new_top).exp_()
            top[:, rows] = new_top
    normaliser = top + mass.sum(dim=0, keepdim=True).log()
    target = (hidden * weight[targets].float()).sum(dim=1)
    if bias is not None:
        target += bias[targets].float()
    return target - normaliser[0], (mass.log() + top - normaliser).T, normaliser[0]
