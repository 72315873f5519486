"""What several steps ask the model beyond the texts, put together into few calls.

A call takes time however little it asks, above all on a GPU. So each step is a generator: it yields what it asks, is
sent the replies, and yields what it asks next. What all steps ask in one round is one call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints, cumulative_offsets, slices_of
from wordprob.core.atoms import Atoms
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores

REQUESTS_AT_ONCE = 2048


class Question(NamedTuple):
    """What the model is asked beyond a text.

    Attributes
    ----------
    ids
        What it sees.
    first
        The first row that is wanted.
    n_context
        How many of the ids belong to the text: a model may have kept the states of these.
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


Step = Generator[Sequence[Question], Sequence[Reply], None]


def ask_together(steps: Iterable[Step], model: LanguageModel, atoms: Atoms, states: PrefixStates | None = None) -> None:
    """Take all steps to their end. ``states`` are those of the texts, where the model keeps them."""
    asking = []
    for step in steps:
        questions = next(step, None)
        if questions is not None:
            asking.append((step, questions))
    while asking:
        together = [question for _, questions in asking for question in questions]
        replies = iter(_ask(together, model, atoms, states))
        going_on = []
        for step, questions in asking:
            with suppress(StopIteration):
                going_on.append((step, step.send(list(islice(replies, len(questions))))))
        asking = going_on


def _ask(questions: Sequence[Question], model: LanguageModel, atoms: Atoms, states: PrefixStates | None) -> list[Reply]:
    """Return the model's replies; questions about the same ids are one request."""
    numbers: dict[tuple[bytes, int], int] = {}
    distinct: list[Question] = []
    lists_of: list[list[Ints]] = []
    places = []
    for question in questions:
        number = numbers.setdefault((question.ids.tobytes(), question.first), len(numbers))
        if number == len(distinct):
            distinct.append(question)
            lists_of.append([])
        first_list = len(lists_of[number])
        lists_of[number] += question.id_lists
        places.append((number, slice(first_list, len(lists_of[number]))))
    scores: list[Scores] = []
    for low in range(0, len(distinct), REQUESTS_AT_ONCE):
        part = slice(low, low + REQUESTS_AT_ONCE)
        requests = _requests(distinct[part], lists_of[part])
        answers = dict(model.open(requests, atoms, states))
        scores += [answers[n] for n in range(len(requests))]
    return [Reply(scores[number], lists) for number, lists in places]


def _requests(questions: Sequence[Question], lists_of: Sequence[Sequence[Ints]]) -> list[Request]:
    """Return a request for each question, with its lists of ids; requests that are made together share them."""
    id_lists = [ids for lists in lists_of for ids in lists]
    counts = [len(lists) for lists in lists_of]
    rows = np.repeat([len(question.ids) - 1 for question in questions], counts)
    numbers = np.arange(len(id_lists))
    return [
        Request(question.ids, question.first, rows[part], numbers[part], id_lists, context_tokens=question.n_context)
        for question, part in zip(questions, slices_of(cumulative_offsets(counts)), strict=True)
    ]
