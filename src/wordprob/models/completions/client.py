"""Requests to a server: time-outs, repeated attempts, rate limits, and keys that never show.

A key comes from the environment. It goes into one header and nowhere else: not into messages, names or tables.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import os
import threading
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2
import tenacity

from wordprob.errors import ModelError, OptionError

KEY_VARIABLES = ("WORDPROB_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, the first that is set counts."""

TIMEOUT_VARIABLE = "WORDPROB_SERVER_TIMEOUT"
DEFAULT_TIMEOUT_SECONDS = 120.0
MAX_ANSWER_BYTES = 1 << 28
"""More than any list of log-probabilities has."""
MAX_ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0
MAX_SHOWN_CHARACTERS = 200
"""How much of a server's own message an error quotes."""

Result = TypeVar("Result")

HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
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
        if not (key.isascii() and key.isprintable()):
            raise OptionError(f"the environment variable {name} has characters in it that no key has.")
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
        # No redirects: the key would go along. No proxy on the way to this machine itself.
        self._http = httpx2.Client(
            timeout=self._timeout_seconds, follow_redirects=False, trust_env=not is_loopback(url), headers=HEADERS
        )

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
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(MAX_ATTEMPTS),
            wait=_pause_seconds,
            retry=tenacity.retry_if_exception_type(_TemporaryError),
            reraise=True,
        )
        try:
            return attempts(self._send, path, body)
        except _TemporaryError as error:
            raise ServerError(
                f"the server at {self.root} {error} ({MAX_ATTEMPTS} attempts). Is it running, and is the address "
                "right? What has been done is not lost: start again to go on."
            ) from None

    def _send(self, path: str, body: bytes | None) -> Any:
        key = key_for(self.root)
        method = "GET" if body is None else "POST"
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        request = self._http.build_request(method, self.root + path, content=body, headers=headers)
        try:
            answer, data = _result_in_time(lambda: self._exchange(request), self._timeout_seconds)
        except (TimeoutError, httpx2.TimeoutException):
            raise _TemporaryError(f"did not answer within {self._timeout_seconds:g} seconds") from None
        except (httpx2.ConnectError, httpx2.ProxyError) as error:
            raise _TemporaryError(f"cannot be reached: {_without(str(error), key)}") from None
        except httpx2.RequestError as error:
            raise _TemporaryError(f"broke the connection: {_without(str(error), key)}") from None
        if not answer.is_success:
            raise self._refusal(answer, data, path, key)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            shown = _shortened(data.decode("utf-8", "replace"), key)
            raise NonsenseError(
                f"the server at {self.root} answered {path} with something that is not JSON: {shown!r}."
            ) from None

    def _exchange(self, request: httpx2.Request) -> tuple[httpx2.Response, bytes]:
        """Send a request, and return the answer and its body.

        The body is taken as it comes: one that is compressed, which was not asked for, could expand to any size.
        """
        answer = self._http.send(request, stream=True)
        with contextlib.closing(answer):
            return answer, self._read(answer, request.url.path)

    def _read(self, answer: httpx2.Response, path: str) -> bytes:
        """Return the body of an answer, which must be whole in time and not too large."""
        deadline = time.monotonic() + self._timeout_seconds
        data = bytearray()
        for chunk in answer.iter_raw():
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise NonsenseError(
                    f"the server at {self.root} answered {path} with more than {MAX_ANSWER_BYTES:,} bytes. Is it the "
                    "address of a model's server? If so, a smaller `top_logprobs` makes answers shorter."
                )
            if time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the answer is not whole in time")
        return bytes(data)

    def _refusal(self, answer: httpx2.Response, data: bytes, path: str, key: str | None) -> Exception:
        """Return the error for an answer that says no."""
        status = answer.status_code
        said = _shortened(_message_in(data), key)
        if status in (401, 403):
            advice = f"Set the environment variable {KEY_VARIABLES[0]} to the server's key."
            if key is not None:
                advice = f"It does not accept the key that the environment has ({' or '.join(KEY_VARIABLES)})."
            return RefusedError(f"the server at {self.root} asks for a key ({status}). {advice}", status)
        if status in TEMPORARY:
            wait = _retry_after_seconds(answer.headers.get("Retry-After"))
            return _TemporaryError(f"answered {status}{said and f': {said}'}", wait)
        if 300 <= status < 400:
            return RefusedError(
                f"the server at {self.root} redirects {path} elsewhere; give the address that it redirects to.", status
            )
        return RefusedError(f"the server at {self.root} refuses {path} ({status}): {said or 'no reason'}", status)


class _TemporaryError(Exception):
    """A failure after which another attempt may succeed, and how long the server asks to wait, if it says so."""

    def __init__(self, message: str, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


def _result_in_time(function: Callable[[], Result], timeout_seconds: float) -> Result:
    """Return what a function returns; raise ``TimeoutError`` if it takes longer.

    httpx limits each part of an exchange, so that a server may take for ever by sending one byte at a time. What is not
    done in time goes on in a thread that nobody waits for.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(timeout_seconds)


def _pause_seconds(state: tenacity.RetryCallState) -> float:
    """Return how long to wait before the next attempt: as long as the server asks for, or twice as long each time."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.wait_seconds if isinstance(error, _TemporaryError) else None
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1) if asked is None else asked)


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


def _message_in(data: bytes) -> str:
    """Return what a server says about an error."""
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
