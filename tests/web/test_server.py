"""``wordprob serve`` over real connections: what it answers, what it refuses, and that it goes on."""

from __future__ import annotations

import http.client
import io
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pandas as pd
import pytest
from click.testing import CliRunner

import wordprob
from wordprob.cli import cli
from wordprob.errors import ModelError, OptionError, UnknownModelError, UnsupportedError

pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")

from wordprob.server.job_queue import BrokenError, ScoringJob, ScoringQueue, work
from wordprob.server.run import listen
from wordprob.server.settings import ServerSettings, host_names, public_names

JSON = {"Content-Type": "application/json"}
NEVER = {"texts": "a" * 60, "words": "regex:(a|aa)+b"}
"""A pattern that takes longer than anybody waits."""


def send(server: str, method: str, path: str, body=None, headers=None):
    """Return status, headers and body of one request."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=60)
    try:
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, data, {**(JSON if isinstance(body, dict) else {}), **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode("utf-8")
    finally:
        connection.close()


def score(server: str, **body):
    status, _, text = send(server, "POST", "/api/score", body)
    return status, json.loads(text)


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(max_characters=500)


def test_scores_are_the_scorers(server):
    texts = ["She saw the mark.", "the marker"]
    status, found = score(server, texts=texts, words="punctuation", unit="nats", model="exact:eow", ids=["a", "b"])
    assert status == 200
    table = wordprob.load("exact:eow").score(texts, "punctuation", unit="nats", ids=["a", "b"])
    pd.testing.assert_frame_equal(pd.DataFrame(found["words"]), table.to_pandas())
    assert [row["n_words"] for row in found["texts"]] == [5, 2]
    assert (found["model"], found["unit"]) == ("exact:eow", "nats")
    assert found["metadata"]["words"] == "punctuation"


def test_defaults_and_words_given_as_a_list(server):
    _, found = score(server, texts="the mark")
    assert (found["model"], found["unit"], len(found["words"])) == ("exact:bow", "bits", 2)
    _, found = score(server, texts=["the marker"], words=[["the", "mark", "er"]])
    assert [row["surprisal"] is None for row in found["words"]] == [False, True, True]
    assert all(row["note"] for row in found["words"][1:]), "null comes with its reason"


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
    described = json.loads(text)
    assert status == 200
    assert described["openapi"].startswith("3.")
    assert set(described["paths"]) == {"/api/score", "/api/models"}
    assert {"200", "413", "422", "503", "504"} <= set(described["paths"]["/api/score"]["post"]["responses"])
    word = described["components"]["schemas"]["Word"]["properties"]
    assert word["surprisal"]["description"] == "the word's surprisal, corrected"
    _, found = score(server, texts="the mark")
    assert set(found["words"][0]) == set(word)
    assert set(found["texts"][0]) == set(described["components"]["schemas"]["Text"]["properties"])


def test_what_the_server_offers(server):
    _, _, text = send(server, "GET", "/api/models")
    offered = json.loads(text)
    assert (offered["models"], offered["max_characters"]) == (["exact:bow", "exact:eow"], 500)


# --- bad requests --------------------------------------------------------------------------------------------------


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


def test_other_names_are_turned_away(server):
    status, _, text = send(server, "GET", "/", headers={"Host": "evil.example:80"})
    assert status == 400
    assert "--allow-host evil.example" in text
    port = urlsplit(server).port
    for name in (f"localhost:{port}", f"[::1]:{port}", "127.0.0.1"):
        assert send(server, "GET", "/", headers={"Host": name})[0] == 200
    for name in ("[", "", "@", "localhost.evil.example"):
        assert send(server, "GET", "/", headers={"Host": name})[0] == 400


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/../pyproject.toml", "/%2e%2e/app.py", "/assets/", "/style.css/../app.py"]
)
def test_no_file_can_be_asked_for(server, path):
    status, _, text = send(server, "GET", path)
    assert status == 404
    assert json.loads(text)["error"] == "Not Found"


@pytest.mark.parametrize("path", ["/", "/docs", "/style.css", "/view.js", "/page.js", "/openapi.json", "/nowhere"])
def test_every_answer_is_guarded_and_nothing_is_from_outside(server, path):
    _, headers, text = send(server, "GET", path)
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    outside = text.replace('"http://www.w3.org/2000/svg"', "").replace(server, "")
    assert "http://" not in outside.replace("https://", "http://")


def test_a_body_is_cut_off_while_it_comes(server):
    with socket.create_connection(("127.0.0.1", urlsplit(server).port), timeout=30) as connection:
        head = f"POST /api/score HTTP/1.1\r\nHost: {urlsplit(server).netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"2000\r\n" + b"x" * 0x2000 + b"\r\n"
        for _ in range(3):  # more than it takes, and never the end
            connection.sendall(chunk)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    assert score(server, texts="the mark")[0] == 200


# --- time and turns ------------------------------------------------------------------------------------------------


def test_what_takes_too_long_is_stopped_and_the_server_goes_on(start_server):
    server = start_server(timeout=1.5)
    status, problem = score(server, **NEVER)
    assert status == 504
    assert "took too long" in problem["error"]
    assert wait_until_ready(server)


def wait_until_ready(server: str) -> bool:
    """Ask as a client would, again after Retry-After, until the server has its model back."""
    for _ in range(20):
        status, found = score(server, texts="the mark")
        if status == 200:
            return len(found["words"]) == 2
    return False


def test_a_full_line_is_told_to_come_back(start_server):
    server = start_server(timeout=3, waiting=1)
    answers = [503]

    def ask_until_taken() -> None:
        while answers[-1] == 503:  # one of those below may have been there before
            answers.append(score(server, **NEVER)[0])

    first = threading.Thread(target=ask_until_taken)
    first.start()
    for n in range(200):  # until the first is being scored, one waits and the next is one too many
        status, headers, text = ask_and_leave(server, n)
        if status == 503:
            break
    assert status == 503
    assert headers["retry-after"] == "5"
    assert "busy" in json.loads(text)["error"]
    first.join()
    assert answers[-1] == 504


def ask_and_leave(server: str, n: int):
    """Put a request into the line without waiting for it, then ask another."""
    body = json.dumps({"texts": f"the mark {n}"}).encode()
    with socket.create_connection(("127.0.0.1", urlsplit(server).port)) as waiting:
        head = f"POST /api/score HTTP/1.1\r\nHost: {urlsplit(server).netloc}\r\nContent-Type: application/json\r\n"
        waiting.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return send(server, "POST", "/api/score", {"texts": f"the marker {n}"})


def test_a_client_that_goes_away_holds_nothing_up(start_server):
    server = start_server(timeout=2, waiting=2)
    for n in range(6):  # more than may wait: those that left make room
        body = json.dumps(NEVER if n == 0 else {"texts": f"the mark {n}"}).encode()
        with socket.create_connection(("127.0.0.1", urlsplit(server).port)) as connection:
            head = f"POST /api/score HTTP/1.1\r\nHost: {urlsplit(server).netloc}\r\nContent-Type: application/json\r\n"
            connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert wait_until_ready(server)


def test_many_at_once_all_get_their_own_answer(server):
    found: dict[int, list[str]] = {}

    def ask(n: int) -> None:
        found[n] = [
            row["word"]
            for row in score(server, texts="the mark " * n, model=("exact:bow", "exact:eow")[n % 2])[1]["words"]
        ]

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: ["the", "mark"] * n for n in range(1, 9)}


def test_a_body_that_never_comes_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr("wordprob.server.middleware.READING", 0.3)
    with socket.create_connection(("127.0.0.1", urlsplit(server).port), timeout=30) as connection:
        head = f"POST /api/score HTTP/1.1\r\nHost: {urlsplit(server).netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")


def test_what_breaks_inside_stays_inside(start_server, caplog):
    class Broken(ScoringQueue):
        def _score(self, ticket):
            if ticket.ask.texts:
                raise BrokenError("Traceback: /secret/path")
            return super()._score(ticket)

    server = start_server(desk_class=Broken)
    status, problem = score(server, texts="the mark")
    assert (status, problem["kind"]) == (500, "ServerError")
    assert "secret" not in problem["error"]
    assert "/secret/path" in caplog.text, "the log has it"


# --- the desk and the settings -------------------------------------------------------------------------------------


def test_the_desk_holds_one_model_and_keeps_results():
    desk = ScoringQueue(ServerSettings({"bow": "exact:bow", "eow": "exact:eow"}))
    try:
        ask = ScoringJob("bow", ("the mark",))
        table = desk.submit(ask).future.result()
        assert desk.submit(ask).future.result() is table, "what was just scored is not scored again"
        assert desk.submit(ScoringJob("eow", ("the mark",))).future.result().metadata["model"] == "exact:eow"
    finally:
        desk.close()


def test_a_process_that_dies_is_replaced():
    desk = ScoringQueue(ServerSettings({"bow": "exact:bow"}))
    try:
        desk.load("bow")
        os.kill(desk._process.pid, signal.SIGKILL)
        desk._process.join()
        assert len(desk.submit(ScoringJob("bow", ("the mark",))).future.result()) == 2
        ticket = desk.submit(ScoringJob("bow", (NEVER["texts"],), NEVER["words"]))
        while ticket.state != "scoring":
            pass
        os.kill(desk._process.pid, signal.SIGKILL)
        with pytest.raises(BrokenError, match="ended"):
            ticket.future.result()
    finally:
        desk.close()


def test_the_process_answers_everything_it_is_asked():
    ours, theirs = multiprocessing.Pipe()
    before = signal.getsignal(signal.SIGINT)
    answers = []

    def client():
        for source, ask in (
            ("exact:bow", ScoringJob("bow", ("the mark",))),
            ("exact:bow", ScoringJob("bow", ("the mark",), (("the", "mark"),))),
            ("exact:bow", ScoringJob("bow", ("x",), "letters")),
            ("exact:nothing", ScoringJob("bow", ("x",))),
            ("exact:bow", ScoringJob("bow", None)),
        ):
            ours.send((source, ask))
            answers.append(ours.recv())
            if answers[-1][0] == "ready":
                answers.append(ours.recv())
        ours.close()

    asking = threading.Thread(target=client)
    asking.start()
    try:
        work(theirs, {})
    finally:
        signal.signal(signal.SIGINT, before)
        asking.join()
    kinds = [kind for kind, _ in answers]
    assert kinds == ["ready", "done", "ready", "done", "ready", "refused", "refused", "ready", "failed"]
    assert len(answers[1][1]) == 2
    assert answers[5][1][0] == "OptionError"
    assert "Traceback" in answers[8][1]


def test_a_model_whose_loading_breaks_is_an_error_of_its_own():
    class Broken(ScoringQueue):
        def _score(self, ticket):
            raise BrokenError("Traceback\nMemoryError: no more")

    desk = Broken(ServerSettings({"bow": "exact:bow"}))
    try:
        with pytest.raises(ModelError, match="bow could not be loaded: MemoryError: no more"):
            desk.load("bow")
    finally:
        desk.close()


def test_models_are_offered_by_name_not_by_path(tmp_path):
    (tmp_path / "ours").mkdir()
    assert public_names([str(tmp_path / "ours"), "exact:bow"]) == {
        "ours": str(tmp_path / "ours"),
        "exact:bow": "exact:bow",
    }
    (tmp_path / "b/ours").mkdir(parents=True)
    with pytest.raises(OptionError, match="both be offered as 'ours'"):
        public_names([str(tmp_path / "ours"), str(tmp_path / "b/ours")])
    with pytest.raises(UnknownModelError, match="Did you mean gpt2-small"):
        public_names(["gpt2-smal"])


def test_names_that_a_server_goes_by():
    assert host_names("127.0.0.1") == host_names("::1") == ("127.0.0.1", "localhost", "::1")
    assert "lab.example" in host_names("Lab.example")
    assert "10.1.2.3" in host_names("10.1.2.3")
    assert socket.gethostname().lower() in host_names("0.0.0.0")


def test_a_port_that_is_taken():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=rf"--port {port + 1}, or any that is free"):
            listen("127.0.0.1", port)


# --- the command ---------------------------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "wordprob", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_hands_its_options_on(monkeypatch):
    given, launched = {}, []

    def serve(models, *, ready, **options):
        given.update(options, models=models)
        ready("http://here/")

    monkeypatch.setattr("wordprob.server.serve", serve)
    monkeypatch.setattr("click.launch", launched.append)
    options = "--model exact:bow --host 0.0.0.0 --allow-host lab --max-characters 9 --timeout 2 --max-waiting 3 --open"
    done = CliRunner().invoke(cli, ["serve", *options.split()], catch_exceptions=False)
    assert given == {
        "models": ("exact:bow",), "host": "0.0.0.0", "port": 8517, "names": ("lab",), "max_characters": 9,
        "timeout": 2.0, "waiting": 3, "device": "auto", "dtype": "auto",
    }  # fmt: skip
    assert launched == ["http://here/"]
    assert "whoever can reach 0.0.0.0 can use this page" in done.stderr
    assert done.stdout == "wordprob is at http://here/ (Ctrl-C stops it)\n"


def test_without_its_packages_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UnsupportedError, match=r"the page needs uvicorn: pip install 'wordprob\[serve\]'"):
        CliRunner().invoke(cli, ["serve"], catch_exceptions=False)


def test_the_command_serves_until_interrupted():
    with command("--model", "exact:bow", "--port", "0") as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("wordprob is at http://127.0.0.1:")
            server = line.split()[3]
            assert score(server, texts="the mark")[0] == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--model", "gpt2-smal"], "Did you mean gpt2-small"), (["--model", "exact:nothing"], "wordprob: ")],
)
def test_a_model_that_is_not_there_ends_the_command(arguments, message):
    with command("--port", "0", *arguments) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert message in err
    assert "Traceback" not in err
