"""The readable path from hidden states to log-probabilities; every faster one is compared with it.

Rows go through the head a few at a time, so ``[rows, vocabulary]`` never exists in full, and all reductions are in
float32 whatever the dtype of the weights is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MAX_LOGITS = 1 << 23
"""How many logits exist at a time."""


def membership(atom_of_token: torch.Tensor, count: int) -> torch.Tensor:
    """Return ``[V, K]``: one where token v belongs to atom k."""
    import torch

    return torch.nn.functional.one_hot(atom_of_token, count).to(torch.float32)


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, members: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log p(target) ``[N]``, log-mass of every atom ``[N, K]`` and the log-normaliser ``[N]``.

    Parameters
    ----------
    logits
        ``[N, V]``.
    targets
        ``[N]`` ids.
    members
        ``[V, K]``, the partition of the vocabulary.
    """
    logits = logits.float()
    top = logits.max(dim=-1, keepdim=True).values
    mass = (logits - top).exp() @ members
    total = mass.sum(dim=-1, keepdim=True).log()
    target = logits.gather(-1, targets[:, None]) - top - total
    return target[:, 0], mass.log() - total, (top + total)[:, 0]


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    members: torch.Tensor,
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
