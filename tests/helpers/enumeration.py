"""Word probabilities by writing down every token sequence of a tiny model that ends after a few tokens.

An event is *the text begins with these characters, and a word ends there*. A complete sequence belongs to it if its
text does. It counts in the tokeniser's **own** spellings if the shortest part of it that reaches the end of the
characters is how the tokeniser begins some text of the event. In **all** spellings of a word, this is asked for where
the word begins, and not where it ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from brute_force import is_space
from wordprob.models.protocol import scores_from_logits

ALPHABET = "ab ."
LAST_CHARACTER = chr(0x10FFFF)
LONGEST_REST = 3
"""Characters that are tried behind a place: as many as the longest token has."""


class EndingLM:
    """A token bigram with random weights over a few characters that ends after some tokens, in any case.

    Parameters
    ----------
    tokenizer
        The tokeniser.
    longest
        How many tokens a text has at most.
    seed, spread
        Of the random logits.
    """

    batch_tokens = 512
    max_tokens = None
    metadata = {"model": "ending"}  # noqa: RUF012

    def __init__(self, tokenizer, longest=4, seed=0, spread=1.5):
        self.tokenizer = tokenizer
        vocabulary = tokenizer.vocabulary
        self.vocab_size, self._longest, self._ends = vocabulary.size, longest, list(vocabulary.ends)
        self._logits = np.random.default_rng(seed).normal(0.0, spread, (self.vocab_size, self.vocab_size))
        written = [bool(piece) and set(piece) <= set(ALPHABET.encode()) for piece in vocabulary.token_bytes]
        never = ~np.array(written)
        never[self._ends] = False
        self._logits[:, never] = -np.inf

    def logits(self, prefix):
        """Return the logits after a prefix, the start token included."""
        logits = self._logits[prefix[-1]]
        if len(prefix) <= self._longest:
            return logits
        only_ends = np.full(self.vocab_size, -np.inf)
        only_ends[self._ends] = logits[self._ends]
        return only_ends

    def score(self, requests, atoms):
        for number, request in enumerate(requests):
            ids = request.ids.tolist()
            rows = np.stack([self.logits(ids[: place + 1]) for place in range(request.first, len(ids))])
            yield number, scores_from_logits(rows, request, atoms)

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


class Sequence(NamedTuple):
    """A complete token sequence: its text, its probability, its ids, and where each token ends in the text."""

    text: str
    probability: float
    ids: tuple[int, ...]
    ends: tuple[int, ...]

    def cover(self, place):
        """Return the ids of the shortest part that reaches a place."""
        return self.ids[: next((n for n, end in enumerate((0, *self.ends)) if end >= place), 0)]


class Enumeration:
    """All texts of a model, and what a word definition makes of them.

    ``following`` are the characters that are tried behind a place, to see what the tokeniser writes before them.
    """

    following = ALPHABET

    def __init__(self, model, definition):
        self._model = model
        self._pieces = model.tokenizer.vocabulary.token_bytes
        self._dummy = self._written(model.tokenizer.encode(["a"])[0].ids.tolist()) == " a"
        self.sequences = sorted(each for each in self._all(()) if each is not None)
        self._texts = [each.text for each in self.sequences]
        self._words = cache(definition.segment)
        self.own_mass = cache(self._own_mass)

    def _written(self, ids):
        return b"".join(self._pieces[token] for token in ids).decode()

    def _all(self, ids, probability=1.0):
        """Yield every complete sequence, and None for one that is no text."""
        logits = self._model.logits((self._model.tokenizer.vocabulary.start, *ids))
        p = np.exp(logits - np.logaddexp.reduce(logits))
        ends = list(self._model.tokenizer.vocabulary.ends)
        yield self._sequence(ids, probability * float(p[ends].sum()))
        p[ends] = 0.0
        for token in np.flatnonzero(p).tolist():
            yield from self._all((*ids, token), probability * float(p[token]))

    def _sequence(self, ids, probability):
        text, ends = self._written(ids), np.cumsum([len(self._pieces[token]) for token in ids])
        if self._dummy and text:
            if not text.startswith(" ") or text == " ":  # the tokeniser writes a space before every text but the empty
                return None
            text, ends = text[1:], ends - 1
        return Sequence(text, probability, ids, tuple(np.array(ends, dtype=int).tolist()))

    # --- events ---

    def is_in(self, text, place):
        """Return True if a word of a text ends at a place; at its beginning, if no white space is there."""
        if not place:
            return not is_space(text[:1] or "a")
        return any(word.end == place for word in self._words(text))

    @cache  # noqa: B019  (a test makes a few of these)
    def own_covers(self, left):
        """Return how the tokeniser begins the texts of an event."""
        if not left:
            return {()}
        rests = ["".join(rest) for size in range(LONGEST_REST + 1) for rest in product(self.following, repeat=size)]
        texts = [left + rest for rest in rests if self.is_in(left + rest, len(left))]
        covers = set()
        for text in texts:
            ids = tuple(self._model.tokenizer.encode([text])[0].ids.tolist())
            found = self._sequence(ids, 0.0)
            if found is not None and found.text == text:
                covers.add(found.cover(len(left)))
        return covers

    def members(self, left):
        """Return the sequences whose texts are in an event."""
        those = slice(bisect_left(self._texts, left), bisect_left(self._texts, left + LAST_CHARACTER))
        return [each for each in self.sequences[those] if self.is_in(each.text, len(left))]

    def _own_mass(self, left):
        covers = self.own_covers(left)
        return sum(each.probability for each in self.members(left) if each.cover(len(left)) in covers)

    # --- words ---

    def own(self, context, word):
        """Return p(word | context) in own spellings; the word with the white space before it."""
        return self.own_mass(context + word) / self.own_mass(context)

    def every(self, context, word):
        """Return p(word | context) in all spellings."""
        covers = self.own_covers(context)
        mass = sum(e.probability for e in self.members(context + word) if e.cover(len(context)) in covers)
        return mass / self.own_mass(context)

    def next_words(self, context):
        """Return every word that can follow a context, with the white space before it."""
        found = defaultdict(float)
        for each in self.members(context):
            following = [word for word in self._words(each.text) if word.start >= len(context)]
            if following:
                found[each.text[len(context) : following[0].end]] += each.probability
        return [word for word, mass in found.items() if mass > 0]

    def end(self, context):
        """Return p(end | context): the tokens that the tokeniser writes for the context, and then the end."""
        ids = tuple(self._model.tokenizer.encode([context])[0].ids.tolist()) if context else ()
        return sum(each.probability for each in self.sequences if each.ids == ids) / self.own_mass(context)
