"""Threads around the sequential path: while the model runs one chunk, the next is prepared and the last is finished.

The steps are those of :func:`wordprob.scoring.scorer.score_chunk`, in the same order for every chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from wordprob.models.protocol import LanguageModel, PrefixStates
from wordprob.scoring.all_spellings import SpellingSums, sum_all_spellings
from wordprob.scoring.background import BackgroundThread
from wordprob.scoring.beyond_texts import ask_beyond_texts
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.estimate import estimate_batch
from wordprob.scoring.passages import Chunk
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings, PreparedBatch
from wordprob.scoring.progress import count_on
from wordprob.scoring.requests import (
    Progress,
    WindowRequests,
    ask_along_texts,
    states_for,
    window_requests,
)
from wordprob.tables.batch_scores import BatchScores

CHUNKS_AHEAD = 2
"""Chunks prepared before they are needed."""

CHUNKS_BEHIND = 2
"""Chunks that may wait to be finished."""


def score_in_threads(
    model: LanguageModel,
    preparer: TextPreparer,
    chunks: Sequence[Chunk],
    settings: BatchSettings,
    progress: Progress | None = None,
) -> Iterator[BatchScores]:
    """Score chunks one after the other, and yield them in order."""
    n_texts = sum(len(chunk.passages) for chunk in chunks)
    n_done = 0
    states = PrefixStates()
    unfinished: deque[Future[BatchScores]] = deque()
    with BackgroundThread() as finishing:
        for prepared, asked in _prepared_ahead(preparer, chunks, settings):
            collected = CollectedScores.empty(prepared)
            text_done = count_on(progress, n_done, n_texts)
            kept = states_for(model, prepared.chunk, settings, states)
            collecting = []
            for answers in ask_along_texts(model, preparer.atoms, prepared, asked, kept, text_done):
                collecting.append(finishing.submit(collected.add, prepared, answers))
            events = preparer.events
            go_beyond = partial(ask_beyond_texts, model, preparer.atoms, events, prepared, collected, kept)
            sum_up = partial(sum_all_spellings, model, preparer.atoms, prepared, collected, kept)
            unfinished.append(finishing.submit(_finish, prepared, collected, collecting, go_beyond, sum_up))
            n_done += len(prepared.chunk.passages)
            if len(unfinished) > CHUNKS_BEHIND:
                yield unfinished.popleft().result()
        while unfinished:
            yield unfinished.popleft().result()


def _finish(
    prepared: PreparedBatch,
    collected: CollectedScores,
    collecting: Sequence[Future[None]],
    go_beyond: Callable[[], None],
    sum_up: Callable[[], SpellingSums | None],
) -> BatchScores:
    """Take the last steps for a chunk, once all answers have been collected."""
    for step in collecting:
        step.result()  # raises what went wrong there
    go_beyond()
    return estimate_batch(prepared, collected, sum_up())


def _prepared_ahead(
    preparer: TextPreparer, chunks: Sequence[Chunk], settings: BatchSettings
) -> Iterator[tuple[PreparedBatch, WindowRequests]]:
    """Yield the chunks in order, prepared in the background."""

    def prepare(chunk: Chunk) -> tuple[PreparedBatch, WindowRequests]:
        prepared = preparer.prepare(chunk, settings)
        return prepared, window_requests(prepared)

    with BackgroundThread() as preparing:
        coming: deque[Future[tuple[PreparedBatch, WindowRequests]]] = deque()
        for chunk in chunks:
            coming.append(preparing.submit(prepare, chunk))
            if len(coming) > CHUNKS_AHEAD:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
