"""Events read token by token: what the next token makes of a text that is still open.

An *event* is a set of texts that can be told by reading on. After each token a text is *in* (whatever follows), *out*
(whatever follows), or still *open*. For an open state the vocabulary falls into tokens that lead in, which are added
up, and tokens that lead to other open states, each by itself; all others lead out. These are the state's
:class:`Transitions`. Two events are made here:

- :class:`BoundaryEvent`: what follows ends a word. Almost every token decides that by its first character, so the
  masses of atoms suffice; a token that holds only the first bytes of a character leaves it open.
- :class:`WordEvent`: these bytes follow, and then what ends a word.

:mod:`wordprob.covers.search` sums the mass of such events.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.arrays import Floats, Ints, concat_ints
from wordprob.core.atoms import Atoms
from wordprob.core.characters import Label, character_bytes, completions, is_cut_off
from wordprob.core.pretoken_edges import OPTIONAL_EDGE
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.joined_tokens import JoinedTokens
from wordprob.covers.token_trie import TokenTrie

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


MAX_CACHED_STATES = 1 << 15
"""Open states of one event whose transitions are remembered: the same endings of words come again and again."""


class Ending(NamedTuple):
    """What ends a word.

    Attributes
    ----------
    labels
        The labels that end it; ``None`` if anything may follow.
    undecided
        The labels after which one would have to read on.
    after_mark
        What ends it if its last token has a mark at which a pre-token ends; ``None`` if no token has one.
    """

    labels: frozenset[Label] | None
    undecided: frozenset[Label] = frozenset()
    after_mark: Ending | None = None


class Outcome(IntEnum):
    """What the next token leads to."""

    INSIDE = 0
    """An open state: part of the word is still to be written."""
    CUT_OFF = 1
    """An open state: the token ends in the first bytes of a character beyond the word's end."""
    WRITTEN = 2
    """In: the word is written, and anything may follow."""
    ENDING = 3
    """In: the token holds what ends the word."""
    UNDECIDED = 4
    """Open for good: the definition of a word would have to read on, further than the model is asked."""


@lru_cache(maxsize=1 << 12)
def _outcomes(*counts: int) -> NDArray[np.int8]:
    """Return outcomes, given how many there are of each :class:`Outcome`."""
    return np.repeat(np.array(list(Outcome), dtype=np.int8), counts)


@dataclass(eq=False, slots=True)  # not frozen: there are many, and a frozen one takes longer to make
class Transitions:
    """What the next token makes of one open state of an event. Tokens that are not here lead out.

    Attributes
    ----------
    event
        The event.
    tokens
        Tokens that lead to open states, or are counted by themselves.
    sizes
        How many bytes of the word each of them takes.
    pending
        The first bytes of a character beyond the word's end that each of them ends in; mostly none.
    sums
        Lists of tokens with the same outcome, whose masses are added up.
    outcomes
        What each token, and then each sum, leads to: an :class:`Outcome`.
    rest
        What is left of the word before each of them.
    is_whole
        Whether the word is written in this state, so that the masses of atoms tell what the next token makes of it.
    following, paths
        The transitions after a token, by its place, and where observed tokens lead, as far as they are known.
    keys
        A number for each mass that is needed: the token, or for a sum the negative identity of its list.
    """

    event: BoundaryEvent
    tokens: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    pending: tuple[bytes, ...] = ()
    sums: tuple[Ints, ...] = ()
    outcomes: NDArray[np.int8] = field(default_factory=lambda: _outcomes(0, 0, 0, 0, 0))
    rest: bytes = b""
    is_whole: bool = False
    following: dict[int, Transitions] = field(default_factory=dict)
    paths: dict[tuple[int, ...], ObservedPath] = field(default_factory=dict)
    keys: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.keys = np.array([*self.tokens, *(-id(ids) for ids in self.sums)], dtype=np.int64)

    def place_of(self, token: int, outcomes: Collection[Outcome] = (Outcome.INSIDE,)) -> int:
        """Return where a token stands that stays inside the word, or leads to these outcomes; -1 if there is none."""
        place = self.tokens.index(token) if token in self.tokens else -1
        return place if place >= 0 and self.outcomes[place] in outcomes else -1

    def restricted_to(self, tokens: frozenset[int]) -> Transitions:
        """Return the transitions by these tokens alone."""
        alone = [n for n, token in enumerate(self.tokens) if token in tokens]
        sums = [np.array([token for token in ids.tolist() if token in tokens], dtype=np.int64) for ids in self.sums]
        kept = [n for n, ids in enumerate(sums) if len(ids)]
        return Transitions(
            event=self.event,
            tokens=tuple(self.tokens[n] for n in alone),
            sizes=tuple(self.sizes[n] for n in alone),
            pending=tuple(self.pending[n] for n in alone),
            sums=tuple(sums[n] for n in kept),
            outcomes=self.outcomes[[*alone, *(len(self.tokens) + n for n in kept)]],
            rest=self.rest,
        )


class ObservedPath(NamedTuple):
    """Where observed tokens lead that write a word.

    Attributes
    ----------
    transitions
        Those at the beginning, and after each of the observed tokens that stays inside the word.
    observed
        Which of these transitions is by the observed token; -1 if it reaches over the word's end, or none is known.
    whole
        The state after the observed tokens, if they end with the word.
    """

    transitions: tuple[Transitions, ...]
    observed: tuple[int, ...]
    whole: Transitions | None = None


class NeededLists(NamedTuple):
    """The lists of ids whose masses transitions need.

    Attributes
    ----------
    numbers
        For every mass, those of one :class:`Transitions` after the other: the number of its list.
    id_lists
        The lists.
    """

    numbers: Ints
    id_lists: list[Ints]


def needed_lists(all_transitions: Sequence[Transitions]) -> NeededLists:
    """Return the lists of ids whose masses are needed; a list that several of them need is there once."""
    keys = concat_ints([transitions.keys for transitions in all_transitions])
    is_token = keys >= 0
    is_needed = np.zeros(keys.max(initial=-1) + 1, dtype=bool)
    is_needed[keys[is_token]] = True
    distinct_sums, sum_numbers = np.unique(keys[~is_token], return_inverse=True)
    numbers = np.empty_like(keys)
    numbers[~is_token] = sum_numbers
    numbers[is_token] = (np.cumsum(is_needed) + (len(distinct_sums) - 1))[keys[is_token]]
    sums = {-id(ids): ids for transitions in all_transitions for ids in transitions.sums}
    id_lists = [sums[key] for key in distinct_sums.tolist()]
    return NeededLists(numbers, id_lists + list(np.flatnonzero(is_needed)[:, None]))


class AtomColumns(NamedTuple):
    """The atoms that decide whether a word has ended, by their indices.

    Attributes
    ----------
    ending
        Those that end it.
    undecided
        Those after which one would have to read on.
    cut_off
        Those whose tokens hold the first bytes of a character that may end it, or not.
    counted
        Which share of each of these counts as ending the word as long as it is not read on.
    single
        Those of ``cut_off`` that have one token, so that its mass is known.
    grouped
        The others.
    """

    ending: Ints
    undecided: Ints
    cut_off: Ints
    counted: Floats
    single: Ints
    grouped: Ints


class BoundaryEvent:
    """The event that what follows ends a word: the state after the whole word, and those inside a cut-off character.

    Parameters
    ----------
    atoms, cut_off_tokens
        The partition of the vocabulary, and what tokens make of cut-off characters.
    ending
        What ends the word.
    """

    def __init__(self, atoms: Atoms, cut_off_tokens: CutOffTokens, ending: Ending) -> None:
        self.ending = ending
        self.cut_off_tokens = cut_off_tokens
        self._labels = ending.labels or frozenset()
        self._inside_characters: dict[bytes, Transitions] = {}
        self._by_lists: dict[tuple[int, ...], Transitions] = {}
        self.whole = Transitions(self, is_whole=True)
        """The state after the whole word."""
        ambiguous = atoms.ambiguous(self._labels)
        cut_off = np.array(atoms.columns(ambiguous), dtype=np.int64)
        beginnings = cut_off_tokens.beginnings(self._labels)
        self._beginnings = beginnings
        self.columns = AtomColumns(
            ending=np.array(atoms.columns(self._labels - ambiguous), dtype=np.int64),
            undecided=np.array(atoms.columns(ending.undecided), dtype=np.int64),
            cut_off=cut_off,
            counted=atoms.open_shares(self._labels).counted[cut_off],
            single=beginnings.single,
            grouped=beginnings.grouped,
        )

    def after(self, transitions: Transitions, place: int) -> Transitions:
        """Return the transitions after one of the tokens that stand by themselves."""
        following = transitions.following.get(place)
        if following is None:
            following = transitions.following[place] = self._find_after(transitions, place)
        return following

    def _find_after(self, transitions: Transitions, place: int) -> Transitions:
        return self.inside_character(transitions.pending[place])

    @cached_property
    def cut_off(self) -> Transitions:
        """By the tokens after a whole word that begin a character of which only some completions end it."""
        return self._by_cut_off_tokens(b"", self.cut_off_tokens.next_tokens(b"", self._labels).cut_off)

    @cached_property
    def single_cut_off(self) -> Transitions:
        """By those of these tokens that are an atom each."""
        return self._by_cut_off_tokens(b"", self._beginnings.single_tokens)

    @cached_property
    def grouped_cut_off(self) -> Transitions:
        """By the others of these tokens."""
        return self._by_cut_off_tokens(b"", self._beginnings.grouped_tokens)

    def inside_character(self, pending: bytes) -> Transitions:
        """Return the transitions after the first bytes of a character beyond the end of a word."""
        if pending not in self._inside_characters:
            ending, cut_off = self.cut_off_tokens.next_tokens(pending, self._labels)
            self._inside_characters[pending] = self._by_cut_off_tokens(pending, cut_off, ending)
        return self._inside_characters[pending]

    def _by_cut_off_tokens(
        self, pending: bytes, tokens: tuple[int, ...], ending_ids: Ints | tuple[int, ...] = ()
    ) -> Transitions:
        return Transitions(
            event=self,
            tokens=tokens,
            sizes=(0,) * len(tokens),
            pending=tuple([pending + self.cut_off_tokens.bytes_of(token) for token in tokens]),
            sums=(np.array(ending_ids, dtype=np.int64),) if len(ending_ids) else (),
            outcomes=_outcomes(0, len(tokens), 0, len(ending_ids) > 0, 0),
        )

    def by_one_of(self, ids: tuple[int, ...]) -> Transitions:
        """Return the transitions of a state in which some tokens lead in, and all others out."""
        if ids not in self._by_lists:
            sums = (np.array(ids, dtype=np.int64),)
            self._by_lists[ids] = Transitions(event=self, sums=sums, outcomes=_outcomes(0, 0, 0, 1, 0))
        return self._by_lists[ids]


class BoundaryEvents:
    """The events that what follows ends a word, by the labels that end it.

    Parameters
    ----------
    atoms, cut_off_tokens
        As for :class:`BoundaryEvent`.

    Attributes
    ----------
    known_starts
        The least that the mass of what may begin a text can be, and its estimate, as logarithms, by what decides it.
    """

    def __init__(self, atoms: Atoms, cut_off_tokens: CutOffTokens) -> None:
        self._atoms = atoms
        self._cut_off_tokens = cut_off_tokens
        self._by_labels: dict[frozenset[Label], BoundaryEvent] = {}
        self.known_starts: dict[Hashable, tuple[float, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was found behind when this is sent to another process."""
        return {**self.__dict__, "_by_labels": {}, "known_starts": {}}

    def ending_with(self, labels: frozenset[Label]) -> BoundaryEvent:
        """Return the event of what begins with one of these labels."""
        if labels not in self._by_labels:
            self._by_labels[labels] = BoundaryEvent(self._atoms, self._cut_off_tokens, Ending(labels))
        return self._by_labels[labels]


class WordEvent(BoundaryEvent):
    """The event that certain bytes follow, and then what ends a word.

    Parameters
    ----------
    trie
        The vocabulary by bytes.
    joined
        The tokens that reach over places where words may end.
    atoms, cut_off_tokens, ending
        As for :class:`BoundaryEvent`.
    """

    def __init__(
        self, trie: TokenTrie, joined: JoinedTokens, atoms: Atoms, cut_off_tokens: CutOffTokens, ending: Ending
    ) -> None:
        super().__init__(atoms, cut_off_tokens, ending)
        self._trie = trie
        self._joined = joined
        self._ended: dict[bytes, Transitions] = {b"": self.whole}
        """The states after the whole word, by what is left of it as it is read."""
        if ending.after_mark is not None:
            after_mark = BoundaryEvent(atoms, cut_off_tokens, ending.after_mark)
            self._ended = {b"": after_mark.whole, OPTIONAL_EDGE: self.whole}
        self._known: dict[bytes, Transitions] = dict(self._ended)

    def inside(self, rest: bytes) -> Transitions:
        """Return the transitions before the rest of a word."""
        transitions = self._known.get(rest)
        if transitions is None:
            if len(self._known) > MAX_CACHED_STATES:
                self._known = dict(self._ended)
            transitions = self._known[rest] = self._find_inside(rest)
        return transitions

    def _find_after(self, transitions: Transitions, place: int) -> Transitions:
        if transitions.pending[place]:
            return self.inside_character(transitions.pending[place])
        return self.inside(transitions.rest[transitions.sizes[place] :])

    def _find_inside(self, rest: bytes) -> Transitions:
        ending = self.ending
        # Those that write the word, if anything may follow it, are the last ones.
        matches = sorted(self._trie.matches(rest), key=lambda match: self._is_in(rest[match[1] :]))
        n_written = sum(self._is_in(rest[size:]) for _, size in matches)
        cut_off: list[tuple[int, bytes]] = []
        ending_ids: list[int] = []
        undecided_ids: list[int] = []
        for beyond, tokens in self._trie.reaching_over(rest, self._joined.continuations_after):
            if ending.labels is None:
                ending_ids += tokens
            elif is_cut_off(beyond):
                cut_off += [(token, beyond) for token in tokens]
            else:
                label = self.cut_off_tokens.label(beyond)
                if label in ending.labels:
                    ending_ids += tokens
                elif label in ending.undecided:
                    undecided_ids += tokens
        n_inside = len(matches) - n_written
        return Transitions(
            event=self,
            tokens=tuple([token for token, _ in matches] + [token for token, _ in cut_off]),
            sizes=tuple([size for _, size in matches] + [len(rest)] * len(cut_off)),
            pending=(b"",) * len(matches) + tuple([beyond for _, beyond in cut_off]),
            sums=tuple(np.array(ids, dtype=np.int64) for ids in (ending_ids, undecided_ids) if ids),
            outcomes=_outcomes(n_inside, len(cut_off), n_written, len(ending_ids) > 0, len(undecided_ids) > 0),
            rest=rest,
        )

    def _is_in(self, rest: bytes) -> bool:
        """Return True if the word is written when this is left of it, and anything may follow."""
        return rest in self._ended and self._ended[rest].event.ending.labels is None

    def along(self, transitions: Transitions, tokens: tuple[int, ...]) -> ObservedPath:
        """Return where observed tokens lead, the first of which may be by one of these transitions."""
        path = transitions.paths.get(tokens)
        if path is None:
            path = transitions.paths[tokens] = self._find_path(transitions, tokens)
        return path

    def _find_path(self, transitions: Transitions, tokens: tuple[int, ...]) -> ObservedPath:
        passed: list[Transitions] = []
        observed: list[int] = []
        for token in (*tokens, -1):
            if transitions.is_whole:
                return ObservedPath(tuple(passed), tuple(observed), transitions)
            place = transitions.place_of(token)
            passed.append(transitions)
            observed.append(place)
            if place < 0:
                break
            transitions = self.after(transitions, place)
        return ObservedPath(tuple(passed), tuple(observed))


class WordEvents:
    """The events of words that end by one rule.

    Parameters
    ----------
    trie, joined, atoms, cut_off_tokens
        As for :class:`WordEvent`.
    """

    def __init__(self, trie: TokenTrie, joined: JoinedTokens, atoms: Atoms, cut_off_tokens: CutOffTokens) -> None:
        self._parts = (trie, joined, atoms, cut_off_tokens)
        self._by_ending: dict[Ending, WordEvent] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was found behind when this is sent to another process."""
        return {**self.__dict__, "_by_ending": {}}

    def before(self, ending: Ending) -> WordEvent:
        """Return the event of words that end in one way."""
        if ending not in self._by_ending:
            self._by_ending[ending] = WordEvent(*self._parts, ending)
        return self._by_ending[ending]
