"""Target and atom masses on a GPU, without writing the logits to memory.

The vocabulary is sorted by atom once, and each atom is padded to whole tiles. A first kernel goes over tiles of rows ×
vocabulary. Of each it keeps the largest logit, the sum of exponentials relative to that and the target's logit, and
drops the tile itself. A second kernel adds up the tiles of each atom. :mod:`wordprob.kernels.reference` is its readable
twin.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE_TOKENS = 256
"""Tokens of the vocabulary in a tile."""
TILE_ROWS = 128
"""Rows of hidden states in a tile."""
LAUNCH_OPTIONS = {"BLOCK_K": 64, "GROUP": 16, "num_warps": 8, "num_stages": 3}
"""What ran fastest on an H200 (benchmarks/gpu_head.py)."""


class FusedHead:
    """A language-modelling head, cut into tiles that each have tokens of one atom.

    Parameters
    ----------
    weight
        ``[V, H]``, on a CUDA device.
    bias
        ``[V]`` or none.
    atom_of_token
        ``[V]``: the atom of every token.
    count
        Number of atoms.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, atom_of_token: torch.Tensor, count: int
    ) -> None:
        device = weight.device
        atom_of_token = atom_of_token.to(device)
        order = torch.argsort(atom_of_token, stable=True)  # tokens by atom
        sizes = torch.bincount(atom_of_token, minlength=count)
        tiles = (sizes + TILE_TOKENS - 1) // TILE_TOKENS  # of each atom
        begins = (torch.cumsum(tiles, 0) - tiles) * TILE_TOKENS  # where each atom's first tile begins
        first_of_atom = torch.repeat_interleave(torch.cumsum(sizes, 0) - sizes, sizes)
        within_atom = torch.arange(len(order), device=device) - first_of_atom
        place = torch.repeat_interleave(begins, sizes) + within_atom
        rows = int(tiles.sum()) * TILE_TOKENS
        self.weight = torch.zeros(rows, weight.shape[1], dtype=weight.dtype, device=device)
        self.weight[place] = weight[order]
        self.bias = torch.full((rows,), float("-inf"), dtype=torch.float32, device=device)  # padding has no mass
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
        _score_tiles[(triton.cdiv(rows, TILE_ROWS) * tiles,)](
            hidden, self.weight, self.bias, self.position[targets], top, total, target, rows, size, tiles,
            BLOCK_M=TILE_ROWS, BLOCK_N=TILE_TOKENS, **LAUNCH_OPTIONS,
        )  # fmt: skip
        mass = torch.empty(rows, self.count, dtype=torch.float32, device=hidden.device)
        normaliser = torch.empty_like(target)
        _add_up_atoms[(triton.cdiv(rows, 64),)](
            top, total, self.atom, mass, target, normaliser, rows, tiles, self.count, BLOCK=64, num_warps=2
        )
        return target, mass, normaliser


@triton.jit
def _finite(largest):
    # Where every logit so far is minus infinity, sums are relative to 0: a difference of infinities is not a number.
    return tl.where(largest == float("-inf"), 0.0, largest)


@triton.jit
def _score_tiles(
    hidden, weight, bias, target_columns, top, total, target, rows, size, tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # Programs that share rows of the vocabulary run side by side, so that they find these in the cache.
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
        in_row = (low + k) < size
        h = tl.load(
            hidden + row64[:, None] * size + (low + k)[None, :], mask=inside[:, None] & in_row[None, :], other=0.0
        )
        w = tl.load(weight + column64[:, None] * size + (low + k)[None, :], mask=in_row[None, :], other=0.0)
        logits = tl.dot(h, tl.trans(w), logits)
    logits += tl.load(bias + column)[None, :]
    largest = tl.max(logits, axis=1)
    shift = _finite(largest)
    tl.store(top + n.to(tl.int64) * rows + row, largest, mask=inside)
    tl.store(total + n.to(tl.int64) * rows + row, tl.sum(tl.exp(logits - shift[:, None]), axis=1), mask=inside)
    target_column = tl.load(target_columns + row, mask=inside, other=-1)
    is_target = target_column[:, None] == column[None, :]
    target_logit = tl.sum(tl.where(is_target, logits, 0.0), axis=1)
    tl.store(target + row, target_logit, mask=inside & (target_column // BLOCK_N == n))


@triton.jit
def _add_up_atoms(top, total, atom, mass, target, normaliser, rows, tiles, count, BLOCK: tl.constexpr):
    # Adds up the tiles of each atom, then all atoms, and divides by the sum; an atom without tokens has no tile.
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
        shift = _finite(bigger)
        added = added * tl.exp(largest - shift) + s * tl.exp(t - shift)
        largest = bigger
        bigger = tl.maximum(peak, t)
        shift = _finite(bigger)
        whole = whole * tl.exp(peak - shift) + s * tl.exp(t - shift)
        peak = bigger
    tl.store(mass + row.to(tl.int64) * count + current, largest + tl.log(added), mask=inside)
    norm = peak + tl.log(whole)
    tl.store(normaliser + row, norm, mask=inside)
    tl.store(target + row, tl.load(target + row, mask=inside, other=0.0) - norm, mask=inside)
    for k in range(0, count):
        place = mass + row.to(tl.int64) * count + k
        tl.store(place, tl.load(place, mask=inside, other=0.0) - norm, mask=inside)
