"""What a server does with clients that hold it up, that leave, that come in crowds, or that send anything at all."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from wordprob.errors import ModelError

pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")

from test_server import (
    ENDLESS,
    GIVE_UP_SECONDS,
    ObservedQueue,
    connect,
    post_headers,
    score,
    send,
    unchecked_patterns,  # noqa: F401
    wait_until,
)

from wordprob.server.connections import TimedConnection
from wordprob.server.job_queue import ScoringQueue, Ticket
from wordprob.server.waiting_line import BusyError, WaitingLine

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "serve.py"
SLOW_PATTERN = {"texts": "a" * 60 + "b", "words": "regex:(a|aa)+$"}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(ObservedQueue, max_characters=5000, timeout=GIVE_UP_SECONDS)


@pytest.fixture(scope="module")
def queue(server):
    return ObservedQueue.latest


def post(server: str, body: dict) -> socket.socket:
    """Send a request for scores, and return the connection without waiting for the answer."""
    data = json.dumps(body).encode()
    connection = connect(server)
    connection.sendall(post_headers(server) + f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection."""
    connection.settimeout(GIVE_UP_SECONDS)
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def drip(connection: socket.socket, data: bytes) -> None:
    """Send one byte now and then, as a client that wants to keep a connection open."""
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


# --- connections ------------------------------------------------------------------------------------------------------


def test_idle_connections_shut_nobody_out(server):
    idle = [connect(server) for _ in range(80)]
    try:
        assert score(server, texts="the mark")[0] == 200
        assert send(server, "GET", "/")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_connection_that_asks_nothing_is_closed(server, monkeypatch):
    monkeypatch.setattr("wordprob.server.connections.REQUEST_TIMEOUT_SECONDS", 0.3)
    with connect(server) as silent:
        assert is_closed(silent)
    with connect(server) as slow, pytest.raises(ConnectionError):
        drip(slow, b"GET / HTTP/1.1\r\nHost: " + b"x" * 10_000)
    assert score(server, texts="the mark")[0] == 200


def test_a_connection_that_goes_on_asking_stays_open(server, monkeypatch):
    monkeypatch.setattr("wordprob.server.connections.REQUEST_TIMEOUT_SECONDS", 1.0)
    connection = http.client.HTTPConnection(server.split("/")[2], timeout=GIVE_UP_SECONDS)
    connection.connect()
    opened = connection.sock
    for _ in range(3):
        connection.request("GET", "/api/models")
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, connection.sock is opened) == (200, True)
        time.sleep(0.4)
    connection.close()


def test_of_too_many_connections_the_one_that_waits_longest_is_closed(server, monkeypatch):
    monkeypatch.setattr("wordprob.server.connections.MAX_CONNECTIONS", 3)
    oldest = connect(server)
    assert score(server, texts="the mark")[0] == 200  # by then the server has the first one
    others = [connect(server) for _ in range(3)]
    assert is_closed(oldest)
    assert score(server, texts="the mark")[0] == 200
    for connection in (oldest, *others):
        connection.close()


def test_a_client_that_does_not_read_is_cut_off():
    cut = []
    connection = TimedConnection.__new__(TimedConnection)
    connection.loop = asyncio.new_event_loop()
    connection.flow = SimpleNamespace(pause_writing=lambda: None, resume_writing=lambda: None)
    connection.transport = SimpleNamespace(abort=lambda: cut.append(True))
    delays = []
    connection.loop.call_later = lambda delay, call: (
        delays.append((delay, call)) or SimpleNamespace(cancel=delays.clear)
    )
    connection.pause_writing()
    assert delays[0][0] == 30
    connection.resume_writing()
    assert delays == []
    connection.pause_writing()
    delays[0][1]()
    assert cut == [True]
    connection.loop.close()


# --- work for nobody --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked_patterns")
def test_a_client_that_leaves_ends_its_work(server, queue):
    queue.tickets.clear()
    connection = post(server, ENDLESS)
    wait_until(lambda: queue.tickets and queue.tickets[0].state == "scoring")
    connection.close()
    started = time.monotonic()
    wait_until(lambda: queue.tickets[0].future.done())
    assert time.monotonic() - started < 30, "long before the time limit of the server"
    assert score(server, texts="the mark")[0] == 200


def test_a_slow_pattern_is_stopped_and_holds_nobody_up(server, queue):
    score(server, texts="a mark that nobody has asked for")
    worker = queue.worker_pid
    answers = []
    thread = threading.Thread(target=lambda: answers.append(score(server, **SLOW_PATTERN)))
    thread.start()
    started = time.monotonic()
    assert score(server, texts="another mark")[0] == 200
    assert not answers, "the pattern is still being tried"
    thread.join()
    assert time.monotonic() - started < 30
    status, problem = answers[0]
    assert status == 422
    assert problem["error"].startswith("the pattern took longer than 3 seconds on this text and was stopped.")
    assert queue.worker_pid == worker, "the model stays in memory"
    assert score(server, texts="the mark", words="regex:[a-z]+")[0] == 200
    assert score(server, texts="the mark", words="regex:(")[1]["kind"] == "OptionError"


# --- whose turn it is -------------------------------------------------------------------------------------------------


def ticket(client: str, name: str = "") -> SimpleNamespace:
    return SimpleNamespace(client=client, name=name, future=Future())


def test_clients_take_turns():
    line = WaitingLine(10)
    for client, name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        line.add(ticket(client, name))
    order = []
    while len(line):
        taken = line.take()
        order.append(taken.client + taken.name)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_one_client_cannot_fill_the_line():
    line = WaitingLine(3)
    greedy = [ticket("a", str(n)) for n in range(3)]
    for waiting in greedy:
        line.add(waiting)
    with pytest.raises(BusyError):
        line.add(ticket("a"))
    line.add(ticket("b"))
    with pytest.raises(BusyError):
        greedy[2].future.result(timeout=0)
    assert [line.take().client for _ in range(3)] == ["a", "b", "a"]


def test_those_who_left_take_no_place():
    line = WaitingLine(2)
    first, second = ticket("a", "1"), ticket("a", "2")
    line.add(first)
    line.add(second)
    first.future.cancel()
    third = ticket("a", "3")
    line.add(third)
    assert [line.take(), line.take()] == [second, third]


# --- what answers show ------------------------------------------------------------------------------------------------


def test_answers_show_no_paths(start_server):
    class PathQueue(ScoringQueue):
        def submit(self, job, client=""):
            if not job.texts:
                return super().submit(job)
            refused = Ticket(job)
            refused.future.set_exception(ModelError("/home/jo/models/small/config.json is not JSON; see '/etc/x y'."))
            return refused

    status, problem = score(start_server(PathQueue), texts="the mark")
    assert (status, problem["error"]) == (503, "config.json is not JSON; see 'x y'.")


def test_metadata_shows_no_paths(server, queue, monkeypatch):
    texts = ["a mark on a path"]
    score(server, texts=texts)
    monkeypatch.setitem(queue.tickets[-1].future.result().metadata, "path", "/srv/models/small")
    _, answer = score(server, texts=texts)
    assert answer["metadata"]["path"] == "small"
    _, _, page = send(server, "POST", "/api/score", {"texts": texts, "format": "html"})
    assert "/srv" not in page


# --- crowds -----------------------------------------------------------------------------------------------------------


def test_two_hundred_clients_are_answered_or_asked_to_come_again(server):
    load_test = runpy.run_path(str(BENCHMARK))["load_test"]
    with ThreadPoolExecutor(1) as thread:  # a browser of another test may have an event loop in this one
        result = thread.submit(load_test, server, n_clients=200, n_requests=1).result()
    assert result.n_answered + result.n_refused == 200
    assert result.n_answered >= 9, "those that may wait, and the one that is scored"
    assert result.n_failed == 0
    assert result.p99_seconds < 60
    assert score(server, texts="the mark")[0] == 200


# --- anything at all --------------------------------------------------------------------------------------------------

HOST = b"Host: 127.0.0.1\r\n"
JSON_TYPE = b"Content-Type: application/json\r\n"
POST = b"POST /api/score HTTP/1.1\r\n" + HOST + JSON_TYPE
RAW = {
    "nothing": b"\r\n\r\n",
    "zeros": b"\0" * 100,
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xab" * 200,
    "no version": b"GET /\r\n\r\n",
    "bad version": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "bad method": b"\xff\xfe / HTTP/1.1\r\n" + HOST + b"\r\n",
    "long method": b"G" * 10_000 + b" / HTTP/1.1\r\n" + HOST + b"\r\n",
    "long path": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "climbing path": b"GET /../../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    "escaped path": b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    "path with zero": b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "whole address": b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n",
    "other host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n",
    "long header": b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "header with line": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\nInjected: b\r\n\r\n",
    "space in name": b"GET / HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "huge length": POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "no body": POST + b"\r\n",
    "body is no json": POST + b"Content-Length: 3\r\n\r\n{{{",
    "body is no object": POST + b"Content-Length: 2\r\n\r\n[]",
    "deep body": POST + b"Content-Length: 20000\r\n\r\n" + b"[" * 20_000,
    "body in latin-1": POST + b'Content-Length: 14\r\n\r\n{"texts":"\xe9 "}',
    "nan": POST + b'Content-Length: 13\r\n\r\n{"texts":NaN}',
    "form": b"POST /api/score HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    "put": b"PUT /api/score HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Content-Length: 2\r\n\r\n{}",
    "trace": b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n",
    "connect": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "websocket": b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "expect": POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "other origin": POST + b"Origin: http://evil.example\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", RAW)
def test_raw_requests_are_answered_or_refused(server, monkeypatch, name):
    monkeypatch.setattr("wordprob.server.connections.REQUEST_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("wordprob.server.connections.KEEP_ALIVE_SECONDS", 0.5)
    with connect(server) as connection:
        answer = b""
        try:
            connection.sendall(RAW[name])
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                answer += data
        except OSError:  # the server closed the connection before all was sent
            pass
    assert not answer or answer.startswith(b"HTTP/1.1 ")
    assert not answer.startswith(b"HTTP/1.1 500")
    assert b"Traceback" not in answer
    assert b"root:" not in answer
    assert score(server, texts="the mark")[0] == 200


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.5, 1.0, 1.5, 2.0])
def test_stopping_while_it_loads_prints_no_traceback(delay):
    """Ctrl-C reaches all processes of a terminal, so the signal goes to the whole group."""
    command = [sys.executable, "-m", "wordprob", "serve", "--model", "exact:bow", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=GIVE_UP_SECONDS)
    assert "Traceback" not in err
    assert process.returncode in (0, 1, 130, -signal.SIGINT)
