"""Files in the current directory are data, whatever they are called: no process that is started imports them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
TIMEOUT_SECONDS = 300
ENTRY_POINT = "import sys\nfrom wordprob.cli import main\nsys.argv[0] = 'wordprob'\nmain()\n"
SMALL_RAY = "from wordprob.runs.executors import ray\nray.INIT_OPTIONS.update(object_store_memory=100 << 20)\n"
FETCH = """
from pathlib import Path
from wordprob.errors import DownloadError
from wordprob.models import default_model

try:
    default_model.download(Path("cache/model.gguf").absolute())
except DownloadError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path):
    """Return a working directory with texts, and modules that leave a mark when they are imported."""
    place = tmp_path / "data"
    place.mkdir()
    for name in ("random", "socket", "pip", "torch", "regex"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\nimport wrong\n")
    (place / "corpus.txt").write_text("the mark\nthe marker\n")
    return place


def start(folder: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script that lies elsewhere, as an installed command does, in the folder."""
    script = folder.parent / "bin/wordprob"
    script.parent.mkdir(exist_ok=True)
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PIP_NO_INDEX": "1"}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], folder: Path) -> str:
    out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    marker = folder.parent / "imported"
    assert not marker.exists(), f"imported: {marker.read_text()}"
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("score", "corpus.txt", "--readers", "2"), id="readers"),
        pytest.param(("run", "corpus.txt", "-o", "out", "--workers", "2", "--shard-texts", "1"), id="workers"),
    ],
)
def test_worker_processes(folder, arguments):
    finish(start(folder, ENTRY_POINT, *arguments, "--model", "exact:bow"), folder)


def test_worker_processes_of_ray(folder):
    pytest.importorskip("ray", reason="needs ray: pip install 'wordprob[ray]'")
    arguments = ("run", "corpus.txt", "-o", "out", "--engine", "ray", "--model", "exact:bow", "--threads", "1")
    finish(start(folder, SMALL_RAY + ENTRY_POINT, *arguments), folder)


def test_pip(folder):
    assert "could not be fetched" in finish(start(folder, FETCH), folder)


def test_the_model_process_of_the_server(folder):
    pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")
    process = start(folder, ENTRY_POINT, "serve", "--model", "exact:bow", "--port", "0")
    try:
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
        connection = HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT_SECONDS)
        body = '{"texts": ["the mark"], "words": "regex:[a-z]+"}'
        connection.request("POST", "/api/score", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_SECONDS)
    assert not (folder.parent / "imported").exists()
