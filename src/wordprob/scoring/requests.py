"""What the model is asked about a prepared batch along the observed texts, once for each window of each text.

What goes beyond the texts is asked after that: :mod:`wordprob.scoring.beyond_texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Cut
from wordprob.core.arrays import Bools, Ints, concat_ints, concat_ranges, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.core.windows import Window
from wordprob.models.protocol import LanguageModel, PrefixStates, Scores, capabilities_of
from wordprob.models.request_arrays import IdSequences, RequestArrays, ScoreArrays, in_batches
from wordprob.scoring.passages import Chunk
from wordprob.scoring.prepared_batch import BatchSettings, PreparedBatch
from wordprob.scoring.shared_beginnings import share_beginnings

Progress = Callable[[int, int], None]
"""Called with the numbers of texts done and in all."""

ROWS_AT_ONCE = 1 << 15
"""Rows of answers that are handed on together."""

NO_WORDS: Ints = np.zeros(0, dtype=np.int64)


class Ranges(NamedTuple):
    """For each window, a range of numbers: those from ``starts`` up to ``stops``."""

    starts: Ints
    stops: Ints

    def counts(self, windows: Ints) -> Ints:
        """Return how many numbers the range of each of some windows has."""
        counts: Ints = self.stops[windows] - self.starts[windows]
        return counts

    def numbers(self, windows: Ints) -> Ints:
        """Return the numbers in the ranges of some windows, one range after the other."""
        return concat_ranges(self.starts[windows], self.counts(windows))


@dataclass(frozen=True)
class WindowRequests:
    """Requests about windows of texts, and where the answers go. Every array and list has an entry for each window.

    Attributes
    ----------
    requests
        What the model is asked.
    texts
        The text of each window.
    first_rows
        The row of the batch that the answer begins with.
    boundaries
        The boundaries whose rows the answer has.
    reaches_end
        Whether the window reaches the end of the text.
    branches
        The branches that leave the text in the window, by their numbers in ``branch_order``.
    steps
        The masses of the search plan that are asked for in the window, after those of the branches, by their numbers in
        ``step_order``.
    branch_order, step_order
        The branches, and the masses of the search plan, in the order of their rows.
    words
        The words that begin in the window, where statistics are wanted.
    """

    requests: RequestArrays
    texts: Ints
    first_rows: Ints
    boundaries: Ranges
    reaches_end: Bools
    branches: Ranges
    steps: Ranges
    branch_order: Ints
    step_order: Ints
    words: list[Ints]

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.requests)


class Answers(NamedTuple):
    """The model's answers to some requests.

    Attributes
    ----------
    asked
        What the model was asked.
    scores
        The answers; each has the number of its window.
    """

    asked: WindowRequests
    scores: ScoreArrays


def prefix_ids(prepared: PreparedBatch, text: int, window: Window, row: int) -> Ints:
    """Return what the model sees before a row of a text: what comes before every text, and the window's tokens."""
    head = prepared.head(text)
    low = window.low  # counted from the first token of the head, or of the text where there is none
    ids = prepared.alignment.tokens_of_text(text)[max(0, low - len(head)) : row]
    return np.concatenate([prepared.start_ids, head[low:], ids])


def ids_before(
    prepared: PreparedBatch, texts: Ints, rows: Ints, lows: Ints, endings: Sequence[Sequence[int]] | None = None
) -> IdSequences:
    """Return what :func:`prefix_ids` does, for many rows of texts at once, in windows that begin at ``lows``.

    The ids of ``endings``, if given, come behind.
    """
    alignment, head_lengths = prepared.alignment, prepared.head_lengths
    ending_lengths = np.zeros_like(texts) if endings is None else np.array(list(map(len, endings)), dtype=np.int64)
    # A window at the beginning of its text shares what comes before the text with those of other texts.
    shares_head = (head_lengths[texts] > 0) & (lows == 0)
    sources = [
        prepared.start_ids,
        concat_ints(() if shares_head.all() else [passage.head for passage in prepared.chunk.passages]),
        alignment.ids,
        np.fromiter(chain.from_iterable(endings or ()), dtype=np.int64),
    ]
    # Each is made of four segments, one of each source.
    skipped = np.minimum(lows, head_lengths[texts])
    starts = [
        np.zeros_like(texts),
        cumulative_offsets(head_lengths)[texts] + skipped,
        alignment.token_offsets[texts] + lows - skipped,
        cumulative_offsets(ending_lengths)[:-1],
    ]
    lengths = [
        np.full_like(texts, len(prepared.start_ids)),
        head_lengths[texts] - skipped,
        rows - lows + skipped,
        ending_lengths,
    ]
    shared_lengths = np.where(shares_head, lengths[0] + lengths[1], 0)
    lengths[0][shares_head] = 0
    lengths[1][shares_head] = 0
    starts_in_all = np.stack(starts, axis=1) + cumulative_offsets(map(len, sources))[:-1]
    all_lengths = np.stack(lengths, axis=1)
    segments = concat_ranges(starts_in_all.ravel(), all_lengths.ravel())
    heads, head_numbers = _different_heads(prepared, texts, shares_head)
    return IdSequences(
        heads=[np.concatenate([prepared.start_ids, head]) for head in heads],
        head_numbers=head_numbers,
        head_lengths=shared_lengths,
        own_ids=concat_ints(sources)[segments],
        own_offsets=cumulative_offsets(all_lengths.sum(axis=1)),
    )


def _different_heads(prepared: PreparedBatch, texts: Ints, shares_head: Bools) -> tuple[list[Ints], Ints]:
    """Return the heads of windows that share theirs, and which of them each window has."""
    head_numbers = np.zeros(len(texts), dtype=np.int64)
    sharing = texts[shares_head].tolist()
    # Texts with the same head have the same array.
    _, firsts, head_numbers[shares_head] = np.unique(
        [id(prepared.head(text)) for text in sharing], return_index=True, return_inverse=True
    )
    return [prepared.head(sharing[first]) for first in firsts.tolist()], head_numbers


# --- along the observed texts -----------------------------------------------------------------------------------------


def window_requests(prepared: PreparedBatch) -> WindowRequests:
    """Return what the model is asked about a batch: for each text, once for each of its windows."""
    alignment, settings = prepared.alignment, prepared.settings
    leaving = _LeavingBranches(prepared)
    steps = _PlannedSteps(prepared, first_list=len(leaving.id_lists))
    lengths_before = len(settings.start_ids) + prepared.head_lengths
    no_start = lengths_before == 0  # then there is no distribution before the first token
    texts, lows, window_firsts, lasts = prepared.window_array.T
    firsts = np.maximum(window_firsts, np.maximum(lows + no_start[texts], prepared.first_rows_needed[texts]))
    has_rows = firsts <= lasts
    texts, lows, window_firsts, lasts, firsts = (
        values[has_rows] for values in (texts, lows, window_firsts, lasts, firsts)
    )

    # Rows of the batch: where each text begins, and row 0 of each request: its ids begin with what comes before every
    # text, the last of which is followed by the token at the window's low end.
    text_rows = alignment.token_offsets[texts] + texts
    origins = text_rows + lows + 1 - lengths_before[texts]
    window_rows = text_rows + window_firsts
    stop_rows = text_rows + lasts + 1
    branches = _ranges_between(leaving.rows, window_rows, stop_rows)
    asked_steps = _ranges_between(steps.rows, window_rows, stop_rows)
    all_windows = np.arange(len(texts))
    # Of each window first the branches, then the steps of searches.
    n_gather = np.stack([branches.counts(all_windows), asked_steps.counts(all_windows)], axis=1)
    is_branch = np.repeat(np.tile([True, False], len(texts)), n_gather.ravel())
    gather = np.empty(len(is_branch), dtype=np.int64)
    gather_lists = np.empty(len(is_branch), dtype=np.int64)
    for chosen, ranges, of_batch in ((is_branch, branches, leaving), (~is_branch, asked_steps, steps)):
        numbers = ranges.numbers(all_windows)
        gather[chosen] = _rows_in_requests(of_batch.rows, window_rows, origins)[numbers]
        gather_lists[chosen] = of_batch.lists[numbers]
    words = [NO_WORDS] * len(texts)
    statistics_rows = NO_WORDS
    if settings.statistics:
        first_rows, last_rows = (text_rows + firsts).tolist(), (text_rows + lasts).tolist()
        words = list(map(partial(_words_that_begin, prepared), texts.tolist(), first_rows, last_rows))
        statistics_rows = alignment.first_tokens[concat_ints(words)]
        statistics_rows = statistics_rows + np.repeat(texts - origins, list(map(len, words)))
    firsts_of_requests = text_rows + firsts - origins
    requests = RequestArrays(
        sequences=ids_before(prepared, texts, np.minimum(lasts + 1, np.diff(alignment.token_offsets)[texts]), lows),
        firsts=firsts_of_requests,
        context_tokens=firsts_of_requests if prepared.chunk.shares_context else np.zeros_like(firsts_of_requests),
        gather=gather,
        gather_lists=gather_lists,
        gather_offsets=cumulative_offsets(n_gather.sum(axis=1)),
        id_lists=leaving.id_lists + steps.id_lists,
        statistics=[settings.statistics] * len(texts),
        statistics_rows=statistics_rows,
        statistics_offsets=cumulative_offsets(map(len, words)),
        is_extended_later=np.zeros(len(texts), dtype=bool),
    )
    return WindowRequests(
        requests=requests,
        texts=texts,
        first_rows=text_rows + firsts,
        boundaries=_ranges_between(alignment.boundary_rows, text_rows + firsts, stop_rows),
        reaches_end=stop_rows - 1 == alignment.token_offsets[texts + 1] + texts,
        branches=branches,
        steps=asked_steps,
        branch_order=leaving.branches,
        step_order=steps.numbers,
        words=words,
    )


class _LeavingBranches:
    """The branches of a batch that leave the observed tokens, in the order of their rows."""

    def __init__(self, prepared: PreparedBatch) -> None:
        rows = np.array(prepared.branches.rows, dtype=np.int64)
        lists = np.array(prepared.branches.lists, dtype=np.int64)
        self.branches = np.argsort(rows, kind="stable")
        self.rows = rows[self.branches]
        self.lists = lists[self.branches]
        self.id_lists = [np.array(ids, dtype=np.int64) for ids in prepared.branches.id_lists]


class _PlannedSteps:
    """The masses that searches need along the texts, in the order of their rows."""

    def __init__(self, prepared: PreparedBatch, first_list: int) -> None:
        plan = prepared.search_plan
        rows, lists = (NO_WORDS, NO_WORDS) if plan is None else (plan.rows, plan.lists)
        self.numbers = np.argsort(rows, kind="stable")
        self.rows = rows[self.numbers]
        self.lists = lists[self.numbers] + first_list
        self.id_lists = [] if plan is None else plan.id_lists


def _ranges_between(sorted_rows: Ints, firsts: Ints, stops: Ints) -> Ranges:
    """Return which of some sorted rows lie from each first row up to each stop."""
    return Ranges(np.searchsorted(sorted_rows, firsts), np.searchsorted(sorted_rows, stops))


def _rows_in_requests(rows: Ints, window_rows: Ints, origins: Ints) -> Ints:
    """Return rows of the batch as rows of the requests about their windows, which begin at these rows."""
    if not len(origins):
        return rows
    in_requests: Ints = rows - origins[np.searchsorted(window_rows, rows, side="right") - 1]
    return in_requests


def _words_that_begin(prepared: PreparedBatch, text: int, first_row: int, last_row: int) -> Ints:
    """Return the words of a text for which something was written, where the first token is at one of these rows."""
    alignment = prepared.alignment
    words = np.array(alignment.words_of_text(text), dtype=np.int64)
    rows = alignment.first_tokens[words] + text
    is_written = alignment.cuts[words] != Cut.EMPTY
    begin_here: Ints = words[(first_row <= rows) & (rows <= last_row) & is_written]
    return begin_here


def states_for(
    model: LanguageModel, chunk: Chunk, settings: BatchSettings, shared: PrefixStates | None
) -> PrefixStates | None:
    """Return where the model keeps the states of a chunk's texts: for the chunk alone, for all chunks, or nowhere.

    What goes beyond the texts then starts from there.
    """
    if chunk.shares_context:
        return shared
    keeps = settings.search is not None or capabilities_of(model).keeps_states
    return PrefixStates() if keeps else None


def ask_along_texts(
    model: LanguageModel,
    atoms: Atoms,
    prepared: PreparedBatch,
    asked: WindowRequests | None = None,
    states: PrefixStates | None = None,
    text_done: Callable[[int], None] | None = None,
) -> Iterator[Answers]:
    """Yield the model's answers along the observed texts, some thousand rows at a time.

    Parameters
    ----------
    model, atoms
        The model, and the partition of its vocabulary.
    prepared, asked
        The batch, and what :func:`window_requests` makes of it, if that was done before.
    states
        Where the contexts that texts share are kept, so that they are run once.
    text_done
        Called with the number of texts done so far, whenever one more is.
    """
    if asked is None:
        asked = window_requests(prepared)
    texts: list[int] = asked.texts.tolist()
    windows_left: list[int] = np.bincount(asked.texts, minlength=prepared.alignment.n_texts).tolist()
    n_done = windows_left.count(0)

    def count(windows: Sequence[int]) -> None:
        nonlocal n_done
        for window in windows:
            text = texts[window]
            windows_left[text] -= 1
            if not windows_left[text]:
                n_done += 1
                if text_done is not None:
                    text_done(n_done)

    answers = _scored(asked.requests, model, atoms, prepared.chunk, states)
    for scores in in_batches(answers, ROWS_AT_ONCE, arrived=count):
        yield Answers(asked, scores)


def _scored(
    requests: RequestArrays, model: LanguageModel, atoms: Atoms, chunk: Chunk, states: PrefixStates | None
) -> Iterator[tuple[int, Scores]]:
    """Return the model's answers to requests about texts, by their index, in any order."""
    if chunk.shares_context:
        return model.open(requests, atoms, states)
    if states is None:
        return model.score(requests, atoms)
    if not capabilities_of(model).shares_beginnings:
        return model.open(requests, atoms, states)
    shared = share_beginnings(requests)
    return shared.complete(model.open(shared.asked, atoms, states))
