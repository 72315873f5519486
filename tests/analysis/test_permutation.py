"""Sign flips by hand and by brute force; corrections against statsmodels."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordprob.analysis import permutation


@given(st.lists(st.floats(-10, 10).filter(lambda x: abs(x) > 1e-3), min_size=2, max_size=7))
def test_exact_p_agrees_with_enumeration(values: list[float]) -> None:
    flips = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    expected = np.mean([flip >= abs(sum(values)) - 1e-9 for flip in flips])
    assert permutation.sign_flip_test(np.array(values)) == pytest.approx(expected)


def test_smallest_p_of_ten_folds() -> None:
    assert permutation.sign_flip_test(np.linspace(1, 2, 10)) == 2 / 1024


def test_ties_are_counted() -> None:
    assert permutation.sign_flip_test(np.array([0.1, 0.2, 0.3, -0.3])) == 12 / 16
    assert permutation.sign_flip_test(np.array([0.1, 0.2, 0.3, -0.3]), ties=False) == 6 / 16


def test_p_without_ties_agrees_with_the_papers_code() -> None:
    """Half a million sampled flips, ties not counted, one added: near the share of flips strictly beyond."""
    values = np.random.default_rng(6).normal(0.3, 1, 10)
    flips = np.random.default_rng(7).choice((-1, 1), size=(500_000, 10))
    sampled = (np.sum(np.abs((flips * values).mean(axis=1)) > abs(values.mean()) + 1e-12) + 1) / 500_000
    assert permutation.sign_flip_test(values, ties=False) == pytest.approx(sampled, abs=0.003)


def test_sampled_p_is_near_the_exact_one() -> None:
    scipy = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).normal(0.4, 1, 30)
    expected = scipy.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=50_000, rng=0).pvalue
    assert permutation.sign_flip_test(values) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("ours", "theirs"), [("bh", "fdr_bh"), ("holm", "holm")])
def test_corrections_agree_with_statsmodels(ours: str, theirs: str) -> None:
    multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests
    p = np.random.default_rng(2).random(25) ** 3
    np.testing.assert_allclose(permutation.adjust(p, ours), multipletests(p, method=theirs)[1], atol=1e-14)
    assert permutation.adjust(p, "none").tolist() == p.tolist()
