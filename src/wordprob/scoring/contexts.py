"""What the model sees up to the end of token sequences that leave the texts of a batch."""

from __future__ import annotations

from itertools import chain

import numpy as np

from wordprob.core.arrays import Bools, Ints, cumulative_offsets
from wordprob.covers.search import Prefixes
from wordprob.models.request_arrays import IdSequences
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import ids_before, prefix_ids

NO_LIMIT = int(np.iinfo(np.int64).max)


class TextContexts:
    """The contexts of prefixes that leave the texts of a batch, in the windows that answer for the texts.

    Parameters
    ----------
    prepared
        The texts.
    start_rows
        For each search, the row of the batch at which its word begins: the model sees what it saw there. By default
        the row at which a prefix leaves the text counts.
    shortens
        Whether a context is shortened at its beginning where a prefix does not fit into the model's context;
        otherwise such prefixes do not fit.
    """

    def __init__(self, prepared: PreparedBatch, start_rows: Ints | None = None, shortens: bool = False) -> None:
        self._prepared = prepared
        self._start_rows = start_rows
        self._shortens = shortens
        most = prepared.settings.max_text_tokens
        self._most = NO_LIMIT if most is None else most
        windows = [(text, window) for text, own in enumerate(prepared.windows) for window in own]
        # A word may continue behind the window that it begins in, as long as it fits into the model's context.
        stops = [window.last if most is None else window.low + most for _, window in windows]
        self._seen = [prefix_ids(prepared, *own, stop) for own, stop in zip(windows, stops, strict=True)]
        # Of each window: its text, the row of the batch at which that begins, and the window's first token and row.
        self._texts = np.array([text for text, _ in windows], dtype=np.int64)
        self._text_rows = prepared.alignment.token_offsets[self._texts] + self._texts
        self._lows = np.array([window.low for _, window in windows], dtype=np.int64)
        self._first_rows = self._text_rows + np.array([window.first for _, window in windows], dtype=np.int64)

    def are_same(self, rows: Ints, others: Ints) -> Bools:
        """Return True where one window answers for both of two rows of a text."""
        same: Bools = self._windows(rows) == self._windows(others)
        return same

    def have_room(self, rows: Ints, room: int) -> Bools:
        """Return True where ``room`` tokens more than those before a row fit into the model's context."""
        fits: Bools = self._n_tokens(rows, self._windows(rows)) <= self._most - room
        return fits

    def fits(self, prefixes: Prefixes) -> Bools:
        """Return True for prefixes that fit into the model's context, after all that it sees before their words."""
        return np.ones(len(prefixes), dtype=bool) if self._shortens else self._excess(prefixes) <= 0

    def sequences(self, prefixes: Prefixes) -> IdSequences:
        """Return what the model sees up to the end of prefixes: what it sees of the text, and the prefix."""
        windows = self._windows_before(prefixes)
        excess = self._excess(prefixes)
        if self._shortens and (excess > 0).any():
            return self._shortened(prefixes, windows, np.maximum(excess, 0))
        head_lengths = len(self._prepared.start_ids) + self._n_tokens(prefixes.row, windows)
        own_offsets = cumulative_offsets(map(len, prefixes.ids))
        own_ids = np.fromiter(chain.from_iterable(prefixes.ids), dtype=np.int64, count=int(own_offsets[-1]))
        return IdSequences(self._seen, windows, head_lengths, own_ids, own_offsets)

    def kept_tokens(self, prefixes: Prefixes, sequences: IdSequences) -> Ints:
        """Return how many tokens of each sequence are a context that the model keeps: the text, or what texts share."""
        windows = self._windows_before(prefixes)
        n_before = sequences.lengths - np.array([len(ids) for ids in prefixes.ids], dtype=np.int64)
        is_from_start = self._lows[windows] == 0
        kept = np.where(is_from_start, self._prepared.n_kept_ids[self._texts[windows]], NO_LIMIT)
        return np.minimum(n_before, kept)

    def distinct(self, prefixes: Prefixes) -> tuple[Ints, Ints] | None:
        """Return which prefixes ask something different, where texts begin alike; ``None`` if all of them do."""
        begins = prefixes.row == self._text_rows[self._windows_before(prefixes)]
        alike = np.ones_like(begins) if self._prepared.chunk.shares_context else begins
        if not alike.any():
            return None
        sequences = self.sequences(prefixes)
        numbers: dict[tuple[object, ...], int] = {}
        same = np.empty(len(prefixes), dtype=np.int64)
        for n, transitions in enumerate(prefixes.transitions):
            key = (sequences.ids_of(n).tobytes(), id(transitions)) if alike[n] else (n,)
            same[n] = numbers.setdefault(key, len(numbers))
        first: Ints = np.unique(same, return_index=True)[1]
        return first, same

    def _shortened(self, prefixes: Prefixes, windows: Ints, excess: Ints) -> IdSequences:
        """Return the sequences without so many of the first tokens of each text that they fit."""
        rows = prefixes.row - self._text_rows[windows]
        return ids_before(self._prepared, self._texts[windows], rows, self._lows[windows] + excess, prefixes.ids)

    def _excess(self, prefixes: Prefixes) -> Ints:
        """Return by how many tokens prefixes are too long for the model's context; 0 or less if they fit."""
        n_own = np.array([len(ids) for ids in prefixes.ids], dtype=np.int64)
        excess: Ints = self._n_tokens(prefixes.row, self._windows_before(prefixes)) + n_own - self._most
        return excess

    def _windows_before(self, prefixes: Prefixes) -> Ints:
        """Return the window that prefixes set out in: where they leave the text, or their words begin before that."""
        if self._start_rows is None:
            return self._windows(prefixes.row)
        return self._windows(np.minimum(prefixes.row, self._start_rows[prefixes.search]))

    def _windows(self, rows: Ints) -> Ints:
        """Return the windows that answer for rows of the batch."""
        windows: Ints = np.searchsorted(self._first_rows, rows, side="right") - 1
        return windows

    def _n_tokens(self, rows: Ints, windows: Ints) -> Ints:
        """Return how many tokens come before rows in windows, of the texts and of what comes before them."""
        n_tokens: Ints = (
            self._prepared.head_lengths[self._texts[windows]] + rows - self._text_rows[windows] - self._lows[windows]
        )
        return n_tokens
