"""What the model is asked about a prepared batch along the observed texts, once for each window of each text.

What goes beyond the texts is asked after that: :mod:`wordprob.scoring.beyond_texts`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Cut
from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.windows import Window
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores
from wordprob.scoring.prepare import BatchSettings, Chunk, PreparedBatch
from wordprob.scoring.search_plan import SearchPlan
from wordprob.scoring.shared_beginnings import share_beginnings

Progress = Callable[[int, int], None]
"""Called with the numbers of texts done and in all."""

ROWS_AT_ONCE = 1 << 14
"""Rows of answers that are handed on together."""

TAILS_AT_ONCE = 2048
"""Spellings that are followed beyond the text together."""

NO_WORDS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class WindowRequest:
    """A request about one window of a text, and where its answer goes.

    Attributes
    ----------
    text
        The text.
    first_row
        The row of the batch that the answer begins with.
    boundaries
        The boundaries whose rows the answer has.
    reaches_end
        Whether the window reaches the end of the text.
    branches
        The branches that leave the text in this window.
    steps
        The masses of the search plan that are asked for in this window, after those of the branches.
    words
        The words that begin in this window, where statistics are wanted.
    request
        What the model is asked.
    """

    text: int
    first_row: int
    boundaries: slice
    reaches_end: bool
    branches: Ints
    steps: Ints
    words: Ints
    request: Request


class Answer(NamedTuple):
    """A request and the model's answer to it."""

    window: WindowRequest
    scores: Scores


@dataclass(frozen=True)
class TailScores:
    """What the model says of the rest of spellings that left a text, one entry for each.

    Attributes
    ----------
    branches
        ``[N]``: the numbers of the branches.
    log_probs
        ``[N]``: log p of all ids but the first, which the model was asked about with the text.
    log_boundaries
        ``[N]``: log B after them.
    ambiguous, usual
        ``[N]``: the mass of cut-off characters after them of which only some end the word, and the part of it that is
        in B.
    log_masses
        ``[N, K]``: the log-mass of every atom after them, where they end the word by what comes next.
    """

    branches: Ints
    log_probs: Floats
    log_boundaries: Floats
    ambiguous: Floats
    usual: Floats
    log_masses: Floats


def prefix_ids(prepared: PreparedBatch, text: int, window: Window, row: int, room: int = 0) -> Ints:
    """Return what the model sees before a row of a text: what comes before every text, and the window's tokens.

    ``room`` is for how many further tokens there must be room in the model's context.
    """
    settings = prepared.settings
    ids = prepared.alignment.tokens_of_text(text)
    head = ids[:0] if prepared.chunk.heads is None else prepared.chunk.heads[text]
    low = window.low  # counted from the first token of the head, or of the text where there is none
    if room and settings.max_text_tokens is not None:
        low = max(low, len(head) + row + room - settings.max_text_tokens)
    if not settings.start_ids and not len(head):
        return ids[low:row]
    return np.concatenate([prepared.start_ids, head[low:], ids[max(0, low - len(head)) : row]])


# --- along the observed texts -----------------------------------------------------------------------------------------


def window_requests(prepared: PreparedBatch) -> list[WindowRequest]:
    """Return what the model is asked about a batch: for each text, once for each of its windows."""
    alignment, settings = prepared.alignment, prepared.settings
    leaving = _LeavingBranches(prepared)
    steps = _PlannedSteps(prepared, first_list=len(leaving.id_lists))
    id_lists = leaving.id_lists + steps.id_lists
    lengths_before = len(settings.start_ids) + prepared.head_lengths
    no_start = (lengths_before == 0).tolist()  # then there is no distribution before the first token
    wanted: list[tuple[int, Window, int]] = []
    for text, first_needed in enumerate(prepared.first_rows_needed.tolist()):
        for window in prepared.windows[text]:
            first = max(window.first, window.low + no_start[text], first_needed)
            if first <= window.last:
                wanted.append((text, window, first))
    if not wanted:
        return []
    texts = np.array([text for text, _, _ in wanted], dtype=np.int64)
    firsts = np.array([first for _, _, first in wanted], dtype=np.int64)
    lows, window_firsts, lasts = np.array([window for _, window, _ in wanted], dtype=np.int64).T

    # Rows of the batch: where each text begins, and row 0 of each request: its ids begin with what comes before every
    # text, the last of which is followed by the token at the window's low end.
    text_rows = alignment.token_offsets[texts] + texts
    origins = text_rows + lows + 1 - lengths_before[texts]
    stop_rows = text_rows + lasts + 1
    reaches_end = stop_rows - 1 == alignment.token_offsets[texts + 1] + texts
    boundaries = _slices_between(alignment.boundary_rows, text_rows + firsts, stop_rows)
    branches = _slices_between(leaving.rows, text_rows + window_firsts, stop_rows)
    window_of_branch = np.searchsorted(text_rows + window_firsts, leaving.rows, side="right") - 1
    gather_rows = leaving.rows - origins[window_of_branch]
    steps_of_windows = _slices_between(steps.rows, text_rows + window_firsts, stop_rows)
    step_rows = steps.rows - origins[np.searchsorted(text_rows + window_firsts, steps.rows, side="right") - 1]

    requests = []
    rows_of_windows = zip(text_rows.tolist(), origins.tolist(), reaches_end.tolist(), strict=True)
    for n, (text_row, origin, is_last) in enumerate(rows_of_windows):
        text, window, first = wanted[n]
        words = NO_WORDS
        if settings.statistics:
            words = _words_that_begin(prepared, text, text_row + first, text_row + window.last)
        gather, gather_lists = gather_rows[branches[n]], leaving.lists[branches[n]]
        if len(steps.rows):
            gather = np.concatenate([gather, step_rows[steps_of_windows[n]]])
            gather_lists = np.concatenate([gather_lists, steps.lists[steps_of_windows[n]]])
        request = Request(
            ids=prefix_ids(prepared, text, window, window.last + 1),
            first=text_row + first - origin,
            gather=gather,
            gather_lists=gather_lists,
            id_lists=id_lists,
            statistics=settings.statistics,
            statistics_rows=alignment.first_tokens[words] + text - origin if len(words) else NO_WORDS,
            context_tokens=None if prepared.chunk.shares_context else 0,
        )
        requests.append(
            WindowRequest(
                text=text,
                first_row=text_row + first,
                boundaries=boundaries[n],
                reaches_end=is_last,
                branches=leaving.branches[branches[n]],
                steps=steps.numbers[steps_of_windows[n]],
                words=words,
                request=request,
            )
        )
    return requests


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
        plan = prepared.search_plan or SearchPlan()
        rows = np.array(plan.rows, dtype=np.int64)
        self.numbers = np.argsort(rows, kind="stable")
        self.rows = rows[self.numbers]
        self.lists = np.array(plan.lists, dtype=np.int64)[self.numbers] + first_list
        self.id_lists = [np.array(ids, dtype=np.int64) for ids in plan.id_lists]


def _slices_between(sorted_rows: Ints, firsts: Ints, stops: Ints) -> list[slice]:
    """Return the slices of sorted rows that lie from each first row up to each stop."""
    return list(map(slice, np.searchsorted(sorted_rows, firsts).tolist(), np.searchsorted(sorted_rows, stops).tolist()))


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

    What goes beyond the texts then goes on from there. A model for which that costs next to nothing has a true
    ``keeps_states``.
    """
    if chunk.shares_context:
        return shared
    keeps = settings.search is not None or getattr(model, "keeps_states", False)
    return PrefixStates() if keeps else None


def ask_along_texts(
    model: LanguageModel,
    atoms: Atoms,
    prepared: PreparedBatch,
    requests: Sequence[WindowRequest] | None = None,
    states: PrefixStates | None = None,
    text_done: Callable[[int], None] | None = None,
) -> Iterator[list[Answer]]:
    """Yield the model's answers along the observed texts, some thousand rows at a time.

    Parameters
    ----------
    model, atoms
        The model, and the partition of its vocabulary.
    prepared, requests
        The batch, and what :func:`window_requests` makes of it, if that was done before.
    states
        Where the contexts that texts share are kept, so that they are run once.
    text_done
        Called with the number of texts done so far, whenever one more is.
    """
    if requests is None:
        requests = window_requests(prepared)
    windows_left = np.bincount([window.text for window in requests], minlength=prepared.alignment.n_texts)
    n_done = int(np.sum(windows_left == 0))
    scored = _scored([window.request for window in requests], model, atoms, prepared.chunk, states)
    answers: list[Answer] = []
    n_rows = 0
    for n, scores in scored:
        window = requests[n]
        answers.append(Answer(window, scores))
        n_rows += len(scores.mass)
        windows_left[window.text] -= 1
        if not windows_left[window.text]:
            n_done += 1
            if text_done is not None:
                text_done(n_done)
        if n_rows >= ROWS_AT_ONCE:
            yield answers
            answers, n_rows = [], 0
    if answers:
        yield answers


def _scored(
    requests: list[Request], model: LanguageModel, atoms: Atoms, chunk: Chunk, states: PrefixStates | None
) -> Iterator[tuple[int, Scores]]:
    """Return the model's answers to requests about texts, by their index, in any order."""
    if chunk.shares_context:
        return model.open(requests, atoms, states)
    if states is None:
        return model.score(requests, atoms)
    shared = share_beginnings(requests)
    return shared.complete(model.open(shared.asked, atoms, states))


def window_of(prepared: PreparedBatch, text: int, row: int) -> Window:
    """Return the window that answers for a row of a text."""
    text_windows = prepared.windows[text]
    return text_windows[bisect_right(text_windows, row, key=attrgetter("first")) - 1]
