"""The readable path from hidden states to log-probabilities; every faster one is compared with it.

Rows go through the head a few at a time, so ``[rows, vocabulary]`` never exists in full, and all reductions are in
float32 whatever the dtype of the weights is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

MAX_LOGITS = 1 << 23
"""How many logits exist at a time."""


class Membership(NamedTuple):
    """Which tokens belong to which atom, in two forms.

    Attributes
    ----------
    matrix
        ``[V, K]``: one where token v belongs to atom k.
    ids
        For each atom, the ids of its tokens.
    """

    matrix: torch.Tensor
    ids: tuple[torch.Tensor, ...]


def membership(atom_of_token: torch.Tensor, count: int) -> Membership:
    """Return the partition of a vocabulary into ``count`` atoms from the atom of every token, ``[V]``."""
    import torch

    matrix = torch.nn.functional.one_hot(atom_of_token, count).to(torch.float32)
    return Membership(matrix, tuple(torch.nonzero(atom_of_token == k)[:, 0] for k in range(count)))


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, members: Membership
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log p(target) ``[N]``, log-mass of every atom ``[N, K]`` and the log-normaliser ``[N]``.

    Each atom is added up relative to its own largest logit, so that one far below the others keeps its mass.

    Parameters
    ----------
    logits
        ``[N, V]``.
    targets
        ``[N]`` ids.
    members
        The partition of the vocabulary.
    """
    import torch

    logits = logits.float()
    mass = torch.stack([logits.index_select(1, ids).logsumexp(dim=1) for ids in members.ids], dim=1)
    normaliser = mass.logsumexp(dim=1)
    target = logits.gather(1, targets[:, None])[:, 0]
    return target - normaliser, mass - normaliser[:, None], normaliser


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    members: Membership,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the same as :func:`score_logits`, for logits ``hidden @ weight.T + bias`` of a few rows at a time."""
    import torch

    step = max(1, MAX_LOGITS // weight.shape[0])
    hidden = hidden.float()
    weight = weight.float()
    bias = None if bias is None else bias.float()
    parts = []
    for low in range(0, hidden.shape[0], step):
        logits = torch.nn.functional.linear(hidden[low : low + step], weight, bias)
        parts.append(score_logits(logits, targets[low : low + step], members))
    target, mass, normaliser = (torch.cat(part) for part in zip(*parts, strict=True))
    return target, mass, normaliser
