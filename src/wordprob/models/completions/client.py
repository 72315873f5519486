"""Requests to a server: time-outs, repeated attempts, rate limits, and keys that never show.

A key comes from the environment. It goes into one header and nowhere else: not into messages, names or tables.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from typing import Any

from wordprob.errors import ModelError, OptionError

KEY_VARIABLES = ("WORDPROB_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, the first that is set counts."""

TIMEOUT_VARIABLE = "WORDPROB_SERVER_TIMEOUT"
DEFAULT_TIMEOUT_SECONDS = 120.0
MAX_ANSWER_BYTES = 1 << 28
"""More than any list of log-probabilities has."""
CHUNK_BYTES = 1 << 16
MAX_ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0
MAX_SHOWN_CHARACTERS = 200
"""How much of a server's own message an error quotes."""

HIDDEN = "[key]"
TEMPORARY = (408, 409, 425, 429, 500, 502, 503, 504)
"""Answers after which another attempt may succeed."""


class ServerError(ModelError, OSError):
    """A server cannot be reached, or cannot answer now; the same request may succeed later."""


class RefusedError(ModelError):
    """A server refuses a request, and would again: ``status`` is its answer's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NonsenseError(ModelError):
    """A server answers, but not what the protocol says."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: the key would go along."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def is_loopback(url: str) -> bool:
    """Return True for an address of this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def check_url(url: str) -> None:
    """Raise, unless an address can be used, and written into tables."""
    try:
        parts = urllib.parse.urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid = False
        parts = urllib.parse.urlsplit("")
    if parts.username or parts.password:
        raise OptionError(
            "the server's address has a user name or a password in it, and addresses are written into tables. Leave "
            f"them out, and set the environment variable {KEY_VARIABLES[0]}."
        )
    if parts.query or parts.fragment:
        raise OptionError(
            "the server's address goes on after a ? or #, which may be a key, and addresses are written into tables. "
            f"Leave that out, and set the environment variable {KEY_VARIABLES[0]}."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise OptionError(f"'{url}' is not the address of a server; write https://HOST/v1 or http://127.0.0.1:PORT.")


def key_for(url: str) -> str | None:
    """Return the key that goes to an address, if there is one.

    OpenAI's own key is not sent without encryption, except to this machine.
    """
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key and (name == KEY_VARIABLES[0] or url.startswith("https://") or is_loopback(url)):
            return key
    return None


class Client:
    """Sends requests to one server.

    Parameters
    ----------
    url
        The server's address, with or without ``/v1`` at its end.
    """

    def __init__(self, url: str) -> None:
        check_url(url)
        self.root = url.rstrip("/").removesuffix("/completions").removesuffix("/v1")
        self._timeout_seconds = _timeout_seconds()
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if is_loopback(url):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> Any:
        """Return what the server has at a path, or ``None`` if it has nothing there."""
        try:
            return self._ask(path, None)
        except (RefusedError, NonsenseError) as error:
            if isinstance(error, RefusedError) and error.status in (401, 403):
                raise
            return None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the server's answer to a request."""
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path: str, body: bytes | None) -> Any:
        """Send a request, again after pauses where the failure may be temporary; return the JSON of the answer."""
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._send(path, body)
            except _TemporaryError as error:
                if attempt == MAX_ATTEMPTS:
                    raise ServerError(
                        f"the server at {self.root} {error} ({attempt} attempts). Is it running, and is the address "
                        "right? What has been done is not lost: start again to go on."
                    ) from None
                time.sleep(min(MAX_PAUSE_SECONDS, pause if error.wait_seconds is None else error.wait_seconds))
                pause *= 2
        raise AssertionError("unreachable")

    def _send(self, path: str, body: bytes | None) -> Any:
        key = key_for(self.root)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.root + path, body, headers)
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                data = self._read(answer, path)
        except urllib.error.HTTPError as error:
            raise self._http_error(error, path, key) from None
        except TimeoutError:
            raise _TemporaryError(f"did not answer within {self._timeout_seconds:g} seconds") from None
        except http.client.IncompleteRead:
            raise _TemporaryError("broke off in the middle of an answer") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _TemporaryError(f"did not answer within {self._timeout_seconds:g} seconds") from None
            raise _TemporaryError(f"cannot be reached: {_without(str(error.reason), key)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise _TemporaryError(f"broke the connection: {_without(str(error), key)}") from None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            shown = _shortened(data.decode("utf-8", "replace"), key)
            raise NonsenseError(
                f"the server at {self.root} answered {path} with something that is not JSON: {shown!r}."
            ) from None

    def _read(self, answer: http.client.HTTPResponse, path: str) -> bytes:
        """Return the body of an answer, which must be whole in time: the socket's own limit is on each part of it."""
        deadline = time.monotonic() + self._timeout_seconds
        data = bytearray()
        while chunk := answer.read1(CHUNK_BYTES):
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise NonsenseError(
                    f"the server at {self.root} answered {path} with more than {MAX_ANSWER_BYTES:,} bytes. Is it the "
                    "address of a model's server? If so, a smaller `top_logprobs` makes answers shorter."
                )
            if time.monotonic() > deadline:
                raise TimeoutError
        if answer.length:
            raise http.client.IncompleteRead(bytes(data), answer.length)
        return bytes(data)

    def _http_error(self, error: urllib.error.HTTPError, path: str, key: str | None) -> Exception:
        said = _shortened(_message_in(error), key)
        if error.code in (401, 403):
            advice = f"Set the environment variable {KEY_VARIABLES[0]} to the server's key."
            if key is not None:
                advice = f"It does not accept the key that the environment has ({' or '.join(KEY_VARIABLES)})."
            return RefusedError(f"the server at {self.root} asks for a key ({error.code}). {advice}", error.code)
        if error.code in TEMPORARY:
            wait = _retry_after_seconds(error.headers.get("Retry-After"))
            return _TemporaryError(f"answered {error.code}{said and f': {said}'}", wait)
        if 300 <= error.code < 400:
            return RefusedError(
                f"the server at {self.root} redirects {path} elsewhere; give the address that it redirects to.",
                error.code,
            )
        return RefusedError(
            f"the server at {self.root} refuses {path} ({error.code}): {said or 'no reason'}", error.code
        )


class _TemporaryError(Exception):
    """A failure after which another attempt may succeed, and how long the server asks to wait, if it says so."""

    def __init__(self, message: str, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


def _timeout_seconds() -> float:
    given = os.environ.get(TIMEOUT_VARIABLE, "")
    if not given:
        return DEFAULT_TIMEOUT_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise OptionError(f"the environment variable {TIMEOUT_VARIABLE} is '{given}'; it must be a number of seconds.")
    return seconds


def _retry_after_seconds(header: str | None) -> float | None:
    """Return how long a server asks to wait: so many seconds, or until a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:  # so it is where the header says -0000: UTC, from an unknown place
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _message_in(error: urllib.error.HTTPError) -> str:
    """Return what a server says about an error."""
    try:
        data = error.read(1 << 16)
    except (OSError, http.client.HTTPException):
        return ""
    text = data.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        inner = answer.get("error", answer)
        text = str(inner.get("message", inner) if isinstance(inner, dict) else inner)
    except (ValueError, AttributeError, RecursionError):
        pass
    return text


def _shortened(text: str, key: str | None) -> str:
    """Return the beginning of a text, on one line and without the key."""
    return " ".join(_without(text, key).split())[:MAX_SHOWN_CHARACTERS]


def _without(text: str, key: str | None) -> str:
    return text if key is None else text.replace(key, HIDDEN)
