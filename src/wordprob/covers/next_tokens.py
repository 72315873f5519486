"""What the search for next words needs to know about the tokens of a vocabulary, worked out once for all contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, concat_ints, cumulative_offsets, slices_of
from wordprob.core.atoms import Atoms, atoms_of
from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.characters import INNER_BYTES, UNREACHABLE
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.next_word_beginnings import heaviest_chain
from wordprob.covers.token_trie import TokenTrie, token_trie_of

CACHED_VOCABULARIES = 8
"""Vocabularies, each with a definition of a word, of which what the search needs to know is kept."""
USUAL_DEPTH = 8
"""How many tokens of a vocabulary a token usually begins with, at most; long runs of one character have more."""


class NextTokens:
    """The tokens of a vocabulary, by the atom that each belongs to and by their bytes.

    Parameters
    ----------
    vocabulary
        The tokenizer's vocabulary.
    vocab_size
        Number of ids that the model's distributions have.
    definition
        What a word is.

    Attributes
    ----------
    atoms
        The partition of the ids by what each begins with: the same that texts are scored with.
    unknown
        The id of the unknown token, if there is one. Its atom is that of a letter, but which word it writes is not
        known.
    is_cut_off
        Whether an id begins with a part of a character.
    """

    def __init__(self, vocabulary: Vocabulary, vocab_size: int, definition: WordDefinition) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocab_size
        self.definition = definition
        self.atoms: Atoms = atoms_of(vocabulary, definition, vocab_size)
        self.ends: Ints = np.array(vocabulary.ends, dtype=np.int64)
        ends = self._end_ids = frozenset(vocabulary.ends)
        pieces = vocabulary.token_bytes[:vocab_size]
        self.text_tokens: Ints = np.array([i for i, piece in enumerate(pieces) if piece and i not in ends], np.int64)
        self.unknown: Ints = np.array([i for i in (vocabulary.unknown,) if i is not None and i < vocab_size], np.int64)
        self.is_cut_off: Bools = np.zeros(vocab_size, dtype=bool)
        self.is_cut_off[self.text_tokens] = [not _has_first_character(pieces[i]) for i in self.text_tokens.tolist()]

    @cached_property
    def one_atom(self) -> Atoms:
        """All ids as one atom: for requests that want the whole distribution."""
        return Atoms(("all",), np.zeros(self.vocab_size, dtype=np.int64))

    @cached_property
    def without_text(self) -> list[int]:
        """The atoms of tokens that no text has where a character begins; the ends are not among them."""
        return self.atoms.columns(frozenset({UNREACHABLE, INNER_BYTES}))

    @cached_property
    def tokens_of_atom(self) -> list[Ints]:
        """The tokens of each atom."""
        return [np.flatnonzero(self.atoms.atom_of_token == atom) for atom in range(len(self.atoms.labels))]

    @cached_property
    def in_order_of_atom(self) -> Ints:
        """All ids, those of each atom together."""
        return np.concatenate(self.tokens_of_atom)

    @cached_property
    def slices_of_atoms(self) -> list[slice]:
        """Where the tokens of each atom stand in :attr:`in_order_of_atom`."""
        return slices_of(cumulative_offsets(map(len, self.tokens_of_atom)))

    @cached_property
    def atoms_with_tokens(self) -> tuple[Ints, Ints]:
        """The atoms that have tokens, and where each begins in :attr:`in_order_of_atom`."""
        filled = [atom for atom, tokens in enumerate(self.tokens_of_atom) if len(tokens)]
        return np.array(filled), np.array([self.slices_of_atoms[atom].start for atom in filled])

    @cached_property
    def word_parts(self) -> WordParts:
        """What the tokens write of one word."""
        return WordParts(self)

    # --- tokens by their bytes ---

    @cached_property
    def _trie(self) -> TokenTrie:
        return token_trie_of(self.vocabulary, self.vocab_size)

    @cached_property
    def _may_hold_end(self) -> Bools:
        """Whether a word may end inside a token, or before it."""
        may_hold: Bools = self.is_cut_off.copy()
        for token in np.setdiff1d(self.text_tokens, np.flatnonzero(may_hold)).tolist():
            text = self.vocabulary.token_bytes[token].decode("utf-8", "replace")
            may_hold[token] = any(True for _ in self.definition.possible_boundaries(text))
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


class WordParts:
    """What the tokens of a vocabulary write of one word: their bytes up to where a word may end inside of them.

    Several tokens can hold the end of the same word and something different behind it, such as ``).`` and ``),`` where
    ``)`` is a word. What each has up to there is what tells whether two tokens can belong to the same word.

    Parameters
    ----------
    tokens
        The tokens.

    Attributes
    ----------
    pieces
        For each id, its bytes up to the first place where a word may end. Nothing, if it begins with a part of a
        character: the word may have ended before it.
    """

    def __init__(self, tokens: NextTokens) -> None:
        self._token_bytes = tokens.vocabulary.token_bytes
        self._is_cut_off = tokens.is_cut_off
        self._ends: dict[int, list[int]] = {}
        self.pieces: list[bytes] = list(self._token_bytes[: tokens.vocab_size])
        for token in tokens.text_tokens.tolist():
            ends = [0] if self._is_cut_off[token] else _possible_ends(self._token_bytes[token], tokens.definition)
            if ends:
                self._ends[token] = ends
                self.pieces[token] = self._token_bytes[token][: ends[0]]

    @cached_property
    def is_shortened(self) -> Bools:
        """Whether a word may end inside an id, or before it."""
        shortened: Bools = np.zeros(len(self.pieces), dtype=bool)
        shortened[list(self._ends)] = True
        return shortened

    @cached_property
    def most_of_one_word(self) -> int:
        """How many tokens, at most, can begin or end the same word, besides those that begin with a cut-off character.

        These are counted apart, as they can follow every word.
        """
        pieces = [piece for token, piece in enumerate(self.pieces) if piece and not self._is_cut_off[token]]
        return round(heaviest_chain(pieces, [1.0] * len(pieces))[0])

    def of(self, token: int, n_before: int) -> bytes:
        """Return the bytes of a token up to the first place where a word may end that has this many bytes before it."""
        ends = [end for end in self._ends.get(token, ()) if end > n_before]
        return self._token_bytes[token][: ends[0]] if ends else self._token_bytes[token]

    def written_as(self, data: bytes) -> Sequence[int]:
        """Return the tokens with exactly these bytes as their part."""
        return self._by_piece.get(data, ())

    @cached_property
    def _by_piece(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for token, piece in enumerate(self.pieces):
            found.setdefault(piece, []).append(token)
        return found


class ProbabilitiesByAtom:
    """The probabilities of the next token, those of each atom together.

    Parameters
    ----------
    tokens
        What is known about the vocabulary.
    probabilities
        The probability of each id.

    Attributes
    ----------
    sums
        The probability of each atom, in double precision.
    """

    def __init__(self, tokens: NextTokens, probabilities: Floats) -> None:
        self._tokens = tokens
        self._values: Floats = probabilities[tokens.in_order_of_atom]
        self.sums: Floats = np.zeros(len(tokens.atoms.labels))
        atoms, starts = tokens.atoms_with_tokens
        self.sums[atoms] = np.add.reduceat(self._values, starts, dtype=np.float64)

    def most_probable(self, atoms: Iterable[int]) -> int:
        """Return the most probable token of some atoms, each of which has tokens."""
        own = [self._tokens.slices_of_atoms[atom] for atom in atoms]
        places = [part.start + int(self._values[part].argmax()) for part in own]
        return int(self._tokens.in_order_of_atom[max(places, key=self._values.__getitem__)])

    def possible(self, atoms: Iterable[int], least: float) -> Ints:
        """Return the tokens of some atoms that are possible and have at least a probability, in the order of ids."""
        chosen = []
        for atom in atoms:
            own = self._tokens.slices_of_atoms[atom]
            values = self._values[own]
            is_chosen = values >= least if least > 0.0 else values > 0.0
            chosen.append(self._tokens.in_order_of_atom[own.start + np.flatnonzero(is_chosen)])
        return np.sort(concat_ints(chosen))


_known: BoundedCache[NextTokens] = BoundedCache(CACHED_VOCABULARIES)


def next_tokens_of(vocabulary: Vocabulary, vocab_size: int, definition: WordDefinition) -> NextTokens:
    """Return what the search needs to know about a vocabulary; it is kept for the next time."""
    if definition.bind() is not definition:
        return NextTokens(vocabulary, vocab_size, definition)
    key = (vocabulary.key, vocab_size, definition)
    return _known.get(key, lambda: NextTokens(vocabulary, vocab_size, definition))


def _has_first_character(piece: bytes) -> bool:
    """Return True if the first character of a token is whole."""
    text = piece[:4].decode("utf-8", "ignore")
    return bool(text) and piece.startswith(text[0].encode())


def _possible_ends(piece: bytes, definition: WordDefinition) -> list[int]:
    """Return after how many bytes of a token a word may end; also before a last character that is cut off."""
    text = piece.decode("utf-8", "ignore")
    ends = [len(text[:place].encode()) for place in definition.possible_boundaries(text)]
    size = len(text.encode())
    return ends if size == len(piece) else [*ends, size]
