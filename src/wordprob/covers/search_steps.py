"""What could come next while a word is being written, token by token, in any spelling.

A *prefix* is a sequence of tokens that agrees with the text so far. A token that goes on with it can stay inside the
word, end where the word ends, or reach over that end. What it holds beyond the end then decides whether the word has
ended, which a cut-off character leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Floats, Ints, concat_ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import Label, is_cut_off
from wordprob.covers.cut_off_tokens import CutOffTokens
from wordprob.covers.joined_tokens import JoinedTokens
from wordprob.covers.token_index import TokenIndex

MAX_CACHED_STEPS = 1 << 15
"""Answers that are kept for words that end in one way; the same stretches of text come again and again."""


class Ending(NamedTuple):
    """What ends a word.

    Attributes
    ----------
    labels
        The labels that end it; ``None`` if anything may follow.
    undecided
        The labels after which one would have to read on.
    """

    labels: frozenset[Label] | None
    undecided: frozenset[Label] = frozenset()


class StepKind(IntEnum):
    """What a token that comes next leads to."""

    INSIDE = 0
    """A longer prefix, which has to be opened."""
    CUT_OFF = 1
    """A prefix that ends in the first bytes of a character beyond the word's end, and has to be opened."""
    WRITTEN = 2
    """A spelling of the word: it is written, and anything may follow."""
    ENDING = 3
    """A spelling of the word: the token holds what ends it."""
    UNDECIDED = 4
    """One would have to read on to know whether the word has ended."""


@dataclass(eq=False, slots=True)  # not frozen: there are many, and a frozen one takes longer to make
class Steps:
    """The tokens that may come next: some by themselves, and sums of tokens that lead to the same.

    Attributes
    ----------
    tokens
        Tokens by themselves.
    sizes
        How many bytes of the word each of them takes.
    pending
        The first bytes of a character beyond the word's end that each of them ends in; mostly none.
    sums
        Lists of tokens whose masses are added up.
    kinds
        What each token, and then each sum, leads to: a :class:`StepKind`.
    rest
        What is left of the word before each of them.
    following, paths
        What may come after a token, by its place, and where observed tokens lead, where that has been asked before.
    keys
        A number for each mass that is needed: the token, or for a sum the negative identity of its list.
    """

    tokens: tuple[int, ...]
    sizes: tuple[int, ...]
    pending: tuple[bytes, ...]
    sums: tuple[Ints, ...]
    kinds: NDArray[np.int8]
    rest: bytes = b""
    following: dict[int, Steps] = field(default_factory=dict)
    paths: dict[tuple[int, ...], ObservedPath] = field(default_factory=dict)
    keys: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.keys = np.array([*self.tokens, *(-id(ids) for ids in self.sums)], dtype=np.int64)

    def place_of(self, token: int) -> int:
        """Return where a token that stays inside the word stands; -1 if it is none of these."""
        place = self.tokens.index(token) if token in self.tokens else -1
        return place if place >= 0 and self.kinds[place] == StepKind.INSIDE else -1

    def restricted_to(self, tokens: frozenset[int]) -> Steps:
        """Return those steps that are one of these tokens."""
        alone = [n for n, token in enumerate(self.tokens) if token in tokens]
        sums = [np.array([token for token in ids.tolist() if token in tokens], dtype=np.int64) for ids in self.sums]
        kept = [n for n, ids in enumerate(sums) if len(ids)]
        return Steps(
            tokens=tuple(self.tokens[n] for n in alone),
            sizes=tuple(self.sizes[n] for n in alone),
            pending=tuple(self.pending[n] for n in alone),
            sums=tuple(sums[n] for n in kept),
            kinds=self.kinds[[*alone, *(len(self.tokens) + n for n in kept)]],
            rest=self.rest,
        )


WHOLE_WORD = Steps((), (), (), (), np.zeros(0, dtype=np.int8))
"""What stands for steps after a whole word: there the masses of all atoms say what may come next."""


class ObservedPath(NamedTuple):
    """Where observed tokens lead that write a word.

    Attributes
    ----------
    steps
        What may come next at the beginning, and after each of the observed tokens that stays inside the word.
    observed
        Which of these steps is the observed token; -1 if it reaches over the end of the word or none is known.
    is_whole
        Whether the observed tokens end with the word.
    """

    steps: tuple[Steps, ...]
    observed: tuple[int, ...]
    is_whole: bool


@lru_cache(maxsize=1 << 12)
def _kinds(*counts: int) -> NDArray[np.int8]:
    """Return the kinds of steps, of which there are so many of each :class:`StepKind`."""
    return np.repeat(np.array(list(StepKind), dtype=np.int8), counts)


class NeededLists(NamedTuple):
    """The lists of ids whose masses steps need.

    Attributes
    ----------
    numbers
        For every mass, those of one :class:`Steps` after the other: the number of its list.
    id_lists
        The lists.
    """

    numbers: Ints
    id_lists: list[Ints]


def needed_lists(all_steps: Sequence[Steps]) -> NeededLists:
    """Return the lists of ids whose masses steps need; a list that several of them need is there once."""
    keys = concat_ints([steps.keys for steps in all_steps])
    is_token = keys >= 0
    is_needed = np.zeros(keys.max(initial=-1) + 1, dtype=bool)
    is_needed[keys[is_token]] = True
    distinct_sums, sum_numbers = np.unique(keys[~is_token], return_inverse=True)
    numbers = np.empty_like(keys)
    numbers[~is_token] = sum_numbers
    numbers[is_token] = (np.cumsum(is_needed) + (len(distinct_sums) - 1))[keys[is_token]]
    sums = {-id(ids): ids for steps in all_steps for ids in steps.sums}
    id_lists = [sums[key] for key in distinct_sums.tolist()]
    return NeededLists(numbers, id_lists + list(np.flatnonzero(is_needed)[:, None]))


class MassesAfterWord(NamedTuple):
    """``[N]``: what may come after whole words: it ends them; it is cut off and may; one would have to read on."""

    ending: Floats
    cut_off: Floats
    undecided: Floats


class StepFinder:
    """Finds the tokens that may come next.

    Parameters
    ----------
    index
        The vocabulary by bytes.
    joined
        The tokens that reach over places where words may end.
    atoms, cut_off_tokens
        The partition of the vocabulary, and what tokens make of cut-off characters.
    """

    def __init__(self, index: TokenIndex, joined: JoinedTokens, atoms: Atoms, cut_off_tokens: CutOffTokens) -> None:
        self.index = index
        self.joined = joined
        self.atoms = atoms
        self.cut_off_tokens = cut_off_tokens
        self._by_ending: dict[Ending, EndingSteps] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was found behind when this is sent to another process."""
        return {**self.__dict__, "_by_ending": {}}

    def before(self, ending: Ending) -> EndingSteps:
        """Return what finds the tokens of words that end in one way."""
        if ending not in self._by_ending:
            self._by_ending[ending] = EndingSteps(self, ending)
        return self._by_ending[ending]


class EndingSteps:
    """Finds the tokens that may come next in words that end in one way; made by :meth:`StepFinder.before`."""

    def __init__(self, finder: StepFinder, ending: Ending) -> None:
        self.ending = ending
        self._finder = finder
        self._known: dict[bytes, Steps] = {b"": WHOLE_WORD}
        labels = ending.labels or frozenset()
        ambiguous = finder.atoms.ambiguous(labels)
        groups = (labels - ambiguous, ambiguous, ending.undecided)
        self._columns = [np.array(finder.atoms.columns(group), dtype=np.int64) for group in groups]

    def after_words(self, log_masses: Floats) -> MassesAfterWord:
        """Return the masses of what may come after whole words, from those of all atoms, ``[N, K]``."""
        masses = np.exp(np.asarray(log_masses, dtype=np.float64))
        # Row by row in memory, so that a sum does not depend on how many there are.
        return MassesAfterWord(*(masses.take(columns, axis=1).sum(axis=1) for columns in self._columns))

    def after(self, steps: Steps, place: int) -> Steps:
        """Return what may come next after one of the tokens that stand by themselves."""
        following = steps.following.get(place)
        if following is None:
            pending = steps.pending[place]
            following = self._of_cut_off(pending) if pending else self.inside(steps.rest[steps.sizes[place] :])
            steps.following[place] = following
        return following

    def along(self, steps: Steps, tokens: tuple[int, ...]) -> ObservedPath:
        """Return where observed tokens lead, the first of which may be one of these steps."""
        path = steps.paths.get(tokens)
        if path is None:
            path = steps.paths[tokens] = self._find_path(steps, tokens)
        return path

    def _find_path(self, steps: Steps, tokens: tuple[int, ...]) -> ObservedPath:
        all_steps: list[Steps] = []
        observed: list[int] = []
        for token in (*tokens, -1):
            if steps is WHOLE_WORD:
                return ObservedPath(tuple(all_steps), tuple(observed), is_whole=True)
            place = steps.place_of(token)
            all_steps.append(steps)
            observed.append(place)
            if place < 0:
                break
            steps = self.after(steps, place)
        return ObservedPath(tuple(all_steps), tuple(observed), is_whole=False)

    def inside(self, rest: bytes) -> Steps:
        """Return what may come next before the rest of a word; :data:`WHOLE_WORD` if nothing is left of it."""
        steps = self._known.get(rest)
        if steps is None:
            if len(self._known) > MAX_CACHED_STEPS:
                self._known = {b"": WHOLE_WORD}
            steps = self._known[rest] = self._find_inside(rest)
        return steps

    def _find_inside(self, rest: bytes) -> Steps:
        index, ending = self._finder.index, self.ending
        matches = list(index.matches(rest))
        n_written = sum(size == len(rest) for _, size in matches) if ending.labels is None else 0
        cut_off: list[tuple[int, bytes]] = []
        ending_ids: list[int] = []
        undecided_ids: list[int] = []
        for beyond in self._finder.joined.continuations_after(rest):
            tokens = index.ids(rest + beyond)
            if ending.labels is None:
                ending_ids += tokens
            elif is_cut_off(beyond):
                cut_off += [(token, beyond) for token in tokens]
            else:
                label = self._finder.cut_off_tokens.label(beyond)
                if label in ending.labels:
                    ending_ids += tokens
                elif label in ending.undecided:
                    undecided_ids += tokens
        # The shortest matches come first, so that those that write the word are the last ones.
        n_inside = len(matches) - n_written
        return Steps(
            tokens=tuple([token for token, _ in matches] + [token for token, _ in cut_off]),
            sizes=tuple([size for _, size in matches] + [len(rest)] * len(cut_off)),
            pending=(b"",) * len(matches) + tuple([beyond for _, beyond in cut_off]),
            sums=tuple(np.array(ids, dtype=np.int64) for ids in (ending_ids, undecided_ids) if ids),
            kinds=_kinds(n_inside, len(cut_off), n_written, len(ending_ids) > 0, len(undecided_ids) > 0),
            rest=rest,
        )

    @cached_property
    def cut_off_rest(self) -> Steps:
        """The tokens after a whole word that begin a character of which only some completions end it."""
        return self._of_cut_off(b"")

    def _of_cut_off(self, pending: bytes) -> Steps:
        """Return what may come after the first bytes of a character beyond the end of a word."""
        cut_off_tokens = self._finder.cut_off_tokens
        whole, cut_off = cut_off_tokens.next_tokens(pending, self.ending.labels or frozenset())
        return Steps(
            tokens=tuple(cut_off),
            sizes=(0,) * len(cut_off),
            pending=tuple([pending + cut_off_tokens.bytes_of(token) for token in cut_off]),
            sums=(np.array(whole, dtype=np.int64),) if len(whole) else (),
            kinds=_kinds(0, len(cut_off), 0, len(whole) > 0, 0),
        )
