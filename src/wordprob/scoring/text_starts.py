"""What a text may begin with: the condition under which its first word is scored."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from wordprob.core.alignment import Alignment
from wordprob.core.arrays import Bools
from wordprob.core.atoms import Atoms
from wordprob.core.characters import END, INNER_BYTES, UNREACHABLE, Label, is_white_space
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import WordDefinition
from wordprob.covers.branches import BranchTail
from wordprob.scoring.prepared_batch import BoundarySets, PreparedBatch

FIRST_TOKENS = 5
"""Tokens that hold the first character of a text, at most: a space that is put before it, and one for each byte."""


class TextStarts:
    """Settles what the texts of a batch may begin with.

    Parameters
    ----------
    vocabulary, definition, atoms
        The tokenizer's vocabulary, what a word is, and the partition of the one by the other.
    sets
        The sets of labels in use.
    """

    def __init__(self, vocabulary: Vocabulary, definition: WordDefinition, atoms: Atoms, sets: BoundarySets) -> None:
        self._vocabulary = vocabulary
        self._definition = definition
        self._atoms = atoms
        self._sets = sets

    @cached_property
    def _spaces(self) -> frozenset[Label]:
        return frozenset(label for label in self._atoms.all_labels if self._definition.is_space(label))

    @cached_property
    def _others(self) -> frozenset[Label]:
        """What a text without white space at its beginning may begin with."""
        return frozenset(self._atoms.all_labels) - self._spaces - {UNREACHABLE, INNER_BYTES}

    def set_starts(self, prepared: PreparedBatch) -> None:
        """Settle what each text may begin with: white space if it does, else anything but that, or nothing at all."""
        alignment = prepared.alignment
        if self._vocabulary.spaced.any():
            self._set_first_ids(prepared, np.zeros(alignment.n_texts, dtype=bool), (self._first_pieces, ()))
            return
        begins_with_space = self._begins_with_space(alignment)
        if self._vocabulary.first_word_marked:
            self._set_marked_starts(prepared, begins_with_space)
            return
        usual = self._sets.number(self._atoms.with_cut_off(self._others))
        space = self._sets.number(self._atoms.with_cut_off(self._spaces))
        prepared.boundary_sets[alignment.first_boundaries] = np.where(begins_with_space, space, usual)

    def _begins_with_space(self, alignment: Alignment) -> Bools:
        """Return ``[D]``: whether each text begins with white space that its tokens hold.

        A tokenizer that drops it writes the same tokens for the text without it, so the two are one event.
        """
        batch = alignment.batch
        lengths = np.diff(batch.text_starts) - 1
        first_characters = [batch.text[start] for start in batch.text_starts[:-1].tolist()]
        spaces = {character for character in set(first_characters) if is_white_space(character)}
        begins_with_space = np.array([c in spaces for c in first_characters], dtype=bool) & (lengths > 0)
        for text in np.flatnonzero(begins_with_space).tolist():
            begins_with_space[text] = self._writes_space_first(alignment, text)
        return begins_with_space

    def _writes_space_first(self, alignment: Alignment, text: int) -> bool:
        """Return True if what the tokens of a text hold, without the space put before it, begins with white space."""
        first, stop = alignment.token_offsets[text : text + 2].tolist()
        ids = alignment.ids[first : min(stop, first + FIRST_TOKENS)].tolist()
        written = b"".join(self._vocabulary.token_bytes[token] for token in ids)
        if self._vocabulary.first_word_marked:
            written = written.removeprefix(b" ")
        return is_white_space(written.decode("utf-8", "ignore")[:1])

    def _set_marked_starts(self, prepared: PreparedBatch, begins_with_space: Bools) -> None:
        """Settle the same for a tokenizer that puts a space before every text: what comes after that space counts."""
        self._set_first_ids(prepared, begins_with_space, self._marked_first_ids)
        for text in self._texts_with_start(prepared):
            boundary, row = self._first_place(prepared, text)
            labels = self._atoms.with_cut_off(self._spaces if begins_with_space[text] else self._others - {END})
            for token in self._lone_spaces:
                prepared.branches.add(boundary, row, token, BranchTail(token, labels))

    def _set_first_ids(
        self, prepared: PreparedBatch, begins_with_space: Bools, first_ids: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> None:
        """Let each text begin with any of these ids: the first ones, or the second ones where it begins with space."""
        for text in self._texts_with_start(prepared):
            boundary, row = self._first_place(prepared, text)
            prepared.branches.add(boundary, row, first_ids[bool(begins_with_space[text])])

    @staticmethod
    def _texts_with_start(prepared: PreparedBatch) -> list[int]:
        """Return the texts whose first words are scored, if the model sees something before them."""
        if not prepared.settings.start_ids:
            return []
        texts: list[int] = np.flatnonzero(prepared.n_context_words == 0).tolist()
        return texts

    @staticmethod
    def _first_place(prepared: PreparedBatch, text: int) -> tuple[int, int]:
        """Return the boundary before a text, and its row."""
        boundary = int(prepared.alignment.first_boundaries[text])
        return boundary, int(prepared.alignment.boundary_rows[boundary])

    @cached_property
    def _first_pieces(self) -> tuple[int, ...]:
        """The ids that a text may begin with if pieces that go on with a word are marked, and the ends."""
        begins = np.flatnonzero(self._vocabulary.spaced[: len(self._atoms.atom_of_token)]).tolist()
        with_text = [
            token for token in begins if self._vocabulary.token_bytes[token] or token == self._vocabulary.unknown
        ]
        return tuple(dict.fromkeys([*with_text, *self._vocabulary.ends]))

    @cached_property
    def _marked_first_ids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that are a space and something else, or the end, and those that are two spaces and perhaps more."""
        others: list[int] = list(self._vocabulary.ends)
        spaces: list[int] = []
        for token, piece in enumerate(self._vocabulary.token_bytes):
            if len(piece) > 1 and piece[:1] == b" " and token < len(self._atoms.atom_of_token):
                after = piece[1:].decode("utf-8", "ignore")[:1]
                (spaces if is_white_space(after) else others).append(token)
        return tuple(others), tuple(spaces)

    @cached_property
    def _lone_spaces(self) -> list[tuple[int, ...]]:
        """The ids that are a space alone, each by itself."""
        return [(token,) for token, piece in enumerate(self._vocabulary.token_bytes) if piece == b" "]
