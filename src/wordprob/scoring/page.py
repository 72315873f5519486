"""One page: from texts that only wait for the model to the terms of the equation for each of their words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from wordprob.core import equation as estimators
from wordprob.core.alignment import Cut
from wordprob.core.arrays import Floats, cumulative_offsets, segment_sums
from wordprob.models.protocol import LanguageModel, Request, Scores
from wordprob.scoring.ahead import Chunk, PreparedRequests, RequestSettings, head, prepare
from wordprob.scoring.collect import CollectedScores, WindowRequest
from wordprob.scoring.prepare import NO_START, BranchTail, PreparedBatch, TextPreparer
from wordprob.tables.batch_scores import BatchScores, TextTotals

Progress = Callable[[int, int], None]

BRANCHES = 2048
"""Branches followed at a time."""

ROWS = 1 << 14
"""Rows of answers put in their places at a time."""

UNDECIDED = 0.01
"""A row says so when more than this share of what may follow leaves open whether the word has ended."""

NO_END = "no end-of-text token"


class BatchScorer:
    """Scores pages with a model.

    Parameters
    ----------
    model
        The language model.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def score(
        self, reader: TextPreparer, part: Chunk, settings: RequestSettings, extras: Collection[str]
    ) -> BatchScores:
        """Read a page, ask the model and put its terms together, one after the other."""
        page = prepare(reader, part, settings)
        found = CollectedScores.nothing(page.reading)
        for answers in self.ask(page, reader):
            found.take(page.reading, answers, page.sets)
        return self.finish(page, found, part, extras)

    @property
    def start(self) -> int | None:
        """The start-of-text token."""
        return self.model.tokenizer.vocabulary.start

    @property
    def room(self) -> int | None:
        """How many tokens of a text fit into the model's context."""
        return None if self.model.max_tokens is None else self.model.max_tokens - (self.start is not None)

    # --- asking the model ---

    def ask(
        self,
        page: PreparedRequests,
        reader: TextPreparer,
        progress: Progress | None = None,
        before: int = 0,
        total: int = 0,
    ) -> Iterator[list[tuple[WindowRequest, Scores]]]:
        """Yield what the model says along the observed texts, and tell how many are done; then follow what leaves them.

        Answers come some thousand rows at a time, so that those of a long text need not all be kept.
        """
        left = np.bincount([ask.text for ask in page.asks], minlength=len(page.reading.page.documents))
        done, rows, found = int(np.sum(left == 0)), 0, []
        for k, scores in self.model.score([ask.request for ask in page.asks], reader.atoms):
            ask = page.asks[k]
            found.append((ask, scores))
            rows += len(scores.mass)
            left[ask.text] -= 1
            if not left[ask.text]:
                done += 1
                if progress is not None:
                    progress(before + done, total)
            if rows >= ROWS:
                yield found
                rows, found = 0, []
        if found:
            yield found
        self._follow(page.reading, reader)

    def _follow(self, reading: PreparedBatch, reader: TextPreparer) -> None:
        """Follow the branches that go on: log p of the ids after the first, and B at their end."""
        left = iter(reading.branches.follow.items())
        while part := list(islice(left, BRANCHES)):
            requests = [self._beyond(reading, branch, follow) for branch, follow in part]
            for n, scores in self.model.score(requests, reader.atoms):
                follow = part[n][1]
                follow.log_prob = float(scores.target.sum(dtype=np.float64))
                if follow.boundary is not None:
                    last = scores.mass[-1, reader.columns(follow.boundary)]
                    follow.log_mass = estimators.logsumexp(last.astype(np.float64))

    def _beyond(self, reading: PreparedBatch, branch: int, follow: BranchTail) -> Request:
        """Return the request for what comes after the first id of a branch, which is asked for with the text."""
        text = reading.text_of(reading.branches.boundaries[branch])
        at = reading.branches.rows[branch] - int(reading.rows[reading.first[text]])
        before = head(reading, text, reading.window_of(text, at), at, self.start)
        return Request(np.concatenate([before, follow.ids]), first=len(before))

    # --- the equation ---

    def finish(
        self,
        page: PreparedRequests,
        found: CollectedScores,
        part: Chunk,
        extras: Collection[str],
    ) -> BatchScores:
        """Put the equation's terms together for the words after those given, from what the model said."""
        reading = page.reading
        found.settle(reading)
        alignment, given, texts = reading.alignment, reading.given, np.arange(len(part.documents))
        end = found.end if self.model.tokenizer.vocabulary.ends else np.full(len(part.documents), np.nan)
        before, after = found.boundary[reading.after - 1], found.boundary[reading.after]
        terms = estimators.estimate(found.target, alignment.lows, alignment.stops, before, after)
        unsplit = _unsplit(reading)
        for values in (terms.naive, terms.corrected, found.entropy, found.rank):
            values[unsplit] = np.nan
        keep = reading.local >= given[alignment.owner]
        shift = (reading.page.begins[:-1] + (0 if part.origins is None else np.array(part.origins)))[alignment.owner]
        opening, closing = reading.first + given, np.append(reading.first[1:], len(reading.sets)) - 1
        low, stop = reading.rows[opening] - texts, reading.rows[closing] - texts
        between = segment_sums(found.target, low, stop)
        rest = segment_sums(found.target, stop, alignment.tokens[1:]) + end
        with np.errstate(invalid="ignore"):  # what has no probability has no end either
            words_log_prob = between + found.boundary[closing] - found.boundary[opening]
            ending = found.boundary[closing] - rest
        place, notes = np.cumsum(keep) - 1, self._notes(reading, found, terms.corrected)
        counts = np.bincount(alignment.owner[keep], minlength=len(part.documents))
        edges, kept = cumulative_offsets(counts), terms.corrected[keep]
        return BatchScores(
            documents=part.documents,
            counts=counts,
            data=reading.page.data,
            spans=(reading.page.at[reading.starts[keep]], reading.page.at[reading.ends[keep]]),
            starts=(reading.starts - shift)[keep],
            ends=(reading.ends - shift)[keep],
            n_tokens=(alignment.stops - alignment.lows)[keep],
            context_tokens=reading.context()[keep],
            surprisal=kept,
            naive=terms.naive[keep],
            before=terms.before[keep],
            after=terms.after[keep],
            statistics={name: getattr(found, name)[keep] for name in extras},
            notes={int(place[word]): note for word, note in notes.items() if keep[word]},
            totals=TextTotals(
                words=counts,
                scored=segment_sums(np.isfinite(kept).astype(float), edges[:-1], edges[1:]).astype(np.int64),
                surprisal=segment_sums(kept, edges[:-1], edges[1:]),
                tokens=alignment.tokens[1:] - low,
                token_log_prob=between + rest - found.boundary[opening],
                words_log_prob=np.where(opening == closing, 0.0, words_log_prob),
                end=ending,
            ),
            note=NO_START if self.start is None else NO_END if not self.model.tokenizer.vocabulary.ends else "",
        )

    def _notes(self, reading: PreparedBatch, found: CollectedScores, corrected: Floats) -> dict[int, str]:
        """Return what is to be said about words, by word."""
        for boundary, share in found.undecided.items():
            if share > UNDECIDED:
                word = boundary - reading.text_of(boundary) - 1
                reading.note(word, f"for {share:.0%} of what may follow, the pattern would have to read on")
        if self.start is None:
            for word in np.flatnonzero(reading.local == 0).tolist():
                reading.note(word, NO_START)
        for word in np.flatnonzero(np.isposinf(corrected)).tolist():
            reading.note(word, "probability zero")
        for word in np.flatnonzero(np.isnan(corrected)).tolist():
            if word not in reading.notes:
                reading.note(word, "what comes before it has probability zero")
        return {word: "; ".join(dict.fromkeys(reasons)) for word, reasons in reading.notes.items()}


def _unsplit(reading: PreparedBatch) -> NDArray[np.bool_]:
    """Mark the words whose tokens cannot be told from their neighbours'."""
    crossed = reading.alignment.cuts == Cut.SHARED
    before = np.append(False, crossed)[:-1] & (reading.local > 0)
    found: NDArray[np.bool_] = crossed | before | (reading.alignment.cuts == Cut.EMPTY)
    return found
