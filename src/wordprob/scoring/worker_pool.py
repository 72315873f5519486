"""Worker processes that do everything for a chunk except run the model, which stays in this process.

A fast GPU takes texts in faster than one Python process can read them, put the equation's terms together and launch the
model. So each of several processes scores whole chunks, by the same steps, with a :class:`RemoteModel` that asks this
process. What goes to and fro is a few long arrays, whatever the number of texts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple

from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError
from wordprob.models.protocol import Capabilities, LanguageModel, PrefixStates, Request, Scores, capabilities_of
from wordprob.models.request_arrays import RequestArrays, ScoreArrays, ScoreBatches, in_batches
from wordprob.processes import Channel, WorkerProcess
from wordprob.scoring.passages import Chunk
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings
from wordprob.scoring.requests import ROWS_AT_ONCE, Progress
from wordprob.tables.schema import BatchScores

WORKER = "wordprob.scoring.open_model:score_for_parent"
"""The function that a worker process runs."""

MAX_USEFUL_WORKERS = 4
"""Processes that keep up with any model seen so far."""

MAX_IDLE_PROCESSES = 8
"""Processes that wait for the next call, at most."""

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


class ModelCall(NamedTuple):
    """What a worker process asks the model.

    Attributes
    ----------
    requests
        The requests.
    method
        The method of the model that is asked: ``score`` or ``open``.
    keep_states
        Whether the model keeps the contexts for later requests.
    """

    requests: RequestArrays
    method: str
    keep_states: bool = False


class WorkerSetup(NamedTuple):
    """What a worker process must know before its first chunk."""

    preparer: TextPreparer
    settings: BatchSettings
    vocab_size: int
    max_tokens: int | None
    capabilities: Capabilities


# --- in a worker process ----------------------------------------------------------------------------------------------


class RemoteModel:
    """The model as a process sees it that has none: it asks at the other end of a channel."""

    def __init__(self, channel: Channel, setup: WorkerSetup) -> None:
        self._channel = channel
        self.tokenizer = setup.preparer.tokenizer
        self.vocab_size = setup.vocab_size
        self.max_tokens = setup.max_tokens
        self.capabilities = setup.capabilities
        self.metadata: Mapping[str, str] = {}
        self.batch_tokens = 0

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Ask about sequences; the other end knows the atoms."""
        return self._ask(ModelCall(RequestArrays.of(requests), "score"))

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Ask about sequences that share their contexts; the other end keeps the states."""
        return self._ask(ModelCall(RequestArrays.of(requests), "open", keep_states=states is not None))

    def _ask(self, call: ModelCall) -> ScoreBatches:
        self._channel.send(call)
        answers: list[ScoreArrays] = self._channel.receive()
        return ScoreBatches(answers)


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
    setup = WorkerSetup(preparer, settings, model.vocab_size, model.max_tokens, capabilities_of(model))
    pool = _Pool(model, setup, chunks)
    n_texts = sum(len(chunk.passages) for chunk in chunks)
    n_done = n_yielded = 0
    finished: dict[int, BatchScores] = {}
    with pool.running(min(workers, len(chunks))):
        while n_yielded < len(chunks):
            number, scores = _checked(pool.results.get())
            finished[number] = scores
            n_done += len(chunks[number].passages)
            if progress is not None:
                progress(n_done, n_texts)
            while n_yielded in finished:
                yield finished.pop(n_yielded)
                n_yielded += 1


ChunkResult = tuple[int, BatchScores]


@dataclass
class ReadingProcess:
    """A worker process, and the setup that it was sent last."""

    process: WorkerProcess
    setup: WorkerSetup | None = None

    def set_up(self, setup: WorkerSetup) -> None:
        """Send a setup, unless the process has it; what it remembers of a model that may change is forgotten."""
        if self.setup != setup or setup.capabilities.may_change:
            self.process.channel.send(setup)
            self.setup = setup


class IdleProcesses:
    """Worker processes that wait for more to do: starting one takes longer than a GPU takes for a thousand texts."""

    def __init__(self) -> None:
        self._waiting: list[ReadingProcess] = []
        self._lock = threading.Lock()

    def take(self, count: int) -> list[ReadingProcess]:
        """Return processes, new ones if too few are waiting."""
        with self._lock:
            running = [worker for worker in self._waiting if worker.process.running]
            taken, self._waiting = running[:count], running[count:]
        return taken + [ReadingProcess(WorkerProcess(WORKER)) for _ in range(count - len(taken))]

    def put_back(self, workers: Sequence[ReadingProcess]) -> None:
        """Let processes wait for more, up to :data:`MAX_IDLE_PROCESSES`."""
        with self._lock:
            self._waiting += workers
            excess, self._waiting = self._waiting[MAX_IDLE_PROCESSES:], self._waiting[:MAX_IDLE_PROCESSES]
        _end(excess)

    def end_all(self) -> None:
        """End all processes that wait."""
        with self._lock:
            workers, self._waiting = self._waiting, []
        _end(workers)


def _end(workers: Sequence[ReadingProcess]) -> None:
    for worker in workers:
        worker.process.channel.close()
    for worker in workers:
        worker.process.join()


_idle = IdleProcesses()
atexit.register(_idle.end_all)


@dataclass
class _Pool:
    """Worker processes, each with a thread that hands out chunks to it and answers what it asks about them."""

    model: LanguageModel
    setup: WorkerSetup
    chunks: Sequence[Chunk]

    def __post_init__(self) -> None:
        self.results: SimpleQueue[ChunkResult | Exception] = SimpleQueue()
        self._next_chunks = deque(range(len(self.chunks)))
        self._shared_states = PrefixStates()

    @contextlib.contextmanager
    def running(self, count: int) -> Iterator[None]:
        """Start the processes and their threads; afterwards the processes wait for more, or end if anything failed."""
        workers = _idle.take(count)
        threads = [threading.Thread(target=self._attend, args=(worker,), daemon=True) for worker in workers]
        is_done = False
        try:
            for thread in threads:
                thread.start()
            yield
            is_done = True
        finally:
            if is_done:
                for thread in threads:
                    thread.join()
                _idle.put_back(workers)
            else:
                _end(workers)

    def _attend(self, worker: ReadingProcess) -> None:
        """Give a process one chunk after another, and answer what it asks about them."""
        channel = worker.process.channel
        try:
            worker.set_up(self.setup)
            while True:
                try:
                    number = self._next_chunks.popleft()
                except IndexError:
                    return
                chunk = self.chunks[number]
                channel.send(chunk.without_sources())
                states = self._shared_states if chunk.shares_context else PrefixStates()
                while isinstance(message := channel.receive(), ModelCall):
                    channel.send(self._answer(message, states))
                self.results.put(message if isinstance(message, Exception) else (number, message))
        except Exception as error:  # raised by the thread that waits for results
            self.results.put(error)

    def _answer(self, call: ModelCall, states: PrefixStates) -> list[ScoreArrays]:
        atoms = self.setup.preparer.atoms
        if call.method == "open":
            answers = self.model.open(call.requests, atoms, states if call.keep_states else None)
        else:
            answers = self.model.score(call.requests, atoms)
        return list(in_batches(answers, ROWS_AT_ONCE))


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
