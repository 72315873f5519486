"""The vocabulary cut into atoms: disjoint classes of tokens that a word definition does not tell apart.

A model reports the log-mass of every atom. Whatever ends a word is a set of atoms, so its mass is a sum of these.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.characters import (
    END,
    INNER_BYTES,
    LETTER,
    OPENING,
    UNREACHABLE,
    Label,
    character_bytes,
    character_class,
    completions,
    is_cut_off,
)
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition

NOT_IN_USE = ("Cc", "Cn", "Co")
"""Unicode categories of control characters, and of code points that stand for no character or a private one."""

USUAL_SHARE = 1 / 16
"""What at least this share of the characters in use becomes is usual."""

EITHER_SHARE = 1 / 2
"""How much of a cut-off character counts as ending a word if that is as usual as that it does not."""

UNKNOWN_LETTER = "x"
"""What the unknown token stands for: one letter, nobody knows which."""

CACHED_PARTITIONS = 32
"""Partitions kept, whatever the vocabulary and definition: one takes about a megabyte, and seconds to make."""


class CutOff(NamedTuple):
    """The labels that a cut-off character may get, and those that it usually gets."""

    labels: frozenset[Label]
    usual: frozenset[Label]


class OpenShares(NamedTuple):
    """How cut-off characters are counted of which only some completions end a word, as long as they are not read on.

    Attributes
    ----------
    counted
        ``[K]``: the share of each atom that counts as ending a word; 0 for atoms without such characters.
    error
        ``[K]``: the share of each atom by which that is off at most, whatever the characters become.
    """

    counted: Floats
    error: Floats


@dataclass(frozen=True)
class Atoms:
    """A partition of ids ``0 … vocab_size - 1``: ``atom_of_token[id]`` is an index into ``labels``.

    ``possible`` has the labels of cut-off characters, each with the labels that it stands for.
    """

    labels: tuple[Label, ...]
    atom_of_token: Ints
    possible: Mapping[Label, CutOff] = field(default_factory=dict)

    @cached_property
    def all_labels(self) -> tuple[Label, ...]:
        """The labels of whole characters, those that only cut-off ones can become included."""
        whole = {label for label in self.labels if label not in self.possible}
        return tuple(sorted(whole.union(*(cut_off.labels for cut_off in self.possible.values()))))

    def with_cut_off(self, ending: frozenset[Label]) -> frozenset[Label]:
        """Return labels that end a word, and those of cut-off characters that do so whatever they become."""
        return ending | {label for label, cut_off in self.possible.items() if cut_off.labels <= ending}

    def ambiguous(self, ending: frozenset[Label]) -> frozenset[Label]:
        """Return the labels of cut-off characters of which only some completions end a word."""
        if ending not in self._known_ambiguous:
            self._known_ambiguous[ending] = frozenset(
                label
                for label, cut_off in self.possible.items()
                if cut_off.labels & ending and not cut_off.labels <= ending
            )
        return self._known_ambiguous[ending]

    def open_shares(self, ending: frozenset[Label]) -> OpenShares:
        """Return how the atoms that are :meth:`ambiguous` are counted where these labels end a word.

        What is usual is taken for granted; where both are, half of the mass counts.
        """
        if ending not in self._known_open_shares:
            counted, error = np.zeros((2, len(self.labels)))
            for column in self.columns(self.ambiguous(ending)):
                usual = self.possible[self.labels[column]].usual
                decides = usual <= ending or not usual & ending
                counted[column] = float(usual <= ending) if decides else EITHER_SHARE
                error[column] = max(counted[column], 1.0 - counted[column])
            self._known_open_shares[ending] = OpenShares(counted, error)
        return self._known_open_shares[ending]

    def columns(self, labels: frozenset[Label]) -> list[int]:
        """Return the indices of the atoms with these labels."""
        if labels not in self._known_columns:
            self._known_columns[labels] = [k for k, label in enumerate(self.labels) if label in labels]
        return self._known_columns[labels]

    @cached_property
    def _known_ambiguous(self) -> dict[frozenset[Label], frozenset[Label]]:
        return {}

    @cached_property
    def _known_open_shares(self) -> dict[frozenset[Label], OpenShares]:
        return {}

    @cached_property
    def _known_columns(self) -> dict[frozenset[Label], list[int]]:
        return {}

    @cached_property
    def only_tokens(self) -> dict[int, int]:
        """The token of each atom that has just one, by the atom's index."""
        counts = np.bincount(self.atom_of_token, minlength=len(self.labels))
        return {int(k): int(np.argmax(self.atom_of_token == k)) for k in np.flatnonzero(counts == 1)}

    def sizes(self) -> dict[Label, int]:
        """Return the number of tokens in each atom."""
        counts = np.bincount(self.atom_of_token, minlength=len(self.labels))
        return {label: int(count) for label, count in zip(self.labels, counts, strict=True)}


_partitions: BoundedCache[Atoms] = BoundedCache(CACHED_PARTITIONS)


def atoms_of(vocabulary: Vocabulary, definition: WordDefinition, vocab_size: int | None = None) -> Atoms:
    """Return the partition of ids ``0 … vocab_size - 1`` by what each token begins with, as the definition sees it.

    Ids beyond the tokenizer and control tokens are unreachable, unless they end the text. The result is kept for the
    next time, unless the definition is bound to a vocabulary.
    """
    size = vocabulary.size if vocab_size is None else vocab_size
    if definition.bind() is not definition:
        return _partition(vocabulary, definition, size)
    key = (vocabulary.key, definition, size)
    return _partitions.get(key, lambda: _partition(vocabulary, definition, size))


def _partition(vocabulary: Vocabulary, definition: WordDefinition, vocab_size: int) -> Atoms:
    labeller = TokenLabeller(definition)
    labels = [UNREACHABLE] * max(vocab_size, vocabulary.size)
    for token, piece in enumerate(vocabulary.pieces):
        if piece:
            labels[token] = labeller.label(piece, after_space=bool(vocabulary.spaced[token]))
        elif token == vocabulary.unknown:
            labels[token] = labeller.label(UNKNOWN_LETTER.encode(), after_space=bool(vocabulary.spaced[token]))
    for token in vocabulary.ends:
        labels[token] = END
    names = sorted(set(labels[:vocab_size]) | {END, UNREACHABLE})
    index = {name: k for k, name in enumerate(names)}
    numbers = np.array([index[name] for name in labels[:vocab_size]], dtype=np.int64)
    return Atoms(tuple(names), numbers, labeller.possible)


class TokenLabeller:
    """Labels bytes by their first two characters; a cut-off first character by all that it can become."""

    def __init__(self, definition: WordDefinition) -> None:
        self._definition = definition
        self._label = lru_cache(maxsize=None)(definition.label)
        self._possible = lru_cache(maxsize=None)(self._possible_labels)
        self.possible: dict[Label, CutOff] = {}
        """The labels given to cut-off characters, and what each of them can become."""

    def label(self, piece: bytes, after_space: bool = False) -> Label:
        """Return the label of a token's bytes.

        With ``after_space``, the token begins a pre-token of a tokenizer that drops white space. If it is of a class
        that writers put white space before, it counts as beginning with a space.
        """
        if not character_bytes(piece[0]):
            return INNER_BYTES
        if is_cut_off(piece):
            return self._cut_off_label(piece)
        opening = piece[:8].decode("utf-8", "ignore")[:2]
        if not opening or not piece.startswith(opening[0].encode()):
            return INNER_BYTES
        if after_space and character_class(opening[0]) in (LETTER, OPENING):
            return self._label(" " + opening)
        return self._label(opening)

    def _cut_off_label(self, piece: bytes) -> Label:
        """Return the label of what a cut-off character becomes, or one for all the labels that it may get."""
        cut_off = self._possible(piece)
        if len(cut_off.labels) == 1:
            return next(iter(cut_off.labels))
        kind = f"cut off {piece.hex()}" if self._has_own_atom(piece, cut_off.labels) else "cut off"
        label = f"{kind}: {', '.join(sorted(cut_off.labels))}; usually {', '.join(sorted(cut_off.usual))}"
        self.possible[label] = cut_off
        return label

    def _has_own_atom(self, piece: bytes, labels: frozenset[Label]) -> bool:
        """Return True for a cut-off character that is read on often or for long, from where its mass must be known.

        Whether white space comes next is asked after almost every word. A character that lacks two bytes or more is
        read on more than once; that of an atom with others, once more.
        """
        if self._label(" ") in labels:
            return True
        ending = self._definition.boundaries("", "a", sorted(labels))
        missing_bytes = character_bytes(piece[0]) - len(piece)
        return missing_bytes > 1 and bool(ending) and ending != labels

    def _possible_labels(self, piece: bytes) -> CutOff:
        labels, in_use = set(), Counter[Label]()
        for character in completions(piece):
            label = self._label(character)
            labels.add(label)
            in_use[label] += unicodedata.category(character) not in NOT_IN_USE
        least = USUAL_SHARE * in_use.total()
        usual = frozenset(label for label, count in in_use.items() if count >= least)
        return CutOff(frozenset(labels or {INNER_BYTES}), usual)
