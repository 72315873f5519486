"""One model in memory, one request at a time; the others wait in a short line.

The model lives in a process of its own. What takes too long (a large text, a regular expression that never comes back)
is ended with it, the server goes on, and the next request starts a new one.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from wordprob import errors
from wordprob.errors import ModelError, WordprobError
from wordprob.server.settings import ServerSettings

if TYPE_CHECKING:
    from wordprob.tables.result import WordTable

KEPT = 8
"""Results kept, so that downloading what is on the screen scores nothing anew."""


class BusyError(Exception):
    """The line is full."""


class SlowError(Exception):
    """Scoring took too long and was ended."""


class BrokenError(Exception):
    """The process that holds the model failed; the message is for the server's log."""


@dataclass(frozen=True)
class ScoringJob:
    """What is to be scored, and how; ``model`` is a public name."""

    model: str
    texts: tuple[str, ...]
    words: str | tuple[tuple[str, ...], ...] = "whitespace"
    unit: str = "bits"
    ids: tuple[str, ...] | None = None


@dataclass(eq=False)
class Ticket:
    """A place in the line: ``state`` goes from waiting through loading to scoring."""

    ask: ScoringJob
    future: Future[WordTable] = field(default_factory=Future)
    state: str = "waiting"


class ScoringQueue:
    """Takes requests, and has them scored one after the other.

    Parameters
    ----------
    settings
        The models it may open, how many may wait, and how long scoring may take. Loading a model may take longer.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._line: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._kept: OrderedDict[ScoringJob, WordTable] = OrderedDict()
        self._process: BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._thread = threading.Thread(target=self._run, name="wordprob-desk", daemon=True)
        self._thread.start()

    def submit(self, ask: ScoringJob) -> Ticket:
        """Put a request in the line; raises :class:`BusyError` where it is full."""
        ticket = Ticket(ask)
        with self._changed:
            if ask in self._kept:
                ticket.future.set_result(self._kept[ask])
                return ticket
            self._line = deque(other for other in self._line if not other.future.cancelled())
            if len(self._line) >= self._settings.waiting:
                raise BusyError
            self._line.append(ticket)
            self._changed.notify()
        return ticket

    def load(self, model: str) -> None:
        """Open a model now, and wait for it."""
        try:
            self.submit(ScoringJob(model, ())).future.result()
        except BrokenError as error:
            raise ModelError(f"{model} could not be loaded: {str(error).strip().splitlines()[-1]}") from error

    def close(self) -> None:
        """Stop, whatever is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._end()
        self._thread.join()
        self._end()

    def _run(self) -> None:
        while (ticket := self._next()) is not None:
            if not ticket.future.set_running_or_notify_cancel():
                continue
            try:
                table = self._score(ticket)
            except Exception as error:
                ticket.future.set_exception(error)
            else:
                self._keep(ticket.ask, table)
                ticket.future.set_result(table)

    def _next(self) -> Ticket | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._line)
            return None if self._closed else self._line.popleft()

    def _keep(self, ask: ScoringJob, table: WordTable) -> None:
        with self._changed:
            self._kept[ask] = table
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _score(self, ticket: Ticket) -> WordTable:
        ticket.state = "loading"
        connection = self._open()
        connection.send((self._settings.models[ticket.ask.model], ticket.ask))
        self._receive(connection, None)
        ticket.state = "scoring"
        table: WordTable = self._receive(connection, self._settings.timeout)
        return table

    def _receive(self, connection: Connection[Any, Any], timeout: float | None) -> Any:
        """Return what the process sends, or raise what it says."""
        try:
            if not connection.poll(timeout):
                self._end()
                raise SlowError
            kind, value = connection.recv()
        except (EOFError, OSError):
            self._end()
            raise BrokenError("the process that holds the model ended; was there enough memory?") from None
        if kind == "refused":
            raise getattr(errors, value[0], WordprobError)(value[1])
        if kind == "failed":
            raise BrokenError(value)
        return value

    def _open(self) -> Connection[Any, Any]:
        """Return the connection to the process, a new one where there is none."""
        if self._process is None or self._connection is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=work, args=(theirs, dict(self._settings.options)), daemon=True)
            self._process.start()
            theirs.close()
        return self._connection

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()


def work(connection: Connection[Any, Any], options: Mapping[str, Any]) -> None:
    """Score what comes through the connection until it closes; one model in memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    scorer = LoadedModel(options)
    while True:
        try:
            source, ask = connection.recv()
        except EOFError:
            return
        try:
            scorer.open(source)
            connection.send(("ready", None))
            connection.send(("done", scorer.score(ask)))
        except WordprobError as error:
            connection.send(("refused", (type(error).__name__, str(error))))
        except Exception:
            connection.send(("failed", traceback.format_exc()))


class LoadedModel:
    """The model in memory; opening another lets go of it first."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._source = ""
        self._scorer: Any = None

    def open(self, source: str) -> None:
        """Have this model in memory."""
        from wordprob.scoring.loading import load

        if source != self._source:
            self._source, self._scorer = "", None
            gc.collect()  # the one model goes before the other comes
            self._scorer, self._source = load(source, **self._options), source

    def score(self, ask: ScoringJob) -> WordTable:
        """Score with it."""
        words = ask.words if isinstance(ask.words, str) else [list(part) for part in ask.words]
        table: WordTable = self._scorer.score(list(ask.texts), words, unit=ask.unit, ids=ask.ids)
        return table
