"""The key/value states of contexts, and those that are kept between calls."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wordprob.core.arrays import Ints

if TYPE_CHECKING:
    import torch

MAX_KEPT_BYTES = 1 << 30
"""Key/value states that are kept between calls, at most; the least recently used ones are dropped first."""


@dataclass(frozen=True)
class ContextStates:
    """The key/value states of a context.

    Attributes
    ----------
    length
        The number of tokens.
    layers
        For each layer the keys and the values, ``[heads, length, size]``.
    is_view
        Whether they are part of the memory of a whole batch.
    """

    length: int
    layers: list[tuple[torch.Tensor, torch.Tensor]]
    is_view: bool = True

    @property
    def size_bytes(self) -> int:
        """The memory they take."""
        return sum(tensor.nelement() * tensor.element_size() for layer in self.layers for tensor in layer)

    def copy(self) -> ContextStates:
        """Return the same in memory of its own, so that the batch that it was part of can be freed."""
        if not self.is_view:
            return self
        layers = [(keys.clone(), values.clone()) for keys, values in self.layers]
        return ContextStates(self.length, layers, is_view=False)


class KeptContexts:
    """States of contexts by their ids, the most recently used last."""

    def __init__(self) -> None:
        self._states: OrderedDict[bytes, ContextStates] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def find(self, context: Ints) -> ContextStates | None:
        """Return the states of a context, or of a longer one that begins with it."""
        key = _key(context)
        if key not in self._states:
            longer = [kept for kept in self._states if kept.startswith(key)]
            if not longer:
                return None
            key = longer[0]
        self._states.move_to_end(key)
        return self._states[key]

    def add(self, context: Ints, states: ContextStates) -> None:
        """Keep the states of a context, and drop the least recently used ones beyond :data:`MAX_KEPT_BYTES`."""
        key = _key(context)
        if key in self._states:
            return
        states = states.copy()
        self._states[key] = states
        self.size_bytes += states.size_bytes
        while self.size_bytes > MAX_KEPT_BYTES:
            _, dropped = self._states.popitem(last=False)
            self.size_bytes -= dropped.size_bytes


def _key(context: Ints) -> bytes:
    """Return ids as bytes: a context begins with another exactly if its bytes begin with the other's."""
    return context.astype(np.int64).tobytes()
