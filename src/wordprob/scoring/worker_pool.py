"""Worker processes that do everything for a chunk except run the model, which stays in this process.

A fast GPU takes texts in faster than one Python process can read them, put the equation's terms together and launch the
model. So each of several processes scores whole chunks, by the same steps, with a :class:`RemoteModel` that asks this
process. What goes to and fro is a few long arrays, whatever the number of texts.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints, concat_ints, cumulative_offsets, slices_of
from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores, Tokenizer
from wordprob.processes import Channel, WorkerProcess
from wordprob.scoring.prepare import BatchSettings, Chunk, TextPreparer
from wordprob.scoring.requests import Progress
from wordprob.tables.batch_scores import BatchScores

WORKER = "wordprob.scoring.scorer:score_for_parent"
"""The function that a worker process runs."""

MAX_USEFUL_WORKERS = 4
"""Processes that keep up with any model seen so far."""

MIN_GPU_BATCH_TOKENS = 8192
"""A model that takes so many tokens at a time is on a GPU."""

MIN_CHARACTERS_FOR_WORKERS = 1 << 23
"""Characters of text for which it pays to start processes."""


def useful_workers(batch_tokens: int, n_characters: int) -> int:
    """Return how many processes pay for a model and so much text."""
    if batch_tokens < MIN_GPU_BATCH_TOKENS or n_characters < MIN_CHARACTERS_FOR_WORKERS:
        return 0
    return min(MAX_USEFUL_WORKERS, (os.cpu_count() or 1) - 1)


# --- what goes over a channel -----------------------------------------------------------------------------------------


class PackedRequests(NamedTuple):
    """Requests, laid end to end.

    ``n_gather`` and ``n_statistics`` say how many of ``gather`` and ``statistics_rows`` belong to each request.
    Requests that are made together share ``id_lists`` and ``statistics``. ``method`` is the method of the model that is
    asked, and ``keep_states`` says whether it keeps the contexts for later requests.
    """

    ids: Ints
    n_ids: Ints
    firsts: Ints
    n_context: Ints
    gather: Ints
    gather_lists: Ints
    n_gather: Ints
    id_lists: Sequence[Ints]
    statistics: tuple[str, ...]
    statistics_rows: Ints
    n_statistics: Ints
    method: str
    keep_states: bool

    @classmethod
    def pack(cls, requests: Sequence[Request], method: str, keep_states: bool = False) -> PackedRequests:
        """Lay requests end to end."""
        return cls(
            ids=concat_ints(request.ids for request in requests),
            n_ids=np.array([len(request.ids) for request in requests], dtype=np.int64),
            firsts=np.array([request.first for request in requests], dtype=np.int64),
            n_context=np.array([request.n_context for request in requests], dtype=np.int64),
            gather=concat_ints(request.gather for request in requests),
            gather_lists=concat_ints(request.gather_lists for request in requests),
            n_gather=np.array([len(request.gather) for request in requests], dtype=np.int64),
            id_lists=requests[0].id_lists if requests else (),
            statistics=requests[0].statistics if requests else (),
            statistics_rows=concat_ints(request.statistics_rows for request in requests),
            n_statistics=np.array([len(request.statistics_rows) for request in requests], dtype=np.int64),
            method=method,
            keep_states=keep_states,
        )

    def unpack(self) -> list[Request]:
        """Return the requests again."""
        ids = slices_of(cumulative_offsets(self.n_ids))
        gather = slices_of(cumulative_offsets(self.n_gather))
        statistics = slices_of(cumulative_offsets(self.n_statistics))
        return [
            Request(
                ids=self.ids[ids[n]],
                first=first,
                gather=self.gather[gather[n]],
                gather_lists=self.gather_lists[gather[n]],
                id_lists=self.id_lists,
                statistics=self.statistics,
                statistics_rows=self.statistics_rows[statistics[n]],
                context_tokens=n_context,
            )
            for n, (first, n_context) in enumerate(zip(self.firsts.tolist(), self.n_context.tolist(), strict=True))
        ]


class PackedScores(NamedTuple):
    """The answers to packed requests, laid end to end."""

    target: Floats
    mass: Floats
    gathered: Floats
    statistics: Mapping[str, Floats]

    @classmethod
    def pack(cls, scores: Sequence[Scores], statistics: Sequence[str]) -> PackedScores:
        """Lay answers end to end."""
        if not scores:
            return cls(np.zeros(0), np.zeros((0, 0)), np.zeros(0), {})
        return cls(
            target=np.concatenate([answer.target for answer in scores]),
            mass=np.concatenate([answer.mass for answer in scores]),
            gathered=np.concatenate([answer.gathered for answer in scores]),
            statistics={name: np.concatenate([answer.statistics[name] for answer in scores]) for name in statistics},
        )

    def unpack(self, requests: PackedRequests) -> Iterator[Scores]:
        """Yield the answer to each of the requests."""
        n_rows = requests.n_ids - requests.firsts
        targets = slices_of(cumulative_offsets(n_rows - 1))
        masses = slices_of(cumulative_offsets(n_rows))
        gathered = slices_of(cumulative_offsets(requests.n_gather))
        statistics = slices_of(cumulative_offsets(requests.n_statistics))
        for n in range(len(n_rows)):
            yield Scores(
                target=self.target[targets[n]],
                mass=self.mass[masses[n]],
                gathered=self.gathered[gathered[n]],
                statistics={name: values[statistics[n]] for name, values in self.statistics.items()},
            )


class WorkerSetup(NamedTuple):
    """What a worker process must know before its first chunk."""

    preparer: TextPreparer
    settings: BatchSettings
    vocab_size: int
    max_tokens: int | None


# --- in a worker process ----------------------------------------------------------------------------------------------


class RemoteModel:
    """The model as a process sees it that has none: it asks at the other end of a channel."""

    def __init__(self, channel: Channel, tokenizer: Tokenizer, vocab_size: int, max_tokens: int | None) -> None:
        self._channel = channel
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self.max_tokens = max_tokens
        self.metadata: Mapping[str, str] = {}
        self.batch_tokens = 0

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Ask about sequences; the other end knows the atoms."""
        return self._ask(PackedRequests.pack(requests, "score"))

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Ask about sequences that share their contexts; the other end keeps the states."""
        return self._ask(PackedRequests.pack(requests, "open", keep_states=states is not None))

    def _ask(self, requests: PackedRequests) -> Iterator[tuple[int, Scores]]:
        self._channel.send(requests)
        answers: PackedScores = self._channel.receive()
        return enumerate(answers.unpack(requests))


# --- in this process --------------------------------------------------------------------------------------------------


def score_in_workers(
    model: LanguageModel,
    preparer: TextPreparer,
    chunks: Sequence[Chunk],
    settings: BatchSettings,
    workers: int,
    progress: Progress | None = None,
) -> Iterator[BatchScores]:
    """Score chunks in worker processes, run the model for them here, and yield them in order.

    They come without their documents, which never left.
    """
    setup = WorkerSetup(preparer, settings, model.vocab_size, model.max_tokens)
    pool = _Pool(model, setup, chunks)
    n_texts = sum(len(chunk.documents) for chunk in chunks)
    n_done = n_yielded = 0
    finished: dict[int, BatchScores] = {}
    with pool.running(min(workers, len(chunks))):
        while n_yielded < len(chunks):
            number, scores = _checked(pool.results.get())
            finished[number] = scores
            n_done += len(chunks[number].documents)
            if progress is not None:
                progress(n_done, n_texts)
            while n_yielded in finished:
                yield finished.pop(n_yielded)
                n_yielded += 1


ChunkResult = tuple[int, BatchScores]


@dataclass
class _Pool:
    """Worker processes, each with a thread that hands out chunks to it and answers what it asks about them."""

    model: LanguageModel
    setup: WorkerSetup
    chunks: Sequence[Chunk]

    def __post_init__(self) -> None:
        self.results: SimpleQueue[ChunkResult | Exception] = SimpleQueue()
        self._next_chunks = deque(range(len(self.chunks)))
        self._states = PrefixStates()

    @contextlib.contextmanager
    def running(self, count: int) -> Iterator[None]:
        """Start the processes and their threads, and make sure that they end."""
        workers: list[WorkerProcess] = []
        try:
            for _ in range(count):
                workers.append(WorkerProcess(WORKER))
                threading.Thread(target=self._attend, args=(workers[-1].channel,), daemon=True).start()
            yield
        finally:
            for worker in workers:
                worker.channel.close()
            for worker in workers:
                worker.join()

    def _attend(self, channel: Channel) -> None:
        """Give a process one chunk after another, and answer what it asks about them."""
        try:
            channel.send(self.setup)
            while True:
                try:
                    number = self._next_chunks.popleft()
                except IndexError:
                    return
                channel.send(self.chunks[number]._replace(source_documents=None))
                while isinstance(message := channel.receive(), PackedRequests):
                    channel.send(self._answer(message))
                self.results.put(message if isinstance(message, Exception) else (number, message))
        except Exception as error:  # raised by the thread that waits for results
            self.results.put(error)

    def _answer(self, packed: PackedRequests) -> PackedScores:
        requests, atoms = packed.unpack(), self.setup.preparer.atoms
        if packed.method == "open":
            states = self._states if packed.keep_states else None
            scores = dict(self.model.open(requests, atoms, states))
        else:
            scores = dict(self.model.score(requests, atoms))
        return PackedScores.pack([scores[n] for n in range(len(requests))], packed.statistics)


def _checked(result: ChunkResult | Exception) -> ChunkResult:
    """Return a scored chunk; raise what went wrong in a worker process, or with it."""
    if isinstance(result, EOFError | OSError):
        raise ModelError(
            "a process that reads texts died, perhaps because memory ran out; try fewer `readers`, or none."
        )
    if isinstance(result, Exception):
        raise result
    return result


def without_documents(scores: BatchScores) -> BatchScores:
    """Return scores that are cheap to send: the other end has the documents."""
    return replace(scores, documents=())
