"""The key/value states of tokens, each in a numbered slot, so that any tokens can be put together in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.models.huggingface.forward import on_device

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
            self._layers = [(_no_slots(keys), _no_slots(values)) for keys, values in layers]
            self.token_bytes = sum(_slot_bytes(states) for layer in self._layers for states in layer)
        indices = IndicesOnDevices(slots, rows, columns)
        for own, layer in zip(self.layers(), layers, strict=True):
            for states, new in zip(own, layer, strict=True):
                into, row, column = indices.on(states.device)
                states.index_copy_(0, into, new[row, :, column])

    def layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return for each layer the keys and the values of all slots, ``[slots, heads, size]``, to read and write.

        They are these until more slots are added. There are none before anything was written.
        """
        n_slots = len(self._holders)
        for number, (keys, values) in enumerate(self._layers):
            if len(keys) < n_slots:
                self._layers[number] = _enlarged(keys, n_slots), _enlarged(values, n_slots)
        return self._layers

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
