"""``wordprob serve`` over real connections: what it answers, what it refuses, and that it keeps running."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from urllib.parse import urlsplit

import pandas as pd
import pytest

import wordprob
from wordprob.options import ScoringOptions

pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")

from wordprob.server.job_queue import ScoringQueue, Ticket, WorkerError
from wordprob.server.middleware import RequestLimits
from wordprob.server.request_schema import NOT_IN_REQUESTS, ScoreRequest
from wordprob.tables.schema import EXTRAS

JSON = {"Content-Type": "application/json"}
ENDLESS = {"texts": "a" * 60, "words": "regex:(a|aa)+b"}
"""A request that takes longer than anybody waits: the pattern backtracks exponentially. Tests that need the model to be
busy with it turn off the check of patterns."""

GIVE_UP_SECONDS = 300
"""How long a test waits for a server that does not answer before it fails; no test passes or fails sooner by this."""


def send(server: str, method: str, path: str, body=None, headers=None):
    """Return status, headers and body of one request."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=GIVE_UP_SECONDS)
    try:
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, data, {**(JSON if isinstance(body, dict) else {}), **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode("utf-8")
    finally:
        connection.close()


def connect(server: str) -> socket.socket:
    """Return a connection for what http.client does not send: bodies that are too long, or that never end."""
    return socket.create_connection(("127.0.0.1", urlsplit(server).port), timeout=GIVE_UP_SECONDS)


def post_headers(server: str) -> bytes:
    """Return the headers of a request for scores, except for the size of its body."""
    return f"POST /api/score HTTP/1.1\r\nHost: {urlsplit(server).netloc}\r\nContent-Type: application/json\r\n".encode()


def score(server: str, **body):
    """Return status and answer of a request for scores."""
    status, _, text = send(server, "POST", "/api/score", body)
    return status, json.loads(text)


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(max_characters=500, timeout=GIVE_UP_SECONDS)


def test_the_route_returns_what_the_scorer_returns(server):
    texts = ["She saw the mark.", "the marker"]
    status, answer = score(server, texts=texts, words="punctuation", unit="nats", model="exact:eow", ids=["a", "b"])
    assert status == 200
    table = wordprob.load("exact:eow").score(texts, "punctuation", unit="nats", ids=["a", "b"])
    pd.testing.assert_frame_equal(pd.DataFrame(answer["words"]), table.to_pandas())
    assert [row["n_words"] for row in answer["texts"]] == [5, 2]
    assert (answer["model"], answer["unit"]) == ("exact:eow", "nats")
    assert answer["metadata"]["words"] == "punctuation"


def test_defaults_and_words_given_as_a_list(server):
    _, answer = score(server, texts="the mark")
    assert (answer["model"], answer["unit"], len(answer["words"])) == ("exact:bow", "bits", 2)
    _, answer = score(server, texts=["the marker"], words=[["the", "mark", "er"]])
    assert [bool(row["note"]) for row in answer["words"]] == [False, True, False], "mark ends by no rule"
    _, answer = score(server, texts=["She 中 saw"])
    assert [row["surprisal"] is None for row in answer["words"]] == [False, True, True]
    assert all(row["note"] for row in answer["words"][1:]), "null comes with its reason"


def test_further_columns_come_back_in_the_rows(server):
    options = {"extras": list(EXTRAS), "spellings": "all"}
    status, answer = score(server, texts="She saw the mark", unit="nats", **options)
    assert status == 200
    assert answer["metadata"]["spellings"] == "all"
    table = wordprob.load("exact:bow").score("She saw the mark", unit="nats", **options)
    answered = pd.DataFrame(answer["words"]).astype({"token_rank": "Int64", "prefixes_opened": "Int64"})
    pd.testing.assert_frame_equal(answered, table.to_pandas())
    assert set(EXTRAS) <= set(answer["words"][0])
    _, _, text = send(server, "POST", "/api/score", {"texts": "She saw the mark", "format": "csv", **options})
    assert set(EXTRAS) <= set(text.splitlines()[0].split(","))


def test_a_count_of_prefixes_without_all_spellings_is_refused(server):
    status, answer = score(server, texts="the mark", extras=["prefixes_opened"])
    assert status == 422
    assert "all as `spellings`" in answer["error"]


def test_every_scoring_option_is_in_the_request_or_left_out_by_name():
    names = set(ScoringOptions.names())
    requested = set(ScoreRequest.model_fields)
    assert set(NOT_IN_REQUESTS) <= names, "a name that is no option any more"
    assert names - requested == set(NOT_IN_REQUESTS)
    defaults = ScoreRequest(texts="x").scoring_options()
    assert {name: getattr(ScoringOptions(), name) for name in defaults} == defaults


def test_the_manual_names_every_field_of_a_request():
    manual = (resources.files("wordprob.server") / "assets" / "docs.html").read_text(encoding="utf-8")
    assert [name for name in ScoreRequest.model_fields if f"<code>{name}</code>" not in manual] == []


@pytest.mark.parametrize(("format", "separator"), [("csv", ","), ("tsv", "\t")])
def test_tables_to_download(server, format, separator):
    status, headers, text = send(server, "POST", "/api/score", {"texts": "She saw the mark", "format": format})
    assert status == 200
    assert headers["content-disposition"] == f'attachment; filename="wordprob.{format}"'
    assert text == wordprob.load("exact:bow").score("She saw the mark").to_text(format)
    assert pd.read_csv(io.StringIO(text), sep=separator)["word"].tolist() == "She saw the mark".split()


def test_a_report_to_download(server):
    _, _, text = send(server, "POST", "/api/score", {"texts": "the mark", "format": "html"})
    assert text.startswith("<!doctype html>")


def test_the_description_is_openapi(server):
    status, _, text = send(server, "GET", "/openapi.json")
    description = json.loads(text)
    assert status == 200
    assert description["openapi"].startswith("3.")
    assert set(description["paths"]) == {"/api/score", "/api/next", "/api/models"}
    assert {"200", "413", "422", "503", "504"} <= set(description["paths"]["/api/score"]["post"]["responses"])
    schemas = description["components"]["schemas"]
    word = schemas["Word"]
    assert word["properties"]["surprisal"]["description"] == "the word's surprisal, corrected"
    _, answer = score(server, texts="the mark")
    assert set(answer["words"][0]) == set(word["required"])
    assert set(answer["texts"][0]) == set(schemas["Text"]["properties"])
    _, answer = score(server, texts="the mark", extras=list(EXTRAS), spellings="all")
    assert set(answer["words"][0]) == set(word["properties"]), "further columns are described too"
    assert schemas["ScoreRequest"]["properties"]["min_context"]["anyOf"][0]["minimum"] == 1


def test_what_the_server_offers(server):
    _, _, text = send(server, "GET", "/api/models")
    offered = json.loads(text)
    assert (offered["models"], offered["max_characters"]) == (["exact:bow", "exact:eow"], 500)


# --- bad requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"texts": "x", "model": "exact:bo"}, 422, "Did you mean exact:bow"),
        ({"texts": "x", "model": "../../etc"}, 422, "no model '../../etc'. Known: exact:bow, exact:eow"),
        ({"texts": "x", "model": "/"}, 422, "Known: exact:bow"),
        ({"texts": "x", "words": "letters"}, 422, "no word definition is called 'letters'"),
        ({"texts": "x", "words": "list:/etc/passwd"}, 422, "no word definition"),
        ({"texts": "x", "words": "regex:("}, 422, "not a regular expression"),
        ({"texts": "x", "unit": "bans"}, 422, "unit: Input should be 'bits' or 'nats'"),
        ({"texts": "x", "min_context": 0}, 422, "min_context: Input should be greater than or equal to 1"),
        ({"texts": "x", "extras": ["entropi"]}, 422, "called 'entropi'. Did you mean word_entropy or token_entropy"),
        ({"texts": "x", "extras": "token_entropy"}, 422, "extras: "),
        ({"texts": []}, 422, "there is no text"),
        ({"texts": " \n"}, 422, "there is no text"),
        ({"texts": ["a", "b"], "ids": ["a"]}, 422, "2 texts but 1 ids"),
        ({"texts": "the mark", "words": [["the"]]}, 422, "the list ends before the text does"),
        ({"text": "x"}, 422, "texts: Field required"),
        ({"texts": "x", "path": "/etc/passwd"}, 422, "path: Extra inputs are not permitted"),
        ({"texts": "x" * 501}, 413, "a request may have 500 characters"),
        ({"texts": "x" * 100_000}, 413, "wordprob score FILE"),
        ({"texts": "x" * 5_000_000}, 413, "wordprob score FILE"),
        ("{broken", 422, "JSON decode error"),
        ({"texts": "\ud800"}, 422, "surrogate"),
        ({"texts": "x", "model": "\ud800"}, 422, ""),
        ({"texts": "x", "ids": ["\ud800"]}, 422, "surrogate"),
    ],
)
def test_bad_requests_are_explained(server, body, status, message):
    got, _, text = send(server, "POST", "/api/score", body, JSON)
    problem = json.loads(text)
    assert got == status
    assert set(problem) == {"error", "kind"}
    assert message in problem["error"]


def test_only_json_and_only_from_this_page(server):
    body = json.dumps({"texts": "the mark"})
    assert send(server, "POST", "/api/score", body, {"Content-Type": "text/plain"})[0] == 415
    assert send(server, "POST", "/api/score", body, {**JSON, "Origin": "http://evil.example"})[0] == 403
    assert send(server, "POST", "/api/score", body, {**JSON, "Origin": "null"})[0] == 403
    assert send(server, "POST", "/api/score", body, {**JSON, "Origin": server.rstrip("/")})[0] == 200


def test_other_host_names_are_refused(server):
    status, _, text = send(server, "GET", "/", headers={"Host": "evil.example:80"})
    assert status == 400
    assert "does not answer to the host name 'evil.example:80'" in text
    assert "with evil.example among its further host names (`allow_host`)" in text
    port = urlsplit(server).port
    for name in (f"localhost:{port}", f"[::1]:{port}", "127.0.0.1"):
        assert send(server, "GET", "/", headers={"Host": name})[0] == 200
    for name in ("[", "", "@", "localhost.evil.example"):
        assert send(server, "GET", "/", headers={"Host": name})[0] == 400


def test_the_address_that_a_request_arrived_at_is_a_host_name_of_the_server():
    """A server on 0.0.0.0 has as many addresses as its machine, and is known by each of them."""
    answered = []

    async def app(scope, _receive, _send):
        answered.append(scope["path"])

    limits = RequestLimits(app, ["localhost"], 100, "too large")

    def ask(host, arrived_at):
        scope = {"type": "http", "method": "GET", "path": host, "query_string": b"", "server": (arrived_at, 8517)}
        scope["headers"] = [(b"host", host.encode())]

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(_message):
            pass

        # In a thread of its own: tests with a browser leave an event loop running in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, limits(scope, receive, send)).result()

    ask("10.1.2.3:8517", "10.1.2.3")
    ask("[fd00::1]:8517", "fd00::1")
    ask("evil.example:8517", "10.1.2.3")
    ask("10.9.9.9:8517", "10.1.2.3")
    assert answered == ["10.1.2.3:8517", "[fd00::1]:8517"]


def test_a_token_is_asked_for(start_server):
    token = "a-secret-token"
    server = start_server(token=token)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": token}, {"Cookie": "wordprob_token=x"}):
        for path in ("/", "/page.js", "/openapi.json", "/nowhere", "/?token=wrong"):
            status, _, text = send(server, "GET", path, headers=headers)
            assert status == 401
            assert "Authorization: Bearer TOKEN" in json.loads(text)["error"]
            assert token not in text
        assert send(server, "POST", "/api/score", {"texts": "the mark"}, headers)[0] == 401
    with_header = {"Authorization": f"Bearer {token}"}
    assert send(server, "POST", "/api/score", {"texts": "the mark"}, with_header)[0] == 200
    assert send(server, "POST", f"/api/score?token={token}", {"texts": "the mark"})[0] == 401
    status, headers, _ = send(server, "GET", f"/?token={token}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    with_cookie = {"Cookie": cookie.partition(";")[0]}
    assert send(server, "GET", "/", headers=with_cookie)[0] == 200
    assert send(server, "POST", "/api/score", {"texts": "the mark"}, with_cookie)[0] == 200


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/../pyproject.toml", "/%2e%2e/app.py", "/assets/", "/style.css/../app.py"]
)
def test_no_file_can_be_asked_for(server, path):
    status, _, text = send(server, "GET", path)
    assert status == 404
    assert json.loads(text)["error"] == "Not Found"


@pytest.mark.parametrize("path", ["/", "/docs", "/style.css", "/view.js", "/page.js", "/openapi.json", "/nowhere"])
def test_every_answer_has_the_security_headers_and_loads_nothing_from_other_sites(server, path):
    _, headers, text = send(server, "GET", path)
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    outside = text.replace('"http://www.w3.org/2000/svg"', "").replace(server, "")
    assert "http://" not in outside.replace("https://", "http://")


def test_a_body_that_is_too_large_is_refused_while_it_arrives(server):
    with connect(server) as connection:
        connection.sendall(post_headers(server) + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
        for _ in range(3):  # more than is allowed, and never the end
            connection.sendall(chunk)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    assert score(server, texts="the mark")[0] == 200


# --- time limits and the queue ----------------------------------------------------------------------------------------


class ObservedQueue(ScoringQueue):
    """A queue that records the tickets it hands out, and itself."""

    def __init__(self, settings):
        super().__init__(settings)
        self.tickets = []
        ObservedQueue.latest = self

    def submit(self, job, client=""):
        ticket = super().submit(job, client)
        self.tickets.append(ticket)
        return ticket


@pytest.fixture
def unchecked_patterns(monkeypatch):
    """Send patterns to the model without trying them first."""

    async def check(checker, words, texts):
        return

    monkeypatch.setattr("wordprob.server.patterns.PatternChecker.check", check)


def wait_until(condition) -> None:
    """Wait for something that must happen sooner or later, however slow the machine is."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def wait_until_ready(server: str) -> None:
    """Send a request, as a client would again after Retry-After, until the server has loaded its model again."""

    def is_scored() -> bool:
        status, answer = score(server, texts="the mark")
        assert status in (200, 503, 504)
        return status == 200 and len(answer["words"]) == 2

    wait_until(is_scored)


def score_when_not_busy(server: str, **body):
    """Send a request until it is accepted: with a short time limit a slow machine may be busy at first."""
    answers = [(503, {})]

    def is_accepted() -> bool:
        answers.append(score(server, **body))
        return answers[-1][0] != 503

    wait_until(is_accepted)
    return answers[-1]


def test_a_request_that_takes_too_long_is_stopped_and_the_server_keeps_running(start_server, unchecked_patterns):
    server = start_server(timeout=1.5)
    status, problem = score_when_not_busy(server, **ENDLESS)
    assert status == 504
    assert "took too long" in problem["error"]
    wait_until_ready(server)


def test_a_full_queue_refuses_requests_until_there_is_room(start_server, unchecked_patterns):
    server = start_server(ObservedQueue, timeout=GIVE_UP_SECONDS, waiting=1)
    queue = ObservedQueue.latest
    queue.tickets.clear()
    statuses = {}

    def send_in_thread(name: str, body: dict) -> threading.Thread:
        thread = threading.Thread(target=lambda: statuses.update({name: score(server, **body)[0]}))
        thread.start()
        wait_until(lambda: len(queue.tickets) == len(threads) + 1)
        return thread

    threads = []
    threads.append(send_in_thread("endless", ENDLESS))
    wait_until(lambda: queue.tickets[0].state == "scoring")
    threads.append(send_in_thread("waiting", {"texts": "the mark"}))
    status, headers, text = send(server, "POST", "/api/score", {"texts": "the marker"})
    assert status == 503
    assert headers["retry-after"] == "5"
    assert "busy" in json.loads(text)["error"]
    os.kill(queue.worker_pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert statuses == {"endless": 500, "waiting": 200}, "a new process scores what waited"


def test_a_request_is_given_up_while_its_model_is_being_loaded(start_server):
    class LoadingQueue(ScoringQueue):
        def submit(self, job, client=""):
            return super().submit(job) if not job.texts else Ticket(job, state="loading")

    server = start_server(LoadingQueue, timeout=0.1)
    status, headers, text = send(server, "POST", "/api/score", {"texts": "the mark"})
    assert (status, headers["retry-after"]) == (503, "5")
    assert json.loads(text) == {
        "error": "the model is still being loaded. Try again in a moment.",
        "kind": "BusyError",
    }


def test_clients_that_go_away_make_room_for_others(start_server, unchecked_patterns):
    server = start_server(timeout=2, waiting=2)
    for n in range(6):  # more than may wait
        body = json.dumps(ENDLESS if n == 0 else {"texts": f"the mark {n}"}).encode()
        with connect(server) as connection:
            connection.sendall(post_headers(server) + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    wait_until_ready(server)


def test_requests_at_the_same_time_all_get_their_own_answer(server):
    words: dict[int, list[str]] = {}

    def ask(n: int) -> None:
        model = ("exact:bow", "exact:eow")[n % 2]
        _, answer = score(server, texts="the mark " * n, model=model)
        words[n] = [row["word"] for row in answer["words"]]

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words == {n: ["the", "mark"] * n for n in range(1, 9)}


def test_a_body_that_never_arrives_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr("wordprob.server.middleware.BODY_TIMEOUT_SECONDS", 0.3)
    with connect(server) as connection:
        connection.sendall(post_headers(server) + b"Content-Length: 100\r\n\r\n{")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")


def test_details_of_a_failure_go_to_the_log_and_not_to_the_client(start_server, caplog):
    class FailingQueue(ScoringQueue):
        def submit(self, job, client=""):
            if not job.texts:  # the model is loaded when the server starts
                return super().submit(job)
            ticket = Ticket(job)
            ticket.future.set_exception(WorkerError("Traceback: /secret/path"))
            return ticket

    server = start_server(FailingQueue)
    status, problem = score(server, texts="the mark")
    assert (status, problem["kind"]) == (500, "ServerError")
    assert "secret" not in problem["error"]
    assert "/secret/path" in caplog.text, "the log has it"


def test_what_could_come_next(server):
    status, _, text = send(server, "POST", "/api/next", {"context": "She saw the", "top": 2, "model": "exact:bow"})
    assert status == 200, text
    rows = json.loads(text)["rows"]
    assert [row["kind"] for row in rows] == ["word", "word", "end", "rest"]
    assert sum(row["probability"] for row in rows) == pytest.approx(1.0)
    status, _, text = send(server, "POST", "/api/next", {"context": "the the"})
    assert (status, "has probability zero" in text) == (422, True)
    assert send(server, "POST", "/api/next", {"context": "x" * 501})[0] == 413
    assert send(server, "POST", "/api/next", {"context": "She", "words": "regex:a"})[0] == 422


def test_how_next_words_are_searched_for(server):
    def rows(**request):
        status, _, text = send(server, "POST", "/api/next", {"context": "She saw the", **request})
        assert status == 200, text
        return json.loads(text)

    answer = rows(mass=0.7, words="punctuation", model="exact:bow")
    assert [row["word"] for row in answer["rows"]] == ["mark", "marker", "", ""]
    assert [row["separator"] for row in answer["rows"]] == [" ", " ", "", ""]
    assert "probability_high" not in answer["rows"][0]
    answer = rows(spellings="all", top=1, model="exact:bow")
    assert answer["rows"][0]["probability_high"] == pytest.approx(answer["rows"][0]["probability"])
    assert not answer["limit_reached"]
    assert rows(max_open=1, model="exact:bow")["limit_reached"]
    for wrong in ({"mass": 0}, {"mass": 1.5}, {"spellings": "some"}, {"max_open": 0}, {"max_open": 10**6}):
        assert send(server, "POST", "/api/next", {"context": "She", **wrong})[0] == 422


def test_entropy_and_rank_of_words(server):
    status, answer = score(server, texts="She saw", extras=["word_entropy", "word_rank"])
    assert status == 200
    assert {"word_entropy", "word_entropy_se", "word_entropy_low", "word_rank_high"} <= set(answer["words"][0])
