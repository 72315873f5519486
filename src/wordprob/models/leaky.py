"""A model that leaks onto every spelling: a token bigram with random weights, and tokens that overlap.

Any sequence of its tokens has some probability, whatever the tokenizer would have written. As a token depends on the
one before it only, the mass on all spellings of a word is a short dynamic programme over the place in the text and the
last token, which :meth:`LeakyLM.truth` is. It judges the search for every spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wordprob.core import words
from wordprob.core.arrays import Floats
from wordprob.core.atoms import Atoms
from wordprob.core.characters import is_white_space
from wordprob.models.protocol import PrefixStates, Request, Scores, scores_from_logits
from wordprob.models.toy_tokenizer import START_ID, ToyTokenizer

PIECES = (" mark", " ma", "mark", "ma", "ark", "rk", "er", "ed", "ke", " m", "r.", "..", "'s", " the", "th", "he", ". ")
CHUNKS = r" ?\w+|'s|'|[.]+|\s"


class LeakyLM:
    """A token bigram with random weights.

    Parameters
    ----------
    tokenizer
        Its own spelling of a text is one of many that have probability.
    seed
        Of the random weights.
    spread
        Standard deviation of the logits.

    Examples
    --------
    >>> import wordprob
    >>> scorer = wordprob.Scorer(LeakyLM())
    >>> table = scorer.score("the marker", spellings="all", tolerance=1e-9, max_open=10_000, unit="nats")
    >>> found = table.to_pandas()["surprisal_all"]
    >>> [bool(abs(np.exp(-s) - p) < 1e-9) for s, (_, p) in zip(found, LeakyLM().truth("the marker", "whitespace"))]
    [True, True]
    """

    max_tokens: int | None = None
    batch_tokens = 4096

    def __init__(self, tokenizer: ToyTokenizer | None = None, seed: int = 1, spread: float = 1.5) -> None:
        self.tokenizer = ToyTokenizer(CHUNKS, PIECES) if tokenizer is None else tokenizer
        self.vocab_size = self.tokenizer.vocabulary.size
        self.metadata = {"model": "exact:leaky", "revision": "", "dtype": "float64"}
        self._logits = np.random.default_rng(seed).normal(0.0, spread, (self.vocab_size, self.vocab_size))
        self._logits[:, START_ID] = -np.inf

    def distribution(self, last: int) -> Floats:
        """Return p(next id) after an id."""
        weights = np.exp(self._logits[last])
        probabilities: Floats = weights / weights.sum()
        return probabilities

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests."""
        for n, request in enumerate(requests):
            yield n, scores_from_logits(self._logits[request.ids[request.first :]], request, atoms)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the same as :meth:`score`: keeping states would save nothing."""
        return self.score(requests, atoms)

    # --- the truth ---

    def truth(self, text: str, definition: str) -> list[tuple[str, float]]:
        """Return each word of a text with its probability in every spelling, given the words before it as they stand.

        This holds for tokenizers that write the words before a word in one way only, whatever follows them.
        """
        found = []
        place = 0
        for word in words.define(definition).segment(text):
            last = [START_ID, *self.tokenizer.ids(text[:place])][-1]
            reached = self.boundary_mass(text[:place], last, definition, text[:1])
            found.append((word.text, self._mass(text, place, word.end, last, definition) / reached))
            place = word.end
        return found

    def _mass(self, text: str, place: int, end: int, last: int, definition: str) -> float:
        """Return the mass of all token sequences after ``last`` that write ``text[place:end]`` and end it there."""
        masses: list[dict[int, float]] = [{} for _ in range(end - place + 1)]
        masses[0][last] = 1.0
        total = 0.0
        for written, alive in enumerate(masses):
            rest = text[place + written : end]
            for previous, mass in alive.items():
                if not rest:
                    total += mass * self.boundary_mass(text[:end], previous, definition, "")
                    continue
                probabilities = self.distribution(previous)
                for token, piece in self._pieces():
                    p = mass * float(probabilities[token])
                    if rest.startswith(piece):
                        following = masses[written + len(piece)]
                        following[token] = following.get(token, 0.0) + p
                    elif piece.startswith(rest) and self._ends(text[:end], piece[len(rest) :], definition):
                        total += p
        return total

    def boundary_mass(self, text: str, last: int, definition: str, opening: str) -> float:
        """Return the mass of what may follow a text: the end, or something that ends its last word.

        At the start of a text, what counts is whether it begins with white space, as ``opening`` does.
        """
        probabilities = self.distribution(last)
        spaced = is_white_space(opening)
        total = 0.0
        for token, piece in self._pieces():
            fits = self._ends(text, piece, definition) if text else is_white_space(piece[0]) == spaced
            total += float(probabilities[token]) if fits else 0.0
        return total if spaced and not text else total + float(probabilities[self.tokenizer.vocabulary.ends[0]])

    def _pieces(self) -> Iterator[tuple[int, str]]:
        for token, piece in enumerate(self.tokenizer.vocabulary.token_bytes):
            if piece:
                yield token, piece.decode()

    @staticmethod
    def _ends(text: str, rest: str, definition: str) -> bool:
        return any(word.end == len(text) for word in words.define(definition).segment(text + rest))
