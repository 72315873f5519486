"""What the model said about a page, and the boundary masses that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wordprob.core import equation as estimators
from wordprob.core.arrays import Floats, Ints, concat_ranges, cumulative_offsets, segment_sums
from wordprob.models.protocol import Request, Scores
from wordprob.scoring.prepare import CERTAIN, ENDS, PreparedBatch


@dataclass(frozen=True)
class WindowRequest:
    """A request about one window of a text, and where its answer goes."""

    text: int
    row: int
    """The page's row that the answer begins with."""
    boundaries: slice
    """The boundaries it settles."""
    final: bool
    """Whether it reaches the end of the text."""
    branches: Ints
    """The branches that leave the text here."""
    words: Ints
    """The words whose beginnings are looked at more closely."""
    request: Request


@dataclass
class CollectedScores:
    """Everything in natural logarithms, along the page; not a number where the model said nothing."""

    target: Floats
    """Of every token."""
    boundary: Floats
    """B, and once settled B̃, at every boundary."""
    end: Floats
    """That each text ends after its last token."""
    entropy: Floats
    rank: Floats
    leaving: Floats
    """Of leaving the text, at every branch."""
    undecided: dict[int, float] = field(default_factory=dict)
    """Share of what may follow that leaves open whether a word has ended, by boundary."""

    @classmethod
    def nothing(cls, reading: PreparedBatch) -> CollectedScores:
        """Make room for what a page needs."""
        words, texts = len(reading.starts), len(reading.page.documents)
        return cls(
            target=np.full(len(reading.ids), np.nan),
            boundary=np.full(words + texts, np.nan),
            end=np.full(texts, np.nan),
            entropy=np.full(words, np.nan),
            rank=np.full(words, np.nan),
            leaving=np.zeros(len(reading.branches.rows)),
        )

    def take(self, reading: PreparedBatch, answers: Sequence[tuple[WindowRequest, Scores]], sets: Floats) -> None:
        """Put answers where they belong; ``sets`` says which atoms are in which set."""
        self._take_path(reading, answers, sets)
        for ask, scores in answers:
            if len(ask.branches):
                self.leaving[ask.branches] = scores.gathered
            if scores.statistics:
                self.entropy[ask.words] = scores.statistics["entropy"]
                self.rank[ask.words] = scores.statistics["rank"]
            if reading.undecided:
                self._take_undecided(reading, ask, scores)

    def _take_path(self, reading: PreparedBatch, part: Sequence[tuple[WindowRequest, Scores]], sets: Floats) -> None:
        """Take log p of the tokens, B at the boundaries and p(end)."""
        rows = np.array([ask.row for ask, _ in part])
        texts = np.array([ask.text for ask, _ in part])
        self.target[concat_ranges(rows - texts, [len(s.target) for _, s in part])] = np.concatenate(
            [s.target for _, s in part]
        )
        mass = np.exp(np.concatenate([s.mass for _, s in part], dtype=np.float64))
        edges = cumulative_offsets([len(s.mass) for _, s in part])
        counts = np.array([ask.boundaries.stop - ask.boundaries.start for ask, _ in part])
        which = concat_ranges(np.array([ask.boundaries.start for ask, _ in part]), counts)
        there = reading.rows[which] + np.repeat(edges[:-1] - rows, counts)
        final = np.array([ask.final for ask, _ in part])
        with np.errstate(divide="ignore"):
            self.boundary[which] = np.log((mass[there] * sets[reading.sets[which]]).sum(axis=1))
            self.end[texts[final]] = np.log(mass[edges[1:][final] - 1] @ sets[ENDS])

    def _take_undecided(self, reading: PreparedBatch, ask: WindowRequest, scores: Scores) -> None:
        for boundary in range(ask.boundaries.start, ask.boundaries.stop):
            if boundary in reading.undecided:
                open_mass = scores.mass[reading.rows[boundary] - ask.row, reading.undecided[boundary]]
                self.undecided[boundary] = float(np.exp(estimators.logsumexp(open_mass.astype(np.float64))))

    def settle(self, reading: PreparedBatch) -> None:
        """Turn B into B̃: nothing where there is no boundary, 1 where it is certain, all spellings together."""
        self.boundary[reading.sets == CERTAIN] = 0.0
        self._branch(reading)
        self.boundary[reading.missing] = np.nan

    def _branch(self, reading: PreparedBatch) -> None:
        """Add the other spellings to the observed one."""
        if not reading.branches.rows:
            return
        boundaries = np.array(reading.branches.boundaries)
        log_mass = np.zeros(len(boundaries))
        for n, follow in reading.branches.follow.items():
            self.leaving[n] += follow.log_prob
            log_mass[n] = follow.log_mass
        text = np.searchsorted(reading.first, boundaries, side="right") - 1
        row, low = (reading.rows[b] - text for b in (boundaries, np.maximum(boundaries - 1, 0)))
        low = np.where(boundaries > reading.first[text], low, reading.alignment.tokens[text])
        before = segment_sums(self.target, low, np.array(reading.branches.rows) - text)
        with np.errstate(invalid="ignore"):  # a spelling of probability zero has no ratio to others
            ratio = before + self.leaving - segment_sums(self.target, low, row)
        self.boundary[:] = estimators.effective_boundaries(self.boundary, boundaries, ratio + log_mass)
