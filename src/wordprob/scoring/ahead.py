"""Pages made ready while the model is busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.text import Document, TextBatch, Word
from wordprob.core.windows import Window, windows
from wordprob.models.protocol import Request
from wordprob.scoring.collect import WindowRequest
from wordprob.scoring.prepare import NOWHERE, PreparedBatch, TextPreparer

AHEAD = 2
"""Pages made ready before they are needed."""

NO_WORDS = np.zeros(0, dtype=np.int64)


class Chunk(NamedTuple):
    """Some texts to be read together."""

    documents: Sequence[Document]
    located: Sequence[Sequence[Word]] | None = None
    """Their words, where the user gave them."""
    begins: Sequence[int] | None = None
    """Where in each text the words begin that are wanted; all of it if not said."""
    origins: Sequence[int] | None = None
    """Where in each text what the rows speak of begins."""
    said: Sequence[Document] | None = None
    """What the rows speak of, where that is not the texts themselves."""
    goes_on: bool = False
    """Whether the only text goes on in the next part."""


@dataclass(frozen=True)
class RequestSettings:
    """What the model's requests depend on, besides the page.

    ``room`` is how many tokens of a text fit into the model's context, ``start`` the start-of-text token.
    """

    start: int | None
    room: int | None
    min_context: int | None = None
    extras: bool = False


class PreparedRequests(NamedTuple):
    """A page that only waits for the model."""

    reading: PreparedBatch
    asks: list[WindowRequest]
    sets: Floats
    """``[S, K]``: which atoms are in which set of the reading."""


def prepare(reader: TextPreparer, part: Chunk, settings: RequestSettings) -> PreparedRequests:
    """Read a page and work out what to ask the model."""
    page = TextBatch(part.documents)
    spans = None if part.located is None else _spans(page, part.located)
    reading = reader.read(page, spans, spans is not None, part.begins)
    reading.windows = [_windows(reading, d, settings) for d in range(len(page.documents))]
    return PreparedRequests(reading, list(_asks(reading, settings)), reader.members_of_sets())


def head(reading: PreparedBatch, text: int, window: Window, row: int, start: int | None) -> Ints:
    """Return what the model sees before a row of a text: the start token and the window's tokens."""
    ids = reading.tokens_of(text)[window.low : row]
    if start is None:
        return ids
    found = np.empty(len(ids) + 1, dtype=ids.dtype)
    found[0], found[1:] = start, ids
    return found


def _windows(reading: PreparedBatch, text: int, settings: RequestSettings) -> list[Window]:
    low, high = reading.token_list[text], reading.token_list[text + 1]
    if settings.room is None or high - low <= settings.room:
        return [Window(0, 0, high - low)]
    stops = reading.alignment.stops[slice(*reading.alignment.words[text : text + 2])] - low
    return windows(high - low, stops, settings.room, settings.min_context)


@dataclass(frozen=True)
class Leaving:
    """The branches that leave the observed path, in the order of their rows."""

    branches: Ints
    rows: Ints
    lists: Ints
    ids: Sequence[Ints]
    """The lists of ids they leave by."""

    @classmethod
    def of(cls, reading: PreparedBatch) -> Leaving:
        """Put the branches of a page in order."""
        rows, lists = (np.array(values, dtype=np.int64) for values in (reading.branches.rows, reading.branches.lists))
        order = np.argsort(rows, kind="stable")
        order = order[lists[order] != NOWHERE]
        return cls(order, rows[order], lists[order], [np.array(ids) for ids in reading.branches.ids])


def _asks(reading: PreparedBatch, settings: RequestSettings) -> Iterator[WindowRequest]:
    """Yield what the model is asked about a page: for each text, once for each of its windows."""
    leaving, absent = Leaving.of(reading), int(settings.start is None)
    wanted = [
        (text, window, first)
        for text, needed in enumerate(reading.first_rows.tolist())
        for window in reading.windows[text]
        if (first := max(window.first, window.low + absent, needed)) <= window.last
    ]
    if not wanted:
        return
    texts, rows = (np.array([ask[k] for ask in wanted], dtype=np.int64) for k in (0, 2))
    lows, firsts, lasts = np.array([window for _, window, _ in wanted], dtype=np.int64).T
    begins = reading.alignment.tokens[texts] + texts
    origins = begins + lows + absent
    finals = begins + lasts == reading.alignment.tokens[texts + 1] + texts
    boundaries = _bounds(reading.rows, begins + rows, begins + lasts + 1)
    leaves = _bounds(leaving.rows, begins + firsts, begins + lasts + 1)
    gather = leaving.rows - origins[np.searchsorted(begins + firsts, leaving.rows, side="right") - 1]
    numbers = (column.tolist() for column in (begins, origins, finals))
    for (text, window, first), begin, origin, final, settled, here in zip(
        wanted, *numbers, boundaries, leaves, strict=True
    ):
        words = reading.beginning(text, begin + first, begin + window.last) if settings.extras else NO_WORDS
        request = Request(
            head(reading, text, window, window.last + 1, settings.start),
            begin + first - origin,
            gather[here],
            leaving.lists[here],
            leaving.ids,
            ("entropy", "rank") if settings.extras else (),
            reading.alignment.lows[words] + text - origin,
        )
        yield WindowRequest(text, begin + first, settled, final, leaving.branches[here], words, request)


def _bounds(places: Ints, lows: Ints, highs: Ints) -> list[slice]:
    """Return the slices of sorted places between lows and highs."""
    return list(map(slice, np.searchsorted(places, lows).tolist(), np.searchsorted(places, highs).tolist()))


def _spans(page: TextBatch, located: Sequence[Sequence[Word]]) -> tuple[Ints, Ints]:
    """Return where given words start and end on the page."""
    begins = np.repeat(page.begins[:-1], [len(found) for found in located])
    bounds = np.array([(w.start, w.end) for found in located for w in found], dtype=np.int64).reshape(-1, 2)
    return bounds[:, 0] + begins, bounds[:, 1] + begins


# --- ahead of the model ---


def ready(reader: TextPreparer, parts: Iterable[Chunk], settings: RequestSettings) -> Iterator[PreparedRequests]:
    """Yield the pages in order, made ready in the background."""
    with ThreadPoolExecutor(1) as pool:
        coming: deque[Future[PreparedRequests]] = deque()
        try:
            for part in parts:
                coming.append(pool.submit(prepare, reader, part, settings))
                if len(coming) > AHEAD:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for left in coming:
                left.cancel()
