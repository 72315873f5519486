"""All kernels compared with float64."""

from __future__ import annotations

import pytest
import torch

from tolerances import float32_sum_tolerance
from wordprob.kernels import head_scorer, reference, tiled


@pytest.mark.parametrize("kernel", [reference, tiled], ids=["reference", "tiled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "size", "vocabulary", "atoms"), [(37, 16, 101, 5), (1, 8, 3, 3), (130, 24, 1000, 12)])
def test_kernels_agree_with_float64(kernel, dtype, rows, size, vocabulary, atoms, monkeypatch):
    """Odd shapes, in more tiles than one."""
    monkeypatch.setattr(tiled, "TILE_TOKENS", 64)
    monkeypatch.setattr(tiled, "TILE_ROWS", 32)
    torch.manual_seed(0)
    hidden, weight = torch.randn(rows, size, dtype=dtype), torch.randn(vocabulary, size, dtype=dtype)
    bias = torch.randn(vocabulary, dtype=dtype)
    atom_of_token, targets = torch.arange(vocabulary) % atoms, torch.randint(0, vocabulary, (rows,))
    exact = (hidden.double() @ weight.double().T + bias.double()).log_softmax(-1)
    target, mass, _ = kernel.score_hidden(hidden, weight, bias, targets, reference.membership(atom_of_token, atoms))
    # Whatever the dtype of the weights, products are in float32: a logit is a sum of ``size`` terms and a bias, and a
    # normaliser a sum over the vocabulary.
    largest = (hidden.double() @ weight.double().T + bias.double()).abs().max().item()
    error = 2 * float32_sum_tolerance(size + 1, largest) + float32_sum_tolerance(vocabulary)
    assert (target - exact[torch.arange(rows), targets]).abs().max() < error
    for k in range(atoms):
        assert (mass[:, k] - exact[:, atom_of_token == k].logsumexp(-1)).abs().max() < error
    assert torch.allclose(mass.exp().sum(-1), torch.ones(rows), atol=error)


def test_the_cpu_uses_the_tiled_kernel(monkeypatch):
    seen = []
    monkeypatch.setattr(tiled, "score_hidden", lambda *given: seen.append(given))
    head_scorer(torch.randn(5, 4), None, torch.arange(5) % 2, 2)(torch.randn(3, 4), torch.zeros(3, dtype=torch.long))
    assert len(seen) == 1


def test_a_logit_far_above_the_others_neither_overflows_nor_hides_them():
    """An early tile far below a later one must not be lost, nor overflow."""
    weight = torch.zeros(5000, 1)
    weight[4999] = 300.0
    atom_of_token = (torch.arange(5000) == 4999).long()
    _, mass, _ = tiled.score_hidden(
        torch.ones(1, 1), weight, None, torch.tensor([0]), reference.membership(atom_of_token, 2)
    )
    assert mass[0, 1] == pytest.approx(0.0, abs=1e-6)
    assert mass[0, 0] in (float("-inf"), pytest.approx(-300 + torch.log(torch.tensor(4999.0)).item(), abs=1e-3))


def test_rows_a_few_at_a_time_give_the_same(monkeypatch):
    torch.manual_seed(0)
    hidden, weight, atom_of_token = torch.randn(50, 8), torch.randn(40, 8), torch.arange(40) % 4
    targets = torch.randint(0, 40, (50,))
    whole = reference.score_hidden(hidden, weight, None, targets, reference.membership(atom_of_token, 4))
    monkeypatch.setattr(reference, "MAX_LOGITS", 40 * 7)
    few_rows = reference.score_hidden(hidden, weight, None, targets, reference.membership(atom_of_token, 4))
    size = (hidden @ weight.T).abs().max().item()
    for a, b in zip(whole, few_rows, strict=True):
        assert torch.allclose(a, b, atol=2 * float32_sum_tolerance(8, size) + float32_sum_tolerance(40))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("rows", "size", "vocabulary", "atoms"), [(1, 64, 300, 3), (129, 72, 5000, 12), (1000, 768, 50304, 12)]
)
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_fused_kernel_is_as_good_as_float64(rows, size, vocabulary, atoms, with_bias):
    """As near to a float64 head on the same hidden states as float32 sums are; bfloat16 logits are much farther off."""
    torch.manual_seed(0)
    hidden = torch.randn(rows, size, device="cuda").to(torch.bfloat16)
    weight = (torch.randn(vocabulary, size, device="cuda") * 0.05).to(torch.bfloat16)
    bias = torch.randn(vocabulary, device="cuda").to(torch.bfloat16) if with_bias else None
    atom_of_token = torch.randint(0, atoms, (vocabulary,), device="cuda")
    targets = torch.randint(0, vocabulary, (rows,), device="cuda")
    scorer = head_scorer(weight, bias, atom_of_token, atoms)
    assert "FusedHead" in repr(scorer)
    target, mass, _ = scorer(hidden, targets)
    logits = hidden.double() @ weight.double().T
    exact = (logits if bias is None else logits + bias.double()).log_softmax(-1)
    error = 2 * float32_sum_tolerance(size + 1, logits.abs().max().item()) + float32_sum_tolerance(vocabulary)
    assert (target - exact.gather(-1, targets[:, None])[:, 0]).abs().max() < error
    for k in range(atoms):
        assert (mass[:, k] - exact[:, atom_of_token == k].logsumexp(-1)).abs().max() < error
