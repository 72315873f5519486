"""A cache that forgets what was not used for the longest time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Keeps the values that were used last, up to a number; threads may share one.

    Examples
    --------
    >>> cache = BoundedCache[int](size=2)
    >>> [cache.get(word, lambda: len(word)) for word in ("mark", "marker", "mark", "the")], len(cache)
    ([4, 6, 4, 3], 2)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value for a key; make it if it is not there."""
        with self._lock:
            value = self._values.pop(key) if key in self._values else make()
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
            return value
