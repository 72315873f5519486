"""Threads around the sequential path: while the model runs one chunk, the next is prepared and the last is finished.

The steps are those of :func:`wordprob.scoring.open_model.score_chunk`, in the same order for every chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from wordprob.covers.ask import ask_together
from wordprob.models.protocol import LanguageModel, PrefixStates, capabilities_of
from wordprob.scoring.all_spellings import all_sums
from wordprob.scoring.background import BackgroundThread
from wordprob.scoring.beyond_texts import own_sums
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
from wordprob.tables.schema import BatchScores

CHUNKS_AHEAD = 2
"""Chunks prepared before they are needed."""

CHUNKS_BEHIND = 2
"""Groups of chunks that may wait to be finished."""


@dataclass
class _Asked:
    """A chunk that the model was asked about: the answers are put where they belong in the background."""

    prepared: PreparedBatch
    collected: CollectedScores
    collecting: list[Future[None]] = field(default_factory=list)


@dataclass
class _Group:
    """Chunks that ask together what goes beyond their texts, as many as the model can keep the states of."""

    states: PrefixStates | None = None
    chunks: list[_Asked] = field(default_factory=list)
    n_tokens: int = 0

    def has_room(self, chunk: Chunk, n_tokens: int, max_tokens: int | None) -> bool:
        """Return True if a chunk can be added; where nothing limits the states, each chunk is by itself."""
        if not self.chunks:
            return True
        if max_tokens is None or chunk.shares_context:
            return False
        # Memory for states is taken in powers of two.
        return self.n_tokens + n_tokens <= max_tokens // 2


def score_in_threads(
    model: LanguageModel,
    preparer: TextPreparer,
    chunks: Sequence[Chunk],
    settings: BatchSettings,
    progress: Progress | None = None,
) -> Iterator[BatchScores]:
    """Score chunks one after the other, and yield them in order."""
    n_texts = sum(len(chunk.passages) for chunk in chunks)
    max_kept_tokens = capabilities_of(model).max_kept_tokens
    n_done = 0
    shared = PrefixStates()
    unfinished: deque[Future[list[BatchScores]]] = deque()
    group = _Group()
    with BackgroundThread() as finishing:
        for prepared, asked in _prepared_ahead(preparer, chunks, settings):
            n_tokens = int(asked.requests.lengths.sum())
            if not group.has_room(prepared.chunk, n_tokens, max_kept_tokens):
                unfinished.append(finishing.submit(_finish, model, preparer, group))
                group = _Group()
                if len(unfinished) > CHUNKS_BEHIND:
                    yield from unfinished.popleft().result()
            if not group.chunks:
                group.states = states_for(model, prepared.chunk, settings, shared)
            chunk = _Asked(prepared, CollectedScores.empty(prepared))
            text_done = count_on(progress, n_done, n_texts)
            for answers in ask_along_texts(model, preparer.atoms, prepared, asked, group.states, text_done):
                chunk.collecting.append(finishing.submit(chunk.collected.add, prepared, answers))
            group.chunks.append(chunk)
            group.n_tokens += n_tokens
            n_done += len(prepared.chunk.passages)
        unfinished.append(finishing.submit(_finish, model, preparer, group))
        while unfinished:
            yield from unfinished.popleft().result()


def _finish(model: LanguageModel, preparer: TextPreparer, group: _Group) -> list[BatchScores]:
    """Take the last steps for some chunks, once all answers have been collected."""
    for chunk in group.chunks:
        for step in chunk.collecting:
            step.result()  # raises what went wrong there
    atoms, states = preparer.atoms, group.states
    own = [own_sums(preparer.events, chunk.prepared, chunk.collected) for chunk in group.chunks]
    ask_together(own, model, atoms, states)
    every = [all_sums(chunk.prepared, chunk.collected) for chunk in group.chunks]
    sums = ask_together(every, model, atoms, states)
    return [estimate_batch(chunk.prepared, chunk.collected, own) for chunk, own in zip(group.chunks, sums, strict=True)]


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
