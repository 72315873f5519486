"""What a server may do: which models, how much at once, for how long, under which names."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wordprob.errors import OptionError
from wordprob.models import resolve
from wordprob.options import DEFAULT_MODEL

LOOPBACK = ("127.0.0.1", "localhost", "::1")
BODY = 16_384
"""Bytes that a request may have beside its texts."""
ESCAPED = 12
"""The most bytes that JSON needs for a character: two escapes."""


@dataclass(frozen=True)
class ServerSettings:
    """The limits of a server.

    Attributes
    ----------
    models
        The names that a request may give, and what each opens. Nothing else is ever opened.
    max_characters
        The most characters of text in one request.
    timeout
        Seconds after which a request is given up.
    waiting
        Requests that may wait while one is scored.
    hosts
        Names under which the page may be asked for (a web site that points its own name here is turned away).
    options
        How models are opened: ``device`` and ``dtype``, as for :func:`wordprob.load`.
    """

    models: Mapping[str, str]
    max_characters: int = 20_000
    timeout: float = 60.0
    waiting: int = 8
    hosts: Sequence[str] = LOOPBACK
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_body(self) -> int:
        """The most bytes of a request that are read."""
        return ESCAPED * self.max_characters + BODY

    @property
    def default(self) -> str:
        """The model that is taken where a request names none."""
        return next(iter(self.models))


def public_names(models: Sequence[str]) -> dict[str, str]:
    """Return the name under which each model is offered; of a path only its last part is shown."""
    found: dict[str, str] = {}
    for model in models or [DEFAULT_MODEL]:
        resolve(model)
        name = Path(model).expanduser().name if Path(model).expanduser().exists() else model
        if found.setdefault(name, model) != model:
            raise OptionError(f"two models would both be offered as '{name}': {found[name]} and {model}. Rename one.")
    return found


def host_names(host: str) -> tuple[str, ...]:
    """Return the names under which a server that listens on ``host`` may be asked for."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return tuple(dict.fromkeys((*LOOPBACK, host.lower())))
    if address.is_loopback:
        return LOOPBACK
    if not address.is_unspecified:
        return (*LOOPBACK, str(address))
    return tuple(dict.fromkeys((*LOOPBACK, socket.gethostname().lower(), *_own_addresses())))


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(place[0]) for *_, place in found]
