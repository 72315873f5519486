"""Key/value states in slots: what is written is read, slots are shared, and freed when nobody holds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from wordprob.models.huggingface import kept_sequences
from wordprob.models.huggingface.kept_sequences import KeptSequences
from wordprob.models.huggingface.token_states import PADDING_SLOT, TokenStates

HEADS, KEY_SIZE, VALUE_SIZE = 2, 3, 4


def batch(n_rows, n_columns, n_layers=2):
    """Return keys and values in which every number is different."""
    shapes = [(n_rows, HEADS, n_columns, size) for size in (KEY_SIZE, VALUE_SIZE)]
    numbers = torch.arange(n_layers * sum(int(np.prod(shape)) for shape in shapes), dtype=torch.float32)
    layers = []
    for _ in range(n_layers):
        layer = []
        for shape in shapes:
            size = int(np.prod(shape))
            layer.append(numbers[:size].view(shape) + 1)
            numbers = numbers[size:]
        layers.append(tuple(layer))
    return layers


def test_what_was_written_is_read_in_any_order():
    states = TokenStates()
    layers = batch(2, 5)
    rows, columns = np.array([0, 0, 1, 1]), np.array([0, 3, 1, 4])
    slots = states.take(4)
    states.write(slots, layers, rows, columns)
    wanted = np.array([[slots[3], slots[0]], [slots[2], PADDING_SLOT]])
    for (keys, values), expected in zip(states.read(wanted), layers, strict=True):
        for found, original in zip((keys, values), expected, strict=True):
            assert torch.equal(found[0, :, 0], original[1, :, 4])
            assert torch.equal(found[0, :, 1], original[0, :, 0])
            assert torch.equal(found[1, :, 0], original[1, :, 1])
            assert not found[1, :, 1].any(), "padding is zeros"


def test_slots_stay_what_they_are_when_more_are_added():
    states = TokenStates()
    first = states.take(3)
    states.write(first, batch(1, 3), np.zeros(3, dtype=np.int64), np.arange(3))
    before = [[each.clone() for each in layer] for layer in states.read(first[None])]
    more = states.take(100)
    states.write(more, batch(1, 100), np.zeros(100, dtype=np.int64), np.arange(100))
    assert not set(first.tolist()) & set(more.tolist())
    for layer, expected in zip(states.read(first[None]), before, strict=True):
        assert all(torch.equal(found, each) for found, each in zip(layer, expected, strict=True))


def test_a_slot_is_free_when_nobody_holds_it():
    states = TokenStates()
    slots = states.take(4)
    states.hold(slots[:2])
    states.release(slots)
    assert states.n_used == 2
    assert set(states.take(2).tolist()) == set(slots[2:].tolist())
    states.release(slots[:2])
    assert states.n_used == 2


@pytest.fixture
def kept():
    """Return two sequences that share their first three tokens."""
    kept = KeptSequences()
    slots = kept.states.take(6)
    kept.states.write(slots, batch(1, 6), np.zeros(6, dtype=np.int64), np.arange(6))
    kept.add(np.array([5, 6, 7, 8]), slots[:4])
    kept.add(np.array([5, 6, 7, 9, 9]), slots[[0, 1, 2, 4, 5]])
    kept.states.release(slots)
    return kept


def test_a_sequence_is_found_by_its_beginning(kept):
    assert len(kept.find(np.array([5, 6, 7, 8]))) == 4
    of_longer = kept.find(np.array([5, 6, 7, 9, 9]))
    assert kept.find(np.array([5, 6, 7, 9])).tolist() == of_longer[:4].tolist(), "a longer one that begins so"
    assert kept.find(np.array([5, 6])) is not None
    assert kept.find(np.array([5, 7])) is None
    assert kept.find(np.array([5, 6, 7, 8, 1])) is None


def test_the_longest_sequence_that_ids_begin_with_is_found(kept):
    assert len(kept.find_longest(np.array([5, 6, 7, 9, 9, 1, 2]), 2)) == 5
    assert len(kept.find_longest(np.array([5, 6, 7, 8, 9, 9]), 2)) == 4
    assert kept.find_longest(np.array([5, 6, 7, 8, 9, 9]), 4) is None, "no longer than what is known already"
    assert kept.find_longest(np.array([5, 6, 7]), 2) is None, "only whole sequences"


def test_what_was_used_least_recently_is_dropped_first(kept, monkeypatch):
    assert kept.states.n_used == 6
    kept.find(np.array([5, 6, 7, 8]))
    monkeypatch.setattr(kept_sequences, "MAX_KEPT_BYTES", 5 * kept.states.token_bytes)
    slots = kept.states.take(1)
    kept.add(np.array([1]), slots)
    kept.states.release(slots)
    assert kept.find(np.array([5, 6, 7, 9])) is None
    assert kept.find(np.array([5, 6, 7, 8])) is not None
    assert kept.states.n_used == 5, "what the dropped one shared with another is kept"
