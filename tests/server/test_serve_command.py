"""``wordprob serve`` as a command, and the settings that it makes from its options."""

from __future__ import annotations

import inspect
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from wordprob.cli import cli
from wordprob.cli.serve import serve as serve_command
from wordprob.errors import OptionError, UnknownModelError, UnsupportedError
from wordprob.options import ModelOptions

pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")

from wordprob.server import serve
from wordprob.server.server_settings import ServerSettings, chosen_token, host_names, public_names
from wordprob.server.serving import listen

GIVE_UP_SECONDS = 300


def options(*models: str) -> list[ModelOptions]:
    return [ModelOptions(model=model) for model in models]


def test_models_are_offered_by_name_not_by_path(tmp_path):
    ours = tmp_path / "ours"
    ours.mkdir()
    assert public_names(options(str(ours), "exact:bow")) == {
        "ours": ModelOptions(model=str(ours)),
        "exact:bow": ModelOptions(model="exact:bow"),
    }
    (tmp_path / "b/ours").mkdir(parents=True)
    with pytest.raises(OptionError, match="both be offered as 'ours'"):
        public_names(options(str(ours), str(tmp_path / "b/ours")))
    with pytest.raises(UnknownModelError, match="Did you mean gpt2-small"):
        serve(["gpt2-smal"])


def test_a_model_is_offered_once():
    assert list(public_names(options("exact:bow", "exact:bow"))) == ["exact:bow"]
    with pytest.raises(OptionError, match="'exact:bow' is given twice, with different options"):
        public_names([ModelOptions(model="exact:bow"), ModelOptions(model="exact:bow", bos="none")])


def test_host_names_that_a_server_answers_to():
    assert host_names("127.0.0.1") == host_names("::1") == ("127.0.0.1", "localhost", "::1")
    assert "lab.example" in host_names("Lab.example")
    assert "10.1.2.3" in host_names("10.1.2.3")
    assert socket.gethostname().lower() in host_names("0.0.0.0")


def test_a_token_is_made_up_where_others_can_reach_the_server():
    for host in ("127.0.0.1", "localhost", "::1"):
        assert chosen_token(None, host) == ""
    for host in ("0.0.0.0", "::", "10.1.2.3", "lab.example"):
        assert len(chosen_token(None, host)) == 32
        assert chosen_token("", host) == ""
    assert chosen_token(None, "0.0.0.0") != chosen_token(None, "0.0.0.0")
    assert chosen_token("my-own-token", "127.0.0.1") == "my-own-token"
    for bad in ("short", "with a space", "semi;colon;", "ümlaut-ümlaut"):
        with pytest.raises(OptionError, match="`token` must have at least 8 characters"):
            chosen_token(bad, "0.0.0.0")


def test_a_port_that_is_taken():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=rf"another `port`, for example {port + 1}, or 0 for any free one"):
            listen("127.0.0.1", port)


def test_serve_takes_every_option_of_a_model():
    parameters = inspect.signature(serve).parameters
    defaults = ModelOptions().to_dict()
    del defaults["model"]
    assert {name: parameters[name].default for name in defaults} == defaults
    assert set(ModelOptions.names()) <= {parameter.name for parameter in serve_command.params}


def test_the_command_has_the_defaults_of_the_library():
    parameters = inspect.signature(serve).parameters
    flags = {parameter.name: parameter.default for parameter in serve_command.params}
    for name in ("host", "port", "max_characters", "timeout", "waiting"):
        assert flags[name] == parameters[name].default, name
    for name in ("max_characters", "timeout", "waiting"):
        assert getattr(ServerSettings, name) == parameters[name].default, name


def test_model_options_reach_the_settings(monkeypatch):
    settings = {}

    class NotStartedError(Exception):
        pass

    def take_settings(given):
        settings.update(given.models)
        raise NotStartedError

    monkeypatch.setattr("wordprob.server.serving.ScoringQueue", take_settings)
    own = ModelOptions(model="exact:eow", dtype="float32")
    with pytest.raises(NotStartedError):
        serve(["exact:bow", own], port=0, bos="none", device="cpu", revision="r", compile=True, trust_remote_code=True)
    shared = {"bos": "none", "device": "cpu", "revision": "r", "compile": True, "trust_remote_code": True}
    assert settings == {"exact:bow": ModelOptions(model="exact:bow", **shared), "exact:eow": own}
    with pytest.raises(OptionError, match="no device is called 'gpu'; use auto, cpu, cuda or mps"):
        serve(["exact:bow"], device="gpu")


def test_the_command_passes_its_options_on(monkeypatch):
    given, launched = {}, []

    def fake_serve(models, *, ready, **options):
        given.update(options, models=models)
        ready("http://here/")

    monkeypatch.setattr("wordprob.server.serve", fake_serve)
    monkeypatch.setattr("click.launch", launched.append)
    flags = (
        "--model exact:bow --model exact:eow --bos none --dtype float32 --host 0.0.0.0 --allow-host lab "
        "--max-characters 9 --timeout 2 --max-waiting 3 --open"
    )
    done = CliRunner().invoke(cli, ["serve", *flags.split()], catch_exceptions=False)
    assert given == {
        "models": [ModelOptions(model=name, bos="none", dtype="float32") for name in ("exact:bow", "exact:eow")],
        "host": "0.0.0.0", "port": 8517, "names": ("lab",), "token": None,
        "max_characters": 9, "timeout": 2.0, "waiting": 3,
    }  # fmt: skip
    assert launched == ["http://here/"]
    assert "anyone who knows the token and can reach 0.0.0.0 can use this page" in done.stderr
    assert done.stdout == "wordprob is at http://here/ (Ctrl-C stops it)\n"


def test_without_its_packages_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UnsupportedError, match=r"the page needs uvicorn: pip install 'wordprob\[serve\]'"):
        CliRunner().invoke(cli, ["serve"], catch_exceptions=False)


def start_command(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "wordprob", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def status_of_a_score(server: str) -> int:
    connection = HTTPConnection(urlsplit(server).netloc, timeout=GIVE_UP_SECONDS)
    connection.request("POST", "/api/score", '{"texts": "the mark"}', {"Content-Type": "application/json"})
    return connection.getresponse().status


def test_the_command_serves_until_interrupted():
    with start_command("--model", "exact:bow", "--port", "0") as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("wordprob is at http://127.0.0.1:")
            assert status_of_a_score(line.split()[3]) == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=GIVE_UP_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [(["--model", "gpt2-smal"], 1, "Did you mean gpt2-small"), (["--model", "exact:nothing"], 2, "wordprob: ")],
)
def test_a_model_that_does_not_exist_ends_the_command(arguments, code, message):
    with start_command("--port", "0", *arguments) as process:
        _, err = process.communicate(timeout=GIVE_UP_SECONDS)
    assert process.returncode == code
    assert message in err
    assert "Traceback" not in err
