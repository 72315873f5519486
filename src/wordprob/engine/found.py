"""What the model said about a page, and the boundary masses that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wordprob import estimators
from wordprob.engine.reader import CERTAIN, ENDS, Branch, Reading
from wordprob.types import Floats, Ints, Request, Scores


@dataclass(frozen=True)
class Ask:
    """A request about one window of a text, and where its answer goes."""

    text: int
    row: int
    """The page's row that the answer begins with."""
    boundaries: slice
    """The boundaries it settles."""
    final: bool
    """Whether it reaches the end of the text."""
    leaving: Sequence[Branch]
    words: Ints
    """The words whose beginnings are looked at more closely."""
    request: Request


@dataclass
class Found:
    """Everything in natural logarithms, along the page; not a number where the model said nothing."""

    target: Floats
    """Of every token."""
    boundary: Floats
    """B, and once settled B̃, at every boundary."""
    end: Floats
    """That each text ends after its last token."""
    entropy: Floats
    rank: Floats
    undecided: dict[int, float] = field(default_factory=dict)
    """Share of what may follow that leaves open whether a word has ended, by boundary."""

    @classmethod
    def nothing(cls, reading: Reading) -> Found:
        """Make room for what a page needs."""
        words, texts = len(reading.starts), len(reading.page.documents)
        room = [np.full(n, np.nan) for n in (len(reading.ids), words + texts, texts, words, words)]
        return cls(*room[:5])

    def take(self, reading: Reading, ask: Ask, scores: Scores, sets: Floats) -> None:
        """Put the answer to a request where it belongs; ``sets`` says which atoms are in which set."""
        low = ask.row - ask.text
        self.target[low : low + len(scores.target)] = scores.target
        rows = reading.rows[ask.boundaries] - ask.row
        with np.errstate(divide="ignore"):
            mass = np.exp(scores.mass[rows]) * sets[reading.sets[ask.boundaries]]
            self.boundary[ask.boundaries] = np.log(mass.sum(axis=1))
            if ask.final:
                self.end[ask.text] = np.log(np.exp(scores.mass[-1]) @ sets[ENDS])
        for branch, logs in zip(ask.leaving, scores.gathered, strict=True):
            branch.log_prob += estimators.logsumexp(logs)
        if scores.entropy is not None and scores.rank is not None:
            self.entropy[ask.words], self.rank[ask.words] = scores.entropy, scores.rank
        for boundary, columns in reading.undecided.items() if reading.undecided else ():
            if ask.boundaries.start <= boundary < ask.boundaries.stop:
                open_mass = scores.mass[reading.rows[boundary] - ask.row, columns]
                self.undecided[boundary] = float(np.exp(estimators.logsumexp(open_mass)))

    def settle(self, reading: Reading) -> None:
        """Turn B into B̃: nothing where there is no boundary, 1 where it is certain, all spellings together."""
        self.boundary[reading.sets == CERTAIN] = 0.0
        for boundary, branches in reading.branches.items():
            self.boundary[boundary] = self._effective(reading, boundary, branches)
        self.boundary[reading.missing] = np.nan

    def _effective(self, reading: Reading, boundary: int, branches: Sequence[Branch]) -> float:
        text = reading.text_of(boundary)
        begin = int(reading.alignment.tokens[text])
        row = int(reading.rows[boundary]) - text
        low = int(reading.rows[boundary - 1]) - text if boundary > reading.first[text] else begin
        taken = float(np.sum(self.target[low:row]))
        others = [(float(np.sum(self.target[low : begin + b.at])) + b.log_prob - taken, b.log_mass) for b in branches]
        return estimators.effective_boundary(float(self.boundary[boundary]), others)
