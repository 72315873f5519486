"""The scores of texts, from those of their parts: excerpts, sections, and empty texts that were left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from wordprob.core.arrays import Ints, segment_sums
from wordprob.core.text import Document
from wordprob.scoring.passages import Chunk, Passage
from wordprob.tables.batch_scores import BatchScores, TextTotals

# --- excerpts ---------------------------------------------------------------------------------------------------------


def join_excerpts(scores: BatchScores, chunk: Chunk) -> BatchScores:
    """Return the scores of texts from those of their excerpts; other scores come back unchanged."""
    if not _has_excerpts(chunk):
        return scores
    firsts = np.array([n for n, passage in enumerate(chunk.passages) if n == 0 or passage.excerpt == 0])
    stops = np.append(firsts[1:], len(chunk.passages))
    totals = scores.totals
    scored = _sums(totals.scored, firsts, stops)
    # An excerpt that has none of the words that were asked for adds nothing; a text that has none has no probability.
    of_excerpts = np.where(totals.words == 0, 0.0, totals.words_log_prob)
    words_log_prob = segment_sums(of_excerpts, firsts, stops)
    joined = TextTotals(
        words=_sums(totals.words, firsts, stops),
        scored=scored,
        surprisal=segment_sums(totals.surprisal, firsts, stops),
        tokens=_sums(totals.tokens, firsts, stops),
        token_log_prob=segment_sums(totals.token_log_prob, firsts, stops),
        words_log_prob=np.where((scored == 0) & ~np.isneginf(words_log_prob), np.nan, words_log_prob),
        end=totals.end[stops - 1],
        is_partial=_sums(totals.is_partial.astype(np.int64), firsts, stops) > 0,
    )
    return replace(scores, counts=_sums(scores.counts, firsts, stops), totals=joined)


def _sums(values: Ints, firsts: Ints, stops: Ints) -> Ints:
    """Return the sums of whole numbers."""
    return segment_sums(values.astype(np.float64), firsts, stops).astype(np.int64)


# --- sections ---------------------------------------------------------------------------------------------------------


def _has_excerpts(chunk: Chunk) -> bool:
    """Return True for a chunk of excerpts, each of which has a context of its own."""
    return chunk.passages[0].excerpt is not None


def join_sections(scored: Iterable[tuple[BatchScores, Chunk]]) -> Iterator[BatchScores]:
    """Yield batches with the documents that they are about; sections of one text count their words on and add up."""
    previous: BatchScores | None = None
    totals: TextTotals | None = None
    for scores, chunk in scored:
        subjects = [passage.subject for n, passage in enumerate(chunk.passages) if n == 0 or not passage.excerpt]
        batch = replace(scores, documents=subjects, goes_on=chunk.continues)
        if previous is not None:
            # Where contexts are limited, the boundary between two words has another value for each of them.
            closed = previous if _has_excerpts(chunk) else _close_section(previous, batch)
            yield closed
            totals = closed.totals if totals is None else _add_totals(totals, closed.totals)
            batch = replace(batch, first=previous.first + len(previous.starts))
        if chunk.continues:
            previous = batch
            continue
        yield batch if totals is None else replace(batch, totals=_add_totals(totals, batch.totals))
        previous = totals = None


def _close_section(section: BatchScores, following: BatchScores) -> BatchScores:
    """Return a section whose last boundary is the one that the section after it found."""
    change = following.before[0] - section.after[-1]
    surprisal, after, notes = section.surprisal.copy(), section.after.copy(), dict(section.notes)
    surprisal[-1] += change
    after[-1] = following.before[0]
    if np.isnan(change) and 0 in following.notes:
        notes.setdefault(len(after) - 1, following.notes[0])
    words_log_prob = section.totals.words_log_prob - change
    totals = replace(
        section.totals,
        scored=np.array([np.isfinite(surprisal).sum()]),
        surprisal=np.array([surprisal.sum()]),
        words_log_prob=words_log_prob,
        token_log_prob=words_log_prob,  # up to the boundary, as nothing is known of the end
    )
    return replace(section, surprisal=surprisal, after=after, notes=notes, totals=totals)


def _add_totals(first: TextTotals, second: TextTotals) -> TextTotals:
    """Return what two stretches of a text come to; only the second knows where the text ends."""
    return TextTotals(
        words=first.words + second.words,
        scored=first.scored + second.scored,
        surprisal=first.surprisal + second.surprisal,
        tokens=first.tokens + second.tokens,
        token_log_prob=first.token_log_prob + second.token_log_prob,
        words_log_prob=first.words_log_prob + second.words_log_prob,
        end=second.end,
        is_partial=first.is_partial | second.is_partial,
    )


# --- empty texts ------------------------------------------------------------------------------------------------------


def with_empty_texts(
    batches: Iterable[BatchScores], passages: Sequence[Passage], scored: Sequence[int]
) -> Iterator[BatchScores]:
    """Put the empty texts that were left out back into the batches.

    Empty texts are all alike: one of them is scored, and the others get its values.

    Parameters
    ----------
    batches
        The scored texts.
    passages
        All texts.
    scored
        The positions of the texts that were scored.
    """
    if len(scored) == len(passages):
        yield from batches
        return
    documents = [passage.document for passage in passages]
    done = 0
    empty: TextTotals | None = None
    stops = [*scored[1:], len(documents)]  # where the next text that was scored stands
    for batch in batches:
        if batch.goes_on:
            yield batch
            continue
        for n, document in enumerate(batch.documents):
            if empty is None and not document.text:
                empty = _picked(batch.totals, np.array([n]))
        first, last = done, done + len(batch.documents) - 1
        yield _filled(batch, documents[scored[first] : stops[last]], _sources(scored, stops, first, last), empty)
        done = last + 1


def _sources(scored: Sequence[int], stops: Sequence[int], first: int, last: int) -> Ints:
    """Return which text of a batch each text of the filled batch was scored as; -1 where it is an empty one."""
    sources = np.full(stops[last] - scored[first], -1)
    sources[np.array(scored[first : last + 1]) - scored[first]] = np.arange(last - first + 1)
    return sources


def _filled(batch: BatchScores, documents: Sequence[Document], sources: Ints, empty: TextTotals | None) -> BatchScores:
    if empty is None or len(documents) == len(batch.documents):
        return batch
    with_empty = _joined(batch.totals, empty)
    counts = np.where(sources < 0, 0, batch.counts[sources])
    return replace(batch, documents=documents, counts=counts, totals=_picked(with_empty, sources))


def _picked(totals: TextTotals, texts: Ints) -> TextTotals:
    return TextTotals(*(values[texts] for values in _arrays(totals)))


def _joined(first: TextTotals, second: TextTotals) -> TextTotals:
    pairs = zip(_arrays(first), _arrays(second), strict=True)
    return TextTotals(*(np.concatenate(pair) for pair in pairs))


def _arrays(totals: TextTotals) -> list[Any]:
    return [getattr(totals, field.name) for field in fields(totals)]
