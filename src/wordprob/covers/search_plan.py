"""Where the search for every spelling of a word begins, and what the pass along the texts says about it for nothing.

A word is written from where the one before it ended. The observed tokens end there, or one of their other spellings
does; all of them are prefixes to set out from. The distributions along the observed path are computed anyway, so the
masses of what could come next are asked for together with the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Alignment
from wordprob.core.arrays import Bools, Ints, concat_ranges, cumulative_offsets, segment_sums
from wordprob.core.characters import is_white_space
from wordprob.core.pretoken_edges import EDGE, OPTIONAL_EDGE, pieces_as_read
from wordprob.core.vocabulary import Vocabulary
from wordprob.covers.branches import Branches
from wordprob.covers.events import Ending, ObservedPath, Outcome, Transitions, WordEvent, WordEvents, needed_lists
from wordprob.covers.search import Searched

REWRITTEN = "the tokeniser does not read this word as tokens of its own: other spellings are not known"

NO_INTS: Ints = np.zeros(0, dtype=np.int64)


class Tail(NamedTuple):
    """Another spelling of the word before that has more than one token.

    Attributes
    ----------
    search, row, ids, transitions
        The search, where the spelling leaves the observed tokens, its tokens from there on, and what the next token
        makes of the word.
    branch
        The branch that it is.
    """

    search: int
    row: int
    ids: tuple[int, ...]
    transitions: Transitions
    branch: int


class WholePaths(NamedTuple):
    """Words that the observed tokens write: their searches, the rows after them, and which known prefixes lead there.

    The known prefixes are those from ``first`` up to ``stop``; ``transitions`` are the states after the words.
    """

    search: Ints
    row: Ints
    first: Ints
    stop: Ints
    transitions: list[Transitions]


@dataclass
class SearchPlan:
    """The searches for words of a batch, and what the pass along its texts says about them.

    A prefix is *known* if the pass along the texts says what may come after it: it is on the observed path of its word,
    or other spellings of the word before leave the text there.

    Attributes
    ----------
    words, events
        The words that are searched for, and the event of each.
    word_numbers, start_rows
        The number of each in the batch, and the row of the boundary before it.
    searches, known_rows, transitions
        The known prefixes, none of which has left the text: the search and the row of each, and what the next token
        makes of the word.
    path_firsts
        For each known prefix on an observed path, the known prefix with which the path begins; those of one path follow
        each other. For another one, its own number.
    observed_masses
        For each known prefix, where the mass of the observed token is among ``rows``, if the path goes on with it;
        otherwise -1.
    whole
        Words that the observed tokens write.
    tails
        Other spellings of the word before that have more than one token.
    rows, lists, id_lists
        The masses of all transitions, in order: at which row the mass of which of the lists of ids is wanted.
    """

    words: list[Searched] = field(default_factory=list)
    events: list[WordEvent] = field(default_factory=list)
    word_numbers: Ints = field(default_factory=lambda: NO_INTS)
    start_rows: Ints = field(default_factory=lambda: NO_INTS)
    searches: Ints = field(default_factory=lambda: NO_INTS)
    known_rows: Ints = field(default_factory=lambda: NO_INTS)
    transitions: list[Transitions] = field(default_factory=list)
    path_firsts: Ints = field(default_factory=lambda: NO_INTS)
    observed_masses: Ints = field(default_factory=lambda: NO_INTS)
    whole: WholePaths = field(default_factory=lambda: WholePaths(NO_INTS, NO_INTS, NO_INTS, NO_INTS, []))
    tails: list[Tail] = field(default_factory=list)
    rows: Ints = field(default_factory=lambda: NO_INTS)
    lists: Ints = field(default_factory=lambda: NO_INTS)
    id_lists: list[Ints] = field(default_factory=list)


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

    def __init__(self, vocabulary: Vocabulary, alignment: Alignment, branches: Branches, has_start: Bools) -> None:
        self._vocabulary = vocabulary
        self._alignment = alignment
        self._branches = branches
        self._by_boundary = branches_by_boundary(branches)
        self._has_start = has_start
        self._has_marks = bool(vocabulary.marked.any())
        self._plan = SearchPlan()
        # Observed paths, and those that are no longer than one known prefix: the search and the first row of each.
        self._paths: list[ObservedPath] = []
        self._path_searches: list[int] = []
        self._path_rows: list[int] = []
        self._restricted: dict[tuple[Transitions, int], Transitions] = {}
        self._ids: tuple[int, ...] = tuple(alignment.ids.tolist())
        # The bytes of all texts as the tokenizer reads them, where each text begins, and where the token after each row
        # starts.
        self._data: bytes = alignment.batch.utf8
        self._text_begins: list[int] = alignment.batch.byte_offsets[alignment.batch.text_starts[:-1]].tolist()
        self._positions = row_positions(vocabulary, alignment)
        self._is_rewritten: Bools = ~alignment.exact | vocabulary.leaves_out_space
        for text in np.flatnonzero(self._is_rewritten).tolist():
            self._add_rewritten(text)

    def _add_rewritten(self, text: int) -> None:
        """Take a text that the tokenizer rewrites as its tokens write it."""
        ids = self._alignment.tokens_of_text(text).tolist()
        pieces = [self._vocabulary.token_bytes[token] for token in ids]
        if self._vocabulary.leaves_out_space:
            pieces = pieces_as_read(self._vocabulary, ids, self._after_space(text))
        begin = self._text_begins[text] = len(self._data)
        first_row = self._alignment.token_offset_list[text] + text
        self._positions[first_row : first_row + len(ids) + 1] = begin + cumulative_offsets(map(len, pieces))
        self._data += b"".join(pieces)

    def _after_space(self, text: int) -> list[bool]:
        """Return for each token of a text whether white space stands before it."""
        batch, offsets = self._alignment.batch, self._alignment.token_offset_list
        starts = self._alignment.token_starts[offsets[text] : offsets[text + 1]]
        characters = np.searchsorted(batch.byte_offsets, starts, side="right") - 1
        return [place > 0 and is_white_space(batch.text[place - 1]) for place in characters.tolist()]

    def plan(self) -> SearchPlan:
        """Return the plan for the words that were added."""
        plan = self._plan
        plan.word_numbers = np.array([word.number for word in plan.words], dtype=np.int64)
        plan.start_rows = self._alignment.boundary_rows[self._alignment.boundary_after[plan.word_numbers] - 1]

        lengths = np.array([len(path.transitions) for path in self._paths], dtype=np.int64)
        offsets = cumulative_offsets(lengths)
        searches, rows = np.array(self._path_searches, dtype=np.int64), np.array(self._path_rows, dtype=np.int64)
        plan.searches = np.repeat(searches, lengths)
        plan.known_rows = concat_ranges(rows, lengths)
        plan.path_firsts = np.repeat(offsets[:-1], lengths)
        is_whole = np.array([path.whole is not None for path in self._paths], dtype=bool)
        plan.whole = WholePaths(
            search=searches[is_whole],
            row=(rows + lengths)[is_whole],
            first=offsets[:-1][is_whole],
            stop=offsets[1:][is_whole],
            transitions=[path.whole for path in self._paths if path.whole is not None],
        )

        plan.transitions = [transitions for path in self._paths for transitions in path.transitions]
        counts = np.array([len(transitions.outcomes) for transitions in plan.transitions], dtype=np.int64)
        observed = np.array([place for path in self._paths for place in path.observed], dtype=np.int64)
        plan.observed_masses = np.where(observed < 0, -1, cumulative_offsets(counts)[:-1] + observed)
        plan.rows = np.repeat(plan.known_rows, counts)
        plan.lists, plan.id_lists = needed_lists(plan.transitions)
        return plan

    def add(self, words: Ints, endings: Sequence[Ending], events: WordEvents) -> None:
        """Plan the search for some words, of which this is what ends each of them."""
        boundaries = self._alignment.boundary_after[words] - 1
        start_rows = self._alignment.boundary_rows[boundaries]
        first_rows = start_rows.copy()
        places = [(n, self._by_boundary[b]) for n, b in enumerate(boundaries.tolist()) if b in self._by_boundary]
        for n, branches in places:
            first_rows[n] = min(start_rows[n], *(self._branches.rows[branch] for branch in branches))
        first_search = len(self._plan.words)
        by_ending = {ending: events.before(ending) for ending in set(endings)}
        self._plan.words += self._searched_words(words, first_rows)
        self._plan.events += [by_ending[ending] for ending in endings]
        has_start = self._has_start[boundaries]
        for n, branches in places:
            self._add_branches(first_search + n, int(start_rows[n]), bool(has_start[n]), branches)
        starts = np.flatnonzero(has_start)
        skipped = (self._positions[start_rows] - self._positions[first_rows])[starts]
        columns = (starts + first_search, start_rows[starts], skipped)
        for search, row, n_bytes in zip(*(column.tolist() for column in columns), strict=True):
            word, event = self._plan.words[search], self._plan.events[search]
            path = event.along(event.inside(word.target[n_bytes:]), word.observed[row - word.first_row :])
            self._add_path(search, row, path)

    def _searched_words(self, words: Ints, first_rows: Ints) -> Iterable[Searched]:
        """Return words to search for, from the first row at which a prefix sets out."""
        alignment = self._alignment
        texts = alignment.text_of_word[words]
        origins = self._positions[first_rows]
        ends = alignment.batch.byte_offsets[alignment.ends[words]]
        begun = np.searchsorted(alignment.token_starts, ends)
        stop_tokens = np.minimum(begun, alignment.token_offsets[texts + 1])
        is_rewritten = self._is_rewritten[texts]  # such words end with a token
        stop_tokens[is_rewritten] = alignment.stop_tokens[words[is_rewritten]]
        ends[is_rewritten] = self._positions[stop_tokens + texts][is_rewritten]
        targets = map(self._target, texts.tolist(), origins.tolist(), ends.tolist())
        observed = map(self._ids.__getitem__, map(slice, (first_rows - texts).tolist(), stop_tokens.tolist()))
        return map(Searched, words.tolist(), texts.tolist(), first_rows.tolist(), observed, targets)

    def _add_branches(self, search: int, start_row: int, has_start: bool, branches: Sequence[int]) -> None:
        """Set out from other spellings of the word before.

        Where that word ends inside a token, the observed path begins with that token.
        """
        word, event = self._plan.words[search], self._plan.events[search]
        for branch in branches:
            row = self._branches.rows[branch]
            rest = word.target[self._positions[row] - self._positions[word.first_row] :]
            if branch in self._branches.tails:
                self._add_tail(search, event, row, rest, branch)
                continue
            transitions = self._by_branch(event.inside(rest), branch)
            path = ObservedPath((transitions,), (-1,))
            if row == start_row and not has_start:
                path = event.along(transitions, word.observed[row - word.first_row :])
            self._add_path(search, row, path)

    def _add_path(self, search: int, row: int, path: ObservedPath) -> None:
        """Add the known prefixes along a path that begins at a row."""
        self._path_searches.append(search)
        self._path_rows.append(row)
        self._paths.append(path)

    def _by_branch(self, transitions: Transitions, branch: int) -> Transitions:
        """Return those transitions by which a branch leaves the text."""
        key = (transitions, self._branches.lists[branch])
        if key not in self._restricted:
            self._restricted[key] = transitions.restricted_to(frozenset(self._branches.id_lists[key[1]]))
        return self._restricted[key]

    def _add_tail(self, search: int, event: WordEvent, row: int, rest: bytes, branch: int) -> None:
        """Set out from another spelling of the word before that has several tokens, if it agrees with the text."""
        tail = self._branches.tails[branch]
        transitions = event.inside(rest)
        for token in tail.ids:
            place = transitions.place_of(token, (Outcome.INSIDE, Outcome.WRITTEN))
            if place < 0:
                return
            transitions = event.after(transitions, place)
        if tail.last_ids and not transitions.is_whole:
            transitions = transitions.restricted_to(frozenset(tail.last_ids))
        self._plan.tails.append(Tail(search, row, tail.ids, transitions, branch))

    def _target(self, text: int, origin: int, end: int) -> bytes:
        """Return the bytes of a text between two positions; a space put before the text counts.

        Where tokens have marks at ends of pre-tokens, the last one may have such a mark or not.
        """
        begin = self._text_begins[text]
        target = self._data[origin:end] if origin >= begin else b" " + self._data[begin:end]
        return target.rstrip(EDGE + OPTIONAL_EDGE) + OPTIONAL_EDGE if self._has_marks else target


def row_positions(vocabulary: Vocabulary, alignment: Alignment) -> Ints:
    """Return ``[T + D]``: where the token after each row starts, in bytes of the batch.

    A space that the tokenizer put before a text counts. At the end of a text, it is that end.
    """
    batch, offsets = alignment.batch, alignment.token_offsets
    begins = batch.byte_offsets[batch.text_starts[:-1]]
    ends = batch.byte_offsets[batch.text_starts[1:] - 1]
    positions: Ints = np.insert(alignment.token_starts, offsets[1:], ends)
    if vocabulary.first_word_marked:
        written = segment_sums(vocabulary.lengths[alignment.ids].astype(np.float64), offsets[:-1], offsets[1:])
        first_rows = offsets[:-1] + np.arange(alignment.n_texts)
        positions[first_rows[written > ends - begins]] -= 1
    return positions
