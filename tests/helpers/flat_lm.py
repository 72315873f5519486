"""A language model for tests of boundaries: any tokenizer, and no token is much more likely than another.

So every other spelling of a word, and every token that reaches over its end, changes the word's probability.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np

from brute_force import first_character
from wordprob.models.protocol import scores_from_logits

END_LOGIT = 7.0
"""The end of the text gets a few per cent."""
HEAVY_CUT_OFF_TOKENS = 6
"""Tokens that stop inside a character and are as likely as the others."""
LIGHT = -7.0
"""Added to the logits of the other ones."""
IMPOSSIBLE = -20.0
"""Added to what no text has: tokens that begin inside a character where none is open, and others where one is."""


class FlatLM:
    """Logits from two random vectors, mixed by the last three tokens."""

    batch_tokens = 512
    max_tokens = None
    metadata = {"model": "flat"}  # noqa: RUF012

    def __init__(self, tokenizer, seed=0):
        self.tokenizer = with_start(tokenizer)
        vocabulary = self.tokenizer.vocabulary
        self.vocab_size = vocabulary.size
        rng = np.random.default_rng(seed)
        self._first, self._second = rng.normal(0, 1, (2, self.vocab_size))
        pieces = vocabulary.token_bytes
        inner = np.array([bool(piece) and 0x80 <= piece[0] < 0xC0 for piece in pieces])
        cut_off = np.array([isinstance(first_character(piece), bytes) for piece in pieces])
        self._always = np.zeros(self.vocab_size)
        self._always[rng.permutation(np.flatnonzero(cut_off))[HEAVY_CUT_OFF_TOKENS:]] += LIGHT
        never = np.array(
            [bool(piece) and not 0x80 <= piece[0] < 0xC0 and first_character(piece) is None for piece in pieces]
        )
        self._always[never] += IMPOSSIBLE
        self._always[list(vocabulary.ends)] += END_LOGIT
        if vocabulary.unknown is not None:
            self._always[vocabulary.unknown] = -np.inf
        self._inside = np.where(inner, self._always, self._always + IMPOSSIBLE)
        self._always = np.where(inner, self._always + IMPOSSIBLE, self._always)

    def logits(self, prefix):
        """Return the logits of the next token."""
        angle = 0.37 * sum((k + 1) * token for k, token in enumerate(prefix[-3:]))
        random = self._first * np.cos(angle) + self._second * np.sin(angle)
        return random + (self._inside if self._stops_inside(prefix) else self._always)

    def _stops_inside(self, prefix):
        """Return True if the last bytes of a prefix begin a character that they do not complete."""
        tail = b"".join(self.tokenizer.vocabulary.token_bytes[i] for i in prefix[-4:])[-3:]
        return any(isinstance(first_character(tail[k:]), bytes) for k in range(len(tail)))

    def distribution(self, prefix):
        """Return p(next id)."""
        weights = np.exp(self.logits(prefix))
        return weights / weights.sum()

    def score(self, requests, atoms):
        for n, request in enumerate(requests):
            ids = request.ids.tolist()
            rows = np.stack([self.logits(ids[: j + 1]) for j in range(request.first, len(ids))])
            yield n, scores_from_logits(rows, request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


def with_start(tokenizer):
    """Return a tokenizer that has a document token: one more control token if it has none."""
    old = tokenizer.vocabulary
    if old.start is not None:
        return tokenizer
    vocabulary = dataclasses.replace(
        old,
        pieces=(*old.pieces, None),
        tokens=(*old.tokens, "<document>"),
        marked=np.append(old.marked, False),
        spaced=np.append(old.spaced, False),
        start=old.size,
        ends=(old.size,),
    )
    return SimpleNamespace(vocabulary=vocabulary, encode=tokenizer.encode, cut=tokenizer.cut)
