"""Windows over long texts, and chunks of texts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wordprob.core.windows import windows
from wordprob.scoring.chunks import chunk_slices


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


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.integers(1, 100))
def test_chunks_are_consecutive_and_within_bounds(lengths, most, size):
    found = list(chunk_slices(lengths, most, size))
    assert [n for part in found for n in range(part.start, part.stop)] == list(range(len(lengths)))
    for part in found:
        count, total = part.stop - part.start, sum(lengths[part])
        assert 1 <= count <= most
        assert count == 1 or total <= size
