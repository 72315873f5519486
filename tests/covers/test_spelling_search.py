"""The search for every spelling: what is opened next, and what the model is asked, against readable twins."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordprob.covers.search_steps import Ending, StepKind, Steps, needed_lists
from wordprob.covers.spelling_search import MAX_OPENED_PER_ROUND, Prefixes, SearchedWord, SpellingSearch

LOG_BOUNDS = st.lists(st.integers(-400, 200).map(lambda fifths: fifths / 5), max_size=40, unique=True)


FINDER = SimpleNamespace(ending=Ending(frozenset()))
"""Nothing is looked for in these tests."""


def search_for(all_log_bounds, found):
    """Return searches in which some mass is found, and prefixes wait that have these log-bounds."""
    words = [SearchedWord(n, 0, b"mark", FINDER, 0, ()) for n in range(len(found))]
    search = SpellingSearch(words, np.zeros(len(words)))
    search.found[:] = found
    for number, log_bounds in enumerate(all_log_bounds):
        n = len(log_bounds)
        ids, steps = [(token,) for token in range(n)], [steps_of([7])] * n
        search.wait_for(Prefixes(np.full(n, number), np.zeros(n, dtype=int), ids, steps, np.array(log_bounds)))
    return search


def chosen_one_by_one(log_bounds, found, tolerance_nats, room):
    """Return what is opened of one word: the readable twin."""
    allowed = found * math.expm1(tolerance_nats)
    lightest_first = sorted(log_bounds)
    kept = 0
    while kept < len(log_bounds) and math.fsum(map(math.exp, lightest_first[: kept + 1])) <= allowed:
        kept += 1
    kept = max(kept, len(log_bounds) - room)
    return lightest_first[kept:]


@given(
    st.lists(st.tuples(LOG_BOUNDS, st.sampled_from([0.0, 1e-9, 1.0])), max_size=5), st.sampled_from([1e-9, 0.01, 2.0])
)
def test_the_heaviest_are_opened(words, tolerance_nats):
    found = [each for _, each in words]
    search = search_for([log_bounds for log_bounds, _ in words], found)
    prefixes = search.choose(tolerance_nats, max_open=100)
    for number, (log_bounds, mass) in enumerate(words):
        opened = prefixes.log_prob[prefixes.search == number].tolist()
        assert opened == chosen_one_by_one(log_bounds, mass, tolerance_nats, MAX_OPENED_PER_ROUND)
        assert search.opened[number] == len(opened)


def test_a_heavy_word_does_not_round_off_a_light_one():
    search = search_for([[300.0, 299.0], [-30.0, -31.0, -52.0]], [1.0, 1e-20])
    prefixes = search.choose(0.01, max_open=100)
    assert prefixes.search.tolist() == [0, 0, 1, 1]
    assert prefixes.log_prob.tolist() == [299.0, 300.0, -31.0, -30.0]


def test_no_more_are_opened_than_allowed():
    search = search_for([[-1.0, -2.0, -3.0]], [1e-9])
    assert len(search.choose(0.01, max_open=2)) == 2
    assert len(search.choose(0.01, max_open=2)) == 0
    assert search.log_high[0] == pytest.approx(math.log(1e-9 + math.exp(-3.0)))
    assert not search.is_within(0.01)[0]


def steps_of(tokens, *sums):
    kinds = [StepKind.INSIDE] * len(tokens) + [StepKind.ENDING, StepKind.UNDECIDED][: len(sums)]
    arrays = tuple(np.array(ids) for ids in sums)
    return Steps(tuple(tokens), (1,) * len(tokens), (b"",) * len(tokens), arrays, np.array(kinds, dtype=np.int8))


def test_each_list_is_asked_for_once():
    first, second, third = steps_of([5, 2], [7, 8]), steps_of([2]), steps_of([])
    numbers, id_lists = needed_lists([first, second, third, first])
    asked = [id_lists[number].tolist() for number in numbers]
    assert asked == [[5], [2], [7, 8], [2], [5], [2], [7, 8]]
    assert len(id_lists) == 3
    nothing, no_lists = needed_lists([])
    assert len(nothing) == len(no_lists) == 0


def test_steps_that_are_some_tokens():
    steps = steps_of([5, 2, 9], [7, 8], [3]).restricted_to(frozenset({2, 8}))
    assert steps.tokens == (2,)
    assert [ids.tolist() for ids in steps.sums] == [[8]]
    assert steps.kinds.tolist() == [StepKind.INSIDE, StepKind.ENDING]
    assert [steps.place_of(token) for token in (2, 5, 8)] == [0, -1, -1]
