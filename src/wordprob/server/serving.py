"""Start a server, and stop it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import uvicorn

from wordprob.errors import OptionError
from wordprob.options import DEFAULT_MODEL, ModelOptions
from wordprob.server.app import create_app
from wordprob.server.connections import KEEP_ALIVE_SECONDS, TimedConnection
from wordprob.server.job_queue import ScoringQueue
from wordprob.server.server_settings import ServerSettings, chosen_token, host_names, public_names

__all__ = ["ServerSettings", "create_app", "serve"]

DEFAULT_PORT = 8517
SHUTDOWN_TIMEOUT_SECONDS = 2
"""Time that requests have to finish when the server is stopped."""


def serve(
    models: Sequence[str | ModelOptions] = (),
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    max_characters: int = 20_000,
    timeout: float = 60.0,
    waiting: int = 8,
    names: Sequence[str] = (),
    token: str | None = None,
    bos: str | int | None = None,
    chat_template: str | None = None,
    chat_prompt: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    compile: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    adapter: str | None = None,
    quantize: str | None = None,
    device_map: str | Mapping[str, str | int] | None = None,
    model_kwargs: str | Mapping[str, Any] | None = None,
    masking: str = "within_word_l2r",
    tokenizer: str | None = None,
    top_logprobs: int = 20,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page and the JSON route until interrupted.

    Parameters
    ----------
    models
        The models to choose from; the first is loaded before the server answers. Names as for :func:`wordprob.load`,
        or :class:`wordprob.options.ModelOptions`, which say themselves how to open the model.
    host, port
        Where to listen; port 0 takes any free one.
    max_characters, timeout, waiting
        The maximum number of characters in a request, the seconds that it may take, and how many requests may wait.
    names
        Further host names that the server answers to.
    token
        What requests must carry, as ``Authorization: Bearer TOKEN`` or in the address that is opened first. By default
        one is made up if other machines can reach the server; with an empty one everyone may ask.
    bos, chat_template, chat_prompt, device, dtype, compile, revision, trust_remote_code
        How to open the models that are given by name, as for :func:`wordprob.load`.
    adapter, quantize, device_map, model_kwargs, masking, tokenizer, top_logprobs
        The same.
    ready
        Called with the address of the page, with the token if there is one, once the model is loaded.
    """
    shared = {
        "bos": bos,
        "chat_template": chat_template,
        "chat_prompt": chat_prompt,
        "device": device,
        "dtype": dtype,
        "compile": compile,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "adapter": adapter,
        "quantize": quantize,
        "device_map": device_map,
        "model_kwargs": model_kwargs,
        "masking": masking,
        "tokenizer": tokenizer,
        "top_logprobs": top_logprobs,
    }
    settings = ServerSettings(
        models=public_names([_model_options(model, shared) for model in models or [DEFAULT_MODEL]]),
        max_characters=max_characters,
        timeout=timeout,
        waiting=waiting,
        hosts=(*host_names(host), *(name.lower() for name in names)),
        token=chosen_token(token, host),
    )
    with (
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(listen(host, port)) as listening,
        contextlib.closing(ScoringQueue(settings)) as queue,
    ):
        queue.load(settings.default_model)
        if ready is not None:
            ready(address(listening) + (f"?token={settings.token}" if settings.token else ""))
        uvicorn.Server(server_config(settings, queue)).run(sockets=[listening])


def _model_options(model: str | ModelOptions, shared: dict[str, Any]) -> ModelOptions:
    if isinstance(model, ModelOptions):
        return model
    return ModelOptions(model=model, **shared)


def server_config(settings: ServerSettings, queue: ScoringQueue) -> uvicorn.Config:
    """Return how uvicorn runs the application: without logs, headers of its own or clients that hold it up."""
    return uvicorn.Config(
        create_app(settings, queue),
        http=TimedConnection,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port; raise :class:`OptionError` if there can be none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OptionError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Specify another `port`, for example "
            f"{port + 1}, or 0 for any free one; a `host` that always works is 127.0.0.1, which is this machine alone."
        ) from None


def address(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    if host == "0.0.0.0":  # listens on every address; a browser needs one of them
        host = "127.0.0.1"
    if host == "::":
        host = "::1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
