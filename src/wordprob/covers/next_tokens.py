"""What the search for next words needs to know about the tokens of a vocabulary, worked out once for all contexts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ints, cumulative_offsets, slices_of
from wordprob.core.atoms import UNKNOWN_LETTER, Atoms, OpenShares, atoms_of
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.characters import INFORMATION_SEPARATORS, Label
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.token_trie import TokenTrie, token_trie_of

CACHED_VOCABULARIES = 8
"""Vocabularies, each with a definition of a word, of which what the search needs to know is kept."""
USUAL_DEPTH = 8
"""How many tokens of a vocabulary a token usually begins with, at most; long runs of one character have more."""


class NextTokens:
    """The tokens that write text, by what they begin with.

    Parameters
    ----------
    vocabulary
        The tokenizer's vocabulary.
    vocab_size
        Number of ids that the model's distributions have.
    definition
        What a word is. Tokens that begin with characters that it does not tell apart are of one *kind*.

    Attributes
    ----------
    examples
        For each kind of token, a character that such tokens begin with.
    unknown
        The id of the unknown token, if there is one. It is of the kind of letters, as :mod:`wordprob.core.atoms` has
        it, but which word it writes is not known.
    kinds
        The kind of each id. Two further numbers follow after those of ``examples``: :attr:`cut_off_kind` for tokens
        that begin with a part of a character, and :attr:`no_text_kind` for those that write nothing.
    """

    def __init__(self, vocabulary: Vocabulary, vocab_size: int, definition: WordDefinition) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocab_size
        self._definition = definition
        self._cut_off: dict[frozenset[Label], OpenShares] = {}
        self.ends: Ints = np.array(vocabulary.ends, dtype=np.int64)
        ends = self._end_ids = frozenset(vocabulary.ends)
        pieces = vocabulary.token_bytes[:vocab_size]
        self.text_tokens: Ints = np.array([i for i, piece in enumerate(pieces) if piece and i not in ends], np.int64)
        self.examples: list[str] = []
        number_of_label: dict[str, int] = {}
        beginnings = [_first_character(pieces[token]) for token in self.text_tokens.tolist()]
        numbers = []
        for character in beginnings:
            if not character:
                numbers.append(-2)
                continue
            label = definition.label(character)
            if label not in number_of_label and character not in INFORMATION_SEPARATORS:
                number_of_label[label] = len(self.examples)
                self.examples.append(character)
            numbers.append(number_of_label.get(label, -2))
        kinds = np.full(vocab_size, -1, dtype=np.int64)
        kinds[self.text_tokens] = numbers
        self.unknown: Ints = np.array([i for i in (vocabulary.unknown,) if i is not None and i < vocab_size], np.int64)
        kinds[self.unknown] = number_of_label.get(definition.label(UNKNOWN_LETTER), -1)
        self.cut_off_kind = len(self.examples)
        self.no_text_kind = len(self.examples) + 1
        self.kinds: Ints = np.where(kinds == -2, self.cut_off_kind, np.where(kinds == -1, self.no_text_kind, kinds))

    @property
    def n_kinds(self) -> int:
        """How many kinds there are, the two without an example included."""
        return len(self.examples) + 2

    @cached_property
    def one_atom(self) -> Atoms:
        """All ids as one atom: for requests that want the whole distribution."""
        return Atoms(("all",), np.zeros(self.vocab_size, dtype=np.int64))

    @cached_property
    def without_text(self) -> Ints:
        """Control tokens that do not end a text, and ids that the tokenizer does not have."""
        written = np.zeros(self.vocab_size, dtype=bool)
        written[self.text_tokens] = True
        written[self.unknown] = True
        written[self.ends] = True
        return np.flatnonzero(~written)

    @cached_property
    def tokens_of_kind(self) -> list[Ints]:
        """The tokens of each kind."""
        return [np.flatnonzero(self.kinds == kind) for kind in range(self.n_kinds)]

    @cached_property
    def in_order_of_kind(self) -> Ints:
        """All ids, those of each kind together."""
        return np.concatenate(self.tokens_of_kind)

    @cached_property
    def slices_of_kinds(self) -> list[slice]:
        """Where the tokens of each kind stand in :attr:`in_order_of_kind`."""
        return slices_of(cumulative_offsets(map(len, self.tokens_of_kind)))

    @cached_property
    def kinds_with_tokens(self) -> tuple[Ints, Ints]:
        """The kinds that have tokens, and where each begins in :attr:`in_order_of_kind`."""
        filled = [kind for kind, tokens in enumerate(self.tokens_of_kind) if len(tokens)]
        return np.array(filled), np.array([self.slices_of_kinds[kind].start for kind in filled])

    def cut_off_tokens(self, ending: frozenset[Label]) -> OpenShares:
        """Return, for every id, how it is counted where these labels end a word, if it is cut off."""
        if ending not in self._cut_off:
            atoms = atoms_of(self.vocabulary, self._definition, self.vocab_size)
            is_cut_off = self.kinds == self.cut_off_kind
            shares = atoms.open_shares(ending)
            sure = is_cut_off & np.isin(atoms.atom_of_token, atoms.columns(atoms.with_cut_off(ending)))
            self._cut_off[ending] = OpenShares(
                counted=sure + is_cut_off * shares.counted[atoms.atom_of_token],
                error=is_cut_off * shares.error[atoms.atom_of_token],
            )
        return self._cut_off[ending]

    # --- tokens by their bytes ---

    @cached_property
    def _trie(self) -> TokenTrie:
        return token_trie_of(self.vocabulary, self.vocab_size)

    @cached_property
    def _may_hold_end(self) -> Bools:
        """Whether a word may end inside a token, or before it."""
        may_hold: Bools = self.kinds == self.cut_off_kind
        for token in np.setdiff1d(self.text_tokens, np.flatnonzero(may_hold)).tolist():
            text = self.vocabulary.token_bytes[token].decode("utf-8", "replace")
            may_hold[token] = any(True for _ in self._definition.possible_boundaries(text))
        return may_hold

    def written_as(self, data: bytes) -> tuple[int, ...]:
        """Return the tokens that are exactly these bytes."""
        return self._trie.ids(data)

    def fitting(self, ahead: bytes) -> list[int]:
        """Return the tokens that do not contradict the bytes ahead: each begins with the other, one way or the other.

        If nothing is ahead, every token fits.
        """
        shorter = [token for token, size in self._trie.matches(ahead) if size < len(ahead)]
        return shorter + [token for token in self._trie.beginning_with(ahead) if token not in self._end_ids]

    def completing(self, ahead: bytes) -> list[int]:
        """Return the tokens with which a word may go on, or be completed, that has these bytes still ahead."""
        parts = [token for token, _ in self._trie.matches(ahead)]
        longer = [token for token in self._trie.beginning_with(ahead) if self._may_hold_end[token]]
        return parts + [token for token in longer if token not in parts]

    @cached_property
    def depths(self) -> Ints:
        """With how many tokens each one begins, itself included. Only tokens that begin alike can begin one word."""
        depths = np.zeros(self.vocab_size, dtype=np.int64)
        chain: list[bytes] = []
        for token, piece in zip(self._trie.tokens, self._trie.pieces, strict=True):
            while chain and not piece.startswith(chain[-1]):
                chain.pop()
            chain.append(piece)
            depths[token] = len(chain)
        return depths

    @cached_property
    def is_deep(self) -> Bools:
        """Whether a token begins with more than :data:`USUAL_DEPTH` tokens."""
        deep: Bools = self.depths > USUAL_DEPTH
        return deep


class ProbabilitiesByKind:
    """The probabilities of the next token, those of each kind of token together.

    Parameters
    ----------
    tokens
        What is known about the vocabulary.
    probabilities
        The probability of each id.

    Attributes
    ----------
    sums
        The probability of each kind, in double precision.
    """

    def __init__(self, tokens: NextTokens, probabilities: Floats) -> None:
        self._tokens = tokens
        self._values: Floats = probabilities[tokens.in_order_of_kind]
        self.sums: Floats = np.zeros(tokens.n_kinds)
        kinds, starts = tokens.kinds_with_tokens
        self.sums[kinds] = np.add.reduceat(self._values, starts, dtype=np.float64)

    def most_probable(self, kinds: Iterable[int]) -> int:
        """Return the most probable token of some kinds, each of which has tokens."""
        own = [self._tokens.slices_of_kinds[kind] for kind in kinds]
        places = [part.start + int(self._values[part].argmax()) for part in own]
        return int(self._tokens.in_order_of_kind[max(places, key=self._values.__getitem__)])

    def possible(self, kinds: Iterable[int], least: float) -> Ints:
        """Return the tokens of some kinds that are possible and have at least a probability, in the order of ids."""
        chosen = []
        for kind in kinds:
            own = self._tokens.slices_of_kinds[kind]
            values = self._values[own]
            is_chosen = values >= least if least > 0.0 else values > 0.0
            chosen.append(self._tokens.in_order_of_kind[own.start + np.flatnonzero(is_chosen)])
        return np.sort(concat_ints(chosen))


_known: BoundedCache[NextTokens] = BoundedCache(CACHED_VOCABULARIES)


def next_tokens_of(vocabulary: Vocabulary, vocab_size: int, definition: WordDefinition) -> NextTokens:
    """Return what the search needs to know about a vocabulary; it is kept for the next time."""
    if definition.bind() is not definition:
        return NextTokens(vocabulary, vocab_size, definition)
    key = (vocabulary.key, vocab_size, definition)
    return _known.get(key, lambda: NextTokens(vocabulary, vocab_size, definition))


def _first_character(piece: bytes) -> str:
    """Return the first character of a token; nothing if it is cut off."""
    text = piece[:4].decode("utf-8", "ignore")
    return text[0] if text and piece.startswith(text[0].encode()) else ""
