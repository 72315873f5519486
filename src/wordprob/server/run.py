"""Starting and stopping a server."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

import uvicorn

from wordprob.errors import OptionError
from wordprob.server.app import create_app
from wordprob.server.job_queue import ScoringQueue
from wordprob.server.settings import ServerSettings, host_names, public_names

__all__ = ["ServerSettings", "create_app", "serve"]

PORT = 8517
CONNECTIONS = 64
"""Connections held at once; more are turned away."""


def serve(
    models: Sequence[str] = (),
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    max_characters: int = 20_000,
    timeout: float = 60.0,
    waiting: int = 8,
    names: Sequence[str] = (),
    device: str = "auto",
    dtype: str = "auto",
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page and the JSON route until interrupted.

    Parameters
    ----------
    models
        What may be chosen, as for :func:`wordprob.load`; the first is loaded before the server answers.
    host, port
        Where to listen; port 0 takes any that is free.
    max_characters, timeout, waiting
        The most characters of a request, the most seconds it may take, and how many may wait for their turn.
    names
        Further host names under which the page may be asked for.
    device, dtype
        How models are opened, as for :func:`wordprob.load`.
    ready
        Called with the page's address once it answers.
    """
    settings = ServerSettings(
        public_names(models),
        max_characters,
        timeout,
        waiting,
        (*host_names(host), *names),
        {"device": device, "dtype": dtype},
    )
    with contextlib.closing(listen(host, port)) as listening, contextlib.closing(ScoringQueue(settings)) as desk:
        desk.load(settings.default)
        if ready is not None:
            ready(address(listening))
        config = uvicorn.Config(
            create_app(settings, desk),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, or say why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OptionError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Choose another port, for example "
            f"--port {port + 1}, or any that is free with --port 0; this machine alone is --host 127.0.0.1."
        ) from None


def address(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"
