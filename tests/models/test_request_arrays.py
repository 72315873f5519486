"""Requests and answers in arrays: the same as one object for each, in any choice, order and combination."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordprob.core.atoms import atoms_of
from wordprob.core.words import Whitespace
from wordprob.models.exact import ExactLM
from wordprob.models.protocol import Request, Scores
from wordprob.models.request_arrays import IdSequences, RequestArrays, ScoreArrays, ScoreBatches, in_batches

LISTS = [np.array([7]), np.array([8, 9])]
REQUESTS = [
    Request(np.array([1, 2, 3]), 1, np.array([1, 2]), np.array([1, 0]), LISTS, is_extended_later=True),
    Request(np.array([4]), 0),
    Request(np.array([1, 2, 3, 4]), 2, statistics=("entropy",), statistics_rows=np.array([2, 3]), context_tokens=1),
    Request(np.array([5, 6]), 0, np.array([0]), np.array([0]), LISTS),
]


def fields_of(request):
    lists = [request.id_lists[number].tolist() for number in request.gather_lists.tolist()]
    return (
        request.ids.tolist(),
        request.first,
        request.n_context,
        request.gather.tolist(),
        lists,
        request.statistics,
        request.statistics_rows.tolist(),
        request.is_extended_later,
    )


@pytest.fixture(scope="module")
def model():
    return ExactLM.bigram("bow")


@pytest.fixture(scope="module")
def atoms(model):
    return atoms_of(model.tokenizer.vocabulary, Whitespace(), model.vocab_size)


def test_requests_are_the_same_in_arrays():
    arrays = RequestArrays.of(REQUESTS)
    assert RequestArrays.of(arrays) is arrays
    assert [fields_of(request) for request in arrays] == [fields_of(request) for request in REQUESTS]
    assert arrays.lengths.tolist() == [len(request.ids) for request in REQUESTS]
    assert arrays.row_counts.tolist() == [len(request.ids) - request.first for request in REQUESTS]
    assert fields_of(arrays[-1]) == fields_of(REQUESTS[-1])
    with pytest.raises(IndexError):
        arrays[4]
    unpickled = pickle.loads(pickle.dumps(arrays))
    assert [fields_of(request) for request in unpickled] == [fields_of(request) for request in REQUESTS]


@pytest.mark.parametrize("numbers", [[], [2], [3, 0], [0, 1, 2, 3], [1, 1]])
def test_some_requests_are_chosen(numbers):
    chosen = RequestArrays.of(REQUESTS).choose(np.array(numbers, dtype=np.int64))
    assert [fields_of(request) for request in chosen] == [fields_of(REQUESTS[number]) for number in numbers]


def test_requests_are_put_behind_others():
    other = [Request(np.array([3, 3]), 1, np.array([1]), np.array([0]), [np.array([5, 6])])]
    joined = RequestArrays.join([RequestArrays.of(REQUESTS), RequestArrays.of([]), RequestArrays.of(other)])
    assert [fields_of(request) for request in joined] == [fields_of(request) for request in REQUESTS + other]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_sequences_with_heads_are_those_without(data):
    ids = st.lists(st.integers(0, 9), max_size=5).map(lambda found: np.array(found, dtype=np.int64))
    heads = data.draw(st.lists(ids, min_size=1, max_size=3))
    numbers = data.draw(st.lists(st.integers(0, len(heads) - 1), max_size=6))
    lengths = [data.draw(st.integers(0, len(heads[number]))) for number in numbers]
    own = [data.draw(ids) for _ in numbers]
    plain = IdSequences.of(own)
    sequences = IdSequences(
        heads, np.array(numbers, dtype=np.int64), np.array(lengths, dtype=np.int64), plain.own_ids, plain.own_offsets
    )
    expected = [
        [*heads[number][:length].tolist(), *after.tolist()]
        for number, length, after in zip(numbers, lengths, own, strict=True)
    ]
    assert [sequences.ids_of(n).tolist() for n in range(len(sequences))] == expected
    assert sequences.all_ids().tolist() == [token for row in expected for token in row]
    assert sequences.lengths.tolist() == [len(row) for row in expected]
    places = [(n, place) for n, row in enumerate(expected) for place in range(len(row))]
    some = data.draw(st.lists(st.sampled_from(places), max_size=8)) if places else []
    at = np.array(some, dtype=np.int64).reshape(-1, 2)
    assert sequences.ids_at(at[:, 0], at[:, 1]).tolist() == [expected[n][place] for n, place in some]
    if expected:
        chosen = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=4))
        twice = IdSequences.join([sequences, sequences.choose(np.array(chosen, dtype=np.int64))])
        found = [twice.ids_of(n).tolist() for n in range(len(twice))]
        assert found == expected + [expected[n] for n in chosen]


def scores_of(answers):
    return {
        number: (
            scores.target.tolist(),
            scores.mass.tolist(),
            scores.gathered.tolist(),
            {name: values.tolist() for name, values in scores.statistics.items()},
        )
        for number, scores in answers
    }


def test_answers_are_the_same_in_arrays(model, atoms):
    ids = np.array([0, *model.tokenizer.ids("She saw the mark")])
    requests = [Request(ids[:n], n - 2, np.array([n - 1]), np.array([0]), [ids[1:3]]) for n in (4, 2, 5, 3)]
    answers = list(model.score(requests, atoms))
    arrays = ScoreArrays.of(answers)
    assert scores_of(arrays) == scores_of(answers)
    assert scores_of(ScoreArrays.join([arrays.choose(np.array([2, 0])), arrays.choose(np.array([1, 3]))])) == scores_of(
        answers
    )
    assert scores_of(ScoreBatches([arrays.choose(np.array([1])), arrays.choose(np.array([0, 3, 2]))])) == scores_of(
        answers
    )


@pytest.mark.parametrize("n_rows", [1, 3, 100])
@pytest.mark.parametrize("in_arrays", [False, True])
def test_answers_come_in_batches_of_about_so_many_rows(model, atoms, n_rows, in_arrays):
    ids = np.array([0, *model.tokenizer.ids("She saw the mark")])
    answers = list(model.score([Request(ids[:n]) for n in (4, 2, 5, 3)], atoms))
    stream = ScoreBatches(ScoreArrays.of([answer]) for answer in answers) if in_arrays else iter(answers)
    arrived = []
    batches = list(in_batches(stream, n_rows, arrived.extend))
    assert arrived == [number for number, _ in answers]
    assert scores_of(answer for batch in batches for answer in batch) == scores_of(answers)
    assert all(len(batch.mass) >= n_rows for batch in batches[:-1])
    assert len(batches) == {1: 4, 3: 3, 100: 1}[n_rows]


def test_what_is_not_listed_stays_with_its_answer():
    unlisted = object()
    plain = Scores(np.zeros(0), np.zeros((1, 2)))
    arrays = ScoreArrays.of([(0, plain), (1, Scores(np.zeros(1), np.zeros((2, 2)), unlisted=unlisted))])
    chosen = dict(arrays.choose(np.array([1, 0])))
    assert chosen[1].unlisted is unlisted
    assert chosen[0].unlisted is None
    assert dict(ScoreArrays.of([(0, plain)]))[0].unlisted is None
