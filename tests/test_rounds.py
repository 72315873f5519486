"""Questions of several steps that are put together into few calls of the model."""

import numpy as np

from wordprob.core.atoms import Atoms
from wordprob.models.protocol import Scores, scores_from_logits
from wordprob.scoring import rounds
from wordprob.scoring.rounds import Question, ask_together

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
    (request,) = rounds._requests([question], [question.id_lists])
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
    ask_together(steps, model, ATOMS)
    assert model.calls == [[[1, 2], [1, 3], [2, 2]], [[1, 2, 4]], [[7, 7, 7]]]
    assert (len(first), len(second)) == (4, 2)
    for question, reply in first + second:
        np.testing.assert_allclose(reply.scores.mass, expected(question).mass)
        np.testing.assert_allclose(reply.gathered, expected(question).gathered)


def test_many_questions_are_asked_in_parts(monkeypatch):
    monkeypatch.setattr(rounds, "REQUESTS_AT_ONCE", 2)
    model = Recorder()
    log: list = []
    ask_together([step([[ask(n, 1, lists=([n],)) for n in range(5)]], log)], model, ATOMS)
    assert [len(call) for call in model.calls] == [2, 2, 1]
    for question, reply in log:
        np.testing.assert_allclose(reply.gathered, expected(question).gathered)
