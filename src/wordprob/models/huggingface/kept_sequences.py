"""Sequences whose key/value states are kept, for requests that begin with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable

from wordprob.core.arrays import Ints
from wordprob.models.batching import ID_BYTES, key_of
from wordprob.models.huggingface.token_states import TokenStates

MAX_KEPT_BYTES = 1 << 30
"""Key/value states that are kept between calls, at most; the least recently used ones are dropped first."""


class KeptSequences:
    """Sequences of ids, each with the slots of its tokens' states; the most recently used last.

    Sequences that begin alike may share slots.

    Attributes
    ----------
    states
        The states of their tokens.
    """

    def __init__(self) -> None:
        self.states = TokenStates()
        self._slots: OrderedDict[bytes, Ints] = OrderedDict()
        self._in_order: list[bytes] = []
        self._deferred: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size_bytes(self) -> int:
        """The memory that their states take."""
        return self.states.size_bytes

    def reserve(self, n_tokens: int, token_bytes: int) -> None:
        """Make room for so many more tokens, each of so many bytes, as far as they can be kept."""
        self.states.reserve(min(n_tokens, MAX_KEPT_BYTES // token_bytes))

    def defer(self, keep: Callable[[], None]) -> None:
        """Put off a step that keeps sequences until one is looked for: often none is any more."""
        self._take_deferred()
        self._deferred = keep

    def _take_deferred(self) -> None:
        if self._deferred is not None:
            keep, self._deferred = self._deferred, None
            keep()

    def find(self, ids: Ints) -> Ints | None:
        """Return the slots of a sequence: its own, or the first ones of a longer one that begins with it."""
        self._take_deferred()
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
        self._take_deferred()
        lengths = range(len(ids), n_least, -1)
        key = key_of(ids) if lengths else b""
        for length in lengths:
            shorter = key[: length * ID_BYTES]
            if shorter in self._slots:
                self._slots.move_to_end(shorter)
                return self._slots[shorter]
        return None

    def add(self, ids: Ints, slots: Ints) -> None:
        """Keep a sequence, and drop the least recently used ones beyond :data:`MAX_KEPT_BYTES`."""
        key = key_of(ids)
        if key in self._slots:
            return
        self.states.hold(slots)
        self._slots[key] = slots
        insort(self._in_order, key)
        while self._slots and self.size_bytes > MAX_KEPT_BYTES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, slots = self._slots.popitem(last=False)
        del self._in_order[bisect_left(self._in_order, key)]
        self.states.release(slots)
