"""The key/value states of tokens, each in a numbered slot, so that any tokens can be put together in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.models.devices import on_device

if TYPE_CHECKING:
    import torch

PADDING_SLOT = 0
"""A slot of zeros: what stands where a row is shorter than others. Its states must be numbers, though none sees it."""


class TokenStates:
    """The states of tokens in slots, which are freed when nobody holds them any more.

    A slot belongs to every sequence that its token is part of. Each of them holds it, and so does a batch that is about
    to run.

    Attributes
    ----------
    token_bytes
        The memory that one token takes; 0 before anything was written.
    """

    def __init__(self) -> None:
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []  # keys and values, [slots, heads, size]
        self._holders = np.ones(1, dtype=np.int64)  # how many hold each slot; the padding is always held
        self._free: Ints = np.zeros(0, dtype=np.int64)
        self.token_bytes = 0

    @property
    def n_used(self) -> int:
        """How many slots are taken."""
        return len(self._holders) - 1 - len(self._free)

    @property
    def size_bytes(self) -> int:
        """The memory of the slots that are taken."""
        return self.n_used * self.token_bytes

    # --- slots ---

    def reserve(self, count: int) -> None:
        """Make room for so many more tokens in one step."""
        self._add_slots(count - len(self._free))

    def take(self, count: int) -> Ints:
        """Return free slots, which the caller holds from now on."""
        missing = count - len(self._free)
        if missing > 0:
            # Twice as many as before, so that states are seldom moved.
            self._add_slots(max(missing, len(self._holders)))
        slots = self._free[:count]
        self._free = self._free[count:]
        self._holders[slots] = 1
        return slots

    def take_consecutive(self, count: int) -> Ints:
        """Return free slots that follow one another, at least one, which the caller holds from now on."""
        first = self._consecutive(count)
        slots = self._free[first : first + count]
        self._free = np.concatenate([self._free[:first], self._free[first + count :]]) if first else self._free[count:]
        self._holders[slots] = 1
        return slots

    def _consecutive(self, count: int) -> int:
        """Return where among the free slots as many follow one another; slots are added if there are none."""
        if len(self._free) >= count and (np.diff(self._free[:count]) == 1).all():
            return 0
        self._free = np.sort(self._free)
        n_places = len(self._free) - count + 1
        if n_places > 0:
            # Sorted numbers, each of which is there once: as many follow one another if the last is so far on.
            found = np.flatnonzero(self._free[count - 1 :] - self._free[:n_places] == count - 1)
            if len(found):
                return int(found[0])
        n_before = len(self._free)
        self._add_slots(count)
        return n_before

    def _add_slots(self, count: int) -> None:
        if count > 0:
            self._free = np.concatenate([self._free, np.arange(count) + len(self._holders)])
            self._holders = np.concatenate([self._holders, np.zeros(count, dtype=np.int64)])

    def hold(self, slots: Ints) -> None:
        """Hold slots, each of which must appear once."""
        self._holders[slots] += 1

    def release(self, slots: Ints) -> None:
        """Hold slots no longer; those that nobody holds are free."""
        self._holders[slots] -= 1
        unheld = slots[self._holders[slots] == 0]
        if len(unheld):
            self._free = np.concatenate([unheld, self._free])

    # --- states ---

    def write(
        self, slots: Ints, layers: Sequence[tuple[torch.Tensor, torch.Tensor]], rows: Ints, columns: Ints
    ) -> None:
        """Write states into slots.

        Parameters
        ----------
        slots
            Where to write.
        layers
            For each layer the keys and the values of a batch, ``[B, heads, T, size]``.
        rows, columns
            Where in the batch the token of each slot stands.
        """
        if not self._layers:
            for keys, values in layers:
                self._add_layer(keys, values)
        indices = IndicesOnDevices(slots, rows, columns)
        for own, layer in zip(self.layers(), layers, strict=True):
            for states, new in zip(own, layer, strict=True):
                into, row, column = indices.on(states.device)
                states.index_copy_(0, into, new[row, :, column])

    def write_layer(self, number: int, slots: slice, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the first states of a row ``[1, heads, T, size]`` into the slots of one layer; layers come in order."""
        if number == len(self._layers):
            self._add_layer(keys, values)
        for states, new in zip(self.layer(number), (keys, values), strict=True):
            states[slots] = new[0, :, : slots.stop - slots.start].transpose(0, 1)

    def _add_layer(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Add a layer for keys and values of this kind, ``[B, heads, T, size]``."""
        layer = _no_slots(keys), _no_slots(values)
        self._layers.append(layer)
        self.token_bytes += sum(_slot_bytes(states) for states in layer)

    def layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return for each layer the keys and the values of all slots, ``[slots, heads, size]``, to read and write.

        They are these until more slots are added. There are none before anything was written.
        """
        return [self.layer(number) for number in range(len(self._layers))]

    def layer(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same for one layer."""
        keys, values = self._layers[number]
        n_slots = len(self._holders)
        if len(keys) < n_slots:
            self._layers[number] = _enlarged(keys, n_slots), _enlarged(values, n_slots)
        return self._layers[number]

    def read(self, slots: Ints) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return for each layer the keys and the values of tokens ``[B, T]``, as ``[B, heads, T, size]``."""
        indices = IndicesOnDevices(slots.ravel())
        layers = []
        for layer in self._layers:
            keys, values = (
                states.index_select(0, *indices.on(states.device)).view(*slots.shape, *states.shape[1:]).transpose(1, 2)
                for states in layer
            )
            layers.append((keys, values))
        return layers


class IndicesOnDevices:
    """Indices on each device that has layers; they are copied to it when they are needed there."""

    def __init__(self, *indices: Ints) -> None:
        self._indices = indices
        self._copies: dict[torch.device, list[torch.Tensor]] = {}

    def on(self, device: torch.device) -> list[torch.Tensor]:
        """Return the indices on a device."""
        if device not in self._copies:
            self._copies[device] = [on_device(each, device) for each in self._indices]
        return self._copies[device]


def _no_slots(states: torch.Tensor) -> torch.Tensor:
    """Return room for no states of the kind of these, ``[B, heads, T, size]``."""
    return states.new_empty((0, states.shape[1], states.shape[3]))


def _slot_bytes(states: torch.Tensor) -> int:
    return int(states.element_size() * states.shape[1] * states.shape[2])


def _enlarged(states: torch.Tensor, n_slots: int) -> torch.Tensor:
    """Return the same states with room for more; the padding is zeros."""
    larger = states.new_empty((n_slots, *states.shape[1:]))
    larger[PADDING_SLOT] = 0
    larger[: len(states)] = states
    return larger
