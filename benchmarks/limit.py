"""The limit that everything is compared with: batches through the trunk and the head, whose output is dropped."""

from __future__ import annotations

import numpy as np
import torch

from wordprob.core.windows import windows
from wordprob.models.batching import padded_batches

MAX_LOGITS = 1 << 23
"""How many logits exist at a time."""


def requests(model, texts):
    """Return what the model must see, as pairs of ids and the first row that is wanted."""
    start = model.tokenizer.vocabulary.start
    pairs = []
    for tokens in model.tokenizer.encode(texts):
        anywhere = np.arange(1, len(tokens.ids) + 1)
        for low, first, last in windows(len(tokens.ids), anywhere, model.max_tokens - 1):
            pairs.append(([start, *tokens.ids[low : last + 1].tolist()], first - low))
    return pairs


def bare(model, pairs):
    """Run what :func:`requests` returned through the trunk and the head, and drop the output."""
    weight = model.head_weight
    with torch.inference_mode():
        for batch in padded_batches([len(ids) for ids, _ in pairs], model.batch_tokens):
            ids, mask = model.forward.pad([pairs[n][0] for n in batch])
            hidden = model.network.base_model(input_ids=ids, attention_mask=mask)[0]
            rows = []
            for k, n in enumerate(batch):
                sequence, first = pairs[n]
                rows.append(hidden[k, first : len(sequence)])
            for some in torch.cat(rows).split(MAX_LOGITS // len(weight)):
                some @ weight.T
