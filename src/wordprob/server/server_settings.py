"""What a server offers, and its limits: models, host names, request sizes, waiting times."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordprob.errors import OptionError
from wordprob.options import ModelOptions

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The host names of this machine that only this machine can reach."""

TOKEN = re.compile(r"[A-Za-z0-9._~-]{8,}")

MAX_BYTES_BESIDE_TEXTS = 16_384
"""The rest of a request: the names of its fields, the word definition, the ids."""

MAX_BYTES_PER_CHARACTER = 12
"""JSON may write a character outside the Basic Multilingual Plane as two escapes of six bytes: ``\\ud83d\\ude00``."""


@dataclass(frozen=True)
class ServerSettings:
    """The models that a server offers, and its limits.

    Attributes
    ----------
    models
        The names that a request may give, and how the model behind each name is opened. No other model is ever opened.
    max_characters
        The maximum number of characters of text in one request.
    timeout
        Seconds after which a request is given up.
    waiting
        How many requests may wait while one is being scored.
    hosts
        Host names that the server answers to. A request that names another host is refused, so that a web site cannot
        reach the server by pointing a domain name of its own at this machine.
    token
        What every request must carry; empty if everyone may ask who can reach the server.
    """

    models: Mapping[str, ModelOptions]
    max_characters: int = 20_000
    timeout: float = 60.0
    waiting: int = 8
    hosts: Sequence[str] = LOOPBACK
    token: str = ""

    @property
    def max_body_bytes(self) -> int:
        """The maximum size of a request."""
        return MAX_BYTES_PER_CHARACTER * self.max_characters + MAX_BYTES_BESIDE_TEXTS

    @property
    def default_model(self) -> str:
        """The model that scores a request which names none."""
        return next(iter(self.models))


def public_names(models: Sequence[ModelOptions]) -> dict[str, ModelOptions]:
    """Return the models by the names under which a server offers them.

    A model in a directory or file is offered by the last part of its path: requests and answers show no paths.
    """
    offered: dict[str, ModelOptions] = {}
    for options in models:
        name = _public_name(options.model)
        other = offered.setdefault(name, options)
        if other.model != options.model:
            raise OptionError(
                f"two models would both be offered as '{name}': {other.model} and {options.model}. Rename one."
            )
        if other != options:
            raise OptionError(f"the model '{name}' is given twice, with different options. Offer it once.")
    return offered


def _public_name(model: str) -> str:
    path = Path(model).expanduser()
    return path.name if path.exists() else model


def host_names(host: str) -> tuple[str, ...]:
    """Return the host names that a server answers to if it listens on ``host``.

    Examples
    --------
    >>> host_names("lab.example.org")
    ('127.0.0.1', 'localhost', '::1', 'lab.example.org')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name, not an address
        if host.lower() in LOOPBACK:
            return LOOPBACK
        return _without_repeats(*LOOPBACK, host.lower())
    if address.is_loopback:
        return LOOPBACK
    if address.is_unspecified:  # 0.0.0.0 and :: listen on every address; the one that is used is allowed then
        return _without_repeats(*LOOPBACK, socket.gethostname().lower())
    return (*LOOPBACK, str(address))


def _without_repeats(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server that listens on ``host``."""
    return host_names(host) == LOOPBACK


def chosen_token(token: str | None, host: str) -> str:
    """Return the token of a server: the one given, or one that is made up if others can reach the server.

    Examples
    --------
    >>> chosen_token(None, "127.0.0.1"), chosen_token("", "0.0.0.0"), len(chosen_token(None, "0.0.0.0"))
    ('', '', 32)
    """
    if token is None:
        return "" if is_loopback(host) else secrets.token_urlsafe(24)
    if token and not TOKEN.fullmatch(token):
        raise OptionError(
            "`token` must have at least 8 characters: letters, digits, and . _ ~ -, so that it can be part of an "
            "address. Leave it out, and one is made up."
        )
    return token
