"""A page of texts made ready for the model: words, tokens, what ends each word, and its other spellings."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.alignment import Alignment, Cut, align
from wordprob.core.arrays import Floats, Ints, concat_ranges, cumulative_offsets
from wordprob.core.atoms import atoms_of
from wordprob.core.spellings import (
    REMEMBERED,
    SEAM,
    WHOLE,
    AlternativeSpellings,
    Divergence,
    Speller,
    WordContext,
    bytes_before,
    divergences,
)
from wordprob.core.text import TextBatch
from wordprob.core.vocabulary import Tokens
from wordprob.core.windows import Window
from wordprob.core.words import END, SPACE, UNREACHABLE, Label, WordDefinition
from wordprob.errors import InputError
from wordprob.models.protocol import Tokenizer

SHARED = "a token crosses the word's boundary"
EMPTY = "the tokeniser wrote nothing for this word"
NO_RULE = "no rule says that a word ends here"
NO_START = "no start-of-text token: choose one with bos"

LEFT = 64
"""Characters before a word that a definition may look at."""

CERTAIN, ENDS = 0, 1
"""Two sets that are always there: everything, for a word that has ended already, and the end of the text alone."""


@dataclass
class BranchTail:
    """The rest of a spelling that goes on after it has left the observed path.

    B at its end is the mass of ``boundary``; 1 if that is ``None``.
    """

    ids: tuple[int, ...]
    """The ids off the observed path."""
    boundary: frozenset[Label] | None
    log_prob: float = 0.0
    """log p of all but the first of them."""
    log_mass: float = 0.0
    """log B after them."""


@dataclass
class Branches:
    """Other spellings, by the boundary they lead to: at a row of the page they leave the observed path.

    They do so by any of a list of ids, whose probabilities are added up; without one (``NOWHERE``) they stay on it
    and the boundary is certain there.
    """

    boundaries: array[int] = field(default_factory=partial(array, "q"))
    rows: array[int] = field(default_factory=partial(array, "q"))
    lists: array[int] = field(default_factory=partial(array, "q"))
    """The number of the list of ids."""
    ids: list[tuple[int, ...]] = field(default_factory=list)
    """The lists."""
    numbers: dict[int, int] = field(default_factory=dict, repr=False)
    """Their numbers by identity: lists are long, and the same few come again and again."""
    follow: dict[int, BranchTail] = field(default_factory=dict)
    """Those that go on, by their number."""

    def add(self, boundary: int, row: int, first: tuple[int, ...]) -> None:
        """Add a branch."""
        self.boundaries.append(boundary)
        self.rows.append(row)
        self.lists.append(self._number(first) if first else NOWHERE)

    def add_all(self, boundaries: Ints, rows: Ints, lists: Ints, firsts: Sequence[tuple[int, ...]]) -> None:
        """Add many: ``lists`` says by which of ``firsts`` each leaves."""
        numbers = np.zeros(len(firsts), dtype=np.int64)
        for k in np.flatnonzero(np.bincount(lists)).tolist():
            numbers[k] = self._number(firsts[k])
        for column, values in ((self.boundaries, boundaries), (self.rows, rows), (self.lists, numbers[lists])):
            column.frombytes(values.tobytes())

    def _number(self, first: tuple[int, ...]) -> int:
        found = self.numbers.get(id(first))
        if found is None:
            found = self.numbers[id(first)] = len(self.ids)
            self.ids.append(first)
        return found

    def drop(self, boundary: int) -> None:
        """Forget the branches to a boundary, which is the last one they were added for."""
        while self.boundaries and self.boundaries[-1] == boundary:
            self.follow.pop(len(self.boundaries) - 1, None)
            del self.boundaries[-1], self.rows[-1], self.lists[-1]


NOWHERE = -1

NO_OTHERS = AlternativeSpellings()

SEEN = 16
"""Bytes at a word's end by which it is known again."""

WordSignature = bytes
"""By what a word is known again: its last bytes, whether they follow a seam, how many they are, its last tokens.

All in one string, since a tuple for every look would keep Python's collector busy.
"""


@dataclass
class PreparedBatch:
    """A page with everything found out about it so far.

    Boundaries are numbered along the page: text ``d`` has one before its first word and one after each, so the one
    after word ``w`` is ``w + owner[w] + 1``. Rows likewise: text ``d`` has one before each token and one
    at its end, so the one before token ``t`` is ``t + d``.
    """

    page: TextBatch
    starts: Ints
    ends: Ints
    ids: Ints
    alignment: Alignment
    given: Ints
    """For each text, how many words at its beginning are context only."""
    sets: Ints
    """What ends a word, at every boundary: a number of :meth:`TextPreparer.members_of_sets`."""
    missing: NDArray[np.bool_]
    """Boundaries that have no mass."""
    notes: dict[int, list[str]] = field(default_factory=dict)
    """By word."""
    undecided: dict[int, list[int]] = field(default_factory=dict)
    """By boundary: the atoms after which one would have to read on."""
    branches: Branches = field(default_factory=Branches)
    windows: list[list[Window]] = field(default_factory=list)
    """For each text."""

    @cached_property
    def rows(self) -> Ints:
        """The row of the distribution at every boundary."""
        found = np.empty(len(self.sets), dtype=np.int64)
        texts = np.arange(len(self.page.documents))
        found[self.first] = self.alignment.tokens[:-1] + texts
        found[self.after] = self.alignment.stops + self.alignment.owner
        return found

    @cached_property
    def first(self) -> Ints:
        """The first boundary of every text."""
        return self.alignment.words[:-1] + np.arange(len(self.page.documents))

    @cached_property
    def after(self) -> Ints:
        """The boundary after every word."""
        return np.arange(len(self.starts)) + self.alignment.owner + 1

    @cached_property
    def local(self) -> Ints:
        """The number of every word in its text."""
        return np.arange(len(self.starts)) - self.alignment.words[self.alignment.owner]

    def text_of(self, boundary: int) -> int:
        """Return the text that a boundary belongs to."""
        return bisect_right(self.first_list, boundary) - 1

    @cached_property
    def first_list(self) -> list[int]:
        """The first boundary of every text, for looking up one at a time."""
        found: list[int] = self.first.tolist()
        return found

    @cached_property
    def token_list(self) -> list[int]:
        """Where the tokens of each text begin, for looking up one at a time."""
        found: list[int] = self.alignment.tokens.tolist()
        return found

    def tokens_of(self, text: int) -> Ints:
        """Return the ids of a text."""
        return self.ids[self.token_list[text] : self.token_list[text + 1]]

    @cached_property
    def first_rows(self) -> Ints:
        """The first row of each text that is needed: that of the last word given, for the boundary after it."""
        return self.rows[self.first + np.maximum(self.given - 1, 0)] - self.rows[self.first]

    def window_of(self, text: int, row: int) -> Window:
        """Return the window of a text that answers for one of its rows."""
        windows = self.windows[text]
        return windows[bisect_right(windows, row, key=attrgetter("first")) - 1]

    def beginning(self, text: int, low: int, high: int) -> Ints:
        """Return the words of a text that have tokens, the first of them at one of these rows."""
        words = np.arange(*self.alignment.words[text : text + 2])
        rows = self.alignment.lows[words] + text
        return words[(low <= rows) & (rows <= high) & (self.alignment.lows[words] < self.alignment.stops[words])]

    def context(self) -> Ints:
        """Return how many tokens of its text the model had seen before each word."""
        tokens, owner = self.alignment.tokens, self.alignment.owner
        found = self.alignment.lows - tokens[owner]
        for d, windows in enumerate(self.windows):
            if len(windows) > 1:
                here = slice(*self.alignment.words[d : d + 2])
                which = np.searchsorted([w.first for w in windows], found[here], side="right") - 1
                found[here] -= np.array([w.low for w in windows])[which]
        return found

    def note(self, word: int, reason: str) -> None:
        """Put a reason beside a word."""
        self.notes.setdefault(word, []).append(reason)

    def without(self, words: Ints, reason: str) -> None:
        """Give up the boundaries after words, and tell the words on both sides of each why."""
        self.missing[self.after[words]] = True
        within = words + 1 < self.alignment.words[self.alignment.owner[words] + 1]
        for word in np.concatenate([words, words[within] + 1]).tolist():
            self.note(word, reason)


class TextPreparer:
    """Reads texts under one word definition, for one tokeniser and width of the model's output."""

    def __init__(self, tokenizer: Tokenizer, width: int, rule: WordDefinition) -> None:
        self.tokenizer = tokenizer
        self._vocabulary = tokenizer.vocabulary
        self._rule = rule
        self.atoms = atoms_of(self._vocabulary, rule, width)
        self._speller = Speller(self.tokenizer.encode, self._vocabulary, rule, self.atoms)
        self._columns: dict[frozenset[Label], list[int]] = {}
        self._seen: dict[WordSignature, AlternativeSpellings] = {}
        self._sets: dict[frozenset[Label] | None, int] = {None: CERTAIN}
        self._set(frozenset({END}))

    def columns(self, labels: frozenset[Label]) -> list[int]:
        """Return the atoms of these labels."""
        if labels not in self._columns:
            self._columns[labels] = self.atoms.columns(labels)
        return self._columns[labels]

    def members(self, labels: frozenset[Label]) -> Ints:
        """Return the ids of all tokens with these labels."""
        return np.flatnonzero(np.isin(self.atoms.atom_of_token, self.columns(labels)))

    def members_of_sets(self) -> Floats:
        """Return ``[S, K]``: one where atom k is in set s."""
        sets = list(self._sets)
        found = np.ones((len(sets), len(self.atoms.labels)))
        for s, labels in enumerate(sets):
            if labels is not None:
                found[s] = np.isin(np.arange(found.shape[1]), self.columns(labels))
        return found

    @cached_property
    def start_labels(self) -> frozenset[Label]:
        """What a text can begin with, where it does not begin with white space."""
        spaces = {lab for lab in self.atoms.labels if lab.split(":")[0] == SPACE}
        if self._vocabulary.first_word_marked:
            return frozenset(spaces | {END})
        return frozenset(self.atoms.labels) - spaces - {UNREACHABLE}

    def read(
        self,
        page: TextBatch,
        spans: tuple[Ints, Ints] | None = None,
        own: bool = False,
        begins: Sequence[int] | None = None,
    ) -> PreparedBatch:
        """Tokenise a page, align it and find every word's spellings.

        Parameters
        ----------
        page
            The texts.
        spans
            Where their words start and end; by the definition if none are given.
        own
            Whether the words are the user's own and need not follow the rule.
        begins
            For each text, how many characters at its beginning are context only.
        """
        starts, ends = self._rule.spans(page) if spans is None else spans
        given = np.zeros(len(page.documents), np.int64) if begins is None else _given(page, starts, ends, begins)
        tokens = self.tokenizer.encode([d.text for d in page.documents])
        count = len(starts) + len(tokens)
        reading = PreparedBatch(
            page=page,
            starts=starts,
            ends=ends,
            ids=np.concatenate([np.zeros(0, np.int64), *(t.ids for t in tokens)]),
            alignment=align(page, starts, ends, tokens),
            given=given,
            sets=np.zeros(count, dtype=np.int64),
            missing=np.zeros(count, dtype=bool),
        )
        self._say_what_was_rewritten(reading, tokens)
        self._settle(reading, tokens, own)
        self._spell(reading)
        return reading

    # --- boundaries ---

    def _set(self, labels: frozenset[Label] | None) -> int:
        return self._sets.setdefault(labels, len(self._sets))

    def _settle(self, reading: PreparedBatch, tokens: Sequence[Tokens], own: bool) -> None:
        """Settle what ends each word, and make sure that what really follows it is counted."""
        alignment = reading.alignment
        reading.sets[reading.first] = self._starts(reading)
        reading.without(np.flatnonzero(alignment.cuts == Cut.SHARED), SHARED)
        clean = np.flatnonzero(alignment.cuts == Cut.CLEAN)
        reading.sets[reading.after[clean]] = self._ending(reading, clean)
        for word in np.flatnonzero(alignment.cuts == Cut.EMPTY).tolist():
            reading.sets[reading.after[word]] = reading.sets[reading.after[word] - 1]
            if word not in reading.notes:
                reading.note(word, EMPTY)
        for word in clean[self._outside(reading, clean)].tolist():
            if own and not self._rule_ends(reading, word):
                reading.without(np.array([word]), NO_RULE)
            else:
                d = int(reading.alignment.owner[word])
                row = _past_character(reading, tokens, word) + int(reading.rows[reading.first[d]])
                reading.branches.add(int(reading.after[word]), row, ())

    def _rule_ends(self, reading: PreparedBatch, word: int) -> bool:
        """Say whether the rule has a word end where it does, given the character after it."""
        text, start, end = reading.page.text, reading.starts[word], reading.ends[word]
        opening = self._rule.label(text[end : end + 2])
        return bool(self._rule.boundaries(text[max(0, start - LEFT) : start], text[start:end], [opening]))

    def _starts(self, reading: PreparedBatch) -> Ints:
        """Return what each text can begin with."""
        usual, any_start = self._set(self.start_labels), self._set(frozenset(self.atoms.labels) - {UNREACHABLE})
        low, high = reading.alignment.tokens[:-1], reading.alignment.tokens[1:]
        atom = self.atoms.atom_of_token[np.append(reading.ids, 0)[low]]
        fits = np.isin(atom, self.columns(self.start_labels)) | (low == high)
        return np.where(fits, usual, any_start)

    def _ending(self, reading: PreparedBatch, words: Ints) -> Ints:
        """Return the sets of what ends these words; words of one group and one kind of last token share one."""
        starts, ends = reading.starts[words], reading.ends[words]
        last = reading.ids[reading.alignment.stops[words] - 1]
        group = 2 * self._rule.groups(reading.page, starts, ends) + self._vocabulary.marked[last]
        sets = np.zeros(group.max(initial=-1) + 1, dtype=np.int64)
        examples = np.zeros_like(sets)
        examples[group[::-1]] = np.arange(len(group))[::-1]
        for n in np.flatnonzero(np.bincount(group)).tolist():
            k = examples[n]
            before = reading.page.text[max(0, starts[k] - LEFT) : starts[k]]
            word = reading.page.text[starts[k] : ends[k]]
            sets[n] = self._set(self._speller.boundary(before, word, int(last[k])))
            if sets[n] and (undecided := self._rule.undecided(before, word, self.atoms.labels)):
                same = words[group == n]
                reading.undecided.update(dict.fromkeys(reading.after[same].tolist(), self.columns(undecided)))
        found: Ints = sets[group]
        return found

    def _outside(self, reading: PreparedBatch, words: Ints) -> NDArray[np.bool_]:
        """Say which words are followed by a token that does not end them by the rule."""
        stops, owner = reading.alignment.stops[words], reading.alignment.owner[words]
        inside = stops < reading.alignment.tokens[owner + 1]
        atom = self.atoms.atom_of_token[np.append(reading.ids, 0)[stops]]
        members = self.members_of_sets().astype(bool)
        ends = members.ravel()[members.shape[1] * reading.sets[reading.after[words]] + atom]
        found: NDArray[np.bool_] = inside & ~ends & (reading.local[words] + 1 >= reading.given[owner])
        return found

    def _say_what_was_rewritten(self, reading: PreparedBatch, tokens: Sequence[Tokens]) -> None:
        """Say what became of the words that the tokeniser did not take as they stand."""
        for d, written in enumerate(tokens):
            if not written.exact:
                for word in range(*reading.alignment.words[d : d + 2].tolist()):
                    if reason := self._rewriting(reading, word):
                        reading.note(word, reason)

    def _rewriting(self, reading: PreparedBatch, word: int) -> str:
        low, high = reading.alignment.lows[word], reading.alignment.stops[word]
        ids = reading.ids[low:high].tolist()
        if self._vocabulary.unknown in ids:
            return "the tokeniser does not know all of it"
        written = b"".join(self._vocabulary.written[k] for k in ids).decode("utf-8", "replace").strip()
        same = written == reading.page.text[reading.starts[word] : reading.ends[word]]
        return "" if same or reading.alignment.cuts[word] != Cut.CLEAN else f"read by the tokeniser as '{written}'"

    # --- spellings ---

    def _spell(self, reading: PreparedBatch) -> None:
        """Find the words that could have been written otherwise; those that look alike are asked about once."""
        words = self._may_differ(reading)
        looks = _looks(reading, words, self._speller.seams if self._speller.has_seams else None)
        kinds = [self._seen.get(look) for look in looks.different]
        new = [k for k, others in enumerate(kinds) if others is None]
        for k, others in zip(new, self._ask(reading, words[looks.examples[new]]), strict=True):
            if others.by & (SEAM if looks.different[k][SEEN] else WHOLE):
                kinds[k] = self._seen[looks.different[k]] = others
        unsettled = np.array([*(others is None for others in kinds), True])
        alone = np.flatnonzero(unsettled[looks.of])
        looks.of[alone] = len(kinds) + np.arange(len(alone))
        kinds += self._ask(reading, words[alone])
        self._branch_all(reading, words, looks.of, [others or NO_OTHERS for others in kinds])
        if len(self._seen) > REMEMBERED:
            self._seen.clear()

    def _ask(self, reading: PreparedBatch, words: Ints) -> list[AlternativeSpellings]:
        return self._speller.others(list(_places(reading, words)))

    def _may_differ(self, reading: PreparedBatch) -> Ints:
        cuts, owner = reading.alignment.cuts, reading.alignment.owner
        open_end = (cuts <= Cut.JOINED) & ~reading.missing[reading.after]
        crossed = (np.append(0, cuts)[:-1] == Cut.SHARED) & (reading.local > 0)
        wanted = reading.local + 1 >= reading.given[owner]
        chosen = np.flatnonzero(open_end & ~crossed & wanted)
        return chosen[self._speller.worth_asking(reading.page, reading.ends[chosen])]

    def _branch_all(
        self, reading: PreparedBatch, words: Ints, kind: Ints, kinds: Sequence[AlternativeSpellings]
    ) -> None:
        """Turn the other spellings of words into branches; those that only leave the observed path, all at once."""
        plain = np.array([self._only_leave(one) for one in kinds], dtype=bool)
        for n in np.flatnonzero(~plain[kind]).tolist():
            self._branch(reading, int(words[n]), kinds[kind[n]])
        ways = [one.divergences if simple else () for one, simple in zip(kinds, plain.tolist(), strict=True)]
        backs = np.array([e.back for each in ways for e in each], dtype=np.int64)
        counts = np.array([len(each) for each in ways], dtype=np.int64)
        leaving = np.repeat(words, counts[kind])
        way = concat_ranges(cumulative_offsets(counts)[:-1][kind], counts[kind])
        owner = reading.alignment.owner[leaving]
        rows = reading.alignment.stops[leaving] + owner - backs[way]
        reading.branches.add_all(leaving + owner + 1, rows, way, [e.first for each in ways for e in each])

    def _only_leave(self, others: AlternativeSpellings) -> bool:
        """Say whether spellings end with the token by which they leave the text, wherever the word stands."""
        ends = all(e.first and not e.rest and e.boundary is None for e in others.divergences)
        return ends and not others.longer and (self._vocabulary.start is not None or not others.divergences)

    def _branch(self, reading: PreparedBatch, word: int, others: AlternativeSpellings) -> None:
        """Turn the other spellings of one word into branches off the observed path."""
        d, stop = int(reading.alignment.owner[word]), int(reading.alignment.stops[word])
        boundary = word + d + 1
        found: Sequence[Divergence] = others.divergences
        if others.longer:
            low = int(reading.alignment.lows[word]) + others.skipped
            following = reading.ids[low : reading.alignment.tokens[d + 1]].tolist()
            found = [*found, *divergences(others.longer, following, stop - low)]
        if self._vocabulary.start is None and any(stop - e.back == reading.alignment.tokens[d] for e in found):
            reading.branches.drop(boundary)
            reading.without(np.array([word]), NO_START)
            return
        for e in found:
            reading.branches.add(boundary, stop - e.back + d, e.first)
            if e.rest or e.boundary is not None:
                follow = BranchTail((*e.first, *e.rest), e.boundary)
                reading.branches.follow[len(reading.branches.rows) - 1] = follow


class WordSignatures(NamedTuple):
    """Words by their looks."""

    of: Ints
    """For each word, the number of its look; ``NOWHERE`` if it is not known again."""
    different: list[WordSignature]
    examples: Ints
    """For each look, a word that has it."""


def _looks(reading: PreparedBatch, words: Ints, seams: NDArray[np.bool_] | None) -> WordSignatures:
    """Return by what words are known again, where their last few bytes and tokens settle how else they are written.

    That is so for a short word, and for one with a seam near its end: no token reaches over it, so
    what stands after it is written in the same way whatever the rest of the word is.
    """
    if seams is None:
        return WordSignatures(np.full(len(words), NOWHERE, dtype=np.int64), [], words[:0])
    page, alignment = reading.page, reading.alignment
    begin, finish = page.at[reading.starts[words]], page.at[reading.ends[words]]
    follows = reading.local[words] > 0
    chunk = np.where(follows, page.at[np.append(0, reading.ends)[words]], begin)
    tail = bytes_before(np.frombuffer(page.data, dtype=np.uint8), finish, SEEN)
    free = seams[256 * tail[:, :-1].astype(np.int64) + tail[:, 1:]]
    size = np.where(free.any(axis=1), 1 + np.argmax(free[:, ::-1], axis=1), SEEN)
    inside = size < finish - begin
    low = np.where(inside, np.searchsorted(alignment.openings, finish - size), alignment.lows[words])
    exact = np.append(alignment.openings, 0)[low] == finish - size
    plain = tail[np.arange(len(words)), SEEN - 1 - np.minimum(size, SEEN - 1)] < 0x80
    kept, count = np.where(inside, size + 1, finish - chunk), alignment.stops[words] - low
    joined = np.append(0, alignment.cuts)[words] == Cut.JOINED
    known = follows & ~joined & (~inside | (exact & plain)) & (kept <= SEEN) & (count > 0) & (count <= 2)
    seen = np.where(np.arange(SEEN) >= SEEN - kept[:, None], tail, 0).astype(np.uint8).view("<u8")
    last = reading.ids[alignment.stops[words] - 1]
    previous = np.where(count == 2, reading.ids[alignment.stops[words] - 2], NOWHERE)
    return _alike(np.stack([*seen.T, *(c.astype("<u8") for c in (inside, kept, last, previous))]), known)


def _alike(looks: NDArray[np.uint64], known: NDArray[np.bool_]) -> WordSignatures:
    """Number the different columns of ``looks`` among those of words that are known again.

    Equal ones are found by a hash; should others share it, those are not known again.
    """
    chosen = np.flatnonzero(known)
    _, first, number = np.unique(_MIX @ looks[:, chosen], return_index=True, return_inverse=True)
    examples = chosen[first]
    different = looks[:, examples]
    of = np.full(len(known), NOWHERE, dtype=np.int64)
    of[chosen] = np.where((looks[:, chosen] == different[:, number]).all(axis=0), number, NOWHERE)
    return WordSignatures(of, [row.tobytes() for row in different.T], examples)


_MIX = np.random.default_rng(0).integers(0, 1 << 63, 6, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _given(page: TextBatch, starts: Ints, ends: Ints, begins: Sequence[int]) -> Ints:
    """Return how many words come before each continuation, which must begin a word of its own."""
    begun = page.begins[:-1] + np.array(begins, dtype=np.int64)
    done = np.searchsorted(ends, begun, side="right")
    for n in np.flatnonzero(np.append(starts, len(page.text))[done] < begun).tolist():
        rest = page.text[begun[n] : page.begins[n + 1] - 1]
        raise InputError(
            f"continuation {page.documents[n].id} ('{rest[:30]}') goes on with the context's last word: together they "
            f"make '{page.text[starts[done[n]] : ends[done[n]]][:40]}'. Put a space between them, or move the whole "
            "word into the continuation."
        )
    return done - np.searchsorted(starts, page.begins[:-1])


def _places(reading: PreparedBatch, words: Ints) -> Iterator[WordContext]:
    """Yield the words as they stand."""
    text, owner = reading.page.text, reading.alignment.owner[words]
    begins, follows = reading.page.begins[owner], reading.local[words] > 0
    done = np.where(follows, np.append(0, reading.ends)[words], begins)
    joined = follows & (np.append(0, reading.alignment.cuts)[words] == Cut.JOINED)
    bounds = (reading.starts[words], reading.ends[words], reading.alignment.lows[words], reading.alignment.stops[words])
    columns = [column.tolist() for column in (begins, done, *bounds, joined)]
    for begin, before, start, end, low, stop, anchored in zip(*columns, strict=True):
        ids = tuple(reading.ids[low:stop].tolist())
        yield WordContext(text[max(begin, before - 200) : before], text[before:end], text[start:end], ids, anchored)


def _past_character(reading: PreparedBatch, tokens: Sequence[Tokens], word: int) -> int:
    """Return the row of its text at which the tokens have written the whole first character after a word."""
    d = int(reading.alignment.owner[word])
    begin = int(reading.page.begins[d])
    finish = int(reading.page.at[reading.ends[word] + 1] - reading.page.at[begin])
    row = int(reading.alignment.stops[word] - reading.alignment.tokens[d]) + 1
    while row < len(tokens[d].ids) and tokens[d].ends[row - 1] < finish:
        row += 1
    return row
