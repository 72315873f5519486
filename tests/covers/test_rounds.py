"""Questions of several steps that are put together into few calls of the model."""

import numpy as np

from wordprob.core.atoms import Atoms
from wordprob.covers import rounds
from wordprob.covers.rounds import Question, ask_questions, ask_together
from wordprob.models.protocol import Request, Scores, scores_from_logits
from wordprob.models.request_arrays import RequestArrays

ATOMS = Atoms(("one",), np.zeros(8, dtype=np.int64))


class Recorder:
    """A model over eight ids whose logits depend on the last id; it records the requests of each call."""

    def __init__(self) -> None:
        self.calls: list[list[list[int]]] = []

    def open(self, requests, atoms, states=None):
        self.calls.append([request.ids.tolist() for request in requests])
        for n, request in reversed(list(enumerate(requests))):  # in any order
            logits = np.sin(np.outer(request.ids[request.first :] + 1.0, np.arange(8)))
            yield n, scores_from_logits(logits, request, atoms)


def ask(*ids: int, lists: tuple[list[int], ...] = ()) -> Question:
    return Question(np.array(ids), len(ids) - 1, 1, [np.array(each) for each in lists])


def step(questions_of_rounds, log):
    for questions in questions_of_rounds:
        replies = yield questions
        for question, reply in zip(questions, replies, strict=True):
            log.append((question, reply))


def expected(question: Question) -> Scores:
    n_lists = len(question.id_lists)
    rows = np.full(n_lists, len(question.ids) - 1)
    request = Request(question.ids, question.first, rows, np.arange(n_lists), question.id_lists)
    (answer,) = Recorder().open([request], ATOMS)
    return answer[1]


def test_what_steps_ask_in_one_round_is_one_call_and_each_gets_its_own_replies():
    model = Recorder()
    first: list = []
    second: list = []
    steps = [
        step([[ask(1, 2), ask(1, 3, lists=([4], [5, 6]))], [ask(1, 2, 4)], [ask(7, 7, 7)]], first),
        step([[ask(1, 3, lists=([7],)), ask(2, 2)]], second),
        step([], []),
    ]
    ask_together([ask_questions(steps)], model, ATOMS)
    assert model.calls == [[[1, 2], [1, 3], [2, 2]], [[1, 2, 4]], [[7, 7, 7]]]
    assert (len(first), len(second)) == (4, 2)
    for question, reply in first + second:
        np.testing.assert_allclose(reply.scores.mass, expected(question).mass)
        np.testing.assert_allclose(reply.gathered, expected(question).gathered)


def test_many_questions_are_asked_in_parts(monkeypatch):
    monkeypatch.setattr(rounds, "REQUESTS_AT_ONCE", 2)
    model = Recorder()
    log: list = []
    questions = [ask(n, 1, lists=([n],)) for n in range(5)]
    ask_together([ask_questions([step([questions], log)])], model, ATOMS)
    assert [len(call) for call in model.calls] == [2, 2, 1]
    for question, reply in log:
        np.testing.assert_allclose(reply.gathered, expected(question).gathered)


def test_steps_in_arrays_share_calls_and_may_ask_nothing_for_a_round():
    model = Recorder()
    lists = [np.array([3]), np.array([4, 5])]
    request = Request(np.array([1, 2]), 1, np.array([1, 1]), np.array([0, 1]), lists)
    found: list = []

    def patient():
        nothing = yield RequestArrays.of([])
        assert len(nothing) == 0
        assert nothing.mass.shape == (0, 1)
        found.append((yield RequestArrays.of([request, request])))

    log: list = []
    questions = [[ask(4, 1, lists=([6],)), ask(5, 1)], [ask(6, 1, lists=([7],))]]
    ask_together([ask_questions([step(questions, log)]), patient()], model, ATOMS)
    assert model.calls == [[[4, 1], [5, 1]], [[6, 1], [1, 2], [1, 2]]]
    for question, reply in log:
        np.testing.assert_allclose(reply.gathered, expected(question).gathered)
    (answers,) = found
    alone = dict(Recorder().open([request], ATOMS))[0]
    np.testing.assert_allclose(answers.gathered, np.tile(alone.gathered, 2))
    np.testing.assert_allclose(answers.mass, np.tile(alone.mass, (2, 1)))


def test_when_no_step_asks_anything_the_model_is_not_called():
    model = Recorder()

    def nothing():
        yield RequestArrays.of([])

    ask_together([nothing(), nothing()], model, ATOMS)
    assert model.calls == []
