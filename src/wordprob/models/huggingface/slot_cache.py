"""A cache for transformers whose states are in slots: new ones are written there, and all are read in one step.

Transformers' own cache concatenates the new states of a batch with those before them, layer by layer, which copies
everything once more; and what is kept has to be copied out of it.

This module imports transformers, which takes seconds: it is imported where it is used.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers.cache_utils import Cache, DynamicLayer

from wordprob.core.arrays import Ints
from wordprob.models.huggingface.token_states import IndicesOnDevices, TokenStates

if TYPE_CHECKING:
    import torch


class SlotLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer for a batch of rows, in which each row has new tokens after kept ones.

    Parameters
    ----------
    states
        Keys and values in slots, ``[slots, heads, size]``.
    slots
        On each device: the slots of the new tokens, ``[B · Q]``, and of all tokens, ``[B · (L + Q)]``.
    n_rows, n_kept, n_new
        B, L and Q.
    """

    def __init__(
        self,
        states: tuple[torch.Tensor, torch.Tensor],
        slots: IndicesOnDevices,
        n_rows: int,
        n_kept: int,
        n_new: int,
    ) -> None:
        super().__init__()
        self._states = states
        self._slots = slots
        self._shape = n_rows, n_kept + n_new
        self._length = n_kept

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states of new tokens ``[B, heads, Q, size]``; return those of all, ``[B, heads, L + Q, size]``."""
        n_all = self._shape[1]
        if self._length == n_all:
            raise NotImplementedError("a layer that is updated twice")
        self._length = n_all
        keys, values = self._states
        return self._write_and_read(keys, key_states), self._write_and_read(values, value_states)

    def _write_and_read(self, states: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        new_slots, all_slots = self._slots.on(states.device)
        states.index_copy_(0, new_slots, new.transpose(1, 2).flatten(0, 1))
        return states.index_select(0, all_slots).view(*self._shape, *states.shape[1:]).transpose(1, 2)

    def get_seq_length(self) -> int:
        """Return how many tokens each row has before those that are still to come."""
        return self._length


def slot_cache(states: TokenStates, kept_slots: Ints, new_slots: Ints) -> Any:
    """Return a cache for rows of new tokens ``[B, Q]``, which are in slots of their own, after kept ones ``[B, L]``."""
    n_rows, n_kept = kept_slots.shape
    slots = IndicesOnDevices(new_slots.ravel(), np.concatenate([kept_slots, new_slots], axis=1).ravel())
    layers = [SlotLayer(layer, slots, n_rows, n_kept, new_slots.shape[1]) for layer in states.layers()]
    return Cache(layers=layers)


class WrittenLayer(DynamicLayer):  # type: ignore[misc]
    """The keys and values of one layer for a row of sequences: those of its first tokens are written to slots.

    Parameters
    ----------
    states
        What has the slots.
    number
        The number of the layer.
    slots
        Where the first tokens of the row are written to, one after another.
    """

    def __init__(self, states: TokenStates, number: int, slots: slice) -> None:
        super().__init__()
        self._states = states
        self._number = number
        self._slots = slots

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states of the first tokens; return those of the row as they are, ``[1, heads, N, size]``."""
        self._states.write_layer(self._number, self._slots, key_states, value_states)
        return key_states, value_states

    def get_seq_length(self) -> int:
        """Return that nothing comes before the row: attention knows of prefixes by itself."""
        return 0


def writing_cache(states: TokenStates, slots: slice) -> Any:
    """Return a cache that writes the first tokens of a row to slots, as many as there are."""
    numbers = count()
    return Cache(layer_class_to_replicate=lambda: WrittenLayer(states, next(numbers), slots))
