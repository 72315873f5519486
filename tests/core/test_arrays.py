"""Array helpers against loops that do the same."""

from __future__ import annotations

import numpy as np
import pytest

from wordprob.core.arrays import concat_ranges, row_sums


@pytest.mark.parametrize("largest", [0, 1, 2, 9])
def test_ranges_one_after_the_other(largest):
    random = np.random.default_rng(largest)
    for count in (0, 1, 2, 50):
        starts, lengths = random.integers(0, 100, count), random.integers(0, largest + 1, count)
        expected = [n for start, length in zip(starts, lengths, strict=True) for n in range(start, start + length)]
        assert concat_ranges(starts, lengths).tolist() == expected
        assert concat_ranges(starts, lengths.tolist()).tolist() == expected


@pytest.mark.parametrize("n_columns", [0, 1, 2, 7, 8, 9, 33, 200])
def test_the_sum_of_a_row_does_not_depend_on_the_others(n_columns):
    values = np.exp(np.random.default_rng(0).uniform(-40, 0, (300, n_columns + 3)))[:, 2:-1]
    sums = row_sums(values)
    np.testing.assert_allclose(sums, values.sum(axis=1), rtol=1e-14)
    for n_rows in (1, 2, 3, 17):
        for first in (0, 5, 200):
            part = values[first : first + n_rows]
            assert row_sums(part).tolist() == sums[first : first + n_rows].tolist()
            assert row_sums(part.copy()).tolist() == sums[first : first + n_rows].tolist()
