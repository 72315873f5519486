"""Caches of limited size: one forgets what was used least recently, the other everything at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key")
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

    def values(self) -> list[Value]:
        """Return the values that are kept."""
        with self._lock:
            return list(self._values.values())

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value for a key; make it if it is not there."""
        with self._lock:
            value = self._values.pop(key) if key in self._values else make()
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
            return value


class SizedCache(dict[Key, Value]):
    """A dictionary that adds up the sizes of its values, and can forget them all once the sum is too large.

    Parameters
    ----------
    max_size
        The largest sum of sizes before the values are forgotten.
    size_of
        Returns the size of a value.

    Examples
    --------
    >>> cache = SizedCache[str, str](4, len)
    >>> cache["a"], cache["b"] = "mark", "er"
    >>> cache.size, cache.forget_if_full(), cache.size, len(cache)
    (6, True, 0, 0)
    """

    def __init__(self, max_size: int, size_of: Callable[[Value], int]) -> None:
        super().__init__()
        self._max_size = max_size
        self._size_of = size_of
        self.size = 0

    def __setitem__(self, key: Key, value: Value) -> None:
        before = self._size_of(self[key]) if key in self else 0
        super().__setitem__(key, value)
        self.size += self._size_of(value) - before

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.size = 0

    def forget_if_full(self) -> bool:
        """Forget everything if the sum is too large; return True if it was."""
        if self.size <= self._max_size:
            return False
        self.clear()
        return True
