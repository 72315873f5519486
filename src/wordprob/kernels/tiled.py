"""Target and atom masses on a CPU, in tiles of vocabulary × rows that stay in the processor's cache.

Of each tile only the sums of exponentials are kept, atom by atom, relative to the largest logit so far (as in online
softmax); the next tile overwrites it. The sum of an atom far below the largest logit is too small for float32; it is
computed again, relative to the atom's own largest logit. :mod:`wordprob.kernels.reference` is the readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from wordprob.kernels.reference import Membership

TILE_ROWS = 512
TILE_TOKENS = 2048
"""Rows of hidden states and tokens of the vocabulary in a tile: four megabytes of logits."""

MIN_MASS_PER_TOKEN = 2.0**-106
"""Sums below this, for each of their terms, are computed again.

Terms below 2⁻¹²⁶ are lost. All of them together are then a millionth of the sum at most.
"""


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    members: Membership,
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
        The partition of the vocabulary.
    """
    import torch

    hidden = hidden.float()
    # Everything here has the vocabulary or the atoms down and the rows across: the matrix product is faster that way.
    top = hidden.new_full((1, len(hidden)), float("-inf"))
    mass = hidden.new_zeros((len(members.ids), len(hidden)))
    for low in range(0, len(weight), TILE_TOKENS):
        tokens = slice(low, low + TILE_TOKENS)
        tile_weight = weight[tokens].float()
        tile_members = members.matrix[tokens].T
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
    log_mass = mass.log() + top
    _add_up_small_atoms(log_mass, mass, hidden, weight, bias, members)
    target = (hidden * weight[targets].float()).sum(dim=1)
    if bias is not None:
        target += bias[targets].float()
    return target - normaliser[0], (log_mass - normaliser).T, normaliser[0]


def _add_up_small_atoms(
    log_mass: torch.Tensor,
    mass: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    members: Membership,
) -> None:
    """Compute log-masses ``[K, N]`` again where the sums ``[K, N]`` are too small to be exact."""
    import torch

    sizes = torch.tensor([len(ids) for ids in members.ids])
    too_small = mass < MIN_MASS_PER_TOKEN * sizes[:, None]
    for k in torch.nonzero(too_small.any(dim=1))[:, 0].tolist():
        rows = torch.nonzero(too_small[k])[:, 0]
        added = hidden.new_full((len(rows),), float("-inf"))
        for ids in members.ids[k].split(TILE_TOKENS):
            tile_bias = None if bias is None else bias[ids].float()
            logits = torch.nn.functional.linear(hidden[rows], weight[ids].float(), tile_bias)
            added = torch.logaddexp(added, logits.logsumexp(dim=1))
        log_mass[k, rows] = added
