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
    assert mass[0, 0] == pytest.approx(-300 + torch.log(torch.tensor(4999.0)).item(), abs=1e-3)


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


def extreme_head(rows, size, vocabulary, atoms, distance, dtype=torch.float32, device="cpu"):
    """Return states, weights, atoms and exact log-probabilities; atom k is ``distance · k`` nats below the first."""
    torch.manual_seed(0)
    hidden = torch.randn(rows, size, device=device)
    weight = torch.randn(vocabulary, size, device=device)
    atom_of_token = torch.arange(vocabulary, device=device) % atoms
    hidden[:, 0] = 1.0
    weight[:, 0] -= distance * atom_of_token
    hidden, weight = hidden.to(dtype), weight.to(dtype)
    logits = hidden.double() @ weight.double().T
    return hidden, weight, atom_of_token, logits


def assert_masses(mass, logits, atom_of_token, error):
    exact = logits.log_softmax(-1)
    for k in range(mass.shape[1]):
        assert (mass[:, k] - exact[:, atom_of_token == k].logsumexp(-1)).abs().max() < error, k


@pytest.mark.parametrize("kernel", [reference, tiled], ids=["reference", "tiled"])
@pytest.mark.parametrize("distance", [15.0, 30.0, 90.0, 1000.0])
def test_an_atom_far_below_the_largest_logit_keeps_its_mass(kernel, distance, monkeypatch):
    """Also where sums get too small for float32 by and by: some of their terms are there, others are lost."""
    monkeypatch.setattr(tiled, "TILE_TOKENS", 64)
    hidden, weight, atom_of_token, logits = extreme_head(40, 16, 300, 6, distance)
    members = reference.membership(atom_of_token, 7)  # the last one has no tokens
    target, mass, _ = kernel.score_hidden(hidden, weight, None, torch.arange(40), members)
    error = 2 * float32_sum_tolerance(16, logits.abs().max().item()) + float32_sum_tolerance(300)
    assert_masses(mass[:, :6], logits, atom_of_token, error)
    assert torch.isneginf(mass[:, 6]).all()
    assert (target - logits.log_softmax(-1)[torch.arange(40), torch.arange(40)]).abs().max() < error


@pytest.mark.parametrize("kernel", [reference, tiled], ids=["reference", "tiled"])
def test_an_atom_without_probability_is_minus_infinity(kernel):
    weight, bias = torch.randn(30, 4), torch.zeros(30)
    atom_of_token = torch.arange(30) % 3
    bias[atom_of_token == 1] = float("-inf")
    members = reference.membership(atom_of_token, 3)
    _, mass, normaliser = kernel.score_hidden(torch.randn(5, 4), weight, bias, torch.zeros(5).long(), members)
    assert torch.isneginf(mass[:, 1]).all()
    assert torch.isfinite(normaliser).all()
    assert torch.allclose(mass.exp().sum(-1), torch.ones(5))


@pytest.mark.parametrize("kernel", [reference, tiled], ids=["reference", "tiled"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_show_in_the_normaliser(kernel, value):
    hidden, weight = torch.randn(3, 4), torch.randn(30, 4)
    bias = torch.zeros(30)
    bias[7] = value
    members = reference.membership(torch.arange(30) % 3, 3)
    _, _, normaliser = kernel.score_hidden(hidden, weight, bias, torch.zeros(3).long(), members)
    assert not torch.isfinite(normaliser).any()


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("distance", [15.0, 30.0, 90.0, 1000.0])
def test_the_fused_kernel_keeps_atoms_far_below_the_largest_logit(distance):
    hidden, weight, atom_of_token, logits = extreme_head(200, 64, 5000, 6, distance, torch.bfloat16, "cuda")
    targets = torch.arange(200, device="cuda")
    scorer = head_scorer(weight, None, atom_of_token, 7)
    assert "FusedHead" in repr(scorer)
    target, mass, _ = scorer(hidden, targets)
    error = 2 * float32_sum_tolerance(64, logits.abs().max().item()) + float32_sum_tolerance(5000)
    assert_masses(mass[:, :6], logits, atom_of_token, error)
    assert torch.isneginf(mass[:, 6]).all()
    assert (target - logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]).abs().max() < error


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_the_fused_kernel_and_logits_that_are_no_numbers(value):
    """Minus infinity is a probability of zero; with anything else the normaliser is no number either."""
    from wordprob.kernels.fused import FusedHead

    torch.manual_seed(0)
    hidden = torch.randn(150, 64, device="cuda").to(torch.bfloat16)
    weight = torch.randn(2000, 64, device="cuda").to(torch.bfloat16)
    atom_of_token = torch.arange(2000, device="cuda") % 3
    bias = torch.zeros(2000, device="cuda")
    bias[atom_of_token == 1] = value
    _, mass, normaliser = FusedHead(weight, bias, atom_of_token, 3).score(
        hidden, torch.zeros(150, device="cuda").long()
    )
    if value == float("-inf"):
        assert torch.isneginf(mass[:, 1]).all()
        assert torch.allclose(mass.exp().sum(-1), torch.ones(150, device="cuda"), atol=1e-4)
    else:
        assert not torch.isfinite(normaliser).any()
