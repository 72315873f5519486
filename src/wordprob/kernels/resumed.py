"""Attention of a few tokens to a kept prefix and to each other, for thousands of short sequences in one launch.

The usual kernels take tiles of 128 queries, of which a sequence of two tokens fills two. Here a tile has a few tokens,
and the query heads of one key/value head as its rows, so that these read the keys once.
:mod:`wordprob.models.huggingface.varlen_attention` has the readable twin.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MIN_TILE_ROWS = 16
"""What tensor cores take at least."""
TILE_KEYS = 32
LAUNCH_OPTIONS = {"num_warps": 1, "num_stages": 2}
"""What ran fastest on an H200 for prefixes of 60 and 450 tokens."""


def tile_tokens(n_heads: int, n_key_heads: int) -> int:
    """Return how many tokens of a sequence are in a tile."""
    rows_of_token: int = triton.next_power_of_2(n_heads // n_key_heads)
    return max(1, MIN_TILE_ROWS // rows_of_token)


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    kept_keys: torch.Tensor,
    kept_values: torch.Tensor,
    tiles: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Return what tokens attend to, ``[N, heads, size]``.

    Parameters
    ----------
    queries
        ``[N, heads, size]``.
    keys, values
        ``[N, key heads, size]``: those of the same tokens.
    kept_keys, kept_values
        ``[slots, key heads, size]``: those of the prefixes.
    tiles
        ``[tiles, 5]``: the first token of each, where its tokens stop, the first token of its sequence, the first slot
        of the prefix, and the number of its slots, at least one.
    scale
        What products of queries and keys are multiplied with.
    """
    n_heads, size = queries.shape[1:]
    n_key_heads = keys.shape[1]
    n_each = n_heads // n_key_heads
    attended = torch.empty_like(queries, memory_format=torch.contiguous_format)
    given = (queries, keys, values, kept_keys, kept_values, attended)
    strides = [stride for tensor in given for stride in tensor.stride()[:2]]
    _attend[(len(tiles), n_key_heads)](
        *given, tiles, scale, n_each, size, *strides,
        HEADS=triton.next_power_of_2(n_each), TOKENS=tile_tokens(n_heads, n_key_heads),
        SIZE=max(16, triton.next_power_of_2(size)), KEYS=TILE_KEYS, **LAUNCH_OPTIONS,
    )  # fmt: skip
    return attended


@triton.jit
def _add_keys(queries, k, v, visible, scale, largest, total, added):
    # One step of online softmax: sums are relative to the largest score so far.
    scores = tl.dot(queries, tl.trans(k), input_precision="ieee") * scale
    scores = tl.where(visible, scores, float("-inf"))
    bigger = tl.maximum(largest, tl.max(scores, axis=1))
    weights = tl.exp(scores - bigger[:, None])
    shrink = tl.exp(largest - bigger)
    added = added * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    return bigger, total * shrink + tl.sum(weights, axis=1), added


@triton.jit
def _attend(
    q, k, v, kept_k, kept_v, out, tiles, scale, n_each, size,
    q_token, q_head, k_token, k_head, v_token, v_head, kk_token, kk_head, kv_token, kv_head, out_token, out_head,
    HEADS: tl.constexpr, TOKENS: tl.constexpr, SIZE: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    tile = tiles + 5 * tl.program_id(0)
    key_head = tl.program_id(1)
    first = tl.load(tile)
    stop = tl.load(tile + 1)
    own = tl.load(tile + 2)
    slot = tl.load(tile + 3)
    length = tl.load(tile + 4)
    row = tl.arange(0, TOKENS * HEADS)
    token = first + row // HEADS
    head = key_head * n_each + row % HEADS
    d = tl.arange(0, SIZE)
    in_head = (d < size)[None, :]
    inside = ((token < stop) & (row % HEADS < n_each))[:, None] & in_head
    queries = tl.load(q + token[:, None] * q_token + head[:, None] * q_head + d[None, :], mask=inside, other=0.0)
    largest = tl.full((TOKENS * HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((TOKENS * HEADS,), tl.float32)
    added = tl.zeros((TOKENS * HEADS, SIZE), tl.float32)
    n = tl.arange(0, KEYS)
    for low in range(0, length, KEYS):  # every token sees all of the prefix, which has at least one
        there = (low + n < length)[:, None] & in_head
        at = slot + low + n
        keys = tl.load(kept_k + at[:, None] * kk_token + key_head * kk_head + d[None, :], mask=there, other=0.0)
        values = tl.load(kept_v + at[:, None] * kv_token + key_head * kv_head + d[None, :], mask=there, other=0.0)
        visible = (low + n < length)[None, :]
        largest, total, added = _add_keys(queries, keys, values, visible, scale, largest, total, added)
    for low in range(own, stop, KEYS):  # and the tokens of its own sequence up to itself
        at = low + n
        there = (at < stop)[:, None] & in_head
        keys = tl.load(k + at[:, None] * k_token + key_head * k_head + d[None, :], mask=there, other=0.0)
        values = tl.load(v + at[:, None] * v_token + key_head * v_head + d[None, :], mask=there, other=0.0)
        visible = (at < stop)[None, :] & (at[None, :] <= token[:, None])
        largest, total, added = _add_keys(queries, keys, values, visible, scale, largest, total, added)
    place = out + token[:, None] * out_token + head[:, None] * out_head + d[None, :]
    tl.store(place, (added / total[:, None]).to(out.dtype.element_ty), mask=inside)
