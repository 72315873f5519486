"""Passages divided into chunks that are scored together, and their scores put together again.

The scores of a text come from those of its parts: excerpts, sections, and empty texts that were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from wordprob.core.arrays import Ints, segment_sums
from wordprob.core.text import Document
from wordprob.scoring.passages import Chunk, Passage
from wordprob.tables.schema import BatchScores, TextTotals

MAX_TEXTS_PER_CHUNK = 8192

CHARACTERS_PER_BATCH_TOKEN = 128
"""Characters in a chunk, about, for each token that the model takes at a time: some thirty batches."""

CHARACTERS_PER_TOKEN = 3
"""Characters of a token, about, in most languages and vocabularies."""

FIRST_CHUNK_CHARACTERS = 1 << 16
"""Characters of the first chunk, where chunks are larger: the model need not wait long for it."""

SHARED_CONTEXT_CHARACTERS = 1 << 20
"""Characters of whole texts that share a context, in a chunk."""

MIN_SHARED_CHARACTERS = 16
"""Shorter beginnings are not counted as shared."""
MIN_GAIN = 0.05
"""The share of all characters that another order must save."""

# --- which are scored, in which order, and how many together ----------------------------------------------------------


def without_repeated_empty(passages: Sequence[Passage]) -> list[int]:
    """Return the positions of the passages to score: all but the empty ones after the first, which are all alike.

    >>> from wordprob.scoring.passages import passages_of
    >>> without_repeated_empty(passages_of(["a", "", "b", "", ""]))
    [0, 1, 2]
    """
    empty = [n for n, passage in enumerate(passages) if not passage.document.text]
    left_out = set(empty[1:])
    return [n for n in range(len(passages)) if n not in left_out] if left_out else list(range(len(passages)))


def order_by_beginnings(texts: Sequence[str]) -> list[int] | None:
    """Return an order in which texts that begin alike are neighbours; ``None`` where that would save little.

    Examples
    --------
    >>> order_by_beginnings(["The old man went home.", "It rained.", "The old man went to bed."])
    [1, 0, 2]
    >>> order_by_beginnings(["The old man went home.", "The old man went to bed.", "It rained."])
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    gain = _shared_characters([texts[position] for position in order]) - _shared_characters(texts)
    return order if gain > MIN_GAIN * sum(map(len, texts)) else None


def _shared_characters(texts: Sequence[str]) -> int:
    """Return how many characters of texts are those that the text before begins with."""
    return sum(_n_alike(one, other) for one, other in pairwise(texts))


def _n_alike(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginning; 0 for few.

    >>> _n_alike("The old man went home.", "The old man went to bed.")
    17
    """
    if one[:MIN_SHARED_CHARACTERS] != other[:MIN_SHARED_CHARACTERS]:
        return 0
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def cut_into_chunks(
    passages: Sequence[Passage],
    max_characters: int,
    first_characters: int | None = None,
    shares_context: bool = False,
) -> list[Chunk]:
    """Return passages in chunks; parameters as for :func:`chunk_slices`."""
    lengths = [len(passage.document.text) for passage in passages]
    parts = chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, max_characters, first_characters)
    return [Chunk(passages[part], shares_context=shares_context) for part in parts]


def chunk_slices(
    lengths: Iterable[int], max_texts: int, max_characters: int, first_characters: int | None = None
) -> Iterator[slice]:
    """Cut a sequence of texts into chunks of at most ``max_texts`` texts and about ``max_characters`` characters.

    The first has about ``first_characters`` and each twice as many as the one before, so that work begins soon.

    >>> list(chunk_slices([3, 3, 9, 1], max_texts=2, max_characters=8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    limit = max_characters if first_characters is None else min(first_characters, max_characters)
    first = count = total = 0
    for length in lengths:
        if count and (count == max_texts or total + length > limit):
            yield slice(first, first + count)
            first, count, total = first + count, 0, 0
            limit = min(2 * limit, max_characters)
        count += 1
        total += length
    if count:
        yield slice(first, first + count)


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
