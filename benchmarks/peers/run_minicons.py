"""minicons, as its documentation has it: words with the correction on, in batches of eight."""

from __future__ import annotations

import sys

import protocol
from minicons.scorer import IncrementalLMScorer

BATCH = 8

scorer = IncrementalLMScorer(sys.argv[1], "cpu")


def score(texts):
    found = []
    for low in range(0, len(texts), BATCH):
        found += scorer.word_score_tokenized(
            texts[low : low + BATCH], tokenize_function=str.split, bow_correction=True, bos_token=True, surprisal=True
        )
    values = [[value for _, value in text] for text in found]
    return lambda: ([[word for word, _ in text] for text in found], {"corrected": values})


protocol.serve(score, ["minicons", "torch", "transformers"])
