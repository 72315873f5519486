"""The search for every spelling: what is opened next, and what the model is asked, against readable twins."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordprob.core.atoms import Atoms
from wordprob.covers.events import Beginnings, BoundaryEvent, Ending, Outcome, Transitions, needed_lists
from wordprob.covers.search import MAX_OPENED_PER_ROUND, Prefixes, Search, Searched

LOG_BOUNDS = st.lists(st.integers(-400, 200).map(lambda fifths: fifths / 5), max_size=40, unique=True)

NO_IDS = np.zeros(0, dtype=np.int64)
EVENT = BoundaryEvent(
    Atoms(("letter",), np.zeros(10, dtype=np.int64)),
    SimpleNamespace(beginnings=lambda ending: Beginnings(NO_IDS, (), NO_IDS, ())),
    Ending(frozenset()),
)


def search_for(all_log_bounds, found, tolerance_nats):
    """Return searches in which some mass is found, and prefixes wait that have these log-bounds."""
    count = len(found)
    search = Search([Searched(n, 0, 0) for n in range(count)], np.zeros(count), np.full(count, tolerance_nats))
    search.found[:] = found
    for number, log_bounds in enumerate(all_log_bounds):
        n = len(log_bounds)
        ids, transitions = [(token,) for token in range(n)], [transitions_by([7])] * n
        rows = np.zeros(n, dtype=int)
        search.wait_for(Prefixes.scored(np.full(n, number), rows, np.array(log_bounds), transitions, ids))
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
    search = search_for([log_bounds for log_bounds, _ in words], found, tolerance_nats)
    prefixes = search.choose(max_open=100)
    for number, (log_bounds, mass) in enumerate(words):
        opened = prefixes.log_prob[prefixes.search == number].tolist()
        assert opened == chosen_one_by_one(log_bounds, mass, tolerance_nats, MAX_OPENED_PER_ROUND)
        assert search.opened[number] == len(opened)


def test_a_heavy_word_does_not_round_off_a_light_one():
    search = search_for([[300.0, 299.0], [-30.0, -31.0, -52.0]], [1.0, 1e-20], 0.01)
    prefixes = search.choose(max_open=100)
    assert prefixes.search.tolist() == [0, 0, 1, 1]
    assert prefixes.log_prob.tolist() == [299.0, 300.0, -31.0, -30.0]


def test_no_more_are_opened_than_allowed():
    search = search_for([[-1.0, -2.0, -3.0]], [1e-9], 0.01)
    assert len(search.choose(max_open=2)) == 2
    assert len(search.choose(max_open=2)) == 0
    assert search.log_high[0] == pytest.approx(math.log(1e-9 + math.exp(-3.0)))
    assert search.log_estimate[0] == pytest.approx(math.log(1e-9))
    assert not search.is_within[0]


def test_a_prefix_that_is_not_scored_yet_is_bounded_by_what_is():
    search = Search([Searched(0, 0, 0)], np.zeros(1), np.full(1, 1e-4))
    one = np.zeros(1, dtype=int)
    search.wait_for(Prefixes(one, one, [(5, 6, 7)], [EVENT.whole], np.array([-2.0]), np.array([2])))
    assert search.log_high[0] == pytest.approx(-2.0)
    chosen = search.choose()
    assert (chosen.ids, chosen.n_unscored.tolist()) == ([(5, 6, 7)], [2])
    scored = chosen.with_scored(np.array([-3.0]))
    assert (scored.log_prob.tolist(), scored.n_unscored.tolist()) == ([-5.0], [0])


def transitions_by(tokens, *sums):
    outcomes = [Outcome.INSIDE] * len(tokens) + [Outcome.ENDING, Outcome.UNDECIDED][: len(sums)]
    arrays = tuple(np.array(ids) for ids in sums)
    sizes, pending = (1,) * len(tokens), (b"",) * len(tokens)
    return Transitions(EVENT, tuple(tokens), sizes, pending, arrays, np.array(outcomes, dtype=np.int8))


def test_each_list_is_asked_for_once():
    first, second, third = transitions_by([5, 2], [7, 8]), transitions_by([2]), transitions_by([])
    numbers, id_lists = needed_lists([first, second, third, first])
    asked = [id_lists[number].tolist() for number in numbers]
    assert asked == [[5], [2], [7, 8], [2], [5], [2], [7, 8]]
    assert len(id_lists) == 3
    nothing, no_lists = needed_lists([])
    assert len(nothing) == len(no_lists) == 0


def test_transitions_by_some_tokens():
    some = transitions_by([5, 2, 9], [7, 8], [3]).restricted_to(frozenset({2, 8}))
    assert some.tokens == (2,)
    assert [ids.tolist() for ids in some.sums] == [[8]]
    assert some.outcomes.tolist() == [Outcome.INSIDE, Outcome.ENDING]
    assert [some.place_of(token) for token in (2, 5, 8)] == [0, -1, -1]
