"""Checks that every request passes first, and headers that every response carries.

starlette's TrustedHostMiddleware and uvicorn's limit on connections would do less: the one knows neither the address
that a request arrived at nor what to advise, the other counts idle connections, so that they shut others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

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


TOKEN_COOKIE = "wordprob_token"
"""Where a browser keeps the token, after the address with the token was opened once."""


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
    """Refuses requests for an unknown host, from another site's page, without the token, not JSON, too large, too many.

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
    token
        What every request must carry, in a header, or in a cookie that the page gets when its address has the token;
        empty if everyone may ask.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], max_body_bytes: int, too_large: str, token: str = ""
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token
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
            self._check_headers(scope)
            if self._token and self._is_right(_token_in_query(scope)):
                await _send_token_as_cookie(send, scope["path"], self._token)
                return
            body = await asyncio.wait_for(self._read_body(receive), BODY_TIMEOUT_SECONDS)
        except TimeoutError:
            message = f"the request did not arrive within {BODY_TIMEOUT_SECONDS:.0f} seconds."
            await _send_refusal(send, RequestRefusedError(408, message))
        except RequestRefusedError as refused:
            await _drain(receive)
            await _send_refusal(send, refused)
        else:
            await self._app(scope, _replay(body, receive), send)

    def _check_headers(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_host(headers.get("host", ""), scope.get("server"))
        _check_origin(headers.get("origin"), headers.get("host", ""))
        self._check_token(headers, scope)
        if scope["method"] == "POST":
            _check_content_type(headers.get("content-type", ""))
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._max_body_bytes:
            raise RequestRefusedError(413, self._too_large)

    def _check_host(self, host: str, arrived_at: tuple[str, int | None] | None) -> None:
        """Refuse a host name that is neither allowed nor the very address at which the request arrived."""
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        if name not in self._hosts and (arrived_at is None or name != arrived_at[0]):
            raise RequestRefusedError(
                400,
                f"this server does not answer to the host name '{host[:SHOWN_CHARACTERS]}'. To allow it, start the "
                f"server with {name[:SHOWN_CHARACTERS]} among its further host names (`allow_host`).",
            )

    def _check_token(self, headers: Headers, scope: Scope) -> None:
        kind, _, in_header = headers.get("authorization", "").partition(" ")
        sent = (
            in_header.strip() if kind.lower() == "bearer" else "",
            _token_in_cookie(headers),
            _token_in_query(scope),
        )
        if self._token and not any(self._is_right(token) for token in sent):
            raise RequestRefusedError(
                401,
                "this server asks for a token. Open the address that it printed when it was started, with ?token=… at "
                "its end, or send the header Authorization: Bearer TOKEN.",
            )

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode())

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


def _token_in_query(scope: Scope) -> str:
    values = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
    return values[0] if scope["method"] == "GET" else ""


def _token_in_cookie(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(TOKEN_COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


async def _send_token_as_cookie(send: Send, path: str, token: str) -> None:
    """Send the browser to the same page without the token in its address, which stays in histories."""
    cookie = f"{TOKEN_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
    headers = [(b"location", quote(path).encode("ascii")), (b"set-cookie", cookie.encode("ascii"))]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


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
