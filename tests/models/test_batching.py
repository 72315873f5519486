"""Sequences in batches, and contexts in groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wordprob.models.batching import group_by_prefix, pack, padded_batches


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(10, 200))
def test_padded_batches_keep_to_the_budget_and_lose_nothing(lengths, budget):
    batches = padded_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@given(st.lists(st.integers(1, 60), min_size=1), st.integers(10, 500))
def test_at_most_five_per_cent_of_a_batch_is_padding(lengths, budget):
    for batch in padded_batches(lengths, budget):
        longest, total = max(lengths[i] for i in batch), sum(lengths[i] for i in batch)
        assert total >= 0.95 * longest * len(batch) - 1e-9


def test_small_batches_may_have_more_padding():
    assert padded_batches([10, 2, 2], 100) == [[0], [1, 2]]
    assert padded_batches([10, 2, 2], 100, padding_counts_from=30) == [[0, 1, 2]]


def test_a_batch_has_at_most_so_many_rows():
    assert [len(batch) for batch in padded_batches([1] * 7, 100, max_rows=3)] == [3, 3, 1]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(10, 200))
def test_packs_keep_the_order_and_the_budget(lengths, budget):
    packs = pack(lengths, budget)
    assert [i for members in packs for i in members] == list(range(len(lengths)))
    assert all(len(members) == 1 or sum(lengths[i] for i in members) <= budget for members in packs)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=30))
def test_every_context_is_in_one_group_and_a_prefix_of_its_longest(contexts):
    groups = group_by_prefix([np.array(context) for context in contexts])
    assert sorted(i for group in groups for i in group.members) == list(range(len(contexts)))
    for group in groups:
        longest = contexts[group.longest]
        assert group.longest in group.members
        for i in group.members:
            assert longest[: len(contexts[i])] == contexts[i]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=30))
def test_no_group_could_be_part_of_another(contexts):
    groups = group_by_prefix([np.array(context) for context in contexts])
    longest = [tuple(contexts[group.longest]) for group in groups]
    for n, one in enumerate(longest):
        for m, other in enumerate(longest):
            assert n == m or other[: len(one)] != one


def test_no_contexts_make_no_groups():
    assert group_by_prefix([]) == []
