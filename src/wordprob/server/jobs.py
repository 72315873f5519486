"""The jobs that the server does with a model: scoring texts, and searching for the next word.

A job is frozen and holds only what can be hashed and sent to the worker process, so its result can be kept under it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wordprob.core.words import define
from wordprob.options import ScoringOptions
from wordprob.server.request_schema import SCORING_FIELDS

if TYPE_CHECKING:
    from wordprob.scoring.next_words import NextWords
    from wordprob.scoring.results import WordTable
    from wordprob.scoring.scorer import Scorer


@dataclass(frozen=True)
class Job(ABC):
    """What a client wants of a model.

    Attributes
    ----------
    model
        The name under which the server offers the model.
    texts
        The texts; a job without any only loads the model.
    """

    model: str
    texts: tuple[str, ...]

    @abstractmethod
    def run(self, scorer: Scorer) -> WordTable | NextWords:
        """Do the job with the model, in the worker process."""


@dataclass(frozen=True)
class ScoringJob(Job):
    """Texts to score, and how.

    Attributes
    ----------
    words
        A word definition by name, or the words of each text. Not part of ``options``, which check it: a client's
        pattern is compiled in the worker process only, where it cannot hold up the server.
    ids
        Names for the texts; counted from 0 by default.
    options
        All other options of scoring.
    """

    words: str | tuple[tuple[str, ...], ...] = "whitespace"
    ids: tuple[str, ...] | None = None
    options: ScoringOptions = field(default_factory=ScoringOptions)

    def run(self, scorer: Scorer) -> WordTable:
        """Score the texts."""
        if isinstance(self.words, str):
            define(self.words)  # an error for list:FILE too: a request must not read files of this machine
        words = self.words if isinstance(self.words, str) else [list(words) for words in self.words]
        options = {name: getattr(self.options, name) for name in SCORING_FIELDS if name != "words"}
        return scorer.score(list(self.texts), words, ids=self.ids, **options)


@dataclass(frozen=True)
class NextJob(Job):
    """A context, the only text, after which the next word is searched for.

    Attributes
    ----------
    words, top, unit, mass, spellings, max_open
        As for :meth:`wordprob.Scorer.next_words`.
    """

    words: str = "whitespace"
    top: int = 20
    unit: str = "bits"
    mass: float | None = None
    spellings: str = "own"
    max_open: int = ScoringOptions.max_open

    def run(self, scorer: Scorer) -> NextWords:
        """Search for the words that could come next."""
        (context,) = self.texts
        return scorer.next_words(
            context,
            self.words,
            top=self.top,
            mass=self.mass,
            max_open=self.max_open,
            unit=self.unit,
            spellings=self.spellings,
        )
