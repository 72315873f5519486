"""Texts made ready for the model: words, tokens, what ends each word, and its other spellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Alignment, Cut, align
from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.atoms import atoms_of
from wordprob.core.spellings import Branches, SpellingFinder
from wordprob.core.text import Document, TextBatch, Word
from wordprob.core.vocabulary import Tokens
from wordprob.core.windows import Window, windows
from wordprob.core.words import END, LEFT_CONTEXT_CHARACTERS, UNREACHABLE, Label, WordDefinition
from wordprob.errors import InputError
from wordprob.models.protocol import Tokenizer

MID_TOKEN = "a token crosses the word's boundary"
NOTHING_WRITTEN = "the tokeniser wrote nothing for this word"
NO_RULE = "no rule says that a word ends here"
NO_START = "no start-of-text token: choose one with bos"
UNKNOWN_CHARACTERS = "the tokeniser does not know all of it"


class Chunk(NamedTuple):
    """Some texts that are scored together.

    Attributes
    ----------
    documents
        The texts.
    user_words
        Their words, where the user gave them.
    context_lengths
        How many characters at the beginning of each text are context only; none by default.
    offset_origins
        Where in each text the offsets of words are counted from; its beginning by default.
    source_documents
        What the rows of the table are about, where that is not the texts themselves.
    continues
        Whether the only text goes on in the next chunk.
    shares_context
        Whether the texts have their contexts in common with each other and with further chunks.
    """

    documents: Sequence[Document]
    user_words: Sequence[Sequence[Word]] | None = None
    context_lengths: Sequence[int] | None = None
    offset_origins: Sequence[int] | None = None
    source_documents: Sequence[Document] | None = None
    continues: bool = False
    shares_context: bool = False


@dataclass(frozen=True)
class BatchSettings:
    """What the numbers of a batch depend on besides its texts and the word definition.

    Attributes
    ----------
    start_token
        The start-of-text token, if there is one.
    max_text_tokens
        How many tokens of a text fit into the model's context, beside the start token.
    has_end_token
        Whether there is a token that ends a text.
    min_context
        Tokens before each word in texts that do not fit.
    statistics
        Statistics of the next-token distribution that are wanted where words begin.
    estimators
        Further estimators.
    """

    start_token: int | None
    max_text_tokens: int | None
    has_end_token: bool = True
    min_context: int | None = None
    statistics: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()


@dataclass
class PreparedBatch:
    """A batch with everything found out about it before the model is asked.

    Boundaries and rows are numbered along the batch, as :mod:`wordprob.core.alignment` says.

    Attributes
    ----------
    chunk, settings
        The texts, and how they are scored.
    alignment
        Its words and tokens.
    n_context_words
        ``[D]``: for each text, how many words at its beginning are context only.
    boundary_sets
        ``[W + D]``: what ends a word at every boundary, as a number of :class:`BoundarySets`.
    missing
        ``[W + D]``: boundaries that have no mass.
    notes
        What is to be said about words, by word.
    undecided_atoms
        By boundary: the atoms after which one would have to read on to know whether the word has ended.
    branches
        Other spellings.
    windows
        The context windows of each text.
    set_members
        ``[S, K]``: 1 where atom k is in set s, else 0.
    """

    chunk: Chunk
    settings: BatchSettings
    alignment: Alignment
    n_context_words: Ints
    boundary_sets: Ints
    missing: Bools
    notes: dict[int, list[str]] = field(default_factory=dict)
    undecided_atoms: dict[int, list[int]] = field(default_factory=dict)
    branches: Branches = field(default_factory=Branches)
    windows: list[list[Window]] = field(default_factory=list)
    set_members: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @cached_property
    def first_rows_needed(self) -> Ints:
        """``[D]``: the first row of each text that is needed, counted in the text.

        It is the one before the last context word, whose boundary is the ``before`` of the first word that is scored.
        """
        alignment = self.alignment
        boundaries = alignment.first_boundaries + np.maximum(self.n_context_words - 1, 0)
        return alignment.boundary_rows[boundaries] - alignment.boundary_rows[alignment.first_boundaries]

    @cached_property
    def is_scored(self) -> Bools:
        """``[W]``: True for words that are not context only."""
        return self.alignment.index_in_text >= self.n_context_words[self.alignment.text_of_word]

    @cached_property
    def touches_scored(self) -> Bools:
        """``[W]``: True for words that are scored, and for those right before them."""
        return self.alignment.index_in_text + 1 >= self.n_context_words[self.alignment.text_of_word]

    def add_note(self, word: int, reason: str) -> None:
        """Say something about a word."""
        self.notes.setdefault(word, []).append(reason)

    def mark_missing(self, words: Ints, reason: str) -> None:
        """Give up the boundaries after words; the words on both sides of each get the reason."""
        alignment = self.alignment
        self.missing[alignment.boundary_after[words]] = True
        has_next = words + 1 < alignment.word_offsets[alignment.text_of_word[words] + 1]
        for word in np.concatenate([words, words[has_next] + 1]).tolist():
            self.add_note(word, reason)

    def context_tokens(self) -> Ints:
        """Return how many tokens of its text the model had seen before each word."""
        alignment = self.alignment
        seen = alignment.first_tokens - alignment.token_offsets[alignment.text_of_word]
        for text, text_windows in enumerate(self.windows):
            if len(text_windows) > 1:
                words = slice(*alignment.word_offsets[text : text + 2])
                firsts = [window.first for window in text_windows]
                lows = np.array([window.low for window in text_windows])
                seen[words] -= lows[np.searchsorted(firsts, seen[words], side="right") - 1]
        return seen


class BoundarySets:
    """Sets of labels, numbered: what may end a word. Each different set is kept once.

    Two are always there: :attr:`EVERYTHING`, for a word that has ended already, and :attr:`END_OF_TEXT`.
    """

    EVERYTHING = 0
    END_OF_TEXT = 1

    def __init__(self, labels: Sequence[Label]) -> None:
        self._labels = labels
        self._numbers: dict[frozenset[Label] | None, int] = {None: self.EVERYTHING}
        self.number(frozenset({END}))

    def number(self, labels: frozenset[Label] | None) -> int:
        """Return the number of a set; ``None`` is everything."""
        return self._numbers.setdefault(labels, len(self._numbers))

    def members(self) -> Floats:
        """Return ``[S, K]``: 1 where atom k is in set s, else 0."""
        sets = list(self._numbers)
        members = np.ones((len(sets), len(self._labels)))
        for s, labels in enumerate(sets):
            if labels is not None:
                members[s] = [label in labels for label in self._labels]
        return members


class TextPreparer:
    """Prepares texts under one word definition, for one tokenizer and size of the model's output.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    vocab_size
        Number of ids that the model's distributions have.
    definition
        What a word is.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, definition: WordDefinition) -> None:
        self.tokenizer = tokenizer
        self.definition = definition.bind()
        self.atoms = atoms_of(tokenizer.vocabulary, self.definition, vocab_size)
        self._vocabulary = tokenizer.vocabulary
        self._spellings = SpellingFinder(tokenizer.encode, tokenizer.vocabulary, self.definition, self.atoms)
        self._sets = BoundarySets(self.atoms.labels)

    @cached_property
    def start_labels(self) -> frozenset[Label]:
        """What a text can begin with, where it does not begin with white space."""
        spaces = {label for label in self.atoms.labels if self.definition.is_space(label)}
        if self._vocabulary.first_word_marked:
            return frozenset(spaces | {END})
        return frozenset(self.atoms.labels) - spaces - {UNREACHABLE}

    def prepare(self, chunk: Chunk, settings: BatchSettings) -> PreparedBatch:
        """Find the words of texts, their tokens, their boundaries, their other spellings and their windows."""
        batch = TextBatch(chunk.documents)
        if chunk.user_words is None:
            starts, ends = self.definition.spans(batch)
        else:
            starts, ends = _user_spans(batch, chunk.user_words)
        tokens = self.tokenizer.encode([document.text for document in batch.documents])
        alignment = align(batch, starts, ends, tokens)
        prepared = PreparedBatch(
            chunk=chunk,
            settings=settings,
            alignment=alignment,
            n_context_words=_context_words(batch, starts, ends, chunk.context_lengths),
            boundary_sets=np.zeros(alignment.n_words + alignment.n_texts, dtype=np.int64),
            missing=np.zeros(alignment.n_words + alignment.n_texts, dtype=bool),
        )
        self._note_rewritten_words(prepared, tokens)
        self._set_boundaries(prepared)
        self._check_followers(prepared, tokens, rule_may_differ=chunk.user_words is not None)
        self._add_spellings(prepared)
        prepared.windows = [_windows(alignment, text, settings) for text in range(alignment.n_texts)]
        prepared.set_members = self._sets.members()
        return prepared

    # --- what ends each word ---

    def _set_boundaries(self, prepared: PreparedBatch) -> None:
        """Settle what ends each word, and what each text may begin with."""
        alignment = prepared.alignment
        prepared.boundary_sets[alignment.first_boundaries] = self._start_sets(alignment)
        prepared.mark_missing(np.flatnonzero(alignment.cuts == Cut.MID_TOKEN), MID_TOKEN)
        clean = np.flatnonzero(alignment.cuts == Cut.CLEAN)
        prepared.boundary_sets[alignment.boundary_after[clean]] = self._ending_sets(prepared, clean)
        for word in np.flatnonzero(alignment.cuts == Cut.EMPTY).tolist():
            boundary = alignment.boundary_after[word]
            prepared.boundary_sets[boundary] = prepared.boundary_sets[boundary - 1]
            if word not in prepared.notes:
                prepared.add_note(word, NOTHING_WRITTEN)

    def _start_sets(self, alignment: Alignment) -> Ints:
        """Return the set of what each text can begin with: anything, if it begins with white space."""
        usual = self._sets.number(self.start_labels)
        anything = self._sets.number(frozenset(self.atoms.labels) - {UNREACHABLE})
        first, stop = alignment.token_offsets[:-1], alignment.token_offsets[1:]
        first_atom = self.atoms.atom_of_token[np.append(alignment.ids, 0)[first]]
        is_usual = np.isin(first_atom, self.atoms.columns(self.start_labels)) | (first == stop)
        return np.where(is_usual, usual, anything)

    def _ending_sets(self, prepared: PreparedBatch, words: Ints) -> Ints:
        """Return the sets of what ends these words; words of one group and one kind of last token share one."""
        alignment = prepared.alignment
        starts, ends = alignment.starts[words], alignment.ends[words]
        last_tokens = alignment.ids[alignment.stop_tokens[words] - 1]
        groups = 2 * self.definition.boundary_groups(alignment.batch, starts, ends)
        groups += self._vocabulary.marked[last_tokens]
        set_of_group = np.zeros(groups.max(initial=-1) + 1, dtype=np.int64)
        first_of_group = np.zeros_like(set_of_group)
        first_of_group[groups[::-1]] = np.arange(len(groups))[::-1]  # of equal indices the last one counts
        for group in np.flatnonzero(np.bincount(groups)).tolist():
            example = first_of_group[group]
            left, word = _left_and_word(alignment, int(words[example]))
            labels = self._spellings.boundary(left, word, int(last_tokens[example]))
            set_of_group[group] = self._sets.number(labels)
            undecided = None if labels is None else self.definition.undecided(left, word, self.atoms.labels)
            if undecided:
                boundaries = alignment.boundary_after[words[groups == group]].tolist()
                prepared.undecided_atoms.update(dict.fromkeys(boundaries, self.atoms.columns(undecided)))
        sets: Ints = set_of_group[groups]
        return sets

    def _check_followers(self, prepared: PreparedBatch, tokens: Sequence[Tokens], rule_may_differ: bool) -> None:
        """Make sure that what really follows each word is counted among what ends it."""
        alignment = prepared.alignment
        for word in self._followed_by_others(prepared).tolist():
            if rule_may_differ and not self._rule_ends(alignment, word):
                prepared.mark_missing(np.array([word]), NO_RULE)
                continue
            # The token that follows is classed otherwise, having only a part of a character. After the whole
            # character it is certain that the word has ended.
            text = int(alignment.text_of_word[word])
            first_row = int(alignment.boundary_rows[alignment.first_boundaries[text]])
            row = first_row + _row_past_character(alignment, tokens[text], word)
            prepared.branches.add(int(alignment.boundary_after[word]), row, ())

    def _followed_by_others(self, prepared: PreparedBatch) -> Ints:
        """Return the words that are followed by a token that does not end them by the rule."""
        alignment = prepared.alignment
        words = np.flatnonzero(alignment.cuts == Cut.CLEAN)
        stops, text = alignment.stop_tokens[words], alignment.text_of_word[words]
        has_follower = stops < alignment.token_offsets[text + 1]
        follower_atom = self.atoms.atom_of_token[np.append(alignment.ids, 0)[stops]]
        sets = prepared.boundary_sets[alignment.boundary_after[words]]
        ends_word = self._sets.members().astype(bool)[sets, follower_atom]
        others: Ints = words[has_follower & ~ends_word & prepared.touches_scored[words]]
        return others

    def _rule_ends(self, alignment: Alignment, word: int) -> bool:
        """Return True if the rule has a word end where it does, given the characters after it."""
        end = alignment.ends[word]
        left, text = _left_and_word(alignment, word)
        opening = self.definition.label(alignment.batch.text[end : end + 2])
        return bool(self.definition.boundaries(left, text, [opening]))

    # --- words that the tokenizer rewrote ---

    def _note_rewritten_words(self, prepared: PreparedBatch, tokens: Sequence[Tokens]) -> None:
        """Note what became of the words that the tokenizer did not take as they stand."""
        for text, text_tokens in enumerate(tokens):
            if text_tokens.exact:
                continue
            for word in prepared.alignment.words_of_text(text):
                note = self._rewriting(prepared.alignment, word)
                if note:
                    prepared.add_note(word, note)

    def _rewriting(self, alignment: Alignment, word: int) -> str:
        ids = alignment.ids[alignment.first_tokens[word] : alignment.stop_tokens[word]].tolist()
        if self._vocabulary.unknown in ids:
            return UNKNOWN_CHARACTERS
        written = b"".join(self._vocabulary.token_bytes[i] for i in ids).decode("utf-8", "replace").strip()
        if written == alignment.word(word) or alignment.cuts[word] != Cut.CLEAN:
            return ""
        return f"read by the tokeniser as '{written}'"

    # --- other spellings ---

    def _add_spellings(self, prepared: PreparedBatch) -> None:
        """Find the words that could have been written otherwise."""
        alignment = prepared.alignment
        has_boundary = (alignment.cuts <= Cut.INCLUDES_SPACE) & ~prepared.missing[alignment.boundary_after]
        begins_mid_token = (np.append(0, alignment.cuts)[:-1] == Cut.MID_TOKEN) & (alignment.index_in_text > 0)
        words = np.flatnonzero(has_boundary & ~begins_mid_token & prepared.touches_scored)
        for word in self._spellings.add_branches(alignment, words, prepared.branches):
            prepared.mark_missing(np.array([word]), NO_START)


def _left_and_word(alignment: Alignment, word: int) -> tuple[str, str]:
    """Return what a definition may look at: the text before a word, and the word."""
    start = alignment.starts[word]
    return alignment.batch.text[max(0, start - LEFT_CONTEXT_CHARACTERS) : start], alignment.word(word)


def _windows(alignment: Alignment, text: int, settings: BatchSettings) -> list[Window]:
    first, stop = alignment.token_offset_list[text], alignment.token_offset_list[text + 1]
    if settings.max_text_tokens is None or stop - first <= settings.max_text_tokens:
        return [Window(0, 0, stop - first)]
    words = slice(*alignment.word_offsets[text : text + 2])
    word_stops = alignment.stop_tokens[words] - first
    return windows(stop - first, word_stops, settings.max_text_tokens, settings.min_context)


def _user_spans(batch: TextBatch, user_words: Sequence[Sequence[Word]]) -> tuple[Ints, Ints]:
    """Return where given words start and end in the batch."""
    text_starts = np.repeat(batch.text_starts[:-1], [len(words) for words in user_words])
    bounds = [(word.start, word.end) for words in user_words for word in words]
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return array[:, 0] + text_starts, array[:, 1] + text_starts


def _context_words(batch: TextBatch, starts: Ints, ends: Ints, context_lengths: Sequence[int] | None) -> Ints:
    """Return how many words come before each continuation, which must begin with a word of its own."""
    if context_lengths is None:
        return np.zeros(len(batch), dtype=np.int64)
    begins = batch.text_starts[:-1] + np.array(context_lengths, dtype=np.int64)
    words_before = np.searchsorted(ends, begins, side="right")
    runs_on = np.append(starts, len(batch.text))[words_before] < begins
    for text in np.flatnonzero(runs_on).tolist():
        continuation = batch.text[begins[text] : batch.text_starts[text + 1] - 1]
        word = batch.text[starts[words_before[text]] : ends[words_before[text]]]
        raise InputError(
            f"continuation {batch.documents[text].id} ('{continuation[:30]}') goes on with the context's last word: "
            f"together they make '{word[:40]}'. Put a space between them, or move the whole word into the "
            "continuation."
        )
    return words_before - np.searchsorted(starts, batch.text_starts[:-1])


def _row_past_character(alignment: Alignment, tokens: Tokens, word: int) -> int:
    """Return the row of its text at which the tokens have written the whole first character after a word."""
    batch = alignment.batch
    text = int(alignment.text_of_word[word])
    text_start = int(batch.text_starts[text])
    finish = int(batch.byte_offsets[alignment.ends[word] + 1] - batch.byte_offsets[text_start])
    row = int(alignment.stop_tokens[word] - alignment.token_offsets[text]) + 1
    while row < len(tokens.ids) and tokens.ends[row - 1] < finish:
        row += 1
    return row
