"""How far two computations of the same log-probability may be apart, from the arithmetic of float32.

Two machines, or two batches, add the same float32 numbers in another order. A sum of n terms that is rounded after each
addition is off by about ``u·√n`` of its size: u is half the distance from 1 to the next float32, and the errors are
practically random, so they add up like the steps of a random walk. On its way to a logit a number goes through one sum
after another: in every layer four products with matrices of ``hidden`` terms (queries, keys and values, the output of
attention, the first half of the feed-forward block), one of ``inner`` terms, and finally the head's. So a logit of size
z is off by about ``u·z·√n``, where n is the number of all these terms. A log-probability is the difference of a logit
and the logarithm of a sum over V tokens, which adds another ``u·z·√n`` and ``u·√V``.
"""

from __future__ import annotations

import numpy as np
import torch

UNIT_ROUNDOFF = float(np.finfo(np.float32).eps) / 2
LARGEST_OF_MANY = 4
"""The largest of some ten thousand random errors is about four times as large as a typical one."""


def float32_sum_tolerance(terms: int, size: float = 1.0) -> float:
    """Return how far a float32 sum of so many terms, of some size, may be from the same sum in another order."""
    return LARGEST_OF_MANY * UNIT_ROUNDOFF * size * float(np.sqrt(terms))


def float32_log_prob_tolerance(model, log_probs: int = 1) -> float:
    """Return how far a sum of log-probabilities of a model in float32 may be from another computation of it.

    A word's surprisal has one for each of its tokens, and one for each of the terms ``before`` and ``after``.
    """
    config = model.network.config
    hidden = config.hidden_size
    inner = getattr(config, "intermediate_size", None) or getattr(config, "dff", None) or 4 * hidden
    terms = config.num_hidden_layers * (4 * hidden + inner) + hidden
    with torch.inference_mode():
        logits = model.network(
            input_ids=(torch.arange(3, 35, device=model.network.device) % model.vocab_size)[None]
        ).logits
    size = float(logits.abs().max())
    one = 2 * float32_sum_tolerance(terms, size) + float32_sum_tolerance(model.vocab_size)
    return log_probs * one
