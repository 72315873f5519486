"""A model's own next-token distributions, by the textbook route."""

from __future__ import annotations

import numpy as np
import torch


def next_log_probs(model, prefixes):
    """Return the log-distribution after each prefix of ids: the transformers model's logits, in float64."""
    rows = []
    for prefix in prefixes:
        ids = torch.tensor([[int(i) for i in prefix]], device=model.network.device)
        with torch.inference_mode():
            logits = model.network(input_ids=ids).logits[0, -1].double()
        rows.append(torch.log_softmax(logits, dim=-1).cpu().numpy())
    return rows


def all_logits(model, ids):
    """Return the logits ``[R, V]`` after every prefix of ids, in float64."""
    with torch.inference_mode():
        logits = model.network(input_ids=torch.from_numpy(np.asarray(ids))[None].to(model.network.device)).logits
    return logits[0].double().cpu().numpy()
