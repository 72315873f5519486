"""Windows and padded_batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wordprob.core.arrays import common_prefix_length
from wordprob.core.windows import windows
from wordprob.models.batching import group_by_prefix, pack, padded_batches
from wordprob.scoring.batching import text_batches


@st.composite
def texts(draw):
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=60))
    return np.cumsum(sizes), draw(st.integers(4, 40)), draw(st.one_of(st.none(), st.integers(1, 30)))


@given(texts())
def test_every_row_is_answered_once_with_enough_context(case):
    stops, room, least = case
    length = int(stops[-1])
    found = windows(length, stops, room, least)
    rows = [row for w in found for row in range(w.first, w.last + 1)]
    assert rows == list(range(length + 1))
    context = min(least, room - 1) if least else room // 2
    for w in found:
        assert min(w.last + 1, length) - w.low <= room
        assert w.low == 0 or w.first - w.low >= context


def test_a_text_that_fits_is_one_window():
    assert windows(10, np.array([3, 10]), 10) == [(0, 0, 10)]
    assert windows(10, np.array([3, 10]), None) == [(0, 0, 10)]


def test_cuts_fall_where_words_end():
    stops = np.arange(3, 301, 3)
    for window in windows(300, stops, 50)[1:]:
        assert window.first in stops


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(10, 200))
def test_batches_keep_to_the_budget_and_lose_nothing(lengths, budget):
    found = padded_batches(lengths, budget)
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_trunks_share_what_prefixes_share():
    prefixes = [[0, 1, 2, 3, 9], [0, 1, 2, 8], [0, 7], [5, 6, 7, 8], [5, 6, 7, 9, 1]]
    found = {n: (trunk, shared) for trunk, members in group_by_prefix(prefixes) for n, shared in members}
    assert sorted(found) == [0, 1, 2, 3, 4]
    for n, (trunk, shared) in found.items():
        assert common_prefix_length(prefixes[trunk], prefixes[n]) == shared
    assert found[3][0] == 4
    assert found[1] == (0, 3)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(10, 200))
def test_packs_keep_the_order_and_the_budget(lengths, budget):
    found = pack(lengths, budget)
    assert [i for pack in found for i in pack] == list(range(len(lengths)))
    assert all(len(pack) == 1 or sum(lengths[i] for i in pack) <= budget for pack in found)


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.integers(1, 100))
def test_pages_are_consecutive_and_within_bounds(lengths, most, size):
    found = list(text_batches(lengths, most, size))
    assert [n for part in found for n in range(part.start, part.stop)] == list(range(len(lengths)))
    for part in found:
        count, total = part.stop - part.start, sum(lengths[part])
        assert 1 <= count <= most
        assert count == 1 or total <= size


@given(st.lists(st.integers(1, 60), min_size=1), st.integers(10, 500))
def test_at_most_five_per_cent_of_a_batch_is_padding(lengths, budget):
    for batch in padded_batches(lengths, budget):
        longest, total = max(lengths[i] for i in batch), sum(lengths[i] for i in batch)
        assert total >= 0.95 * longest * len(batch) - 1e-9
