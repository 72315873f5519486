"""Many requests, and many answers, end to end in a few arrays.

A model may be asked about thousands of short sequences at a time. An object for each of them, and small arrays in each
object, would take longer than a GPU takes for the answers. So requests can be given as :class:`RequestArrays`, which is
a sequence of :class:`Request` like any other, and a model may answer with :class:`ScoreBatches`, which is an iterator
over ``(index, scores)`` like any other. A caller that handles arrays takes these instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np

from wordprob.core.arrays import (
    Bools,
    Floats,
    Ints,
    concat_ints,
    concat_ranges,
    cumulative_offsets,
    joined_offsets,
    segments,
    slices_of,
)
from wordprob.models.protocol import Request, Scores, Unlisted


@dataclass(frozen=True)
class IdSequences:
    """Sequences of ids: N of them. Each is the beginning of a *head*, which many may share, and then its own ids.

    Attributes
    ----------
    heads
        What sequences begin with.
    head_numbers, head_lengths
        ``[N]``: which of the heads each begins with, and how many of its ids.
    own_ids, own_offsets
        What comes after the heads, end to end, and ``[N + 1]`` where that of each begins and the last ends.

    Examples
    --------
    >>> two, heads = np.array([0, 0]), [np.array([1, 2, 3])]
    >>> sequences = IdSequences(heads, two, np.array([3, 1]), np.array([8, 9]), np.array([0, 1, 2]))
    >>> [sequences.ids_of(n).tolist() for n in range(2)]
    [[1, 2, 3, 8], [1, 9]]
    """

    heads: Sequence[Ints]
    head_numbers: Ints
    head_lengths: Ints
    own_ids: Ints
    own_offsets: Ints

    @classmethod
    def of(cls, sequences: Sequence[Ints]) -> IdSequences:
        """Put sequences end to end, without heads."""
        none = np.zeros(len(sequences), dtype=np.int64)
        return cls((), none, none, concat_ints(sequences), cumulative_offsets(map(len, sequences)))

    @classmethod
    def join(cls, parts: Sequence[IdSequences]) -> IdSequences:
        """Put sequences behind others."""
        first_heads = cumulative_offsets([len(part.heads) for part in parts])[:-1].tolist()
        shifted = [part.head_numbers + first for part, first in zip(parts, first_heads, strict=True)]
        return cls(
            heads=[head for part in parts for head in part.heads],
            head_numbers=np.concatenate(shifted),
            head_lengths=np.concatenate([part.head_lengths for part in parts]),
            own_ids=np.concatenate([part.own_ids for part in parts]),
            own_offsets=joined_offsets([part.own_offsets for part in parts]),
        )

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.head_numbers)

    @property
    def lengths(self) -> Ints:
        """How many ids each sequence has."""
        lengths: Ints = self.head_lengths + np.diff(self.own_offsets)
        return lengths

    def ids_of(self, number: int) -> Ints:
        """Return the ids of one sequence."""
        own = self.own_ids[slice(*self.own_offsets[number : number + 2].tolist())]
        n_head = int(self.head_lengths[number])
        return np.concatenate([self.heads[self.head_numbers[number]][:n_head], own]) if n_head else own

    def all_ids(self) -> Ints:
        """Return the ids of all sequences, end to end."""
        if not self.head_lengths.any():
            return self.own_ids
        lengths = self.lengths
        return self.ids_at(np.repeat(np.arange(len(self)), lengths), concat_ranges(np.zeros_like(lengths), lengths))

    def ids_at(self, numbers: Ints, positions: Ints) -> Ints:
        """Return the ids of some sequences at some positions, one for each pair."""
        after_head = positions - self.head_lengths[numbers]
        in_head = np.flatnonzero(after_head < 0)
        if not len(in_head):
            ids: Ints = self.own_ids[self.own_offsets[numbers] + after_head]
            return ids
        heads, offsets = np.concatenate(self.heads), cumulative_offsets(map(len, self.heads))
        ids = np.empty(len(numbers), dtype=np.int64)
        ids[in_head] = heads[offsets[self.head_numbers[numbers[in_head]]] + positions[in_head]]
        in_own = np.flatnonzero(after_head >= 0)
        ids[in_own] = self.own_ids[self.own_offsets[numbers[in_own]] + after_head[in_own]]
        return ids

    def choose(self, numbers: Ints) -> IdSequences:
        """Return some of the sequences, in this order."""
        own, offsets = segments(self.own_offsets, numbers)
        return IdSequences(
            self.heads, self.head_numbers[numbers], self.head_lengths[numbers], self.own_ids[own], offsets
        )


Item = TypeVar("Item")


@dataclass(frozen=True)
class RequestArrays(Sequence[Request]):
    """Requests, end to end: N of them.

    Attributes
    ----------
    sequences
        The ids of each.
    firsts, context_tokens
        ``[N]``: ``first`` and ``n_context`` of each.
    gather, gather_lists, gather_offsets
        The same of ``gather`` and ``gather_lists``.
    id_lists
        The lists of ids, which all share.
    statistics
        The names of statistics, a tuple for each request.
    statistics_rows, statistics_offsets
        The rows at which each wants them.
    is_extended_later
        ``[N]``: as in :class:`Request`.
    """

    sequences: IdSequences
    firsts: Ints
    context_tokens: Ints
    gather: Ints
    gather_lists: Ints
    gather_offsets: Ints
    id_lists: Sequence[Ints]
    statistics: Sequence[tuple[str, ...]]
    statistics_rows: Ints
    statistics_offsets: Ints
    is_extended_later: Bools

    @classmethod
    def of(cls, requests: Sequence[Request]) -> RequestArrays:
        """Put requests end to end, unless they are already."""
        if isinstance(requests, RequestArrays):
            return requests
        asks_statistics = [request.statistics_rows if request.statistics else () for request in requests]
        return cls(
            sequences=IdSequences.of([request.ids for request in requests]),
            firsts=np.array([request.first for request in requests], dtype=np.int64),
            context_tokens=np.array([request.n_context for request in requests], dtype=np.int64),
            gather=concat_ints(request.gather for request in requests),
            gather_lists=concat_ints(request.gather_lists for request in requests),
            gather_offsets=cumulative_offsets([len(request.gather) for request in requests]),
            id_lists=next((request.id_lists for request in requests if len(request.gather)), ()),
            statistics=[request.statistics for request in requests],
            statistics_rows=concat_ints(np.asarray(rows, dtype=np.int64) for rows in asks_statistics),
            statistics_offsets=cumulative_offsets(map(len, asks_statistics)),
            is_extended_later=np.array([request.is_extended_later for request in requests], dtype=bool),
        )

    @classmethod
    def join(cls, parts: Sequence[RequestArrays]) -> RequestArrays:
        """Put requests behind others."""
        if len(parts) == 1:
            return parts[0]
        first_lists = cumulative_offsets([len(part.id_lists) for part in parts])[:-1].tolist()
        shifted = [part.gather_lists + first for part, first in zip(parts, first_lists, strict=True)]
        return cls(
            sequences=IdSequences.join([part.sequences for part in parts]),
            firsts=np.concatenate([part.firsts for part in parts]),
            context_tokens=np.concatenate([part.context_tokens for part in parts]),
            gather=np.concatenate([part.gather for part in parts]),
            gather_lists=np.concatenate(shifted),
            gather_offsets=joined_offsets([part.gather_offsets for part in parts]),
            id_lists=[ids for part in parts for ids in part.id_lists],
            statistics=[names for part in parts for names in part.statistics],
            statistics_rows=np.concatenate([part.statistics_rows for part in parts]),
            statistics_offsets=joined_offsets([part.statistics_offsets for part in parts]),
            is_extended_later=np.concatenate([part.is_extended_later for part in parts]),
        )

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.firsts)

    @overload
    def __getitem__(self, number: int) -> Request: ...

    @overload
    def __getitem__(self, number: slice) -> RequestArrays: ...

    def __getitem__(self, number: int | slice) -> Request | RequestArrays:
        """Return a request, or several."""
        if isinstance(number, slice):
            return self.choose(np.arange(len(self))[number])
        n = range(len(self))[number]
        gather = slice(*self.gather_offsets[n : n + 2].tolist())
        return Request(
            self.sequences.ids_of(n),
            int(self.firsts[n]),
            self.gather[gather],
            self.gather_lists[gather],
            self.id_lists,
            self.statistics[n],
            self.statistics_rows[slice(*self.statistics_offsets[n : n + 2].tolist())],
            int(self.context_tokens[n]),
            bool(self.is_extended_later[n]),
        )

    @property
    def lengths(self) -> Ints:
        """How many ids each request has."""
        return self.sequences.lengths

    @property
    def row_counts(self) -> Ints:
        """How many rows each request asks for."""
        counts: Ints = self.lengths - self.firsts
        return counts

    def choose(self, numbers: Ints) -> RequestArrays:
        """Return some of the requests, in this order."""
        if len(numbers) == len(self) and np.array_equal(numbers, np.arange(len(self))):
            return self
        gather, gather_offsets = segments(self.gather_offsets, numbers)
        rows, statistics_offsets = segments(self.statistics_offsets, numbers)
        return RequestArrays(
            sequences=self.sequences.choose(numbers),
            firsts=self.firsts[numbers],
            context_tokens=self.context_tokens[numbers],
            gather=self.gather[gather],
            gather_lists=self.gather_lists[gather],
            gather_offsets=gather_offsets,
            id_lists=self.id_lists,
            statistics=[self.statistics[number] for number in numbers.tolist()],
            statistics_rows=self.statistics_rows[rows],
            statistics_offsets=statistics_offsets,
            is_extended_later=self.is_extended_later[numbers],
        )


@dataclass(frozen=True)
class ScoreArrays:
    """Answers to requests, end to end: N of them, with R rows.

    Attributes
    ----------
    numbers
        ``[N]``: the index of the request that each answers.
    offsets
        ``[N + 1]``: where the rows of each begin, and where the last ones end.
    target
        ``[R - N]``: as in :class:`Scores`; the last row of each has no target.
    mass
        ``[R, K]``.
    gathered, gather_offsets
        The masses of lists of ids, and where those of each answer begin.
    statistics, statistics_offsets, statistics_names
        By name the values of statistics, where those of each answer begin, and the names that each asked for.
    unlisted
        What the masses of each leave open; none for models that leave nothing open.
    """

    numbers: Ints
    offsets: Ints
    target: Floats
    mass: Floats
    gathered: Floats
    gather_offsets: Ints
    statistics: Mapping[str, Floats]
    statistics_offsets: Ints
    statistics_names: Sequence[tuple[str, ...]]
    unlisted: Sequence[Unlisted | None] = ()

    @classmethod
    def none(cls, n_atoms: int) -> ScoreArrays:
        """Return no answers."""
        no_numbers, zero = np.zeros(0), np.zeros(1, dtype=np.int64)
        return cls(zero[:0], zero, no_numbers, np.zeros((0, n_atoms)), no_numbers, zero, {}, zero, ())

    @classmethod
    def of(cls, answers: Sequence[tuple[int, Scores]]) -> ScoreArrays:
        """Put answers end to end, to requests for the same statistics."""
        all_scores = [scores for _, scores in answers]
        names = tuple(all_scores[0].statistics)
        counts = [len(scores.statistics[names[0]]) for scores in all_scores] if names else [0] * len(answers)
        unlisted = [scores.unlisted for scores in all_scores]
        return cls(
            numbers=np.array([number for number, _ in answers], dtype=np.int64),
            offsets=cumulative_offsets([len(scores.mass) for scores in all_scores]),
            target=np.concatenate([scores.target for scores in all_scores]),
            mass=np.concatenate([scores.mass for scores in all_scores]),
            gathered=np.concatenate([scores.gathered for scores in all_scores]),
            gather_offsets=cumulative_offsets([len(scores.gathered) for scores in all_scores]),
            statistics={name: np.concatenate([scores.statistics[name] for scores in all_scores]) for name in names},
            statistics_offsets=cumulative_offsets(counts),
            statistics_names=[names] * len(answers),
            unlisted=unlisted if any(each is not None for each in unlisted) else (),
        )

    @classmethod
    def join(cls, parts: Sequence[ScoreArrays]) -> ScoreArrays:
        """Put answers behind others, to requests for the same statistics."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            numbers=np.concatenate([part.numbers for part in parts]),
            offsets=joined_offsets([part.offsets for part in parts]),
            target=np.concatenate([part.target for part in parts]),
            mass=np.concatenate([part.mass for part in parts]),
            gathered=np.concatenate([part.gathered for part in parts]),
            gather_offsets=joined_offsets([part.gather_offsets for part in parts]),
            statistics={
                name: np.concatenate([part.statistics[name] for part in parts]) for name in parts[0].statistics
            },
            statistics_offsets=joined_offsets([part.statistics_offsets for part in parts]),
            statistics_names=[names for part in parts for names in part.statistics_names],
            unlisted=_joined_unlisted(parts),
        )

    def choose(self, places: Ints) -> ScoreArrays:
        """Return some of the answers, in this order."""
        rows, offsets = segments(self.offsets, places)
        targets, _ = segments(self.offsets - np.arange(len(self.offsets)), places)
        gathered, gather_offsets = segments(self.gather_offsets, places)
        statistics, statistics_offsets = segments(self.statistics_offsets, places)
        return ScoreArrays(
            numbers=self.numbers[places],
            offsets=offsets,
            target=self.target[targets],
            mass=self.mass[rows],
            gathered=self.gathered[gathered],
            gather_offsets=gather_offsets,
            statistics={name: values[statistics] for name, values in self.statistics.items()},
            statistics_offsets=statistics_offsets,
            statistics_names=[self.statistics_names[place] for place in places.tolist()],
            unlisted=[self.unlisted[place] for place in places.tolist()] if self.unlisted else (),
        )

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, Scores]]:
        """Yield each answer, with the index of its request."""
        targets = slices_of(self.offsets - np.arange(len(self.offsets)))
        rows = slices_of(self.offsets)
        gathered = slices_of(self.gather_offsets)
        statistics = slices_of(self.statistics_offsets)
        for place, number in enumerate(self.numbers.tolist()):
            yield (
                number,
                Scores(
                    self.target[targets[place]],
                    self.mass[rows[place]],
                    self.gathered[gathered[place]],
                    {name: self.statistics[name][statistics[place]] for name in self.statistics_names[place]},
                    self.unlisted[place] if self.unlisted else None,
                ),
            )


def _joined_unlisted(parts: Sequence[ScoreArrays]) -> Sequence[Unlisted | None]:
    if not any(part.unlisted for part in parts):
        return ()
    return [each for part in parts for each in part.unlisted or [None] * len(part)]


class ScoreBatches(Iterator[tuple[int, Scores]]):
    """The answers of a model that makes many at a time: an iterator over ``(index, scores)``.

    Parameters
    ----------
    batches
        Answers, batch by batch.

    Attributes
    ----------
    batches
        As given: for who takes the answers as arrays, instead of one by one.
    """

    def __init__(self, batches: Iterable[ScoreArrays]) -> None:
        self.batches = iter(batches)
        self._answers: Iterator[tuple[int, Scores]] = iter(())

    def __next__(self) -> tuple[int, Scores]:
        """Return the next answer."""
        while True:
            for answer in self._answers:
                return answer
            self._answers = iter(next(self.batches))


def in_batches(
    answers: Iterator[tuple[int, Scores]], n_rows: int, arrived: Callable[[Sequence[int]], None] | None = None
) -> Iterator[ScoreArrays]:
    """Yield answers as arrays, about so many rows at a time, whatever a model returned them as.

    ``arrived`` is called with the indices of requests as soon as they are answered.
    """
    if isinstance(answers, ScoreBatches):
        batches = ((batch.numbers.tolist(), len(batch.mass), batch) for batch in answers.batches)
        yield from map(ScoreArrays.join, _grouped(batches, n_rows, arrived))
    else:
        single = (([answer[0]], len(answer[1].mass), answer) for answer in answers)
        yield from map(ScoreArrays.of, _grouped(single, n_rows, arrived))


def _grouped(
    items: Iterable[tuple[list[int], int, Item]], n_rows: int, arrived: Callable[[Sequence[int]], None] | None
) -> Iterator[list[Item]]:
    """Yield items in lists of about so many rows; each comes with the indices of its requests and its rows."""
    waiting: list[Item] = []
    n_waiting = 0
    for indices, count, item in items:
        if arrived is not None:
            arrived(indices)
        waiting.append(item)
        n_waiting += count
        if n_waiting >= n_rows:
            yield waiting
            waiting, n_waiting = [], 0
    if waiting:
        yield waiting
