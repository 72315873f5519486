"""What a text may begin with: the condition under which its first word is scored."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from wordprob.core.arrays import Bools
from wordprob.core.atoms import Atoms
from wordprob.core.branches import BranchTail
from wordprob.core.characters import END, INNER_BYTES, UNREACHABLE, Label, is_white_space
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import WordDefinition
from wordprob.scoring.boundary_sets import BoundarySets
from wordprob.scoring.prepared_batch import PreparedBatch


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
        batch = alignment.batch
        first_characters = [batch.text[start] for start in batch.text_starts[:-1].tolist()]
        lengths = np.diff(batch.text_starts) - 1
        spaces = {character for character in set(first_characters) if is_white_space(character)}
        begins_with_space = np.array([c in spaces for c in first_characters], dtype=bool) & (lengths > 0)
        if self._vocabulary.first_word_marked:
            self._set_marked_starts(prepared, begins_with_space)
            return
        usual = self._sets.number(self._atoms.with_cut_off(self._others))
        space = self._sets.number(self._atoms.with_cut_off(self._spaces))
        prepared.boundary_sets[alignment.first_boundaries] = np.where(begins_with_space, space, usual)

    def _set_marked_starts(self, prepared: PreparedBatch, begins_with_space: Bools) -> None:
        """Settle the same for a tokenizer that puts a space before every text: what comes after that space counts."""
        alignment = prepared.alignment
        if not prepared.settings.start_ids:
            return
        for text in np.flatnonzero(prepared.n_context_words == 0).tolist():
            space = bool(begins_with_space[text])
            boundary = int(alignment.first_boundaries[text])
            row = int(alignment.boundary_rows[boundary])
            prepared.branches.add(boundary, row, self._marked_first_ids[space])
            labels = self._atoms.with_cut_off(self._spaces if space else self._others - {END})
            for token in self._lone_spaces:
                prepared.branches.add(boundary, row, token, BranchTail(token, labels))

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
