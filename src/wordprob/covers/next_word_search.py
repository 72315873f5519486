"""The words that can follow one context, found by going through the model's tokens, the most probable first.

Beginnings of words (:mod:`wordprob.covers.next_word_beginnings`) are opened. Words whose end is then in sight are
recorded with their probability, the other next tokens make longer beginnings. What was not opened is known, and bounds
everything that was not found.

Nothing here asks the model. :mod:`wordprob.scoring.next_word_batch` does, for many contexts at a time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.characters import END, INNER_BYTES, UNREACHABLE, Label
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition
from wordprob.covers.context_reader import ContextReader, TokenizedPieces
from wordprob.covers.events import LARGEST_ERROR
from wordprob.covers.next_tokens import USUAL_DEPTH, NextTokens, ProbabilitiesByAtom
from wordprob.covers.next_word_beginnings import (
    Beginning,
    Children,
    FoundWord,
    NextTokenMasses,
    NotFound,
    Sighting,
    heaviest_chain,
)
from wordprob.covers.spellings import SpellingFinder
from wordprob.models.protocol import Tokenizer

SMALLEST_SHARE = 1e-7
"""Beginnings with a smaller share of the probability are not kept; they count as not expanded."""
SHARE_OF_HEAVIEST = 0.01
"""Beginnings lighter than this share of the heaviest are bounded together, and not one by one."""
ROUNDING_ERROR = 1e-12
"""A share of a beginning's mass that is as good as nothing."""


class NextAtoms(NamedTuple):
    """What the next token makes of a text that holds all of the context, by its atom; others do not keep the context.

    Attributes
    ----------
    reading_on
        The atoms after which the next word is not known yet.
    closing
        Those that show that it has ended.
    """

    reading_on: list[int]
    closing: list[int]


class NextWordSearch(ContextReader):
    """Goes through token sequences that write the context and go on, the most probable first.

    It sets out before the last word of the context, so that tokens that reach over the end of the context are found.

    Parameters
    ----------
    tokens
        What is known about the vocabulary.
    tokenizer
        The tokenizer.
    definition
        What a word is.
    context
        The text so far, without white space at its end.
    count_all_spellings
        Whether a word's probability is that of all its spellings, or of the tokenizer's own only.
    pieces, finder
        As for :class:`ContextReader`.

    Attributes
    ----------
    found
        The words, with the white space before them.
    other_spellings
        The mass of spellings that the tokenizer never writes, of words with unknown letters, of tokens that stand for
        no text, and of texts that end without another word, but not right after the context.
    opened
        How many beginnings were expanded.
    event_mass
        The mass of texts in which the context's last word ends where the context does; relative to that of the tokens
        with which the search sets out, as all masses here. It is set from outside, before anything is opened.
    end_probability
        The probability that the text ends after the context.
    """

    def __init__(
        self,
        tokens: NextTokens,
        tokenizer: Tokenizer,
        definition: WordDefinition,
        context: str,
        count_all_spellings: bool = False,
        pieces: TokenizedPieces | None = None,
        finder: SpellingFinder | None = None,
    ) -> None:
        super().__init__(tokens, tokenizer, definition, context, pieces, finder)
        self.count_all_spellings = count_all_spellings
        self.found: dict[str, FoundWord] = {}
        self.other_spellings = 0.0
        self.opened = 0
        self.event_mass = math.nan
        self.end_probability = math.nan
        self._children_of: dict[bytes, list[Children]] = {}
        self._heap: list[tuple[float, int, Children]] = []
        self._is_started = False
        self._heaviest_missing: float | None = None
        self._heaviest_chain: list[bytes] = []
        self._word_parts = tokens.word_parts

    # --- taking beginnings, and what the model says about them ---

    def take(self, count: int) -> list[Beginning]:
        """Return the heaviest beginnings, at most so many; each must be opened with :meth:`open`."""
        if not self._is_started:
            self._is_started = True
            return [Beginning(1.0, self.root, b"".join(self.vocabulary.token_bytes[i] for i in self.root))]
        self._heaviest_missing = None
        chosen: list[Beginning] = []
        while self._heap and len(chosen) < count:
            _, number, children = self._heap[0]
            child = self.child(children, children.taken)
            children.taken += 1
            if len(children):
                heapq.heapreplace(self._heap, (-children.largest, number, children))
            else:
                heapq.heappop(self._heap)
            seen = self.look_at(child)
            if seen.must_be_opened:
                chosen.append(child)
            elif seen.word_end:
                self._record(child.ids, seen.text, seen.word_end, child.mass)
            elif seen.is_no_text and len(self.text_of(children.parent)) > len(self.context):
                self.other_spellings += (
                    child.mass
                )  # where the context's last word has ended: else it is not in the event
        return chosen

    def child(self, children: Children, place: int) -> Beginning:
        """Return the child at a place."""
        return self.longer(children.parent, int(children.tokens[place]), float(children.masses[place]))

    def longer(self, beginning: Beginning, token: int, mass: float) -> Beginning:
        """Return a beginning that is longer by one token."""
        return Beginning(mass, (*beginning.ids, token), beginning.data + self.vocabulary.token_bytes[token])

    def open(self, beginning: Beginning, log_probs: Floats) -> None:
        """Share out the mass of a beginning among its next tokens."""
        self.opened += 1
        self._heaviest_missing = None
        if not self.context and beginning.ids == self.root:
            self.end_probability = float(np.exp(log_probs[self.tokens.ends]).sum()) / self.event_mass
        probabilities = np.exp(log_probs)
        next_tokens = self.next_tokens(beginning, probabilities)
        if next_tokens.may_end:
            self._record_end(beginning, next_tokens)
        if next_tokens.closing:
            text = str(self._text(beginning.data))
            self._record(beginning.ids, text + next_tokens.closing_text, len(text), next_tokens.closing)
        self.other_spellings += next_tokens.no_text
        self._keep(beginning, next_tokens, probabilities)

    def next_tokens(self, beginning: Beginning, probabilities: Floats, with_lightest: bool = False) -> NextTokenMasses:
        """Return what the next tokens after a beginning do; the lightest of those that go on only if wanted."""
        text = self._text(beginning.data)
        if text is None or len(beginning.data) < len(self._given) or self._is_cut_off(beginning.data, text):
            fitting = self._fitting_tokens(beginning)
            return NextTokenMasses(fitting, float(probabilities[fitting].sum(dtype=np.float64)))
        reading_on, closing = self._next_atoms(text)
        by_atom = ProbabilitiesByAtom(self.tokens, probabilities)
        sums = by_atom.sums.tolist()
        closing = [atom for atom in closing if sums[atom] > 0.0]
        closing_text = ""
        if closing:
            closing_text = self.vocabulary.token_bytes[by_atom.most_probable(closing)].decode("utf-8", "ignore")
        no_text = math.fsum(sums[atom] for atom in self.tokens.without_text) if len(text) > len(self.context) else 0.0
        # A word with an unknown letter counts, but which one it is will never show.
        atom_of_token = self.tokens.atoms.atom_of_token
        unknown = [token for token in self.tokens.unknown.tolist() if atom_of_token[token] in reading_on]
        p_unknown = float(probabilities[unknown].sum())
        possible = by_atom.possible(reading_on, 0.0 if with_lightest else self._threshold / beginning.mass)
        return NextTokenMasses(
            possible[~np.isin(possible, unknown)],
            math.fsum(sums[atom] for atom in reading_on) - p_unknown,
            beginning.mass * math.fsum(sums[atom] for atom in closing),
            closing_text,
            beginning.mass * float(probabilities[self.tokens.ends].sum()),
            beginning.mass * (no_text + p_unknown),
            may_end=True,
        )

    @property
    def _threshold(self) -> float:
        """The least mass of a beginning that is kept."""
        return SMALLEST_SHARE * self.event_mass

    def _fitting_tokens(self, beginning: Beginning) -> Ints:
        """Return the tokens that keep the context after a beginning that does not hold all of it.

        If only the last character is cut off, all tokens are returned.
        """
        ahead = self._given[len(beginning.data) :]
        if ahead and self.context:
            n_ids = len(beginning.ids)
            fitting = sorted({cover[n_ids] for cover in self._context_covers if cover[:n_ids] == beginning.ids})
        else:
            fitting = self.tokens.fitting(ahead)
        return np.array(fitting, dtype=np.int64)

    @cached_property
    def _context_covers(self) -> list[tuple[int, ...]]:
        """The ways in which the tokenizer writes the context."""
        return sorted(self.own_covers([self.context])[0])

    def _keep(self, beginning: Beginning, next_tokens: NextTokenMasses, probabilities: Floats) -> None:
        """Keep the beginnings that are longer by one token; the lightest are only counted."""
        threshold = self._threshold
        masses = beginning.mass * probabilities[next_tokens.going_on].astype(np.float64)
        heavy = np.flatnonzero(masses >= threshold)
        heavy = heavy[np.argsort(-masses[heavy], kind="stable")]
        below = beginning.mass * next_tokens.probability_going_on - float(masses[heavy].sum())
        if below < ROUNDING_ERROR * beginning.mass:
            below = 0.0
        tokens = next_tokens.going_on[heavy]
        below_cut_off = 0.0
        if next_tokens.may_end and below:
            cut_off = float(probabilities[self.tokens.is_cut_off].sum(dtype=np.float64))
            kept = float(masses[heavy][self.tokens.is_cut_off[tokens]].sum())
            below_cut_off = min(below, max(0.0, beginning.mass * cut_off - kept))
        children = Children(beginning, tokens, masses[heavy], below, threshold, below_cut_off)
        if len(children) or below:
            self._children_of.setdefault(beginning.data, []).append(children)
        if len(children):
            heapq.heappush(self._heap, (-children.largest, self.opened, children))

    def _record_end(self, beginning: Beginning, next_tokens: NextTokenMasses) -> None:
        """Count the end of the text after a beginning: it ends the next word, if there is one."""
        text = str(self._text(beginning.data))
        following = self._next_word(text)
        if following is not None:
            self._record(beginning.ids, text, following[1], next_tokens.end)
        elif len(text) > len(self.context) and beginning.ids != self.own_ids:
            self.other_spellings += next_tokens.end

    # --- what was not expanded ---

    @property
    def unopened(self) -> float:
        """The mass of what was not expanded."""
        return math.fsum(children.left for children in self.all_children())

    def all_children(self) -> list[Children]:
        """Return what is left of all beginnings that were opened."""
        return [children for alike in self._children_of.values() for children in alike]

    @property
    def heaviest_left(self) -> float:
        """The mass of the heaviest beginning that was not expanded."""
        return -self._heap[0][0] if self._heap else 0.0

    @property
    def is_exhausted(self) -> bool:
        """Whether every beginning was expanded, apart from the lightest."""
        return self._is_started and not self._heap

    @property
    def heaviest_missing(self) -> float:
        """The most that a word can have that was not found yet, as a share of the event.

        Everything that writes such a word begins with something that was not expanded. Two of these can belong to
        one word only if what one writes of the word begins with what the other does
        (:class:`wordprob.covers.next_tokens.WordParts`).
        """
        if self._heaviest_missing is None:
            heaviest, self._heaviest_chain = heaviest_chain(*self._bounds())
            self._heaviest_missing = min(heaviest, self.unopened) / self.event_mass
        return self._heaviest_missing

    def may_miss(self, mass: float) -> bool:
        """Return True if a word with more than this mass may not have been found yet."""
        if self.heaviest_left > mass:
            return True
        if self._heaviest_missing is None:
            # What was the heaviest chain when they were last compared is often too heavy still, and soon added up.
            known = math.fsum(map(self._bound_at, self._heaviest_chain))
            if min(known, self.unopened) > mass:
                return True
        return self.heaviest_missing * self.event_mass > mass

    def _bounds(self) -> tuple[list[bytes], list[float]]:
        """Return the bytes of what was not expanded, and its mass: the heaviest ones, and bounds for the others."""
        all_data: list[bytes] = []
        bounds: list[float] = []
        cutoff = SHARE_OF_HEAVIEST * self.heaviest_left
        for children in self.all_children():
            stop = max(children.taken, children.count_from(cutoff))
            all_data += children.data(children.taken, stop, self._part_of(children), self._n_root_bytes)
            bounds += children.masses[children.taken : stop].tolist()
            all_data.append(children.parent.data[self._n_root_bytes :])
            bounds.append(self._lighter(children, stop))
        return all_data, bounds

    def _bound_at(self, data: bytes) -> float:
        """Return the sum of the bounds that have these bytes."""
        cutoff = SHARE_OF_HEAVIEST * self.heaviest_left
        data = self._given[: self._n_root_bytes] + data
        total = 0.0
        for children in self._children_of.get(data, ()):
            total += self._lighter(children, max(children.taken, children.count_from(cutoff)))
        for size in range(self._n_root_bytes, len(data) + 1):
            for children in self._children_of.get(data[:size], ()):
                masses = map(children.mass_left, self._tokens_with_part(children, data[size:]))
                total += math.fsum(mass for mass in masses if mass >= cutoff)
        return total

    def _part_of(self, children: Children) -> Callable[[int], bytes]:
        """Return a function from the token of a child to what it writes of the context and of one word after it."""
        n_ahead = len(self._given) - len(children.parent.data)
        if n_ahead <= 0:
            return self._word_parts.pieces.__getitem__
        return lambda token: self._word_parts.of(token, n_ahead)  # the context's own words end before

    def _tokens_with_part(self, children: Children, data: bytes) -> Sequence[int]:
        """Return the tokens of the children, perhaps with others, that write these bytes of one word."""
        if len(children.parent.data) >= len(self._given):
            return self._word_parts.written_as(data)
        part_of = self._part_of(children)
        return [token for token in children.tokens.tolist() if part_of(token) == data]

    def _lighter(self, children: Children, place: int) -> float:
        """Return the most that the children from a place on have together that begin one word."""
        heaviest = float(children.masses[place]) if place < len(children.masses) else children.threshold
        deep = children.deep_from(place, self._is_one_of_many) + self._lightest(children)
        return min(children.rest_from(place) + children.below, USUAL_DEPTH * heaviest + deep)

    @cached_property
    def _is_one_of_many(self) -> Bools:
        """Whether an id may be one of more than :data:`USUAL_DEPTH` that can belong to one word."""
        one_of_many: Bools = self.tokens.is_deep | self._word_parts.is_shortened
        return one_of_many

    def _lightest(self, children: Children) -> float:
        """Return the most that the children have together that begin one word and are too light to be kept."""
        return min(children.below, self._word_parts.most_of_one_word * children.threshold + children.below_cut_off)

    def still_possible(self, word: str) -> float:
        """Return the most that may have to be added to the mass of a word that was found."""
        data = self._given + word.encode()
        total = 0.0
        for size in range(self._n_root_bytes, len(data) + 1):
            for children in self._children_of.get(data[:size], ()):
                if size < len(data):
                    completing = self.tokens.completing(data[size:])
                    total += math.fsum(map(children.mass_left, completing))
                    total += min(children.below, len(completing) * children.threshold)
                else:
                    total += self._cut_off(children) + children.below_cut_off
        return total

    def _cut_off(self, children: Children) -> float:
        """Return the mass after the end of a word that is a cut-off character: that may go on with the word."""
        return float(children.masses[self.tokens.is_cut_off[children.tokens]].sum())

    def not_found(self, words: Sequence[str]) -> list[NotFound]:
        """Return what is to be added to the mass of each word, if the tokenizer's own spellings count.

        This is closer than :meth:`still_possible`, and takes longer.
        """
        spellings = self.own_covers([self.context + word for word in words])
        not_found = []
        for word, covers in zip(words, spellings, strict=True):
            parts = [self._not_found(cover, self.found[word].mass) for cover in covers]
            not_found.append(NotFound(*(math.fsum(terms) for terms in zip(*parts, strict=True))))
        return not_found

    def _not_found(self, cover: tuple[int, ...], known: float) -> NotFound:
        """Return the mass of a spelling that was not expanded, or what was left open after it.

        ``known`` is the mass that was found for the word.
        """
        data = self._given[: self._n_root_bytes]
        for place in range(len(self.root), len(cover) + 1):
            alike = [each for each in self._children_of.get(data, ()) if each.parent.ids == cover[:place]]
            if not alike:
                return NotFound()  # nothing comes after it, or the word has ended inside the last token
            (children,) = alike
            if place == len(cover):
                return self._left_open(children, known)
            if cover[place] not in children.place_of_token:
                return NotFound(missing=min(children.below, children.threshold))
            if children.mass_left(cover[place]):
                return NotFound(missing=children.mass_left(cover[place]))
            data += self.vocabulary.token_bytes[cover[place]]
        return NotFound()

    def _left_open(self, children: Children, known: float) -> NotFound:
        """Return the mass of cut-off characters after a word that may end it, by the rule by which texts are scored."""
        text = str(self._text(children.parent.data))
        atoms = self.tokens.atoms
        shares = atoms.open_shares(self._ending_labels(text))
        counted, error = (share[atoms.atom_of_token[children.tokens]] for share in shares)
        if float((children.masses * error).sum()) > LARGEST_ERROR * known:
            return NotFound(missing=float(children.masses[error > 0].sum()))
        return NotFound(float((children.masses * counted).sum()), float((children.masses * error).sum()))

    # --- words and their spellings ---

    def look_at(self, child: Beginning) -> Sighting:
        """Return what a beginning shows: a word, nothing that counts, or that it must be opened."""
        text = self._text(child.data)
        if text is None:
            return Sighting(is_no_text=True)
        if len(child.data) >= len(self._given) and not self._keeps_context(child.ids, text):
            return Sighting()
        following = self._next_word(text) if len(text) > len(self.context) else None
        if following is not None and following[1] < len(text):
            return Sighting(text, following[1])
        return Sighting(text, must_be_opened=True)

    def _next_atoms(self, text: str) -> NextAtoms:
        """Return what the next token makes of a text that holds all of the context."""
        atoms = self.tokens.atoms
        if len(text) == len(self.context):
            labels = self._ending_labels(text) if text else self._first_labels
            return NextAtoms(atoms.columns((labels | atoms.ambiguous(labels)) - {END}), [])
        ended = atoms.with_cut_off(self._ending_labels(text)) if self.next_word_end(text) == len(text) else frozenset()
        others = frozenset(atoms.labels) - ended - {UNREACHABLE, INNER_BYTES, END}
        return NextAtoms(atoms.columns(others), atoms.columns(ended - {END}))

    @cached_property
    def _first_labels(self) -> frozenset[Label]:
        """What a text begins with that does not begin with white space."""
        atoms = self.tokens.atoms
        spaces = frozenset(label for label in atoms.all_labels if self.definition.is_space(label))
        return atoms.with_cut_off(frozenset(atoms.all_labels) - spaces - {UNREACHABLE, INNER_BYTES})

    def _ending_labels(self, text: str) -> frozenset[Label]:
        """Return what ends the word with which a text ends: the same labels as where that text is scored."""
        start, end = self._words(text)[-1]
        left = text[max(0, start - LEFT_CONTEXT_CHARACTERS) : start]
        return self.definition.boundaries(left, text[start:end], self.tokens.atoms.all_labels)

    def _record(self, ids: tuple[int, ...], text: str, end: int, mass: float) -> None:
        """Count mass for the next word, which ends at a place, or as a spelling that does not count."""
        if not mass:
            return
        word = self.word_written(ids, text, end)
        if word is None:
            self.other_spellings += mass
        else:
            self.found.setdefault(word, FoundWord(text[len(self.context) :])).mass += mass

    def word_written(self, ids: tuple[int, ...], text: str, end: int) -> str | None:
        """Return the next word of a text, which ends at a place; None if these tokens do not count as its spelling."""
        if self.count_all_spellings or self._is_own(ids, text, end):
            return text[len(self.context) : end]
        return None
