"""Processes that do everything for a page but run the model, which stays here and answers what they ask.

A fast GPU takes texts in faster than one Python process can read them, put the equation's terms together and launch the
model. So each of several processes scores whole pages, with a stand-in for the model that asks this process. What
goes to and fro is a few long arrays, whatever the number of texts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.errors import ModelError
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores, Tokenizer
from wordprob.scoring.ahead import Chunk, RequestSettings
from wordprob.scoring.page import BatchScorer, Progress
from wordprob.scoring.prepare import TextPreparer
from wordprob.tables.batch_scores import BatchScores

GRACE = 10
"""Seconds a process has to end before it is made to."""

MOST = 4
"""Processes that keep up with any model seen so far."""

FAST = 8192
"""A model that takes so many tokens at a time is on a GPU."""

MUCH = 1 << 23
"""Characters for which it pays to start processes."""

SIZE = struct.Struct("!Q")


def useful_workers(batch_tokens: int, characters: int) -> int:
    """Return how many processes pay for a model and so much text."""
    spare = (os.cpu_count() or 1) - 1
    return min(MOST, spare) if batch_tokens >= FAST and characters >= MUCH else 0


class Channel:
    """One end of a line between two processes: arrays go over it as they are, and other threads run meanwhile."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, thing: object) -> None:
        """Say something."""
        arrays: list[pickle.PickleBuffer] = []
        parts = [memoryview(pickle.dumps(thing, protocol=5, buffer_callback=arrays.append))]
        parts += [array.raw() for array in arrays]
        sizes = [len(parts), *(len(part) for part in parts)]
        self._end.sendall(b"".join(map(SIZE.pack, sizes)))
        for part in parts:
            self._end.sendall(part)

    def receive(self) -> Any:
        """Wait for what the other end says; ``EOFError`` if it has gone."""
        (count,) = SIZE.unpack(self._take(SIZE.size))
        sizes = [size for (size,) in SIZE.iter_unpack(self._take(count * SIZE.size))]
        said, *arrays = [self._take(size) for size in sizes]
        return pickle.loads(said, buffers=arrays)

    def _take(self, size: int) -> bytearray:
        found = bytearray(size)
        left = memoryview(found)
        while len(left):
            count = self._end.recv_into(left)
            if not count:
                raise EOFError
            left = left[count:]
        return found

    def close(self) -> None:
        """Go; whoever waits for this line, at either end, is told."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


class PackedRequests(NamedTuple):
    """Requests, laid end to end."""

    ids: Ints
    sizes: Ints
    firsts: Ints
    gather: Ints
    chosen: Ints
    gathers: Ints
    """How many of ``gather`` and ``chosen`` belong to each request."""
    lists: Sequence[Ints]
    inspect: Ints
    inspects: Ints
    """How many of ``inspect`` belong to each request; -1 where nothing was to be inspected."""

    @classmethod
    def of(cls, requests: Sequence[Request]) -> PackedRequests:
        """Lay requests end to end; they share their lists."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            ids=np.concatenate([nothing, *(r.ids for r in requests)]),
            sizes=np.array([len(r.ids) for r in requests], dtype=np.int64),
            firsts=np.array([r.first for r in requests], dtype=np.int64),
            gather=np.concatenate([nothing, *(r.gather for r in requests)]),
            chosen=np.concatenate([nothing, *(r.gather_lists for r in requests)]),
            gathers=np.array([len(r.gather) for r in requests], dtype=np.int64),
            lists=requests[0].id_lists if requests else [],
            inspect=np.concatenate([nothing, *(r.statistics_rows for r in requests)]),
            inspects=np.array([len(r.statistics_rows) if r.statistics else -1 for r in requests], dtype=np.int64),
        )

    def requests(self) -> list[Request]:
        """Return the requests again."""
        ids, gathers = _slices(self.sizes), _slices(self.gathers)
        looks = _slices(np.maximum(self.inspects, 0))
        return [
            Request(
                self.ids[a],
                first,
                self.gather[b],
                self.chosen[b],
                self.lists,
                ("entropy", "rank") if some else (),
                self.inspect[c],
            )
            for a, first, b, c, some in zip(
                ids, self.firsts.tolist(), gathers, looks, (self.inspects >= 0).tolist(), strict=True
            )
        ]


class PackedScores(NamedTuple):
    """The answers to questions, laid end to end."""

    target: Floats
    mass: Floats
    gathered: Floats
    entropy: Floats
    rank: Floats

    @classmethod
    def of(cls, scores: Sequence[Scores]) -> PackedScores:
        """Lay answers end to end."""
        nothing = np.zeros(0)
        return cls(
            np.concatenate([s.target for s in scores]) if scores else nothing,
            np.concatenate([s.mass for s in scores]) if scores else np.zeros((0, 0)),
            np.concatenate([nothing, *(s.gathered for s in scores)]),
            np.concatenate([nothing, *(s.statistics["entropy"] for s in scores if s.statistics)]),
            np.concatenate([nothing, *(s.statistics["rank"] for s in scores if s.statistics)]),
        )

    def scores(self, asked: PackedRequests) -> Iterator[Scores]:
        """Yield the answer to each of the questions."""
        rows = asked.sizes - asked.firsts
        looks, some = _slices(np.maximum(asked.inspects, 0)), (asked.inspects >= 0).tolist()
        for target, mass, gathered, look, looked in zip(
            _slices(rows - 1), _slices(rows), _slices(asked.gathers), looks, some, strict=True
        ):
            extra = {"entropy": self.entropy[look], "rank": self.rank[look]} if looked else {}
            yield Scores(self.target[target], self.mass[mass], self.gathered[gathered], extra)


def _slices(sizes: Ints) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(cumulative_offsets(sizes).tolist())]


# --- in a process of its own ---


class RemoteModel:
    """The model as a process sees it that has none: it asks at the other end of a line."""

    def __init__(self, line: Channel, tokenizer: Tokenizer, width: int, max_tokens: int | None) -> None:
        self._line = line
        self.tokenizer, self.vocab_size, self.max_tokens = tokenizer, width, max_tokens
        self.metadata: Mapping[str, str] = {}
        self.batch_tokens = 0

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Ask about requests; the other end knows the atoms."""
        asked = PackedRequests.of(requests)
        self._line.send(asked)
        replies: PackedScores = self._line.receive()
        yield from enumerate(replies.scores(asked))

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Do as :meth:`score`."""
        return self.score(requests, atoms)


class WorkerSetup(NamedTuple):
    """What a process must know."""

    reader: TextPreparer
    settings: RequestSettings
    extras: tuple[str, ...]
    width: int
    max_tokens: int | None


def read(end: socket.socket) -> None:
    """Score the pages that come over a line, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this is told, and lets it go
    line = Channel(end)
    with contextlib.suppress(EOFError, OSError):  # nobody is there any more
        work: WorkerSetup = line.receive()
        scorer = BatchScorer(RemoteModel(line, work.reader.tokenizer, work.width, work.max_tokens))
        while True:
            line.send(_attempt(scorer, work, line.receive()))


def _attempt(scorer: BatchScorer, work: WorkerSetup, part: Chunk) -> BatchScores | Exception:
    try:
        return replace(scorer.score(work.reader, part, work.settings, work.extras), documents=())
    except (EOFError, OSError):
        raise
    except Exception as error:  # to be raised where somebody sees it
        return error


# --- here ---


def score_in_workers(
    model: LanguageModel,
    reader: TextPreparer,
    parts: Sequence[Chunk],
    settings: RequestSettings,
    extras: Collection[str],
    processes: int,
    progress: Progress | None,
) -> Iterator[BatchScores]:
    """Score pages in processes of their own, run the model for them here, and yield them in order.

    They come without their documents, which never left.
    """
    work = WorkerSetup(reader, settings, tuple(extras), model.vocab_size, model.max_tokens)
    found: dict[int, BatchScores] = {}
    left, done, total, given = deque(range(len(parts))), 0, sum(len(part.documents) for part in parts), 0
    said: SimpleQueue[tuple[int, BatchScores] | Exception] = SimpleQueue()
    with _started(min(processes, len(parts))) as lines:
        attending = [
            threading.Thread(target=_attend, args=(line, work, model, parts, left, said), daemon=True) for line in lines
        ]
        for thread in attending:
            thread.start()
        while given < len(parts):
            n, scores = _good(said.get())
            found[n] = scores
            done += len(parts[n].documents)
            if progress is not None:
                progress(done, total)
            while given in found:
                yield found.pop(given)
                given += 1
        for thread in attending:
            thread.join()


def _attend(
    line: Channel,
    work: WorkerSetup,
    model: LanguageModel,
    parts: Sequence[Chunk],
    left: deque[int],
    said: SimpleQueue[tuple[int, BatchScores] | Exception],
) -> None:
    """Give a process one page after another, and answer what it asks about them."""
    try:
        line.send(work)
        while True:
            try:
                n = left.popleft()
            except IndexError:
                return
            line.send(parts[n]._replace(said=None))
            while isinstance(heard := line.receive(), PackedRequests):
                line.send(_answer(model, work.reader.atoms, heard))
            said.put(heard if isinstance(heard, Exception) else (n, heard))
    except Exception as error:  # raised where somebody sees it
        said.put(error)


def _answer(model: LanguageModel, atoms: Atoms, asked: PackedRequests) -> PackedScores:
    scores = dict(model.score(asked.requests(), atoms))
    return PackedScores.of([scores[n] for n in range(len(asked.sizes))])


def _good(said: tuple[int, BatchScores] | Exception) -> tuple[int, BatchScores]:
    """Return a page; raise what went wrong in a process, or with it."""
    if isinstance(said, EOFError | OSError):
        raise ModelError(
            "a process that reads texts died (out of memory? a script without `if __name__ == '__main__'`?); "
            "try fewer with --readers, or none."
        )
    if isinstance(said, Exception):
        raise said
    return said


@contextlib.contextmanager
def _started(count: int) -> Iterator[list[Channel]]:
    """Start processes, and see to it that they end."""
    spawn = multiprocessing.get_context("spawn")
    lines, running = [], []
    try:
        for _ in range(count):
            mine, theirs = socket.socketpair()
            process = spawn.Process(target=read, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            lines.append(Channel(mine))
            running.append(process)
        yield lines
    finally:
        for line in lines:
            line.close()
        for process in running:
            process.join(GRACE)
            process.kill()
