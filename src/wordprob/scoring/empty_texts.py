"""Empty texts are all alike: one of them is scored, and the others get its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.text import Document
from wordprob.scoring.requests import Progress
from wordprob.tables.batch_scores import BatchScores, TextTotals


def texts_to_score(documents: Sequence[Document]) -> list[int]:
    """Return the positions of the texts to score: all but the empty ones after the first.

    >>> texts_to_score([Document(n, text) for n, text in enumerate(["a", "", "b", "", ""])])
    [0, 1, 2]
    """
    empty = [n for n, document in enumerate(documents) if not document.text]
    left_out = set(empty[1:])
    return [n for n in range(len(documents)) if n not in left_out] if left_out else list(range(len(documents)))


def progress_over(progress: Progress | None, n_left_out: int) -> Progress | None:
    """Return what counts the texts that were left out as done, too."""
    if progress is None or not n_left_out:
        return progress
    return lambda done, in_all: progress(done + n_left_out, in_all + n_left_out)


def with_empty_texts(
    batches: Iterable[BatchScores], documents: Sequence[Document], scored: Sequence[int]
) -> Iterator[BatchScores]:
    """Put the empty texts that were left out back into the batches.

    Parameters
    ----------
    batches
        The scored texts.
    documents
        All texts.
    scored
        The positions of the texts that were scored.
    """
    if len(scored) == len(documents):
        yield from batches
        return
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
