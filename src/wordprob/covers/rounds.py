"""What several steps ask the model beyond the texts, put together into few calls.

A call takes time however little it asks, above all on a GPU. So each step is a generator: it yields what it asks, is
sent the answers, and yields what it asks next. What all steps ask in one round is one call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.models.id_sequences import IdSequences
from wordprob.models.protocol import LanguageModel, PrefixStates, Scores
from wordprob.models.request_arrays import RequestArrays, ScoreArrays, in_batches

REQUESTS_AT_ONCE = 8192
"""Requests in a call, at most."""

Step = Generator[RequestArrays, ScoreArrays, None]
"""Yields requests, and is sent the answers in their order."""


def ask_together(steps: Iterable[Step], model: LanguageModel, atoms: Atoms, states: PrefixStates | None = None) -> None:
    """Take all steps to their end. ``states`` are those of the texts, where the model keeps them."""
    asking = []
    for step in steps:
        requests = next(step, None)
        if requests is not None:
            asking.append((step, requests))
    while asking:
        answers = _answers([requests for _, requests in asking], model, atoms, states)
        going_on = []
        for (step, _), own_answers in zip(asking, answers, strict=True):
            with suppress(StopIteration):
                going_on.append((step, step.send(own_answers)))
        asking = going_on


def _answers(
    asked: Sequence[RequestArrays], model: LanguageModel, atoms: Atoms, states: PrefixStates | None
) -> list[ScoreArrays]:
    """Return the answers to the requests of each step, in their order."""
    requests = RequestArrays.join(asked)
    parts = []
    for low in range(0, len(requests), REQUESTS_AT_ONCE):
        some = requests[low : low + REQUESTS_AT_ONCE]
        (found,) = in_batches(model.open(some, atoms, states), n_rows=int(some.row_counts.sum()))
        parts.append(found.choose(np.argsort(found.numbers)))
    answers = ScoreArrays.join(parts) if parts else ScoreArrays.none(len(atoms.labels))
    if len(asked) == 1:
        return [answers]
    edges = cumulative_offsets(map(len, asked)).tolist()
    return [answers.choose(np.arange(first, stop)) for first, stop in pairwise(edges)]


# --- one by one -------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """What the model is asked beyond a text.

    Attributes
    ----------
    ids
        What it sees.
    first
        The first row that is wanted.
    n_context
        How many of the ids are a context: a model may have kept the states of these.
    id_lists
        Lists of ids whose log-mass is wanted after all the ids.
    """

    ids: Ints
    first: int
    n_context: int
    id_lists: Sequence[Ints] = ()


class Reply(NamedTuple):
    """The model's scores for a question, and which of the lists of ids there are those of the question."""

    scores: Scores
    lists: slice

    @property
    def gathered(self) -> Floats:
        """The log-mass of each list of ids."""
        return self.scores.gathered[self.lists]


QuestionStep = Generator[Sequence[Question], Sequence[Reply], None]
"""Yields questions, and is sent the replies."""


def ask_questions(steps: Iterable[QuestionStep]) -> Step:
    """Put what steps ask one by one together as one step; questions about the same ids are one request."""
    asking = []
    for step in steps:
        questions = next(step, None)
        if questions is not None:
            asking.append((step, questions))
    while asking:
        together = _DistinctQuestions([question for _, questions in asking for question in questions])
        replies = together.replies((yield together.requests()))
        going_on = []
        for step, questions in asking:
            with suppress(StopIteration):
                going_on.append((step, step.send(list(islice(replies, len(questions))))))
        asking = going_on


class _DistinctQuestions:
    """Questions, those about the same ids as one."""

    def __init__(self, questions: Sequence[Question]) -> None:
        numbers: dict[tuple[bytes, int], int] = {}
        self._distinct: list[Question] = []
        self._lists_of: list[list[Ints]] = []
        self._places: list[tuple[int, slice]] = []
        for question in questions:
            number = numbers.setdefault((question.ids.tobytes(), question.first), len(numbers))
            if number == len(self._distinct):
                self._distinct.append(question)
                self._lists_of.append([])
            first_list = len(self._lists_of[number])
            self._lists_of[number] += question.id_lists
            self._places.append((number, slice(first_list, len(self._lists_of[number]))))

    def requests(self) -> RequestArrays:
        """Return what the model is asked."""
        count = len(self._distinct)
        n_lists = np.array([len(lists) for lists in self._lists_of], dtype=np.int64)
        sequences = IdSequences.of([question.ids for question in self._distinct])
        no_one: Bools = np.zeros(count, dtype=bool)
        return RequestArrays(
            sequences=sequences,
            firsts=np.array([question.first for question in self._distinct], dtype=np.int64),
            context_tokens=np.array([question.n_context for question in self._distinct], dtype=np.int64),
            gather=np.repeat(sequences.lengths - 1, n_lists),
            gather_lists=np.arange(n_lists.sum()),
            gather_offsets=cumulative_offsets(n_lists),
            id_lists=[ids for lists in self._lists_of for ids in lists],
            statistics=[()] * count,
            statistics_rows=np.zeros(0, dtype=np.int64),
            statistics_offsets=np.zeros(count + 1, dtype=np.int64),
            is_extended_later=no_one,
        )

    def replies(self, answers: ScoreArrays) -> Iterator[Reply]:
        """Yield the reply to each question."""
        scores = [scores for _, scores in answers]
        for number, lists in self._places:
            yield Reply(scores[number], lists)
