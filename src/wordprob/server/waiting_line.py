"""Who is next: clients take turns, however many requests each of them has sent."""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar


class BusyError(Exception):
    """The server cannot take a request now; it can be sent again later."""

    reason = "the server is busy with other requests"


class Waiting(Protocol):
    """What can stand in the line."""

    client: str
    future: Future[Any]


T = TypeVar("T", bound=Waiting)


class WaitingLine(Generic[T]):
    """Requests in the order in which they are answered: one of each client in turn, each client's in their order.

    Parameters
    ----------
    capacity
        How many may wait. When the line is full, a client that has fewer in it than another takes the other's last
        place; nobody is shut out by a single client.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, request: T) -> None:
        """Put a request into the line; raise :class:`BusyError` if there is no room for it."""
        self._drop_cancelled()
        if len(self) >= self._capacity:
            self._make_room(request.client)
        self._lines.setdefault(request.client, deque()).append(request)

    def take(self) -> T:
        """Return the request whose turn it is."""
        client, line = self._lines.popitem(last=False)
        request = line.popleft()
        if line:
            self._lines[client] = line  # at the end: the others come first
        return request

    def _make_room(self, client: str) -> None:
        """Refuse the last request of the client that has most, unless this one has as many already."""
        greediest = max(self._lines, key=lambda name: len(self._lines[name]))
        if len(self._lines[greediest]) <= len(self._lines.get(client, ())) + 1:
            raise BusyError
        refused = self._lines[greediest].pop()
        if refused.future.set_running_or_notify_cancel():
            refused.future.set_exception(BusyError())

    def _drop_cancelled(self) -> None:
        """Remove requests whose clients have gone away, so that they take nobody's place."""
        for client in list(self._lines):
            kept = deque(request for request in self._lines[client] if not request.future.cancelled())
            if kept:
                self._lines[client] = kept
            else:
                del self._lines[client]
