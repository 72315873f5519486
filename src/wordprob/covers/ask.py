"""What searches ask the model: the heaviest prefixes of all of them, round by round, in one call each.

A call takes time however little it asks, above all on a GPU. So a search is a generator that yields what it asks
in a round and is sent the answers, and what all of them ask in one round is one call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from wordprob.core.arrays import Bools, Ints, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.covers.events import needed_lists
from wordprob.covers.search import Prefixes, Search, scored_ids
from wordprob.models.protocol import NO_ROWS, LanguageModel, PrefixStates
from wordprob.models.request_arrays import IdSequences, RequestArrays, ScoreArrays, in_batches

REQUESTS_AT_ONCE = 8192
"""Requests in a call, at most."""


class PrefixContexts(Protocol):
    """What the model sees up to the end of prefixes."""

    def fits(self, prefixes: Prefixes) -> Bools:
        """Return True for prefixes that fit into the model's context."""

    def sequences(self, prefixes: Prefixes) -> IdSequences:
        """Return what the model sees up to the end of prefixes that fit."""

    def kept_tokens(self, prefixes: Prefixes, sequences: IdSequences) -> Ints:
        """Return how many tokens at the beginning of each sequence are a context whose states the model may keep."""

    def distinct(self, prefixes: Prefixes) -> tuple[Ints, Ints] | None:
        """Return which prefixes ask something different, and for each prefix the number of the one that asks the same.

        ``None`` if all of them do.
        """


Result = TypeVar("Result")
Step = Generator[RequestArrays, ScoreArrays, Result]
"""Yields requests, and is sent the answers in their order."""


def ask_together(
    steps: Iterable[Step[Result]], model: LanguageModel, atoms: Atoms, states: PrefixStates | None
) -> list[Result]:
    """Take all steps to their end, and return their results. What all of them ask in one round is one call."""
    steps = list(steps)
    results: dict[int, Result] = {}
    asking: dict[int, RequestArrays] = {}

    def advance(number: int, answers: ScoreArrays | None) -> None:
        """Take a step on to its next requests, or to its end."""
        asking.pop(number, None)
        try:
            asking[number] = next(steps[number]) if answers is None else steps[number].send(answers)
        except StopIteration as stop:
            results[number] = stop.value

    for number in range(len(steps)):
        advance(number, None)
    while asking:
        numbers = list(asking)
        answers = _answers(RequestArrays.join(list(asking.values())), model, atoms, states)
        edges = cumulative_offsets([len(asking[number]) for number in numbers]).tolist()
        for number, (first, stop) in zip(numbers, pairwise(edges), strict=True):
            advance(number, answers if len(numbers) == 1 else answers.choose(np.arange(first, stop)))
    return [results[number] for number in range(len(steps))]


def search_rounds(search: Search, contexts: PrefixContexts, max_open: int | None = None) -> Step[None]:
    """Open prefixes until all intervals are narrow enough, or ``max_open`` were opened of a search."""
    while len(chosen := search.choose(max_open)):
        fits = contexts.fits(chosen)
        search.leave_unopened(chosen.at(np.flatnonzero(~fits)))
        yield from open_prefixes(search, chosen.at(np.flatnonzero(fits)), contexts)


def open_prefixes(search: Search, prefixes: Prefixes, contexts: PrefixContexts) -> Step[ScoreArrays | None]:
    """Ask about prefixes, and continue from them; return the answers, in their order."""
    if not len(prefixes):
        return None
    distinct = contexts.distinct(prefixes)
    answers = yield _requests(contexts, prefixes if distinct is None else prefixes.at(distinct[0]))
    if distinct is not None:
        answers = answers.choose(distinct[1])
    log_probs = scored_ids(answers.target, prefixes.n_unscored)
    last_rows = answers.offsets[1:] - 1
    search.open(prefixes.with_scored(log_probs), answers.gathered.astype(np.float64), answers.mass[last_rows])
    return answers


def _requests(contexts: PrefixContexts, prefixes: Prefixes) -> RequestArrays:
    """Return what the model is asked: the masses of transitions, or those of all atoms, after each prefix."""
    sequences = contexts.sequences(prefixes)
    last_rows = sequences.lengths - 1
    firsts = last_rows - prefixes.n_unscored
    n_lists = np.array([len(transitions.outcomes) for transitions in prefixes.transitions])
    lists, id_lists = needed_lists(prefixes.transitions)
    return RequestArrays(
        sequences=sequences,
        firsts=firsts,
        context_tokens=np.minimum(firsts, contexts.kept_tokens(prefixes, sequences)),
        gather=np.repeat(last_rows, n_lists),
        gather_lists=lists,
        gather_offsets=cumulative_offsets(n_lists),
        id_lists=id_lists,
        statistics=[()] * len(prefixes),
        statistics_rows=NO_ROWS,
        statistics_offsets=np.zeros(len(prefixes) + 1, dtype=np.int64),
        is_extended_later=n_lists > 0,
    )


def _answers(requests: RequestArrays, model: LanguageModel, atoms: Atoms, states: PrefixStates | None) -> ScoreArrays:
    """Return the model's answers, in the order of the requests."""
    parts = []
    for low in range(0, len(requests), REQUESTS_AT_ONCE):
        some = requests[low : low + REQUESTS_AT_ONCE]
        (found,) = in_batches(model.open(some, atoms, states), n_rows=int(some.row_counts.sum()))
        parts.append(found.choose(np.argsort(found.numbers)))
    return ScoreArrays.join(parts)
