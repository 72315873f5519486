"""surprisal, as its documentation has it: a list of texts at once, words by character spans.

It has no batches of its own, and a whole corpus at once would not fit; so the lists are of eight texts, which also pads
less than one long list would.
"""

from __future__ import annotations

import re
import sys

import protocol
from surprisal import AutoHuggingFaceModel

BATCH = 8

model = AutoHuggingFaceModel.from_pretrained(sys.argv[1], model_class="causal")


def score(texts):
    words, values = [], []
    for low in range(0, len(texts), BATCH):
        part = texts[low : low + BATCH]
        for text, found in zip(part, model.surprise(part), strict=True):
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            words.append([text[a:b] for a, b in spans])
            values.append([float(found[a:b, "char"]) for a, b in spans])
    return lambda: (words, {"naive": values})


protocol.serve(score, ["surprisal", "torch", "transformers"])
