"""Checks that every request passes first, and headers that every response carries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Nothing is loaded from other sites, and no other site may use the page or show it in a frame."""

BODY_TIMEOUT_SECONDS = 15.0
"""Time in which the body of a request must arrive."""

DRAIN_MAX_BYTES = 1 << 24
"""How much of a refused request is read and dropped before it is answered."""

DRAIN_TIMEOUT_SECONDS = 2.0
"""How long a refused request is read and dropped before it is answered."""

MAX_REQUESTS = 256
"""Requests that are answered at the same time; further ones are asked to come again."""

RETRY_AFTER_SECONDS = 5
"""When a client that was refused because the server is busy may try again."""

SHOWN_CHARACTERS = 100
"""How much of a client's own words an error message repeats."""


class RequestRefusedError(Exception):
    """A request that is refused before it is looked at: the HTTP status, and why."""

    def __init__(self, status: int, message: str, kind: str = "RequestError") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind


def problem(message: str, kind: str) -> bytes:
    """Return the body of a response that is an error."""
    return json.dumps({"error": message, "kind": kind}).encode("ascii")


class SecurityHeaders:
    """Adds the security headers to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add the headers when the response starts."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class RequestLimits:
    """Refuses requests for an unknown host, from another site's page, that are not JSON, too large, or too many.

    Parameters
    ----------
    app
        The application that gets the requests which pass.
    hosts
        Host names that the server answers to. A web site could point a domain name of its own at this machine to let
        its pages talk to the server, but its requests then name that host.
    max_body_bytes
        The maximum size of a request, checked while it arrives.
    too_large
        The message for a request that is larger.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], max_body_bytes: int, too_large: str) -> None:
        self._app = app
        self._hosts = hosts
        self._max_body_bytes = max_body_bytes
        self._too_large = too_large
        self._n_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request and read its body, then pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._n_requests += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._n_requests -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._n_requests > MAX_REQUESTS:
                raise RequestRefusedError(
                    503, "the server is busy with other requests. Try again in a moment.", "BusyError"
                )
            self._check_headers(Headers(scope=scope), scope["method"])
            body = await asyncio.wait_for(self._read_body(receive), BODY_TIMEOUT_SECONDS)
        except TimeoutError:
            message = f"the request did not arrive within {BODY_TIMEOUT_SECONDS:.0f} seconds."
            await _send_refusal(send, RequestRefusedError(408, message))
        except RequestRefusedError as refused:
            await _drain(receive)
            await _send_refusal(send, refused)
        else:
            await self._app(scope, _replay(body, receive), send)

    def _check_headers(self, headers: Headers, method: str) -> None:
        self._check_host(headers.get("host", ""))
        _check_origin(headers.get("origin"), headers.get("host", ""))
        if method == "POST":
            _check_content_type(headers.get("content-type", ""))
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._max_body_bytes:
            raise RequestRefusedError(413, self._too_large)

    def _check_host(self, host: str) -> None:
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name not in self._hosts:
            raise RequestRefusedError(
                400,
                f"this server does not answer to the host name '{host[:SHOWN_CHARACTERS]}'. To allow it, start the "
                f"server with {name[:SHOWN_CHARACTERS]} among its further host names (`allow_host`).",
            )

    async def _read_body(self, receive: Receive) -> bytes:
        body = bytearray()
        more_to_come = True
        while more_to_come:
            message = await receive()
            body += message.get("body", b"")
            more_to_come = message.get("more_body", False)
            if len(body) > self._max_body_bytes:
                raise RequestRefusedError(413, self._too_large)
        return bytes(body)


def _check_origin(origin: str | None, host: str) -> None:
    """Refuse requests from pages of other sites. Browsers send the origin; programs send none, and may ask."""
    if origin is not None and origin.partition("//")[2] != host:
        raise RequestRefusedError(403, f"requests from pages of {origin[:SHOWN_CHARACTERS]} are not answered.")


def _check_content_type(content_type: str) -> None:
    """Refuse what is not JSON: a form on another site's page can send other types without asking the browser."""
    if content_type.split(";")[0].strip().lower() != "application/json":
        raise RequestRefusedError(415, "send JSON, with the header Content-Type: application/json.")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the body, which was read already, and then whatever arrives."""
    already_read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return already_read.pop() if already_read else await receive()

    return replayed


async def _drain(receive: Receive) -> None:
    """Read and drop the rest of a request, within limits: a client cut off while sending may not see the answer."""
    bytes_left = DRAIN_MAX_BYTES
    more_to_come = True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
            while more_to_come and bytes_left > 0:
                message = await receive()
                bytes_left -= len(message.get("body", b""))
                more_to_come = message.get("more_body", False)


async def _send_refusal(send: Send, refused: RequestRefusedError) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if refused.status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": problem(refused.message, refused.kind)})
