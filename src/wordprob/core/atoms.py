"""The vocabulary cut into atoms: disjoint classes of tokens that a word definition does not tell apart.

A model reports the log-mass of every atom. Whatever ends a word is a set of atoms, so its mass is a sum of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import CONTINUES, END, LETTER, OPENING, UNREACHABLE, Label, WordDefinition, character_class

CACHED_PARTITIONS = 32
"""Partitions kept, whatever the vocabulary and definition: one takes about a megabyte, and seconds to make."""

MAX_COMPLETIONS = 512
"""Characters looked at for what a cut-off character could become."""


@dataclass(frozen=True)
class Atoms:
    """A partition of ids ``0 … vocab_size - 1``: ``atom_of_token[id]`` is an index into ``labels``."""

    labels: tuple[Label, ...]
    atom_of_token: Ints

    def columns(self, labels: frozenset[Label]) -> list[int]:
        """Return the indices of the atoms with these labels."""
        return [k for k, label in enumerate(self.labels) if label in labels]

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
            labels[token] = definition.label("x")
    for token in vocabulary.ends:
        labels[token] = END
    names = sorted(set(labels[:vocab_size]) | {END, UNREACHABLE})
    index = {name: k for k, name in enumerate(names)}
    return Atoms(tuple(names), np.array([index[name] for name in labels[:vocab_size]], dtype=np.int64))


class TokenLabeller:
    """Labels bytes by their first two characters; a cut-off first character by what it can most often become."""

    def __init__(self, definition: WordDefinition) -> None:
        self._label = lru_cache(maxsize=None)(definition.label)
        self._majority_label = lru_cache(maxsize=None)(self._vote)

    def label(self, piece: bytes, after_space: bool = False) -> Label:
        """Return the label of a token's bytes.

        With ``after_space``, the token begins a pre-token of a tokenizer that drops white space. If it is of a class
        that writers put white space before, it counts as beginning with a space.
        """
        if 0x80 <= piece[0] < 0xC0:  # an inner byte of a character
            return CONTINUES
        opening = piece[:8].decode("utf-8", "ignore")[:2]
        complete = len(opening) > 0 and piece.startswith(opening[0].encode())
        if not complete:
            return self._majority_label(piece)
        if after_space and character_class(opening[0]) in (LETTER, OPENING):
            return self._label(" " + opening)
        return self._label(opening)

    def _vote(self, piece: bytes) -> Label:
        votes: dict[Label, int] = {}
        for character in completions(piece):
            name = self._label(character)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else CONTINUES


def completions(piece: bytes) -> Iterable[str]:
    """Yield the characters whose UTF-8 form begins with these bytes (an even sample where they are many)."""
    length = 2 if piece[0] < 0xE0 else 3 if piece[0] < 0xF0 else 4
    missing = length - len(piece)
    if not 0 < missing < 4 or piece[0] > 0xF4:
        return
    step = max(1, 64**missing // MAX_COMPLETIONS)
    for tail in range(0, 64**missing, step):
        rest = bytes(0x80 | (tail >> (6 * k)) & 0x3F for k in reversed(range(missing)))
        try:
            yield (piece + rest).decode()
        except UnicodeDecodeError:
            continue
