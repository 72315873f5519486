"""A queue of scoring jobs: one model in memory, one job at a time, a few more waiting.

The model lives in a worker process. A job that takes too long (a large text, a regular expression that backtracks
forever) is stopped by killing that process. The server keeps running, and the next job starts a new process.
"""

from __future__ import annotations

import gc
import threading
import time
import traceback
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wordprob import errors
from wordprob.errors import ModelError, WordprobError
from wordprob.options import ModelOptions
from wordprob.processes import Channel, WorkerProcess
from wordprob.server.jobs import Job, ScoringJob
from wordprob.server.server_settings import ServerSettings
from wordprob.server.waiting_line import BusyError, WaitingLine

if TYPE_CHECKING:
    from wordprob.scoring.next_words import NextWords
    from wordprob.scoring.results import WordTable
    from wordprob.scoring.scorer import Scorer

CACHED_RESULTS = 8
"""Results that are kept, so that downloading what the page shows does not score it again."""

LEFT_ALONE_SECONDS = 2.0
"""How long a job goes on whose client has left. One that is nearly done ends by itself, and the model stays loaded."""

CHECK_SECONDS = 0.25
"""Time between checks whether the client of a job has left."""


class ModelLoadingError(BusyError):
    """A request was given up while its model was still being loaded."""

    reason = "the model is still being loaded"


class SlowError(Exception):
    """Scoring took too long and was stopped."""


class WorkerError(Exception):
    """The worker process failed. The message is for the server's log, not for clients."""


@dataclass(eq=False)
class Ticket:
    """A job in the queue: its future result, how far it is, who sent it, and since when nobody waits for it."""

    job: Job
    future: Future[Any] = field(default_factory=Future)
    state: Literal["waiting", "loading", "scoring"] = "waiting"
    client: str = ""
    left_at: float | None = None

    def give_up(self) -> None:
        """Say that nobody waits for the result any more: a job that waits is dropped, one that runs is ended."""
        if not self.future.cancel():
            self.left_at = time.monotonic()


class ScoringQueue:
    """Takes jobs and scores them one after another; clients take turns.

    Parameters
    ----------
    settings
        The models that may be opened, how many jobs may wait, and how long scoring a job may take. Loading a model may
        take longer.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._waiting: WaitingLine[Ticket] = WaitingLine(settings.waiting)
        self._changed = threading.Condition()  # guards _waiting, _closed and _results
        self._closed = False
        self._results: OrderedDict[Job, Any] = OrderedDict()
        self._worker: WorkerProcess | None = None
        self._thread = threading.Thread(target=self._run, name="wordprob-scoring-queue", daemon=True)
        self._thread.start()

    @property
    def worker_pid(self) -> int | None:
        """The process that holds the model; None if none is running."""
        worker = self._worker
        if worker is None or not worker.running:
            return None
        return worker.pid

    def knows(self, job: Job) -> bool:
        """Return True if the result of a job is kept from a short while ago."""
        with self._changed:
            return job in self._results

    def submit(self, job: Job, client: str = "") -> Ticket:
        """Add a client's job to the queue; raise :class:`BusyError` if the queue is full."""
        ticket = Ticket(job, client=client)
        with self._changed:
            if job in self._results:
                ticket.future.set_result(self._results[job])
                return ticket
            self._waiting.add(ticket)
            self._changed.notify()
        return ticket

    def load(self, model: str) -> None:
        """Load a model, and wait until it is loaded."""
        nothing_to_score = ScoringJob(model, texts=())
        try:
            self.submit(nothing_to_score).future.result()
        except WorkerError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(f"{model} could not be loaded: {reason}") from error

    def close(self) -> None:
        """Stop at once, even if a job is being scored."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        while self._thread.is_alive():
            self._kill_worker()  # ends the job that the thread is waiting for; it may be starting a process just now
            self._thread.join(CHECK_SECONDS)
        self._kill_worker()

    # --- in the queue's thread ---

    def _run(self) -> None:
        while True:
            ticket = self._next_ticket()
            if ticket is None:
                return
            if ticket.future.set_running_or_notify_cancel():
                self._finish(ticket)

    def _next_ticket(self) -> Ticket | None:
        """Wait for a job; return None if the queue was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting))
            return None if self._closed else self._waiting.take()

    def _finish(self, ticket: Ticket) -> None:
        """Score a job, and set the result of its ticket or the error."""
        try:
            result = self._score(ticket)
        except Exception as error:
            ticket.future.set_exception(error)
            return
        self._remember(ticket.job, result)
        ticket.future.set_result(result)

    def _score(self, ticket: Ticket) -> Any:
        ticket.state = "loading"
        channel = self._channel_to_worker()
        self._send(channel, (self._settings.models[ticket.job.model], ticket.job))
        self._receive(channel)  # waits until the model is in memory
        ticket.state = "scoring"
        # A job without texts prepares the model for its first text, which counts as loading it: no time limit.
        timeout_seconds = self._settings.timeout if ticket.job.texts else None
        self._wait(channel, ticket, timeout_seconds)
        return self._receive(channel)

    def _remember(self, job: Job, result: Any) -> None:
        with self._changed:
            self._results[job] = result
            if len(self._results) > CACHED_RESULTS:
                self._results.popitem(last=False)

    def _channel_to_worker(self) -> Channel:
        """Return the channel to the worker process; start a new process if none is running."""
        if self._worker is None or not self._worker.running:
            self._worker = WorkerProcess("wordprob.server.job_queue:run_worker")
        return self._worker.channel

    def _send(self, channel: Channel, message: object) -> None:
        try:
            channel.send(message)
        except OSError:
            raise self._worker_ended() from None

    def _wait(self, channel: Channel, ticket: Ticket, timeout_seconds: float | None) -> None:
        """Wait for an answer; end the worker if it takes too long, or if the client has left."""
        started = time.monotonic()
        try:
            while not channel.poll(CHECK_SECONDS):
                now = time.monotonic()
                is_late = timeout_seconds is not None and now - started > timeout_seconds
                is_left_alone = ticket.left_at is not None and now - ticket.left_at > LEFT_ALONE_SECONDS
                if is_late or is_left_alone:
                    self._kill_worker()
                    raise SlowError
        except (EOFError, OSError):
            raise self._worker_ended() from None

    def _receive(self, channel: Channel) -> Any:
        """Return what the worker sends, or raise the error that it reports."""
        try:
            outcome, value = channel.receive()
        except (EOFError, OSError):
            raise self._worker_ended() from None
        if outcome == "refused":
            class_name, message = value
            raise getattr(errors, class_name, WordprobError)(message)
        if outcome == "failed":
            raise WorkerError(value)
        return value

    def _worker_ended(self) -> WorkerError:
        self._kill_worker()
        return WorkerError("the process that holds the model ended; was there enough memory?")

    def _kill_worker(self) -> None:
        worker = self._worker
        self._worker = None
        if worker is not None:
            worker.kill()


# --- in the worker process --------------------------------------------------------------------------------------------


def run_worker(channel: Channel) -> None:
    """Score the jobs that arrive, with one model in memory, until the channel is closed.

    Each job is answered twice: ``loaded`` when its model is in memory, then ``scored`` with the table. Instead of
    either comes ``refused`` with an error that the client should see, or ``failed`` with a traceback for the log.
    """
    loaded = LoadedModel()
    while True:
        model, job = channel.receive()
        try:
            loaded.load(model)
            channel.send(("loaded", None))
            channel.send(("scored", loaded.score(job)))
        except WordprobError as error:
            channel.send(("refused", (type(error).__name__, str(error))))
        except Exception:
            channel.send(("failed", traceback.format_exc()))


class LoadedModel:
    """The one model in memory."""

    def __init__(self) -> None:
        self._options: ModelOptions | None = None
        self._scorer: Scorer | None = None

    def load(self, options: ModelOptions) -> None:
        """Load a model unless it is the one in memory, which makes room first."""
        from wordprob.scoring.loading import load

        if options == self._options:
            return
        self._options = None
        self._scorer = None
        gc.collect()  # two models may not fit into memory
        self._scorer = load(**options.to_dict())
        self._options = options

    def score(self, job: Job) -> WordTable | NextWords:
        """Do a job with the model in memory."""
        assert self._scorer is not None, "load() comes first"
        return job.run(self._scorer)
