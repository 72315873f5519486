"""What every request passes first: its size and where it comes from; and the headers of every answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""On every answer. Nothing is loaded from elsewhere, and no other site may use or frame the page."""

READING = 15.0
"""Seconds in which a request's body must arrive."""


DRAINED, DRAINING = 1 << 24, 2.0
"""Bytes and seconds of a refused request that are let go by before the answer."""


class RefusedError(Exception):
    """A request that is not answered: a status and why."""

    def __init__(self, status: int, message: str, kind: str = "RequestError") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


def problem(message: str, kind: str) -> bytes:
    """Return the body of every answer that is an error."""
    return json.dumps({"error": message, "kind": kind}).encode("ascii")


class SecurityHeaders:
    """Puts the security headers on every answer, errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; add the headers when the answer starts."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class RequestLimits:
    """Turns away requests that came by another name or from another site's page, that are not JSON, or too large.

    The size is checked while a request comes, not after. A web site that points its own name at this machine, so that
    its pages may talk to it, is known by that name.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], max_body: int, too_large: str) -> None:
        self._app, self._hosts, self._max_body, self._too_large = app, hosts, max_body, too_large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body within its limits, then pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(Headers(scope=scope), scope["method"])
            body = await asyncio.wait_for(self._read(receive), READING)
        except TimeoutError:
            await _refuse(send, RefusedError(408, f"the request did not arrive within {READING:.0f} seconds."))
        except RefusedError as refused:
            await _drain(receive)
            await _refuse(send, refused)
        else:
            await self._app(scope, _replay(body, receive), send)

    def _check(self, headers: Headers, method: str) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if (name := re.sub(r":\d+$", "", host).strip("[]").lower()) not in self._hosts:
            allow = f"Start it with --allow-host {name[:100]} to let it be asked for by this name."
            raise RefusedError(400, f"this server does not go by the name of '{host[:100]}'. {allow}")
        if origin is not None and origin.partition("//")[2] != host:
            raise RefusedError(403, f"requests from pages of {origin[:100]} are not answered.")
        if method == "POST" and headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise RefusedError(415, "send JSON, with the header Content-Type: application/json.")
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._max_body:
            raise RefusedError(413, self._too_large)

    async def _read(self, receive: Receive) -> bytes:
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body:
                raise RefusedError(413, self._too_large)
        return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body that was read, and then whatever comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _drain(receive: Receive) -> None:
    """Let what is still coming go by, within limits: who is cut off while sending may never see the answer."""
    left, more = DRAINED, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAINING):
            while more and left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                more = message.get("more_body", False)


async def _refuse(send: Send, refused: RefusedError) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": problem(refused.message, refused.kind)})
