"""Target and atom masses on a GPU without ever making the logits.

The vocabulary is put in the order of its atoms once, each atom padded to whole tiles. A first kernel goes over tiles of
rows × vocabulary, keeps of each the largest logit, the sum of exponentials below it and the target's logit, and throws
the tile away; a second one adds up the tiles of each atom. :mod:`wordprob.kernels.reference` is its readable twin.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 256
"""Tokens of the vocabulary in a tile."""
ROWS = 128
"""Rows of hidden states in a tile."""
LAUNCH = {"BLOCK_K": 64, "GROUP": 16, "num_warps": 8, "num_stages": 3}
"""What ran fastest on an H200 (benchmarks/gpu_head.py)."""


class FusedHead:
    """A language-modelling head cut into tiles that each hold tokens of one atom.

    Parameters
    ----------
    weight
        ``[V, H]``, on a CUDA device.
    bias
        ``[V]`` or none.
    of
        ``[V]``: the atom of every token.
    count
        Number of atoms.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, of: torch.Tensor, count: int) -> None:
        device = weight.device
        order = torch.argsort(of.to(device), stable=True)
        sizes = torch.bincount(of.to(device), minlength=count)
        tiles = (sizes + TILE - 1) // TILE
        begin = (torch.cumsum(tiles, 0) - tiles) * TILE
        rank = torch.arange(len(order), device=device) - torch.repeat_interleave(torch.cumsum(sizes, 0) - sizes, sizes)
        place = torch.repeat_interleave(begin, sizes) + rank
        rows = int(tiles.sum()) * TILE
        self.weight = torch.zeros(rows, weight.shape[1], dtype=weight.dtype, device=device)
        self.weight[place] = weight[order]
        self.bias = torch.full((rows,), float("-inf"), dtype=torch.float32, device=device)
        self.bias[place] = 0.0 if bias is None else bias[order].float()
        self.position = torch.empty_like(order)
        self.position[order] = place
        self.atom = torch.repeat_interleave(torch.arange(count, device=device), tiles).to(torch.int32)
        self.count = count

    def score(self, hidden: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log p(target) ``[N]``, log-mass of every atom ``[N, K]`` and the log-normaliser ``[N]``."""
        rows, size = hidden.shape
        tiles = len(self.atom)
        hidden = hidden.contiguous()
        top = torch.empty(tiles, rows, dtype=torch.float32, device=hidden.device)
        total = torch.empty_like(top)
        target = torch.empty(rows, dtype=torch.float32, device=hidden.device)
        _tiles[(triton.cdiv(rows, ROWS) * tiles,)](
            hidden, self.weight, self.bias, self.position[targets], top, total, target, rows, size, tiles,
            BLOCK_M=ROWS, BLOCK_N=TILE, **LAUNCH,
        )  # fmt: skip
        mass = torch.empty(rows, self.count, dtype=torch.float32, device=hidden.device)
        normaliser = torch.empty_like(target)
        _atoms[(triton.cdiv(rows, 64),)](
            top, total, self.atom, mass, target, normaliser, rows, tiles, self.count, BLOCK=64, num_warps=2
        )
        return target, mass, normaliser


@triton.jit
def _tiles(
    hidden, weight, bias, wanted, top, total, target, rows, size, tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # Programs that share rows of the vocabulary run side by side, so that the cache serves both.
    pid = tl.program_id(0)
    blocks = tl.cdiv(rows, BLOCK_M)
    band = GROUP * tiles
    first = (pid // band) * GROUP
    span = tl.minimum(blocks - first, GROUP)
    m = first + (pid % band) % span
    n = (pid % band) // span
    row = m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = row < rows
    row64 = row.to(tl.int64)
    column64 = column.to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    logits = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for low in range(0, size, BLOCK_K):
        left = (low + k) < size
        h = tl.load(
            hidden + row64[:, None] * size + (low + k)[None, :], mask=inside[:, None] & left[None, :], other=0.0
        )
        w = tl.load(weight + column64[:, None] * size + (low + k)[None, :], mask=left[None, :], other=0.0)
        logits = tl.dot(h, tl.trans(w), logits)
    logits += tl.load(bias + column)[None, :]
    largest = tl.max(logits, axis=1)
    tl.store(top + n.to(tl.int64) * rows + row, largest, mask=inside)
    tl.store(total + n.to(tl.int64) * rows + row, tl.sum(tl.exp(logits - largest[:, None]), axis=1), mask=inside)
    asked = tl.load(wanted + row, mask=inside, other=-1)
    here = asked[:, None] == column[None, :]
    found = tl.sum(tl.where(here, logits, 0.0), axis=1)
    tl.store(target + row, found, mask=inside & (asked // BLOCK_N == n))


@triton.jit
def _atoms(top, total, atom, mass, target, normaliser, rows, tiles, count, BLOCK: tl.constexpr):
    # Adds up the tiles of each atom, then all atoms, and divides by that; an atom without tokens has no tile.
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    for k in range(0, count):
        tl.store(mass + row.to(tl.int64) * count + k, tl.full((BLOCK,), float("-inf"), tl.float32), mask=inside)
    peak = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    whole = tl.zeros((BLOCK,), dtype=tl.float32)
    largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    added = tl.zeros((BLOCK,), dtype=tl.float32)
    current = tl.load(atom)
    for n in range(0, tiles):
        k = tl.load(atom + n)
        if k != current:
            tl.store(mass + row.to(tl.int64) * count + current, largest + tl.log(added), mask=inside)
            largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
            added = tl.zeros((BLOCK,), dtype=tl.float32)
            current = k
        t = tl.load(top + n.to(tl.int64) * rows + row, mask=inside, other=float("-inf"))
        s = tl.load(total + n.to(tl.int64) * rows + row, mask=inside, other=0.0)
        bigger = tl.maximum(largest, t)
        added = added * tl.exp(largest - bigger) + s * tl.exp(t - bigger)
        largest = bigger
        bigger = tl.maximum(peak, t)
        whole = whole * tl.exp(peak - bigger) + s * tl.exp(t - bigger)
        peak = bigger
    tl.store(mass + row.to(tl.int64) * count + current, largest + tl.log(added), mask=inside)
    norm = peak + tl.log(whole)
    tl.store(normaliser + row, norm, mask=inside)
    tl.store(target + row, tl.load(target + row, mask=inside, other=0.0) - norm, mask=inside)
    for k in range(0, count):
        place = mass + row.to(tl.int64) * count + k
        tl.store(place, tl.load(place, mask=inside, other=0.0) - norm, mask=inside)
