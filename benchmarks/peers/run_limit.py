"""The limit: batches through the trunk and the head, whose output is dropped."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import limit
import protocol

import wordprob

model = wordprob.load(sys.argv[1], device="cpu").model


def score(requests):
    limit.bare(model, requests)
    return lambda: ([], {})


protocol.serve(score, ["torch", "transformers"], lambda texts: limit.requests(model, texts))
