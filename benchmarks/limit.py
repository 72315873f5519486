"""The limit that everything is measured against: batches through trunk and head, and nothing made of it."""

from __future__ import annotations

import numpy as np
import torch

from wordprob.core.windows import windows
from wordprob.models.batching import padded_batches

LOGITS = 1 << 23
"""Logits in hand at a time."""


def requests(model, texts):
    """Return what the model must see, as pairs of ids and the first place that is asked for."""
    start, found = model.tokenizer.vocabulary.start, []
    for tokens in model.tokenizer.encode(texts):
        anywhere = np.arange(1, len(tokens.ids) + 1)
        for low, first, last in windows(len(tokens.ids), anywhere, model.max_tokens - 1):
            found.append(([start, *tokens.ids[low : last + 1].tolist()], first - low))
    return found


def bare(model, asked):
    """Run the batches through trunk and head, and drop what comes out."""
    weight = model._head.weight
    with torch.inference_mode():
        for batch in padded_batches([len(ids) for ids, _ in asked], model._budget):
            ids, mask = model._padded([asked[n][0] for n in batch])
            hidden = model._model.base_model(input_ids=ids, attention_mask=mask)[0]
            wanted = [hidden[k, asked[n][1] : len(asked[n][0])] for k, n in enumerate(batch)]
            for part in torch.cat(wanted).split(LOGITS // len(weight)):
                part @ weight.T
