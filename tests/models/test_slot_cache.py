"""Rests that are run in slots: the values of transformers' own cache, no slot is lost, and padding stays zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from tiny_models import build
from tolerances import float32_log_prob_tolerance
from wordprob.core import words
from wordprob.core.atoms import atoms_of
from wordprob.models.huggingface import prefix_cache, self_checks
from wordprob.models.huggingface.kept_sequences import KeptSequences
from wordprob.models.huggingface.slot_cache import SlotLayer, slot_cache
from wordprob.models.huggingface.token_states import PADDING_SLOT, TokenStates
from wordprob.models.protocol import PrefixStates, Request

IDS = np.random.default_rng(0).integers(5, 400, 400)
KINDS = ("gpt2", "pythia", "llama2", "mistral", "sliding", "gemma", "gemma2", "qwen2", "ctrl")
"""With absolute and rotary positions, with and without groups of query heads, a window, a cap on attention."""
FEW = ("gpt2", "mistral")


@pytest.fixture(scope="module", params=KINDS)
def model(request, tokenizer_of):
    return build(request.param, tokenizer_of)


few_kinds = pytest.mark.parametrize("model", FEW, indirect=True)


@pytest.fixture(scope="module")
def atoms(model):
    return atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)


@pytest.fixture
def passes(model, monkeypatch):
    """Return a list of the caches with which the network is run after kept states."""
    run, caches = model.forward.run_trunk, []

    def watched(past_key_values=None, **inputs):
        if past_key_values is not None and past_key_values.get_seq_length():
            caches.append(past_key_values)
        return run(past_key_values=past_key_values, **inputs)

    monkeypatch.setattr(model.forward, "run_trunk", watched)
    return caches


def request(text, context, rest, **wanted):
    """Return a request for what comes after some ids of a text."""
    ids = np.concatenate([IDS[text : text + context], np.array(rest)])
    return Request(ids, context, context_tokens=context, **wanted)


def rounds():
    """Return requests, some of which are extended, those that go on from these, and from these in turn.

    Contexts and rests have unequal lengths, so that there is padding among kept tokens and among new ones. All fit into
    a window of eight tokens.
    """
    first = [
        request(0, 5, [7], is_extended_later=True),
        request(0, 5, [8, 9]),
        request(0, 3, [10, 11], is_extended_later=True),
        request(100, 2, [12], is_extended_later=True),
        request(100, 2, [13]),
        request(200, 4, [14], is_extended_later=True),
    ]
    second = [
        Request(np.append(first[0].ids, [20]), 6, context_tokens=5),
        Request(np.append(first[2].ids, [21, 22]), 5, context_tokens=3),
        Request(np.append(first[3].ids, [23]), 3, context_tokens=2, is_extended_later=True),
        Request(np.append(first[4].ids, [24]), 3, context_tokens=2),
        request(200, 4, [25, 26]),
    ]
    third = [Request(np.append(second[2].ids, [30, 31]), 4, context_tokens=2), request(0, 5, [8, 9])]
    return first, second, third


def masses(found):
    by_number = dict(found)
    return np.concatenate([by_number[n].mass.ravel() for n in sorted(by_number)])


def opened(model, atoms, states):
    return [masses(model.open(requests, atoms, states)) for requests in rounds()]


def assert_close(model, found, expected):
    for values, others in zip(found, expected, strict=True):
        assert values.shape == others.shape
        assert np.allclose(values, others, atol=float32_log_prob_tolerance(model)), np.abs(values - others).max()


def held_slots(kept):
    return {slot for slots in kept._slots.values() for slot in slots.tolist()}


@pytest.mark.parametrize("keeps", [False, True])
def test_values_are_those_of_transformers_cache_and_of_whole_sequences(model, atoms, keeps, passes, monkeypatch):
    assert model.prefix_cache.usable
    assert model.prefix_cache.saves_copies
    found = opened(model, atoms, PrefixStates() if keeps else None)
    assert passes
    assert all(isinstance(layer, SlotLayer) for cache in passes for layer in cache.layers)
    del passes[:]
    monkeypatch.setattr(model.prefix_cache, "saves_copies", False)
    plain = opened(model, atoms, PrefixStates() if keeps else None)
    assert passes
    assert all(isinstance(cache, DynamicCache) for cache in passes)
    assert_close(model, found, plain)
    assert_close(model, found, [masses(model.score(requests, atoms)) for requests in rounds()])


def test_kept_states_give_the_same_values_again(model, atoms):
    states = PrefixStates()
    first = opened(model, atoms, states)
    assert_close(model, opened(model, atoms, states), first)


def test_only_what_is_kept_has_slots_afterwards(model, atoms):
    states = PrefixStates()
    for _ in range(2):
        opened(model, atoms, states)
        kept = model.prefix_cache.kept_in(states)
        assert kept.states.n_used == len(held_slots(kept)) > 0
        assert PADDING_SLOT not in held_slots(kept)
        for layer in kept.states.layers():
            assert not any(each[PADDING_SLOT].any() for each in layer)


@few_kinds
def test_nothing_has_slots_where_nothing_is_kept(model, atoms, monkeypatch):
    made = []

    def watched():
        made.append(KeptSequences())
        return made[-1]

    monkeypatch.setattr(prefix_cache, "KeptSequences", watched)
    requests = [request(0, 5, [7]), request(0, 5, [8, 9]), request(100, 2, [12]), request(100, 2, [13])]
    list(model.open(requests, atoms))
    assert [kept.states.n_used for kept in made] == [0]
    assert made[0].states.layers(), "rests were run after contexts"


@few_kinds
@pytest.mark.parametrize("after_layers", [False, True])
def test_too_little_memory_loses_no_slots(model, atoms, after_layers, monkeypatch):
    """Also where the states of some layers have been written: they are never read."""
    run, failed = model.forward.run_trunk, []

    def limited(input_ids, past_key_values=None, **inputs):
        is_too_large = past_key_values is not None and past_key_values.get_seq_length() and len(input_ids) > 1
        if is_too_large:
            failed.append(len(input_ids))
            if not after_layers:
                raise torch.OutOfMemoryError("out of memory")
        hidden = run(input_ids=input_ids, past_key_values=past_key_values, **inputs)
        if is_too_large:
            raise torch.OutOfMemoryError("out of memory")
        return hidden

    expected = [masses(model.score(requests, atoms)) for requests in rounds()]
    states = PrefixStates()
    monkeypatch.setattr(model.prefix_cache._rest_budget, "tokens", model.prefix_cache._rest_budget.tokens)
    monkeypatch.setattr(model.forward, "run_trunk", limited)
    assert_close(model, opened(model, atoms, states), expected)
    assert failed
    kept = model.prefix_cache.kept_in(states)
    assert kept.states.n_used == len(held_slots(kept))


@few_kinds
def test_another_error_loses_no_slots(model, atoms, monkeypatch):
    states = PrefixStates()
    first, second, _ = rounds()
    list(model.open(first, atoms, states))
    kept = model.prefix_cache.kept_in(states)
    before = kept.states.n_used

    def fails(**_):
        raise MemoryError

    monkeypatch.setattr(model.forward, "run_trunk", fails)
    with pytest.raises(MemoryError):
        list(model.open(second, atoms, states))
    assert kept.states.n_used == before == len(held_slots(kept))


@few_kinds
@pytest.mark.parametrize("wrong", ["values", "error"])
def test_a_network_that_it_is_wrong_for_takes_transformers_cache(model, atoms, wrong, monkeypatch):
    write_and_read = SlotLayer._write_and_read

    def forgets(layer, states, new):
        if wrong == "error":
            raise TypeError("not a tensor")
        return torch.zeros_like(write_and_read(layer, states, new))

    cache = model.prefix_cache
    for name in ("usable", "saves_copies", "shares_beginnings"):
        monkeypatch.setattr(cache, name, getattr(cache, name))
    monkeypatch.setattr(SlotLayer, "_write_and_read", forgets)
    self_checks.choose_copies(cache, model.forward, model.head)
    assert cache.usable
    assert not cache.saves_copies
    expected = [masses(model.score(requests, atoms)) for requests in rounds()]
    assert_close(model, opened(model, atoms, PrefixStates()), expected)


# --- the cache itself -------------------------------------------------------------------------------------------------


@pytest.fixture
def states():
    """Return the states of six tokens in two layers, in slots."""
    states = TokenStates()
    slots = states.take(6)
    layers = [(torch.randn(1, 2, 6, 3), torch.randn(1, 2, 6, 4)) for _ in range(2)]
    states.write(slots, layers, np.zeros(6, dtype=np.int64), np.arange(6))
    return states


def test_a_layer_returns_what_transformers_cache_returns(states):
    kept = np.array([[1, 2, 3], [4, 5, PADDING_SLOT]])
    expected = DynamicCache()
    for number, layer in enumerate(states.read(kept)):
        expected.update(*layer, number)
    new = states.take(100)[-4:].reshape(2, 2)
    cache = slot_cache(states, kept, new)
    for number in range(2):
        assert cache.get_seq_length(number) == expected.get_seq_length(number) == 3
        assert cache.get_mask_sizes(2, number) == expected.get_mask_sizes(2, number)
        layer = torch.randn(2, 2, 2, 3), torch.randn(2, 2, 2, 4)
        for found, other in zip(cache.update(*layer, number), expected.update(*layer, number), strict=True):
            assert torch.equal(found, other)
        assert cache.get_seq_length(number) == expected.get_seq_length(number) == 5
    whole = np.concatenate([kept, new], axis=1)
    for layer, other in zip(states.read(whole), expected.layers, strict=True):
        assert torch.equal(layer[0], other.keys), "the new states stay in their slots"
        assert torch.equal(layer[1], other.values)


def test_a_layer_that_is_updated_twice_is_not_supported(states):
    cache = slot_cache(states, np.array([[1]]), states.take(1)[None])
    layer = torch.randn(1, 2, 1, 3), torch.randn(1, 2, 1, 4)
    cache.update(*layer, 0)
    with pytest.raises(NotImplementedError):
        cache.update(*layer, 0)
