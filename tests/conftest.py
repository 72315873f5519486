"""What several tests share."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest

import audit
from small_tokenizers import MAKERS, small_tokenizer

SHARED = Path(__file__).resolve().parents[2] / "shared"
SMALL_TOKENIZERS = tuple(MAKERS)
"""Tokenisers of every family, made here."""
TOKENIZERS = sorted(folder.name for folder in SHARED.glob("tokenizers/*"))
"""Real tokenisers, where they are at hand: tests of every tokeniser run with these as well."""
MODELS = [name for name in ("fiction-bow", "fiction-eow", "stories15M") if (SHARED / "models" / name).is_dir()]
"""Real models, where they are at hand."""


def shared(path: str) -> Path:
    """Return a path of the shared data, or skip the test by name where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"needs ../shared/{path}, which is not here")
    return found


def pytest_terminal_summary(terminalreporter):
    """Say what ``make audit`` tried, and what came of it."""
    lines = audit.summary()
    if lines:
        terminalreporter.section(f"audit, seed {audit.SEED}")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def small_model_directory(tmp_path_factory):
    """Return the directory of a small model with one of the small tokenisers, made once for all tests."""
    from small_llama import make_model

    return functools.cache(lambda name: make_model(name, tmp_path_factory.mktemp("model") / name))


@pytest.fixture(scope="session")
def load_model(small_model_directory):
    """Open a model once for all tests: a small one, or a real one where it is at hand."""
    from wordprob import load

    return functools.cache(
        lambda name: load(small_model_directory(name) if name in MAKERS else shared(f"models/{name}"))
    )


@pytest.fixture(scope="session")
def smollm2():
    """The default model, fetched and converted if need be."""
    from wordprob import load

    return load()


@pytest.fixture(scope="session")
def tokenizer_of():
    """Open a tokeniser once for all tests: a small one, or a real one where it is at hand."""
    from wordprob.models.registry import open_tokenizer

    @functools.cache
    def opener(name: str):
        if name in MAKERS:
            return small_tokenizer(name)
        folder = "models" if name in MODELS else "tokenizers"
        return open_tokenizer(shared(f"{folder}/{name}"))

    return opener


# --- a real browser and a real server ---------------------------------------------------------------------------------

BROWSER_TIMEOUT_MILLISECONDS = 300_000
"""How long a page may take before a test gives up on it: long, so that no test depends on the machine's pace."""


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs chromium, which is not here: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser):
    """Open an address in a browser context of its own; the page records its requests and its errors."""
    contexts = []

    def opener(url: str, width: int = 1100, **options):
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        context.set_default_timeout(BROWSER_TIMEOUT_MILLISECONDS)
        contexts.append(context)
        page = context.new_page()
        page.requested_urls = []
        page.problems = []
        page.on("request", lambda request: page.requested_urls.append(request.url))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda line: page.problems.append(line.text) if line.type == "error" else None)
        page.on("dialog", lambda dialog: (page.problems.append(dialog.message), dialog.dismiss()))
        page.goto(url)
        return page

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def start_server():
    """Start a server with the toy model on a free port of this machine; return its address."""
    pytest.importorskip("fastapi", reason="needs fastapi: pip install 'wordprob[serve]'")
    import threading

    import uvicorn

    from wordprob.options import ModelOptions
    from wordprob.server import ServerSettings
    from wordprob.server.job_queue import ScoringQueue
    from wordprob.server.serving import address, listen, server_config

    running = []

    def starter(queue_class=ScoringQueue, **limits) -> str:
        models = {name: ModelOptions(model=name) for name in ("exact:bow", "exact:eow")}
        settings = ServerSettings(models, **limits)
        queue = queue_class(settings)
        queue.load(settings.default_model)
        listening = listen("127.0.0.1", 0)
        server = uvicorn.Server(server_config(settings, queue))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread, queue, listening))
        return address(listening)

    yield starter
    for server, thread, queue, listening in running:
        server.should_exit = True
        thread.join()
        queue.close()
        listening.close()
