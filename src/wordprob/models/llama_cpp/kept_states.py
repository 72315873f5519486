"""States of contexts that are kept between calls, as llama.cpp saves them."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from wordprob.core.arrays import Ints

MAX_KEPT_BYTES = 1 << 28
"""What is kept, at most; the least recently used states are dropped first."""


class KeptStates:
    """Saved states by the ids of their contexts, the most recently used last."""

    def __init__(self) -> None:
        self._states: OrderedDict[bytes, bytes] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def find(self, context: Ints) -> bytes | None:
        """Return the states of a context, or of a longer one that begins with it."""
        key = self._key_of(context)
        if key is None:
            return None
        self._states.move_to_end(key)
        return self._states[key]

    def length_of(self, context: Ints) -> int:
        """Return how many tokens there are in what :meth:`find` returns; 0 for nothing."""
        key = self._key_of(context)
        return 0 if key is None else len(key) // np.dtype(np.int64).itemsize

    def add(self, context: Ints, states: bytes) -> None:
        """Keep the states of a context, and drop the least recently used ones beyond :data:`MAX_KEPT_BYTES`."""
        key = _bytes_of(context)
        if key in self._states:
            return
        self._states[key] = states
        self.size_bytes += len(states)
        while self.size_bytes > MAX_KEPT_BYTES:
            _, dropped = self._states.popitem(last=False)
            self.size_bytes -= len(dropped)

    def _key_of(self, context: Ints) -> bytes | None:
        key = _bytes_of(context)
        if key in self._states:
            return key
        return next((kept for kept in self._states if kept.startswith(key)), None)


def _bytes_of(context: Ints) -> bytes:
    """Return ids as bytes: a context begins with another exactly if its bytes begin with the other's."""
    return context.astype(np.int64).tobytes()
