"""The queue of scoring jobs, and the worker process that scores them."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import closing

import pytest

from wordprob.errors import ModelError, OptionError
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.processes import Channel

pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")

from wordprob.server.job_queue import (
    CACHED_RESULTS,
    LoadedModel,
    ScoringQueue,
    SlowError,
    Ticket,
    WorkerError,
    run_worker,
)
from wordprob.server.jobs import ScoringJob
from wordprob.server.server_settings import ServerSettings
from wordprob.server.waiting_line import BusyError

BOW = ModelOptions(model="exact:bow")
EOW = ModelOptions(model="exact:eow")
ENDLESS = ScoringJob("bow", ("a" * 60,), "regex:(a|aa)+b")
"""A pattern that backtracks exponentially."""


def open_queue(**limits):
    return closing(ScoringQueue(ServerSettings({"bow": BOW, "eow": EOW}, **limits)))


def wait_for_state(ticket: Ticket, state: str) -> None:
    while ticket.state != state:
        assert not ticket.future.done(), "the job ended before it got there"
        time.sleep(0.01)


def test_one_model_is_in_memory_and_results_are_kept():
    with open_queue() as queue:
        job = ScoringJob("bow", ("the mark",))
        table = queue.submit(job).future.result()
        assert queue.submit(job).future.result() is table, "what was just scored is not scored again"
        pid = queue.worker_pid
        other = queue.submit(ScoringJob("eow", ("the mark",))).future.result()
        assert other.metadata["model"] == "exact:eow"
        assert queue.worker_pid == pid, "the same process holds the other model now"


def test_only_the_last_results_are_kept():
    with open_queue() as queue:
        jobs = [ScoringJob("bow", (f"the mark {n}",)) for n in range(CACHED_RESULTS + 1)]
        tables = [queue.submit(job).future.result() for job in jobs]
        assert queue.submit(jobs[1]).future.result() is tables[1]
        assert queue.submit(jobs[0]).future.result() is not tables[0]


def test_jobs_that_differ_in_an_option_are_different_jobs():
    with open_queue() as queue:
        plain = queue.submit(ScoringJob("bow", ("the mark",))).future.result()
        options = ScoringOptions(extras=("token_entropy",))
        more = queue.submit(ScoringJob("bow", ("the mark",), options=options)).future.result()
        assert "token_entropy" not in plain.to_pandas()
        assert "token_entropy" in more.to_pandas()


def test_a_full_queue_refuses_jobs_and_drops_cancelled_ones():
    with open_queue(waiting=2, timeout=600) as queue:
        endless = queue.submit(ENDLESS)
        wait_for_state(endless, "scoring")
        waiting = [queue.submit(ScoringJob("bow", (f"the mark {n}",))) for n in range(2)]
        with pytest.raises(BusyError):
            queue.submit(ScoringJob("bow", ("the marker",)))
        waiting[0].future.cancel()
        in_its_place = queue.submit(ScoringJob("bow", ("the marker",)))
        os.kill(queue.worker_pid, signal.SIGKILL)
        assert len(in_its_place.future.result()) == 2
        assert waiting[1].future.done(), "first come, first served"
        assert waiting[0].state == "waiting", "nobody scored the cancelled one"


def test_the_time_limit_ends_the_process_and_the_next_job_starts_another():
    with open_queue(timeout=0.5) as queue:
        queue.load("bow")
        pid = queue.worker_pid
        with pytest.raises(SlowError):
            queue.submit(ENDLESS).future.result()
        assert queue.worker_pid is None
        queue.load("eow")
        assert queue.worker_pid not in (None, pid)


def test_a_process_that_dies_is_replaced():
    with open_queue(timeout=600) as queue:
        queue.load("bow")
        pid = queue.worker_pid
        os.kill(pid, signal.SIGKILL)
        while queue.worker_pid == pid:
            time.sleep(0.01)
        assert len(queue.submit(ScoringJob("bow", ("the mark",))).future.result()) == 2
        ticket = queue.submit(ENDLESS)
        wait_for_state(ticket, "scoring")
        os.kill(queue.worker_pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="ended"):
            ticket.future.result()


def test_closing_ends_a_job_that_is_being_scored():
    with open_queue(timeout=600) as queue:
        ticket = queue.submit(ENDLESS)
        wait_for_state(ticket, "scoring")
    with pytest.raises(WorkerError, match="ended"):
        ticket.future.result()
    assert queue.worker_pid is None


def test_errors_arrive_as_the_classes_that_were_raised():
    with open_queue() as queue, pytest.raises(OptionError, match="no word definition is called 'letters'"):
        queue.submit(ScoringJob("bow", ("x",), "letters")).future.result()


def test_a_model_that_cannot_be_loaded_is_a_model_error():
    class FailingQueue(ScoringQueue):
        def submit(self, job):
            ticket = Ticket(job)
            ticket.future.set_exception(WorkerError("Traceback\nMemoryError: no more"))
            return ticket

    with (
        closing(FailingQueue(ServerSettings({"bow": BOW}))) as queue,
        pytest.raises(ModelError, match="bow could not be loaded: MemoryError: no more"),
    ):
        queue.load("bow")


def test_the_worker_answers_every_job():
    end, other_end = socket.socketpair()
    channel = Channel(end)
    worker = threading.Thread(target=run_until_closed, args=(Channel(other_end),))
    worker.start()
    answers = []
    for model, job in (
        (BOW, ScoringJob("bow", ("the mark",))),
        (BOW, ScoringJob("bow", ("the mark",), (("the", "mark"),))),
        (BOW, ScoringJob("bow", ("x",), "letters")),
        (BOW, ScoringJob("bow", ("x",), "list:/etc/passwd")),
        (ModelOptions(model="exact:nothing"), ScoringJob("bow", ("x",))),
        (BOW, ScoringJob("bow", None)),
    ):
        channel.send((model, job))
        answers.append(channel.receive())
        if answers[-1][0] == "loaded":
            answers.append(channel.receive())
    channel.close()
    worker.join()
    assert [outcome for outcome, _ in answers] == [
        "loaded", "scored", "loaded", "scored", "loaded", "refused", "loaded", "refused", "refused", "loaded", "failed",
    ]  # fmt: skip
    assert len(answers[1][1]) == 2
    assert answers[5][1][0] == "OptionError"
    assert answers[7][1][1].startswith("no word definition is called 'list:/etc/passwd'"), "requests read no files"
    assert "Traceback" in answers[10][1]


def test_every_option_reaches_the_model_and_the_scorer(monkeypatch):
    calls = []

    class RecordingScorer:
        def score(self, texts, words, **options):
            calls.append((texts, words, options))

    def load(**options):
        calls.append(options)
        return RecordingScorer()

    monkeypatch.setattr("wordprob.scoring.loading.load", load)
    loaded = LoadedModel()
    loaded.load(BOW)
    loaded.load(ModelOptions(model="exact:bow"))  # the same: nothing to do
    loaded.load(ModelOptions(model="exact:bow", bos="none"))  # another way to open it: another model
    chosen = ScoringOptions(
        boundary="none",
        unit="nats",
        min_context=3,
        max_context="9words",
        extras=("token_rank",),
        spellings="all",
        tolerance=0.5,
        max_open=7,
    )
    loaded.score(ScoringJob("bow", ("x",), "punctuation", ("a",), chosen))
    assert calls == [
        BOW.to_dict(),
        {**BOW.to_dict(), "bos": "none"},
        (
            ["x"],
            "punctuation",
            {
                "ids": ("a",),
                "boundary": "none",
                "unit": "nats",
                "min_context": 3,
                "max_context": "9words",
                "extras": ("token_rank",),
                "spellings": "all",
                "tolerance": 0.5,
                "max_open": 7,
            },
        ),
    ]


def run_until_closed(channel: Channel) -> None:
    with pytest.raises(EOFError):
        run_worker(channel)
