"""Where the search for every spelling of a word begins, and what the pass along the texts says about it for nothing.

A word is written from where the one before it ended. The observed tokens end there, or one of their other spellings
does; all of them are prefixes to set out from. The distributions along the observed path are computed anyway, so the
masses of what could come next are asked for together with the text.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from wordprob.core.alignment import Alignment, Cut
from wordprob.core.branches import Branches
from wordprob.core.search_steps import Ending, StepFinder, Steps
from wordprob.core.spelling_search import Prefix
from wordprob.core.vocabulary import Vocabulary

REWRITTEN = "the tokeniser rewrites this text, so that its other spellings are not known"


class KnownSteps(NamedTuple):
    """A prefix after which the pass along the texts says what may come next.

    Attributes
    ----------
    prefix
        The prefix; its log-probability is filled in later.
    steps
        What may come next.
    first_mass
        Where the masses of :meth:`Steps.id_lists` begin among those of the plan.
    """

    prefix: Prefix
    steps: Steps
    first_mass: int


@dataclass
class PlannedSearch:
    """The search for one word, before the model is asked.

    Attributes
    ----------
    word, target, ending, finder, observed
        As for :class:`wordprob.core.spelling_search.WordSearch`.
    start_row
        The row of the boundary before the word.
    starts
        Prefixes to set out from that need no question: the observed path.
    known
        By row, what may come next along the observed path.
    leaving
        Prefixes at which other spellings of the word before leave the observed path, with those tokens that agree with
        the text.
    tails
        By branch: other spellings of the word before that have more than one token.
    """

    word: int
    target: bytes
    ending: Ending
    finder: StepFinder
    observed: dict[int, int]
    start_row: int
    starts: list[Prefix] = field(default_factory=list)
    known: dict[int, KnownSteps] = field(default_factory=dict)
    leaving: list[KnownSteps] = field(default_factory=list)
    tails: dict[int, Prefix] = field(default_factory=dict)


@dataclass
class SearchPlan:
    """The searches of a batch, and the masses that they need along its texts.

    ``rows[n]`` and ``lists[n]`` say at which row the mass of which of ``id_lists`` is wanted.
    """

    searches: list[PlannedSearch] = field(default_factory=list)
    rows: array[int] = field(default_factory=partial(array, "q"))
    lists: array[int] = field(default_factory=partial(array, "q"))
    id_lists: list[tuple[int, ...]] = field(default_factory=list)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict, repr=False)

    def want(self, row: int, steps: Steps) -> int:
        """Take down that the masses of steps are wanted at a row; return where they will stand."""
        first = len(self.rows)
        for ids in steps.id_lists():
            number = self._numbers.setdefault(ids, len(self.id_lists))
            if number == len(self.id_lists):
                self.id_lists.append(ids)
            self.rows.append(row)
            self.lists.append(number)
        return first


def branches_by_boundary(branches: Branches) -> dict[int, list[int]]:
    """Return the numbers of branches by the boundary that they lead to."""
    numbers: dict[int, list[int]] = {}
    for number, boundary in enumerate(branches.boundaries):
        numbers.setdefault(boundary, []).append(number)
    return numbers


class SearchPlanner:
    """Plans the searches for words of a batch.

    Parameters
    ----------
    vocabulary
        The tokenizer's vocabulary.
    alignment, branches
        The words and tokens of the batch, and the tokenizer's own other spellings.
    has_start
        ``[W + D]``: whether the observed tokens end at each boundary, or with white space after it.
    """

    def __init__(
        self, vocabulary: Vocabulary, alignment: Alignment, branches: Branches, has_start: Sequence[bool]
    ) -> None:
        self._vocabulary = vocabulary
        self._alignment = alignment
        self._branches = branches
        self._by_boundary = branches_by_boundary(branches)
        self._has_start = has_start

    def add(self, plan: SearchPlan, word: int, ending: Ending, finder: StepFinder) -> None:
        """Plan the search for one word."""
        alignment = self._alignment
        text = int(alignment.text_of_word[word])
        boundary = int(alignment.boundary_after[word]) - 1
        start_row = int(alignment.boundary_rows[boundary])
        branches = self._by_boundary.get(boundary, [])
        begin = min([start_row, *(self._branches.rows[n] for n in branches)])
        origin = self.position(text, begin)
        word_end = int(alignment.batch.byte_offsets[alignment.ends[word]])
        search = PlannedSearch(
            word=word,
            target=self._bytes(text, origin, word_end),
            ending=ending,
            finder=finder,
            observed=self._observed(text, begin, word_end),
            start_row=start_row,
        )
        if self._has_start[boundary]:
            search.starts.append(Prefix(start_row, (), self.position(text, start_row) - origin, 0.0))
        for row in search.observed:
            if row > start_row or (row == start_row and search.starts):
                prefix = Prefix(row, (), self.position(text, row) - origin, 0.0)
                search.known[row] = self._known(plan, search, prefix)
        for number in branches:
            self._add_branch(plan, search, number, self.position(text, self._branches.rows[number]) - origin)
        plan.searches.append(search)

    def _known(self, plan: SearchPlan, search: PlannedSearch, prefix: Prefix) -> KnownSteps:
        steps = search.finder.inside(search.target[prefix.position :], search.ending)
        if prefix.only is not None:
            steps = steps.restricted_to(prefix.only)
        return KnownSteps(prefix, steps, plan.want(prefix.row, steps))

    def _add_branch(self, plan: SearchPlan, search: PlannedSearch, number: int, position: int) -> None:
        """Set out from another spelling of the word before, if it agrees with the text."""
        row = self._branches.rows[number]
        tail = self._branches.tails.get(number)
        if tail is None:
            only = frozenset(self._branches.id_lists[self._branches.lists[number]])
            search.leaving.append(self._known(plan, search, Prefix(row, (), position, 0.0, only)))
            return
        written = b"".join(self._vocabulary.token_bytes[token] for token in tail.ids)
        if search.target[position:].startswith(written):
            only_last = frozenset(tail.last_ids) if tail.last_ids else None
            search.tails[number] = Prefix(row, tail.ids, position + len(written), 0.0, only_last)

    # --- where tokens stand ---

    def position(self, text: int, row: int) -> int:
        """Return where the token after a row starts, in bytes of the batch; a space put before a text counts."""
        alignment = self._alignment
        token = row - text
        first, stop = alignment.token_offset_list[text], alignment.token_offset_list[text + 1]
        if token == stop:
            return self._text_bytes(text)[1]
        position = int(alignment.token_starts[token])
        return position - 1 if token == first and self._has_dummy_space(text) else position

    def _text_bytes(self, text: int) -> tuple[int, int]:
        """Return where a text begins and ends in the bytes of the batch."""
        batch = self._alignment.batch
        begin, following = batch.text_starts[text : text + 2].tolist()
        return int(batch.byte_offsets[begin]), int(batch.byte_offsets[following - 1])

    def _has_dummy_space(self, text: int) -> bool:
        """Return True if the tokenizer put a space before a text."""
        if not self._vocabulary.first_word_marked:
            return False
        begin, end = self._text_bytes(text)
        written = int(self._vocabulary.lengths[self._alignment.tokens_of_text(text)].sum())
        return written > end - begin

    def _bytes(self, text: int, origin: int, end: int) -> bytes:
        begin, _ = self._text_bytes(text)
        data: bytes = self._alignment.batch.utf8[max(origin, begin) : end]
        return b" " + data if origin < begin else data

    def _observed(self, text: int, first_row: int, word_end: int) -> dict[int, int]:
        """Return the observed tokens that start before the end of a word, by the row before each."""
        alignment = self._alignment
        stop = alignment.token_offset_list[text + 1]
        observed = {}
        for token in range(first_row - text, stop):
            if alignment.token_starts[token] >= word_end:
                break
            observed[token + text] = int(alignment.ids[token])
        return observed


def can_search(alignment: Alignment, vocabulary: Vocabulary, word: int) -> bool:
    """Return True if the bytes of a word's text are those of its tokens."""
    text = alignment.text_of_word[word]
    return bool(alignment.exact[text]) and not vocabulary.spaced.any() and alignment.cuts[word] != Cut.EMPTY
