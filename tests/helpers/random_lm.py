"""A language model for tests: any tokenizer, instant, and a value that depends on the last three tokens only."""

from __future__ import annotations

import numpy as np

from wordprob.models.protocol import scores_from_logits


class RandomLM:
    """Logits from two fixed random vectors, mixed by the last tokens: every text has a probability."""

    batch_tokens = 512

    def __init__(self, tokenizer, max_tokens=None, memory=3, impossible=(), further_ids=0):
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.vocab_size = tokenizer.vocabulary.size + further_ids
        self.metadata = {"model": "random"}
        self._memory = memory
        self._first, self._second = np.random.default_rng(5).normal(0, 2, (2, self.vocab_size))
        self._impossible = list(impossible)

    def logits(self, prefix):
        angle = 0.37 * sum((k + 1) * token for k, token in enumerate(prefix[-self._memory :]))
        logits = self._first * np.cos(angle) + self._second * np.sin(angle)
        logits[self._impossible] = -np.inf
        return logits

    def score(self, requests, atoms):
        for n, request in enumerate(requests):
            ids = request.ids.tolist()
            rows = np.stack([self.logits(ids[: j + 1]) for j in range(request.first, len(ids))])
            yield n, scores_from_logits(rows, request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)
