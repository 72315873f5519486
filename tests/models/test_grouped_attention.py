"""Attention without copies of keys and values: it gives what transformers' own function gives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tiny_models import build
from wordprob.models.huggingface import grouped_attention
from wordprob.models.huggingface.grouped_attention import ATTENTION_NAME, GroupedAttention, attend

SIZE, VALUE_SIZE = 8, 6


def tensors(n_heads, n_groups, n_tokens=3, n_kept=7, n_rows=2):
    """Return queries, keys and values as networks pass them, and a mask in which every token sees itself."""
    generator = torch.Generator().manual_seed(0)

    def states(heads, tokens, size=SIZE):
        return torch.randn(n_rows, tokens, heads, size, generator=generator).transpose(1, 2)

    n_keys = n_kept + n_tokens
    seen = torch.rand(n_rows, 1, n_tokens, n_keys, generator=generator) < 0.5
    seen[:, :, torch.arange(n_tokens), n_kept + torch.arange(n_tokens)] = True
    mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)
    return states(n_heads, n_tokens), states(n_groups, n_keys), states(n_groups, n_keys, VALUE_SIZE), mask


def module(n_in_group):
    return SimpleNamespace(num_key_value_groups=n_in_group, is_causal=True)


@pytest.fixture
def left(monkeypatch):
    """Return a list of the calls that are left to transformers."""
    calls = []

    def watched(*tensors, **options):
        calls.append(options)
        return sdpa_attention_forward(*tensors, **options)

    monkeypatch.setattr("transformers.integrations.sdpa_attention.sdpa_attention_forward", watched)
    return calls


@pytest.mark.parametrize("n_tokens", [1, 3, 20])
@pytest.mark.parametrize("scaling", [None, 0.7])
@pytest.mark.parametrize(("n_heads", "n_groups"), [(9, 3), (4, 2), (4, 1)])
def test_it_gives_what_copies_give(n_heads, n_groups, scaling, n_tokens, left):
    given = tensors(n_heads, n_groups, n_tokens)
    expected, _ = sdpa_attention_forward(module(n_heads // n_groups), *given, scaling=scaling)
    found, weights = attend(module(n_heads // n_groups), *given, scaling=scaling)
    assert not left
    assert weights is None
    assert found.shape == expected.shape == (2, n_tokens, n_heads, VALUE_SIZE)
    assert found.is_contiguous()
    assert torch.allclose(found, expected, atol=1e-6)


def test_as_many_key_heads_are_left_to_transformers(left):
    given = tensors(4, 4)
    assert torch.equal(attend(module(1), *given)[0], sdpa_attention_forward(module(1), *given)[0])
    assert len(left) == 1


def test_options_of_other_kinds_of_attention_are_left_to_transformers(left):
    query, key, value, mask = tensors(4, 2)
    bias = torch.randn(1, 4, query.shape[2], key.shape[2], generator=torch.Generator().manual_seed(1))
    expected = sdpa_attention_forward(module(2), query, key, value, mask, position_bias=bias)[0]
    assert torch.equal(attend(module(2), query, key, value, mask, position_bias=bias)[0], expected)
    with pytest.raises(ValueError, match="softcap"):
        attend(module(2), query, key, value, mask, softcap=30.0)
    attend(module(2), query, key[:, :, :3], value[:, :, :3], None)
    attend(module(2), query, key, value, mask.expand(-1, 4, -1, -1))
    assert len(left) == 4


@pytest.mark.parametrize("own", ["sdpa", "eager"])
def test_it_stands_for_pytorch_attention_only(tokenizer_of, own):
    config = build("mistral", tokenizer_of).network.config
    config._attn_implementation = own
    attention = GroupedAttention(SimpleNamespace(modules=lambda: [SimpleNamespace(config=config)]))
    with attention.in_use():
        assert config._attn_implementation == (ATTENTION_NAME if own == "sdpa" else own)
    assert config._attn_implementation == own


def test_masks_are_passed_on(tokenizer_of, monkeypatch):
    """A network with fewer key heads takes the mask of a row as it is."""
    network = build("mistral", tokenizer_of).network
    seen = []

    def watched(*given):
        seen.append(given[3])
        return in_groups(*given)

    in_groups = grouped_attention._attend_in_groups
    monkeypatch.setattr(grouped_attention, "_attend_in_groups", watched)
    mask = torch.full((1, 1, 4, 4), torch.finfo(torch.float32).min).triu(1)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        expected = network(input_ids=ids).logits
        with GroupedAttention(network).in_use():
            found = network(input_ids=ids, attention_mask=mask).logits
    assert [each.shape for each in seen] == [mask.shape] * network.config.num_hidden_layers
    assert torch.allclose(found, expected, atol=1e-4)
