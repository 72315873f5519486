"""The partition of a vocabulary by a word definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import CONTINUES, END, SPACE, UNREACHABLE, Label, WordDefinition


@dataclass(frozen=True)
class Atoms:
    """The vocabulary cut into disjoint classes: ``atom_of_token[id]`` is an index into ``labels``."""

    labels: tuple[Label, ...]
    atom_of_token: Ints

    def columns(self, chosen: frozenset[Label]) -> list[int]:
        """Indices of the atoms_of in ``chosen``."""
        return [i for i, label in enumerate(self.labels) if label in chosen]

    def sizes(self) -> dict[Label, int]:
        """Number of tokens in each atom."""
        counts = np.bincount(self.atom_of_token, minlength=len(self.labels))
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True)}


def atoms_of(vocabulary: Vocabulary, definition: WordDefinition, width: int | None = None) -> Atoms:
    """Partition ids ``0 … width - 1`` by how ``definition`` classifies what each token begins with.

    Ids beyond the tokeniser and control tokens are unreachable, unless they end the text.
    """
    label = _Labeller(definition)
    width = vocabulary.size if width is None else width
    labels = [UNREACHABLE] * max(width, vocabulary.size)
    for i, piece in enumerate(vocabulary.pieces):
        if piece:
            labels[i] = SPACE if vocabulary.spaced[i] and label.leads(piece) else label(piece)
        elif i == vocabulary.unknown:
            labels[i] = definition.label("x")
    for i in vocabulary.ends:
        labels[i] = END
    names = sorted(set(labels[:width]) | {END, UNREACHABLE})
    index = {name: k for k, name in enumerate(names)}
    return Atoms(tuple(names), np.array([index[name] for name in labels[:width]], dtype=np.int64))


class _Labeller:
    """Labels bytes by their first two characters; a cut-off first character by what it can most often become."""

    def __init__(self, definition: WordDefinition) -> None:
        self._label = lru_cache(maxsize=None)(definition.label)
        self._partial = lru_cache(maxsize=None)(self._majority)

    def __call__(self, piece: bytes) -> Label:
        if 0x80 <= piece[0] < 0xC0:
            return CONTINUES
        opening = piece[:8].decode("utf-8", "ignore")[:2]
        complete = len(opening) > 0 and piece.startswith(opening[0].encode())
        return self._label(opening) if complete else self._partial(piece)

    def leads(self, piece: bytes) -> bool:
        """Say whether a piece that begins a pre-token is usually written after white space."""
        return self(piece) in ("letter", "open")

    def _majority(self, piece: bytes) -> Label:
        votes: dict[Label, int] = {}
        for char in completions(piece):
            name = self._label(char)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else CONTINUES


def completions(piece: bytes) -> Iterable[str]:
    """Yield the characters whose UTF-8 form begins with these bytes (an even sample where they are many)."""
    length = 2 if piece[0] < 0xE0 else 3 if piece[0] < 0xF0 else 4
    missing = length - len(piece)
    if not 0 < missing < 4 or piece[0] > 0xF4:
        return
    step = max(1, 64**missing // 512)
    for tail in range(0, 64**missing, step):
        rest = bytes(0x80 | (tail >> (6 * k)) & 0x3F for k in reversed(range(missing)))
        try:
            yield (piece + rest).decode()
        except UnicodeDecodeError:
            continue
