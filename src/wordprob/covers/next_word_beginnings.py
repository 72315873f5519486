"""What a search for next words goes through: beginnings of words, and what is left of those that were opened.

A *beginning* is a sequence of tokens that writes the context and perhaps a part of the next word. Looking into it, or
opening it, means to ask the model for the next token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints


class Beginning(NamedTuple):
    """Tokens after which the next word is not known yet.

    Attributes
    ----------
    mass
        Their probability, relative to that of the tokens with which the search sets out.
    ids
        The tokens, from the start of the text.
    data
        The bytes that they write, the context included.
    """

    mass: float
    ids: tuple[int, ...]
    data: bytes


@dataclass
class Children:
    """The beginnings that are one token longer than one that was opened, the heaviest first; some are taken already.

    Attributes
    ----------
    parent
        The beginning that was opened.
    tokens, masses
        The next tokens, and the mass of each child.
    below
        The mass, together, of the children that are too light to be kept.
    threshold
        None of those has more than this.
    below_cut_off
        The part of ``below`` that begins with a part of a character.
    taken
        How many were taken.
    """

    parent: Beginning
    tokens: Ints
    masses: Floats
    below: float
    threshold: float
    below_cut_off: float = 0.0
    taken: int = 0
    _rest: Floats = field(init=False, repr=False)
    _deep: Ints | None = field(default=None, init=False, repr=False)
    _data: list[bytes] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._rest = _sums_from(self.masses)

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self.tokens) - self.taken

    @property
    def largest(self) -> float:
        """The mass of the heaviest that is left."""
        return float(self.masses[self.taken]) if len(self) else 0.0

    @property
    def left(self) -> float:
        """The mass of all that are left, the lightest included."""
        return self.rest_from(self.taken) + self.below

    def data(self, start: int, stop: int, part_of: Callable[[int], bytes], n_left_out: int) -> list[bytes]:
        """Return what the children at some places write of one word, without so many bytes at their beginnings.

        ``part_of`` returns what a token writes of it.
        """
        own = self.parent.data[n_left_out:]
        self._data += [own + part_of(token) for token in self.tokens[len(self._data) : stop].tolist()]
        return self._data[start:stop]

    def count_from(self, mass: float) -> int:
        """Return how many children have at least a mass, whether they are taken or not."""
        return len(self.masses) - int(self.masses[::-1].searchsorted(mass))

    def rest_from(self, place: int) -> float:
        """Return the mass of the children from a place on, without the lightest."""
        return float(self._rest[place])

    def deep_from(self, place: int, is_deep: Bools) -> float:
        """Return the mass of those of the children from a place on whose tokens are deep, without the lightest."""
        if self._deep is None:
            self._deep = np.flatnonzero(is_deep[self.tokens])
        return float(self.masses[self._deep[self._deep >= place]].sum()) if len(self._deep) else 0.0

    @cached_property
    def place_of_token(self) -> dict[int, int]:
        """Where each token stands."""
        return dict(zip(self.tokens.tolist(), range(len(self.tokens)), strict=True))

    def mass_left(self, token: int) -> float:
        """Return the mass of the child with this token, if it is left and not one of the lightest."""
        place = self.place_of_token.get(token, -1)
        return float(self.masses[place]) if place >= self.taken else 0.0


def _sums_from(masses: Floats) -> Floats:
    """Return the sums of the masses from each place on, the last one being of none."""
    return np.append(np.cumsum(masses[::-1])[::-1], 0.0)


@dataclass
class FoundWord:
    """A word that turned up: some text with it, from the end of the context on, and the mass found for it so far."""

    example: str
    mass: float = 0.0


class NotFound(NamedTuple):
    """What is to be added to the mass that was found for a word.

    Attributes
    ----------
    counted, error
        The mass of cut-off characters that counts as ending it, and by how much that may be off.
    missing
        The most that there may be besides, which was not expanded.
    """

    counted: float = 0.0
    error: float = 0.0
    missing: float = 0.0


class Sighting(NamedTuple):
    """What a beginning shows.

    Attributes
    ----------
    text
        Its text, without a cut-off last character.
    word_end
        Where the next word ends in it; 0 if it does not.
    must_be_opened
        Whether the next word is not known yet.
    is_no_text
        Whether its bytes are no text.
    """

    text: str = ""
    word_end: int = 0
    must_be_opened: bool = False
    is_no_text: bool = False


class NextTokenMasses(NamedTuple):
    """What the next tokens after a beginning do.

    Attributes
    ----------
    going_on
        The tokens that make longer beginnings, but for the lightest.
    probability_going_on
        The probability of these, the lightest included.
    closing, closing_text
        The mass of tokens that show that the word has ended, and the text of the heaviest.
    end
        The mass of the end of the text.
    no_text
        The mass of tokens that stand for no text.
    may_end
        Whether the text may end here.
    """

    going_on: Ints
    probability_going_on: float
    closing: float = 0.0
    closing_text: str = ""
    end: float = 0.0
    no_text: float = 0.0
    may_end: bool = False


def heaviest_chain(all_data: Sequence[bytes], bounds: Sequence[float]) -> tuple[float, list[bytes]]:
    """Return the largest sum of bounds whose bytes each begin with those of the one before, and these different bytes.

    >>> heaviest_chain([b"a", b"b", b"ab", b"ac"], [0.2, 0.4, 0.1, 0.3])
    (0.5, [b'a', b'ac'])
    """
    heaviest = 0.0
    heaviest_data: list[bytes] = []
    chain: list[bytes] = []
    totals = [0.0]
    for place in sorted(range(len(bounds)), key=all_data.__getitem__):
        data = all_data[place]
        while chain and not data.startswith(chain[-1]):
            chain.pop()
            totals.pop()
        chain.append(data)
        totals.append(totals[-1] + bounds[place])
        if totals[-1] > heaviest:
            heaviest = totals[-1]
            heaviest_data = chain.copy()
    return heaviest, list(dict.fromkeys(heaviest_data))
