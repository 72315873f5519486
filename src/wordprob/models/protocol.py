"""The seam to whatever computes probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.vocabulary import Tokens, Vocabulary


@dataclass(frozen=True)
class Request:
    """One row of token ids for a model, with extra ids to look at.

    Row ``j`` of the answer is the distribution after ``ids[: j + 1]``; rows before ``first`` are not needed.
    At the rows ``gather``, the log-mass of a list of ids is wanted, whose number among ``lists`` is in ``chosen``; at
    the rows ``inspect``, the entropy, and the rank of the next id.
    """

    ids: Ints
    first: int = 0
    gather: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    chosen: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lists: Sequence[Ints] = ()
    inspect: Ints | None = None


@dataclass(frozen=True)
class Scores:
    """A model's answer to a request, natural logarithms, in single or double precision.

    Attributes
    ----------
    target
        ``[R - 1]``: log p of the next id of the request, for rows ``first`` … last but one.
    mass
        ``[R, K]``: log-mass of every atom, for rows ``first`` … last.
    gathered
        One number for each row of ``Request.gather``.
    entropy, rank
        For each row of ``Request.inspect``: the entropy of the next id, and the rank of the one that came (1 is the
        likeliest).
    """

    target: Floats
    mass: Floats
    gathered: Floats = field(default_factory=lambda: np.zeros(0))
    entropy: Floats | None = None
    rank: Floats | None = None


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids with byte spans, and the vocabulary behind it."""

    vocabulary: Vocabulary

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, without special tokens."""

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return where a text can be cut, at a place or after it: where the first part ends and the rest begins.

        Apart they have the tokens that they have together. ``None`` where that is not sure.
        """


@runtime_checkable
class LanguageModel(Protocol):
    """The seam to whatever computes probabilities: one method."""

    tokenizer: Tokenizer
    max_tokens: int | None
    width: int
    metadata: Mapping[str, str]

    @property
    def batch_tokens(self) -> int:
        """About how many tokens it takes at a time."""

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Return ``(index of the request, its scores)`` in any order; what requests for late rows share is run once.

        Threads may ask at the same time. A model that works in the background has begun when this returns.
        """
