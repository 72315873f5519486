"""Texts that begin alike: what they share is asked about once, and each gets its own copy of the answer.

A request whose ids begin like those of another one asks only for the rows from the last shared one on. The rows before
have the same distributions and the same next ids in both, so they are copied from the other's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.models.prefix_trees import MIN_SHARED_TOKENS, neighbours
from wordprob.models.protocol import Request, Scores


@dataclass(frozen=True)
class SharedRequests:
    """Requests of which some go on from others.

    Attributes
    ----------
    asked
        What the model is asked, in the order of the requests.
    requests
        The requests as they were.
    goes_on_from
        By the index of a request: the index of the request whose answer its own begins with.
    """

    asked: list[Request]
    requests: Sequence[Request]
    goes_on_from: dict[int, int]

    def complete(self, scored: Iterable[tuple[int, Scores]]) -> Iterator[tuple[int, Scores]]:
        """Yield the whole answers to the requests as they were, from the model's answers, in any order."""
        needed = set(self.goes_on_from.values())
        whole: dict[int, Scores] = {}  # what other answers begin with
        waiting: dict[int, list[tuple[int, Scores]]] = {}
        for answer in scored:
            ready = [answer]
            while ready:
                index, scores = ready.pop()
                source = self.goes_on_from.get(index)
                if source is not None:
                    if source not in whole:
                        waiting.setdefault(source, []).append((index, scores))
                        continue
                    scores = self._joined(index, source, whole[source], scores)
                if index in needed:
                    whole[index] = scores
                    ready += waiting.pop(index, [])
                yield index, scores

    def _joined(self, index: int, source: int, beginning: Scores, rest: Scores) -> Scores:
        """Return the answer to a request: the rows of another one's, then its own."""
        request, other = self.requests[index], self.requests[source]
        low, high = request.first, self.asked[index].first
        rows = slice(low - other.first, high - other.first)
        return Scores(
            target=np.concatenate([beginning.target[rows], rest.target]),
            mass=np.concatenate([beginning.mass[rows], rest.mass]),
            gathered=_put_together(
                request.gather < high, beginning.gathered[_between(other.gather, low, high)], rest.gathered
            ),
            statistics={
                name: _put_together(
                    request.statistics_rows < high,
                    beginning.statistics[name][_between(other.statistics_rows, low, high)],
                    values,
                )
                for name, values in rest.statistics.items()
            },
        )


def share_beginnings(requests: Sequence[Request]) -> SharedRequests:
    """Find requests that begin alike, and ask about what they share once."""
    asked = list(requests)
    goes_on_from: dict[int, int] = {}
    order, shared = neighbours([request.ids for request in requests])
    for place in range(1, len(order)):
        index, source = order[place], order[place - 1]
        request, other = requests[index], requests[source]
        # The row after the last shared id has another next id, so it is asked for again.
        first = min(shared[place], len(request.ids), len(other.ids)) - 1
        if shared[place] < MIN_SHARED_TOKENS or first <= request.first or other.first > request.first:
            continue
        if _asks_alike(request, other, first):
            goes_on_from[index] = source
            asked[index] = _from(request, first)
    return SharedRequests(asked, requests, goes_on_from)


def _asks_alike(request: Request, other: Request, first: int) -> bool:
    """Return True if two requests want the same masses and statistics at the rows that are to be shared."""
    low = request.first
    wanted = _between(request.gather, low, first)
    wanted_of_other = _between(other.gather, low, first)
    return (
        request.statistics == other.statistics
        and np.array_equal(request.gather[wanted], other.gather[wanted_of_other])
        and np.array_equal(request.gather_lists[wanted], other.gather_lists[wanted_of_other])
        and np.array_equal(
            request.statistics_rows[_between(request.statistics_rows, low, first)],
            other.statistics_rows[_between(other.statistics_rows, low, first)],
        )
    )


def _between(rows: Ints, low: int, high: int) -> Ints:
    """Return where rows are at least ``low`` and below ``high``."""
    places: Ints = np.flatnonzero((rows >= low) & (rows < high))
    return places


def _put_together(is_shared: Bools, shared: Floats, own: Floats) -> Floats:
    """Return one value for each of some rows: those of shared rows, in their order, and those of the others."""
    values = np.empty((len(is_shared), *own.shape[1:]), dtype=own.dtype)
    values[is_shared] = shared
    values[~is_shared] = own
    return values


def _from(request: Request, first: int) -> Request:
    """Return a request for the rows from ``first`` on."""
    later = request.gather >= first
    return replace(
        request,
        first=first,
        gather=request.gather[later],
        gather_lists=request.gather_lists[later],
        statistics_rows=request.statistics_rows[request.statistics_rows >= first],
    )
