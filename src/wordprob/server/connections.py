"""Connections with time limits: one that asks nothing, or does not take its answer, is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT_SECONDS = 10.0
"""Time in which the headers of a request must arrive, counted from when the connection could bring one."""

KEEP_ALIVE_SECONDS = 5
"""How long a connection stays open after an answer."""

WRITE_TIMEOUT_SECONDS = 30.0
"""How long a client may leave an answer unread before its connection is cut."""

MAX_CONNECTIONS = 512
"""Connections at the same time; of more than these, those that have asked nothing for longest are closed."""


class TimedConnection(H11Protocol):
    """uvicorn's connection, which by itself waits for the first request as long as the client likes."""

    waiting_since: float | None = None
    """When the connection began to wait for a request; ``None`` while one is answered."""

    _request_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._close_longest_waiting()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        for timer in (self._request_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Note when a request has begun."""
        answered = self.cycle
        super().handle_events()
        if self.cycle is not answered:
            self.waiting_since = None

    def on_response_complete(self) -> None:
        """Wait for the next request on the same connection."""
        self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client a while to read what was sent."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, as the client has read."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().resume_writing()

    def _wait_for_request(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
        self.waiting_since = self.loop.time()
        self._request_timer = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waiting_since is not None:
            self.transport.abort()

    def _close_longest_waiting(self) -> None:
        """Make room; where every connection is busy, this new one has to go."""
        others: list[Any] = [other for other in self.connections if getattr(other, "waiting_since", None) is not None]
        longest = min(others, key=lambda other: other.waiting_since, default=self)
        longest.transport.abort()
