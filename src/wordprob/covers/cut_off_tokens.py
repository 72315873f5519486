"""What tokens make of a character that the token before them cut off."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import Label, character_bytes, completions, is_cut_off
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition

LARGEST_ERROR = 1e-4
"""By how much of itself B may be off at a boundary, because of characters that are not read on; so log B, in nats."""


class Completions(NamedTuple):
    """The tokens after which a word has ended for certain, and those after which it may have, or not."""

    ending: Ints
    cut_off: tuple[int, ...]


class Beginnings(NamedTuple):
    """The atoms of tokens that begin a character of which only some completions end a word.

    Attributes
    ----------
    single
        The indices of those of one token.
    single_tokens
        Their tokens.
    grouped
        The indices of those of several.
    grouped_tokens
        The tokens of these.
    """

    single: Ints
    single_tokens: tuple[int, ...]
    grouped: Ints
    grouped_tokens: tuple[int, ...]


class CutOffTokens:
    """Finds, for the first bytes of a character, the tokens that may come next.

    Parameters
    ----------
    vocabulary, definition, atoms
        The tokenizer's vocabulary, what a word is, and the partition of the one by the other.
    """

    def __init__(self, vocabulary: Vocabulary, definition: WordDefinition, atoms: Atoms) -> None:
        self._vocabulary = vocabulary
        self._definition = definition
        self._atoms = atoms
        self._known: dict[tuple[bytes, frozenset[Label]], Completions] = {}
        self._beginnings: dict[frozenset[Label], Beginnings] = {}

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of a token."""
        return self._vocabulary.token_bytes[token]

    def next_tokens(self, pending: bytes, ending: frozenset[Label]) -> Completions:
        """Return what may come after the first bytes of a character, where these labels end a word.

        Without such bytes: the tokens that begin a character of which only some completions end it.
        """
        key = (pending, ending)
        if key not in self._known:
            self._known[key] = self._complete(pending, ending) if pending else self._begin(ending)
        return self._known[key]

    def beginnings(self, ending: frozenset[Label]) -> Beginnings:
        """Return the atoms of tokens that begin a character, where these labels end a word."""
        if ending not in self._beginnings:
            only_tokens = self._atoms.only_tokens
            columns = self._atoms.columns(self._atoms.ambiguous(ending))
            single = [k for k in columns if k in only_tokens]
            grouped = [k for k in columns if k not in only_tokens]
            tokens = np.flatnonzero(np.isin(self._atoms.atom_of_token, grouped))
            self._beginnings[ending] = Beginnings(
                single=np.array(single, dtype=np.int64),
                single_tokens=tuple(only_tokens[k] for k in single),
                grouped=np.array(grouped, dtype=np.int64),
                grouped_tokens=tuple(tokens.tolist()),
            )
        return self._beginnings[ending]

    def _begin(self, ending: frozenset[Label]) -> Completions:
        columns = self._atoms.columns(self._atoms.ambiguous(ending))
        tokens = np.flatnonzero(np.isin(self._atoms.atom_of_token, columns))
        return Completions(np.zeros(0, dtype=np.int64), tuple(tokens.tolist()))

    def _complete(self, pending: bytes, ending: frozenset[Label]) -> Completions:
        sure, cut_off = [], []
        for token in self._inner_tokens:
            possible = self._possible_labels(pending + self._vocabulary.token_bytes[token])
            if possible and possible <= ending:
                sure.append(token)
            elif possible & ending:
                cut_off.append(token)
        return Completions(np.array(sure, dtype=np.int64), tuple(cut_off))

    def _possible_labels(self, data: bytes) -> frozenset[Label | None]:
        """Return the labels that what begins with a character may get; all, where that would take long to find out."""
        if not is_cut_off(data):
            return frozenset({self.label(data)})
        if len(data) < character_bytes(data[0]) - 1:
            return frozenset(self._atoms.all_labels)
        return frozenset(self._definition.label(character) for character in completions(data))

    def label(self, data: bytes) -> Label | None:
        """Return the label of what begins with a character; ``None`` for bytes that no text has."""
        try:
            first = data[: character_bytes(data[0])].decode()
        except UnicodeDecodeError:
            return None
        opening = data[:8].decode("utf-8", "ignore")[:2]
        label = self._definition.label(opening)
        return label if label in self._atoms.all_labels else self._definition.label(first)

    @cached_property
    def _inner_tokens(self) -> list[int]:
        """The tokens that begin inside a character."""
        pieces = self._vocabulary.token_bytes[: len(self._atoms.atom_of_token)]
        return [token for token, piece in enumerate(pieces) if piece and not character_bytes(piece[0])]
