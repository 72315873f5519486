"""Sequences whose key/value states are kept, for requests that begin with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from wordprob.core.arrays import Ints
from wordprob.models.batching import ID_BYTES, key_of
from wordprob.models.huggingface.token_states import TokenStates

MAX_KEPT_BYTES = 1 << 30
"""Key/value states that are kept between calls on a CPU, at most; the least recently used ones are dropped first."""


class KeptSequences:
    """Sequences of ids, each with the slots of its tokens' states; the most recently used last.

    Sequences that begin alike may share slots.

    Parameters
    ----------
    max_bytes
        What their states may take; :data:`MAX_KEPT_BYTES` by default.

    Attributes
    ----------
    states
        The states of their tokens.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.states = TokenStates()
        self._given_max_bytes = max_bytes
        self._n_users = 0
        self._slots: OrderedDict[bytes, Ints] = OrderedDict()
        self._in_order: list[bytes] = []

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size_bytes(self) -> int:
        """The memory that their states take."""
        return self.states.size_bytes

    @property
    def max_bytes(self) -> int:
        """What their states may take."""
        return MAX_KEPT_BYTES if self._given_max_bytes is None else self._given_max_bytes

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Drop no sequence within the block."""
        self._n_users += 1
        try:
            yield
        finally:
            self._n_users -= 1
            self._drop_excess()

    def reserve(self, n_tokens: int, token_bytes: int) -> None:
        """Make room for N more tokens, each of this many bytes, as far as they can be kept."""
        self.states.reserve(min(n_tokens, self.max_bytes // token_bytes))

    def find(self, ids: Ints) -> Ints | None:
        """Return the slots of a sequence: its own, or the first ones of a longer one that begins with it."""
        key = key_of(ids)
        if key not in self._slots:
            # What begins with the key comes next after it.
            place = bisect_left(self._in_order, key)
            if place == len(self._in_order) or not self._in_order[place].startswith(key):
                return None
            key = self._in_order[place]
        self._slots.move_to_end(key)
        return self._slots[key][: len(ids)]

    def find_longest(self, ids: Ints, n_least: int) -> Ints | None:
        """Return the slots of the longest sequence that these ids begin with, if it is longer than ``n_least``."""
        lengths = range(len(ids), n_least, -1)
        key = key_of(ids) if lengths else b""
        for length in lengths:
            shorter = key[: length * ID_BYTES]
            if shorter in self._slots:
                self._slots.move_to_end(shorter)
                return self._slots[shorter]
        return None

    def add(self, ids: Ints, slots: Ints) -> None:
        """Keep a sequence, and drop the least recently used ones beyond :attr:`max_bytes`."""
        key = key_of(ids)
        if key in self._slots:
            return
        self.states.hold(slots)
        self._slots[key] = slots
        insort(self._in_order, key)
        self._drop_excess()

    def _drop_excess(self) -> None:
        while self._slots and not self._n_users and self.size_bytes > self.max_bytes:
            key, slots = self._slots.popitem(last=False)
            del self._in_order[bisect_left(self._in_order, key)]
            self.states.release(slots)
