"""What could come next while a word is being written, token by token, in any spelling.

A *prefix* is a sequence of tokens that agrees with the text so far. A token that goes on with it can stay inside the
word, end where the word ends, or reach over that end. What it holds beyond the end then decides whether the word has
ended, which a cut-off character leaves open.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import Label, is_cut_off
from wordprob.core.cut_off_tokens import CutOffTokens
from wordprob.core.joined_tokens import JoinedTokens
from wordprob.core.token_index import TokenIndex

MAX_CACHED_STEPS = 1 << 15
"""Answers that are kept; the same stretches of text come again and again."""


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


class Steps(NamedTuple):
    """The tokens that may come next.

    Attributes
    ----------
    inside
        Tokens that stay within the word, each with the bytes it takes.
    cut_off
        Tokens that end in the first bytes of a character beyond the word's end, each with those bytes.
    ending
        Tokens after which the word has ended.
    undecided
        Tokens after which one would have to read on to know.
    """

    inside: tuple[tuple[int, int], ...]
    cut_off: tuple[tuple[int, bytes], ...]
    ending: Ints
    undecided: Ints

    def restricted_to(self, tokens: frozenset[int]) -> Steps:
        """Return those steps that are one of these tokens."""
        return Steps(
            inside=tuple(step for step in self.inside if step[0] in tokens),
            cut_off=tuple(step for step in self.cut_off if step[0] in tokens),
            ending=np.array([token for token in self.ending.tolist() if token in tokens], dtype=np.int64),
            undecided=np.array([token for token in self.undecided.tolist() if token in tokens], dtype=np.int64),
        )

    def id_lists(self) -> list[tuple[int, ...]]:
        """Return the lists of ids whose masses are needed: one for each token that is gone on with, and two sums."""
        alone = [(token,) for token, _ in (*self.inside, *self.cut_off)]
        sums = [tuple(ids.tolist()) for ids in (self.ending, self.undecided) if len(ids)]
        return [*alone, *sums]


class MassesAfterWord(NamedTuple):
    """What may come after a whole word: it ends the word; it is cut off and may end it; one would have to read on."""

    ending: float
    cut_off: float
    undecided: float


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
        self._index = index
        self._joined = joined
        self._atoms = atoms
        self._cut_off_tokens = cut_off_tokens
        self._known: dict[tuple[bytes, Ending], Steps] = {}
        self._columns: dict[Ending, list[list[int]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the cache behind when this is sent to another process."""
        return {**self.__dict__, "_known": {}}

    def after_word(self, log_masses: Floats, ending: Ending) -> MassesAfterWord:
        """Return the masses of what may come after a whole word, from those of all atoms."""
        if ending not in self._columns:
            labels = ending.labels or frozenset()
            ambiguous = self._atoms.ambiguous(labels)
            groups = (labels - ambiguous, ambiguous, ending.undecided)
            self._columns[ending] = [self._atoms.columns(group) for group in groups]
        masses = np.exp(np.asarray(log_masses, dtype=np.float64))
        return MassesAfterWord(*(float(masses[columns].sum()) for columns in self._columns[ending]))

    def inside(self, rest: bytes, ending: Ending) -> Steps:
        """Return what may come next before the rest of a word."""
        steps = self._known.get((rest, ending))
        if steps is None:
            if len(self._known) > MAX_CACHED_STEPS:
                self._known.clear()
            steps = self._known[rest, ending] = self._find_inside(rest, ending)
        return steps

    def _find_inside(self, rest: bytes, ending: Ending) -> Steps:
        cut_off: list[tuple[int, bytes]] = []
        sure: list[int] = []
        undecided: list[int] = []
        for beyond in self._joined.continuations_after(rest):
            tokens = self._index.ids(rest + beyond)
            if ending.labels is None:
                sure += tokens
            elif is_cut_off(beyond):
                cut_off += [(token, beyond) for token in tokens]
            else:
                label = self._cut_off_tokens.label(beyond)
                if label in ending.labels:
                    sure += tokens
                elif label in ending.undecided:
                    undecided += tokens
        return Steps(
            inside=tuple(self._index.matches(rest)),
            cut_off=tuple(cut_off),
            ending=np.array(sure, dtype=np.int64),
            undecided=np.array(undecided, dtype=np.int64),
        )

    def of_cut_off(self, pending: bytes, ending: Ending) -> Steps:
        """Return what may come after the first bytes of a character beyond the end of a word.

        Without such bytes: the tokens that begin a character of which only some completions end the word.
        """
        labels = ending.labels or frozenset()
        whole, cut_off = self._cut_off_tokens.next_tokens(pending, labels)
        going_on = tuple((token, pending + self._cut_off_tokens.bytes_of(token)) for token in cut_off)
        return Steps((), going_on, whole, np.zeros(0, dtype=np.int64))
