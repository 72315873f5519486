"""``wordprob serve``: a local web page to paste texts into."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click

from wordprob.cli.extras import check_installed
from wordprob.cli.options import models_options
from wordprob.options import ModelOptions


@click.command()
@models_options()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. By default only this machine can reach the page.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8517,
    show_default=True,
    help="Port to listen on; 0 takes any free one.",
)
@click.option(
    "--allow-host", "names", multiple=True, help="A further host name that the server answers to; may be repeated."
)
@click.option(
    "--token",
    help="What clients must know; made up and printed if other machines can reach the page. '' lets everyone in.",
)
@click.option(
    "--max-characters",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Maximum number of characters in a request.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds that a request may take.",
)
@click.option(
    "--max-waiting",
    "waiting",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="How many requests may wait while one is scored.",
)
@click.option("--open", "open_", is_flag=True, help="Open the page in the browser.")
def serve(models: list[ModelOptions], host: str, open_: bool, **options: Any) -> None:
    """Show a page to paste texts into: words in colour, two texts side by side, CSV to download; and a JSON route.

    The page offers every --model; the first is loaded at once. One model is in memory at a time, and one request is
    scored at a time. Nothing is loaded from elsewhere, and what you paste stays on this machine.

    \b
    Examples:
      wordprob serve --open
      wordprob serve --model gpt2-small --model pythia-160m --port 9000
      curl http://127.0.0.1:8517/api/score -H "Content-Type: application/json" -d '{"texts": "She saw the mark."}'
    """
    with ctrl_c_ends_at_once() as load_done:
        _serve(models, host, open_, load_done, options)


def _serve(
    models: list[ModelOptions], host: str, open_: bool, load_done: Callable[[], None], options: dict[str, Any]
) -> None:
    check_installed("the page needs", ("fastapi", "uvicorn"), "serve")
    from wordprob.server import serve as start

    def ready(address: str) -> None:
        load_done()
        click.echo(f"wordprob is at {address} (Ctrl-C stops it)")
        if open_:
            click.launch(address)

    if host not in ("127.0.0.1", "localhost", "::1"):
        who = "can reach" if options["token"] == "" else "knows the token and can reach"
        click.echo(f"wordprob: anyone who {who} {host} can use this page; nothing is encrypted.", err=True)
    start(models, host=host, ready=ready, **options)


@contextlib.contextmanager
def ctrl_c_ends_at_once() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C end the process at once, as long as there is nothing to finish: until the function that this gives.

    Python's own handler raises an exception wherever the program is, and the code of a package that is just being
    imported may print it or swallow it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)

    def restore() -> None:
        signal.signal(signal.SIGINT, before)

    try:
        yield restore
    finally:
        restore()
