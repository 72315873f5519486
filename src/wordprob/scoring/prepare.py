"""Texts made ready for the model: words, tokens, what ends each word, and its other spellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Alignment, Cut, align
from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.atoms import Atoms, OpenShares, atoms_of
from wordprob.core.branches import Branches, BranchTail
from wordprob.core.characters import END, INNER_BYTES, UNREACHABLE, Label, is_white_space
from wordprob.core.cut_off_tokens import CutOffTokens
from wordprob.core.search_steps import Ending, StepFinder
from wordprob.core.span_words import WithoutBoundaries
from wordprob.core.spellings import SpellingFinder
from wordprob.core.text import Document, TextBatch, Word
from wordprob.core.token_index import TokenIndex
from wordprob.core.windows import Window, windows
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition
from wordprob.errors import InputError
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.search_plan import REWRITTEN, SearchPlan, SearchPlanner
from wordprob.scoring.shared_contexts import encode_sharing

NOTHING_WRITTEN = "the tokeniser wrote nothing for this word"
NO_RULE = "ends by no rule: the probability that the text goes on with these characters"
NO_START = "no start-of-text token: choose one with bos"
UNKNOWN_CHARACTERS = "the tokeniser does not know all of it"

NO_IDS: Ints = np.zeros(0, dtype=np.int64)


class Chunk(NamedTuple):
    """Some texts that are scored together.

    Attributes
    ----------
    documents
        The texts.
    user_words
        Their words, where the user gave them.
    rules
        For each text, what ends its words, where the user gave them.
    unscored
        For each text, the numbers of those words that only stand between others.
    context_lengths
        How many characters at the beginning of each text are context only; none by default.
    scored_ends
        Where in each text the last word that is scored ends; what follows only shows how that word is written. By
        default all words after the context are scored.
    offset_origins
        Where in each text the offsets of words are counted from; its beginning by default.
    source_documents
        What the rows of the table are about, where that is not the texts themselves.
    n_excerpts
        How many of the texts, one after the other, are excerpts of each source document; by default one.
    continues
        Whether the only text goes on in the next chunk.
    shares_context
        Whether the texts have their contexts in common with each other and with further chunks.
    heads
        Tokens that the model sees before each text, besides those that come before every text: the beginning of a
        long context. They are not part of the text, and text and head together fit into the model's context.
    """

    documents: Sequence[Document]
    user_words: Sequence[Sequence[Word]] | None = None
    rules: Sequence[WordDefinition] | None = None
    unscored: Sequence[Sequence[int]] | None = None
    context_lengths: Sequence[int] | None = None
    scored_ends: Sequence[int] | None = None
    offset_origins: Sequence[int] | None = None
    source_documents: Sequence[Document] | None = None
    n_excerpts: Sequence[int] | None = None
    continues: bool = False
    shares_context: bool = False
    heads: Sequence[Ints] | None = None


class SearchSettings(NamedTuple):
    """How narrow the interval around the sum over every spelling must be, and how many prefixes may be opened."""

    tolerance_nats: float
    max_open: int


@dataclass(frozen=True)
class BatchSettings:
    """What the numbers of a batch depend on besides its texts and the word definition.

    Attributes
    ----------
    start_ids
        What the model sees before every text: the start-of-text token, if there is one, or the opening of a chat.
    max_text_tokens
        How many tokens of a text fit into the model's context, beside those.
    has_end_token
        Whether there is a token that ends a text.
    min_context
        Tokens before each word in texts that do not fit.
    statistics
        Statistics of the next-token distribution that are wanted where words begin.
    estimators
        Further estimators.
    search
        How to search for every spelling of words; ``None`` if only the tokenizer's own count.
    max_width
        For a model that lists only its most probable tokens: how wide the interval of a word's surprisal may be
        without a note, in nats; ``None`` for a model whose masses are exact.
    """

    start_ids: tuple[int, ...]
    max_text_tokens: int | None
    has_end_token: bool = True
    min_context: int | None = None
    statistics: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    search: SearchSettings | None = None
    max_width: float | None = None


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
    between
        ``[W]``: True for words that only stand between those that the user gave.
    beyond
        ``[W]``: True for words after the last one that is scored.
    branches
        Other spellings.
    windows
        The context windows of each text.
    sets
        What the numbers of sets stand for.
    search_plan
        The searches for every spelling of words, where they are wanted.
    set_members
        ``[S, K]``: 1 where atom k is in set s, else 0.
    open_shares
        ``[S, K]`` each: what is made of atom k if it has cut-off characters of which only some are in set s.
    """

    chunk: Chunk
    settings: BatchSettings
    alignment: Alignment
    n_context_words: Ints
    boundary_sets: Ints
    missing: Bools
    between: Bools
    beyond: Bools
    sets: BoundarySets
    notes: dict[int, list[str]] = field(default_factory=dict)
    undecided_atoms: dict[int, list[int]] = field(default_factory=dict)
    branches: Branches = field(default_factory=Branches)
    windows: list[list[Window]] = field(default_factory=list)
    search_plan: SearchPlan | None = None
    set_members: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    open_shares: OpenShares = field(default_factory=lambda: OpenShares(np.zeros((0, 0)), np.zeros((0, 0))))

    @cached_property
    def first_rows_needed(self) -> Ints:
        """``[D]``: the first row of each text that is needed, counted in the text.

        It is the one at the boundary before the first word that is scored, or one where a spelling leaves the text that
        leads to that boundary or a later one.
        """
        alignment = self.alignment
        openings = alignment.first_boundaries + self.n_context_words
        rows = alignment.boundary_rows[openings].copy()
        boundaries = np.array(self.branches.boundaries, dtype=np.int64)
        texts = np.searchsorted(alignment.first_boundaries, boundaries, side="right") - 1
        wanted = boundaries >= openings[texts]
        np.minimum.at(rows, texts[wanted], np.array(self.branches.rows, dtype=np.int64)[wanted])
        in_text: Ints = rows - alignment.boundary_rows[alignment.first_boundaries]
        return in_text

    @cached_property
    def n_kept_ids(self) -> Ints:
        """``[D]``: how many ids that the model sees first of each text are a context whose states it keeps, at most.

        Where texts share their contexts, it is what comes before the first row that is needed; else it is every text.
        """
        if not self.chunk.shares_context:
            return np.full(self.alignment.n_texts, np.iinfo(np.int64).max)
        n_before: Ints = len(self.start_ids) + self.head_lengths + self.first_rows_needed - 1
        return np.maximum(n_before, 0)

    @cached_property
    def is_scored(self) -> Bools:
        """``[W]``: True for words that are not context only and were asked for."""
        in_context = self.alignment.index_in_text < self.n_context_words[self.alignment.text_of_word]
        scored: Bools = ~in_context & ~self.between & ~self.beyond
        return scored

    @cached_property
    def is_scored_to_end(self) -> Bools:
        """``[D]``: True for texts of which no words after the scored ones are left out."""
        if self.chunk.scored_ends is None:
            return np.ones(self.alignment.n_texts, dtype=bool)
        lengths = [len(document.text) for document in self.chunk.documents]
        to_end: Bools = np.array(self.chunk.scored_ends) >= np.array(lengths)
        return to_end

    @cached_property
    def touches_scored(self) -> Bools:
        """``[W]``: True for words that are scored, and for those right before them."""
        reaches = self.alignment.index_in_text + 1 >= self.n_context_words[self.alignment.text_of_word]
        touches: Bools = reaches & ~self.beyond
        return touches

    @cached_property
    def window_array(self) -> Ints:
        """``[N, 4]``: of every window, its text, and the window itself; in the order of the texts."""
        texts = np.repeat(np.arange(len(self.windows)), list(map(len, self.windows)))
        windows = np.array(list(chain.from_iterable(self.windows)), dtype=np.int64).reshape(-1, 3)
        return np.column_stack([texts, windows])

    @cached_property
    def start_ids(self) -> Ints:
        """What the model sees before every text."""
        return np.array(self.settings.start_ids, dtype=np.int64)

    def head(self, text: int) -> Ints:
        """Return the tokens that the model sees before a text, besides those that come before every text."""
        return NO_IDS if self.chunk.heads is None else self.chunk.heads[text]

    @cached_property
    def head_lengths(self) -> Ints:
        """``[D]``: how many tokens the model sees before each text, besides those that come before every text."""
        if self.chunk.heads is None:
            return np.zeros(self.alignment.n_texts, dtype=np.int64)
        return np.array([len(head) for head in self.chunk.heads], dtype=np.int64)

    def text_and_row(self, boundary: int, row: int) -> tuple[int, int]:
        """Return the text of a boundary, and a row of the batch as counted in that text."""
        text = self.alignment.text_of_boundary(boundary)
        return text, row - int(self.alignment.boundary_rows[self.alignment.first_boundaries[text]])

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
        seen = alignment.first_tokens - (alignment.token_offsets[:-1] - self.head_lengths)[alignment.text_of_word]
        for text, text_windows in enumerate(self.windows):
            if len(text_windows) > 1:
                words = slice(*alignment.word_offsets[text : text + 2])
                firsts = [window.first for window in text_windows]
                lows = np.array([window.low for window in text_windows])
                seen[words] -= lows[np.searchsorted(firsts, seen[words], side="right") - 1]
        return seen


class BoundarySets:
    """Sets of labels, numbered: what may end a word. Each different set is kept once.

    Three are always there: :attr:`EVERYTHING`, for a word that has ended already, :attr:`END_OF_TEXT`, and
    :attr:`NOTHING`, for a place that no token ends at.
    """

    EVERYTHING = 0
    END_OF_TEXT = 1
    NOTHING = 2

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms
        self._numbers: dict[frozenset[Label] | None, int] = {None: self.EVERYTHING}
        self.number(frozenset({END}))
        self.number(frozenset())

    def number(self, labels: frozenset[Label] | None) -> int:
        """Return the number of a set; ``None`` is everything."""
        return self._numbers.setdefault(labels, len(self._numbers))

    def labels(self, number: int) -> frozenset[Label] | None:
        """Return the set with a number."""
        return list(self._numbers)[number]

    def members(self) -> Floats:
        """Return ``[S, K]``: 1 where atom k is in set s, else 0."""
        rows = []
        for labels in list(self._numbers):
            rows.append([labels is None or label in labels for label in self._atoms.labels])
        return np.array(rows, dtype=float)

    def open_shares(self) -> OpenShares:
        """Return ``[S, K]`` each: what is made of atoms with cut-off characters of which only some are in a set."""
        shares = [self._atoms.open_shares(labels or frozenset()) for labels in list(self._numbers)]
        return OpenShares(np.array([each.counted for each in shares]), np.array([each.error for each in shares]))


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
        self._finders: dict[str, SpellingFinder] = {}
        self._step_finders: dict[str, StepFinder] = {}
        self._sets = BoundarySets(self.atoms)
        self._no_rule = WithoutBoundaries(self.definition)
        self.cut_off_tokens = CutOffTokens(self._vocabulary, self.definition, self.atoms)

    def finder(self, rule: WordDefinition) -> SpellingFinder:
        """Return what finds other spellings of words that end by a rule."""
        if rule.name not in self._finders:
            vocabulary = self._vocabulary
            self._finders[rule.name] = SpellingFinder(self.tokenizer.encode, vocabulary, rule, self.atoms)
        return self._finders[rule.name]

    def prepare(self, chunk: Chunk, settings: BatchSettings) -> PreparedBatch:
        """Find the words of texts, their tokens, their boundaries, their other spellings and their windows."""
        batch = TextBatch(chunk.documents)
        if chunk.user_words is None:
            starts, ends = self.definition.spans(batch)
        else:
            starts, ends = _user_spans(batch, chunk.user_words)
        texts = [document.text for document in batch.documents]
        alignment = align(batch, starts, ends, encode_sharing(self.tokenizer, texts, chunk.context_lengths))
        prepared = PreparedBatch(
            chunk=chunk,
            settings=settings,
            alignment=alignment,
            n_context_words=context_words(batch, starts, ends, chunk.context_lengths),
            boundary_sets=np.full(alignment.n_words + alignment.n_texts, BoundarySets.NOTHING, dtype=np.int64),
            missing=np.zeros(alignment.n_words + alignment.n_texts, dtype=bool),
            between=_between(alignment, chunk.unscored),
            beyond=_beyond(alignment, chunk.scored_ends),
            sets=self._sets,
        )
        self._note_rewritten_words(prepared)
        self._set_starts(prepared)
        rules = self._rules(prepared)
        for rule, words in rules:
            self._set_boundaries(prepared, rule, words)
            self._add_spellings(prepared, rule, words)
        self._pass_over_empty_words(prepared)
        if settings.search is not None:
            self._plan_searches(prepared, rules)
        prepared.windows = _windows(prepared)
        prepared.set_members = self._sets.members()
        prepared.open_shares = self._sets.open_shares()
        return prepared

    # --- what a text may begin with ---

    @cached_property
    def _spaces(self) -> frozenset[Label]:
        return frozenset(label for label in self.atoms.all_labels if self.definition.is_space(label))

    @cached_property
    def _others(self) -> frozenset[Label]:
        """What a text without white space at its beginning may begin with."""
        return frozenset(self.atoms.all_labels) - self._spaces - {UNREACHABLE, INNER_BYTES}

    def _set_starts(self, prepared: PreparedBatch) -> None:
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
        usual = self._sets.number(self.atoms.with_cut_off(self._others))
        space = self._sets.number(self.atoms.with_cut_off(self._spaces))
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
            labels = self.atoms.with_cut_off(self._spaces if space else self._others - {END})
            for token in self._lone_spaces:
                prepared.branches.add(boundary, row, token, BranchTail(token, labels))

    @cached_property
    def _marked_first_ids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that are a space and something else, or the end, and those that are two spaces and perhaps more."""
        others: list[int] = list(self._vocabulary.ends)
        spaces: list[int] = []
        for token, piece in enumerate(self._vocabulary.token_bytes):
            if len(piece) > 1 and piece[:1] == b" " and token < len(self.atoms.atom_of_token):
                after = piece[1:].decode("utf-8", "ignore")[:1]
                (spaces if is_white_space(after) else others).append(token)
        return tuple(others), tuple(spaces)

    @cached_property
    def _lone_spaces(self) -> list[tuple[int, ...]]:
        """The ids that are a space alone, each by itself."""
        return [(token,) for token, piece in enumerate(self._vocabulary.token_bytes) if piece == b" "]

    # --- what ends each word ---

    def _rules(self, prepared: PreparedBatch) -> list[tuple[WordDefinition, Ints]]:
        """Return what ends words, with the words that end so: a rule, or none where the user's words end by none."""
        alignment, rules = prepared.alignment, prepared.chunk.rules
        if rules is None:
            return [(self.definition, np.arange(alignment.n_words))]
        words_of: dict[str, list[int]] = {}
        by_name: dict[str, WordDefinition] = {}
        for text, rule in enumerate(rules):
            for word in alignment.words_of_text(text):
                chosen: WordDefinition = rule if self._ends_by(rule, alignment, text, word) else self._no_rule
                if chosen is self._no_rule and rule.ends_by_rule:
                    prepared.add_note(word, NO_RULE)
                by_name[chosen.name] = chosen
                words_of.setdefault(chosen.name, []).append(word)
        return [(by_name[name], np.array(words, dtype=np.int64)) for name, words in words_of.items()]

    def _ends_by(self, rule: WordDefinition, alignment: Alignment, text: int, word: int) -> bool:
        """Return True if a rule has a word end where it does, given what follows it."""
        left, content = _left_and_word(alignment, word)
        end = alignment.ends[word]
        text_end = alignment.batch.text_starts[text + 1] - 1
        rest = alignment.batch.text[end : min(end + LEFT_CONTEXT_CHARACTERS, text_end)]
        return bool(rule.ends(left, content, rest))

    def _set_boundaries(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> None:
        """Settle what ends each of these words; a word that ends inside a token is written by other spellings only."""
        alignment = prepared.alignment
        includes_space = words[alignment.cuts[words] == Cut.INCLUDES_SPACE]
        prepared.boundary_sets[alignment.boundary_after[includes_space]] = BoundarySets.EVERYTHING
        clean = words[alignment.cuts[words] == Cut.CLEAN]
        prepared.boundary_sets[alignment.boundary_after[clean]] = self._ending_sets(prepared, rule, clean)

    def _ending_sets(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> Ints:
        """Return the sets of what ends these words."""
        endings, numbers = self._endings(prepared.alignment, rule, words)
        for number, ending in enumerate(endings):
            if ending.undecided:
                boundaries = prepared.alignment.boundary_after[words[numbers == number]].tolist()
                prepared.undecided_atoms.update(dict.fromkeys(boundaries, self.atoms.columns(ending.undecided)))
        sets = np.array([self._sets.number(ending.labels) for ending in endings], dtype=np.int64)
        return sets[numbers]

    def _endings(self, alignment: Alignment, rule: WordDefinition, words: Ints) -> tuple[list[Ending], Ints]:
        """Return what may end these words, and for each of them the number of what ends it.

        Words of one group and one kind of last token share it. Words that end by no rule may be followed by anything,
        or by anything but the end.
        """
        last_tokens = alignment.ids[alignment.stop_tokens[words] - 1]
        if rule.ends_by_rule:
            groups = 2 * rule.boundary_groups(alignment.batch, alignment.starts[words], alignment.ends[words])
            groups += self._vocabulary.marked[last_tokens]
        else:
            last_characters = [alignment.batch.text[end - 1] for end in alignment.ends[words].tolist()]
            groups = np.array([is_white_space(character) for character in last_characters], dtype=np.int64)
        number_of_group = np.zeros(groups.max(initial=-1) + 1, dtype=np.int64)
        first_of_group = np.zeros_like(number_of_group)
        first_of_group[groups[::-1]] = np.arange(len(groups))[::-1]  # of equal indices the last one counts
        endings: list[Ending] = []
        for group in np.flatnonzero(np.bincount(groups)).tolist():
            example = first_of_group[group]
            left, word = _left_and_word(alignment, int(words[example]))
            labels = self.finder(rule).boundary(left, word, int(last_tokens[example]))
            undecided = frozenset() if labels is None else rule.undecided(left, word, self.atoms.labels)
            number_of_group[group] = len(endings)
            endings.append(Ending(labels, undecided))
        return endings, number_of_group[groups]

    def _pass_over_empty_words(self, prepared: PreparedBatch) -> None:
        """Give a word for which the tokenizer wrote nothing the boundary before it."""
        alignment = prepared.alignment
        for word in np.flatnonzero(alignment.cuts == Cut.EMPTY).tolist():
            boundary = int(alignment.boundary_after[word])
            prepared.boundary_sets[boundary] = prepared.boundary_sets[boundary - 1]
            prepared.branches.copy_to(boundary - 1, boundary)
            if word not in prepared.notes:
                prepared.add_note(word, NOTHING_WRITTEN)

    # --- words that the tokenizer rewrote ---

    def _note_rewritten_words(self, prepared: PreparedBatch) -> None:
        """Note what became of the words that the tokenizer did not take as they stand."""
        for text in np.flatnonzero(~prepared.alignment.exact).tolist():
            for word in prepared.alignment.words_of_text(text):
                note = self._rewriting(prepared.alignment, word)
                if note:
                    prepared.add_note(word, note)

    def _rewriting(self, alignment: Alignment, word: int) -> str:
        ids = alignment.ids[alignment.first_tokens[word] : alignment.stop_tokens[word]].tolist()
        if self._vocabulary.unknown in ids:
            return UNKNOWN_CHARACTERS
        written = b"".join(self._vocabulary.token_bytes[i] for i in ids).decode("utf-8", "replace").strip()
        shares_token = alignment.cuts[word] != Cut.CLEAN or (word and alignment.cuts[word - 1] == Cut.MID_TOKEN)
        if written == alignment.word(word) or shares_token:
            return ""
        return f"read by the tokeniser as '{written}'"

    # --- other spellings ---

    def _add_spellings(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> None:
        """Find those of the words that could have been written otherwise."""
        wanted = (prepared.alignment.cuts[words] != Cut.EMPTY) & prepared.touches_scored[words]
        for word in self.finder(rule).add_branches(prepared.alignment, words[wanted], prepared.branches):
            prepared.mark_missing(np.array([word]), NO_START)

    # --- every spelling ---

    def _plan_searches(self, prepared: PreparedBatch, rules: Sequence[tuple[WordDefinition, Ints]]) -> None:
        """Plan the search for every spelling of the words that are scored."""
        alignment = prepared.alignment
        has_start = prepared.boundary_sets != BoundarySets.NOTHING
        planner = SearchPlanner(self._vocabulary, alignment, prepared.branches, has_start)
        has_bytes = alignment.exact & ~self._vocabulary.spaced.any()  # the bytes of a text are those of its tokens
        for rule, words in rules:
            after = alignment.boundary_after[words]
            is_missing = prepared.missing[after - 1] | prepared.missing[after]
            wanted = prepared.is_scored[words] & ~is_missing & (alignment.cuts[words] != Cut.EMPTY)
            is_known = has_bytes[alignment.text_of_word[words]]
            for word in words[wanted & ~is_known].tolist():
                prepared.add_note(word, REWRITTEN)
            searched = words[wanted & is_known]
            endings, numbers = self._endings(alignment, rule, searched)
            planner.add(searched, [endings[number] for number in numbers.tolist()], self._step_finder(rule))
        prepared.search_plan = planner.plan()

    def _step_finder(self, rule: WordDefinition) -> StepFinder:
        if rule.name not in self._step_finders:
            index = TokenIndex(self._vocabulary, len(self.atoms.atom_of_token))
            joined = self.finder(rule).joined
            self._step_finders[rule.name] = StepFinder(index, joined, self.atoms, self.cut_off_tokens)
        return self._step_finders[rule.name]


def _left_and_word(alignment: Alignment, word: int) -> tuple[str, str]:
    """Return what a definition may look at: the text before a word, and the word."""
    start = alignment.starts[word]
    return alignment.batch.text[max(0, start - LEFT_CONTEXT_CHARACTERS) : start], alignment.word(word)


def _windows(prepared: PreparedBatch) -> list[list[Window]]:
    """Return the windows of each text."""
    alignment, settings = prepared.alignment, prepared.settings
    lengths = np.diff(alignment.token_offsets)
    whole_texts = {n_tokens: [Window(0, 0, n_tokens)] for n_tokens in np.unique(lengths).tolist()}
    found = [whole_texts[n_tokens] for n_tokens in lengths.tolist()]
    if settings.max_text_tokens is not None:
        for text in np.flatnonzero(lengths > settings.max_text_tokens).tolist():
            words = slice(*alignment.word_offsets[text : text + 2])
            word_stops = alignment.stop_tokens[words] - alignment.token_offsets[text]
            found[text] = windows(int(lengths[text]), word_stops, settings.max_text_tokens, settings.min_context)
    return found


def _user_spans(batch: TextBatch, user_words: Sequence[Sequence[Word]]) -> tuple[Ints, Ints]:
    """Return where given words start and end in the batch."""
    text_starts = np.repeat(batch.text_starts[:-1], [len(words) for words in user_words])
    bounds = [(word.start, word.end) for words in user_words for word in words]
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return array[:, 0] + text_starts, array[:, 1] + text_starts


def context_words(batch: TextBatch, starts: Ints, ends: Ints, context_lengths: Sequence[int] | None) -> Ints:
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


def _between(alignment: Alignment, unscored: Sequence[Sequence[int]] | None) -> Bools:
    """Return True for words that only stand between those that the user gave."""
    between = np.zeros(alignment.n_words, dtype=bool)
    for text, numbers in enumerate(unscored or ()):
        between[alignment.word_offsets[text] + np.array(numbers, dtype=np.int64)] = True
    return between


def _beyond(alignment: Alignment, scored_ends: Sequence[int] | None) -> Bools:
    """Return True for words after the last one that is scored."""
    if scored_ends is None:
        return np.zeros(alignment.n_words, dtype=bool)
    ends = alignment.batch.text_starts[:-1] + np.array(scored_ends, dtype=np.int64)
    beyond: Bools = alignment.starts >= ends[alignment.text_of_word]
    return beyond
