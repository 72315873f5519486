"""What a server offers, and its limits: models, host names, request sizes, waiting times."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordprob.errors import OptionError
from wordprob.options import ModelOptions

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The host names of this machine that only this machine can reach."""

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
    """

    models: Mapping[str, ModelOptions]
    max_characters: int = 20_000
    timeout: float = 60.0
    waiting: int = 8
    hosts: Sequence[str] = LOOPBACK

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
        return _without_repeats(*LOOPBACK, host.lower())
    if address.is_loopback:
        return LOOPBACK
    if address.is_unspecified:  # 0.0.0.0 and :: listen on every address of this machine
        return _without_repeats(*LOOPBACK, socket.gethostname().lower(), *_own_addresses())
    return (*LOOPBACK, str(address))


def _without_repeats(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _own_addresses() -> list[str]:
    """Return the addresses of this machine, as far as its own host name leads to them."""
    try:
        entries = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for _family, _type, _protocol, _name, address in entries]
