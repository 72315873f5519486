"""A language model for tests: any tokenizer, instant, and a value that depends on the last three tokens only."""

from __future__ import annotations

import numpy as np

from wordprob.models.protocol import scores_from_logits


class RandomLM:
    """Logits from two fixed random vectors, mixed by the last tokens: every text has a probability."""

    batch_tokens = 512

    def __init__(self, tokenizer, max_tokens=None, memory=3, impossible=(), further_ids=0, cut_off_logit=0.0):
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.vocab_size = tokenizer.vocabulary.size + further_ids
        self.metadata = {"model": "random"}
        self._memory = memory
        self._always = np.zeros(self.vocab_size)
        self._first, self._second = np.random.default_rng(5).normal(0, 2, (2, self.vocab_size))
        self._impossible = list(impossible)
        # Where a vocabulary is mostly single bytes, reading on through all of them takes long: let them be unlikely.
        for token, piece in enumerate(tokenizer.vocabulary.token_bytes):
            if cut_off_logit and not _is_text(piece):
                self._first[token], self._second[token] = 0.0, 0.0
                self._always[token] = cut_off_logit

    def logits(self, prefix):
        angle = 0.37 * sum((k + 1) * token for k, token in enumerate(prefix[-self._memory :]))
        logits = self._first * np.cos(angle) + self._second * np.sin(angle) + self._always
        logits[self._impossible] = -np.inf
        return logits

    def score(self, requests, atoms):
        for n, request in enumerate(requests):
            ids = request.ids.tolist()
            rows = np.stack([self.logits(ids[: j + 1]) for j in range(request.first, len(ids))])
            yield n, scores_from_logits(rows, request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


def _is_text(piece):
    """Return True if bytes are whole characters."""
    return piece.decode("utf-8", "ignore").encode() == piece
