"""Everything that is found out about a chunk of texts before the model is asked.

:class:`BatchSettings` is what the numbers depend on besides the texts, :class:`BoundarySets` what may end words, and
:class:`PreparedBatch` what :class:`wordprob.scoring.prepare.TextPreparer` makes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from wordprob.core.alignment import Alignment
from wordprob.core.arrays import Bools, Floats, Ints
from wordprob.core.atoms import Atoms, OpenShares
from wordprob.core.characters import END, Label
from wordprob.core.windows import Window
from wordprob.covers.branches import Branches
from wordprob.covers.search_plan import SearchPlan
from wordprob.errors import InputError
from wordprob.models.protocol import LanguageModel, capabilities_of
from wordprob.options import ScoringOptions
from wordprob.scoring.passages import Chunk
from wordprob.tables.schema import required_statistics

MIN_TEXT_TOKENS = 1
"""Tokens of a text that must fit into the model's context."""


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
    precision_nats
        By how much the surprisal of a word may be off because of what the model is not asked beyond the texts.
    """

    start_ids: tuple[int, ...]
    max_text_tokens: int | None
    has_end_token: bool = True
    min_context: int | None = None
    statistics: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    search: SearchSettings | None = None
    max_width: float | None = None
    precision_nats: float = 1e-4

    @classmethod
    def of(cls, model: LanguageModel, options: ScoringOptions) -> BatchSettings:
        """Return the settings for a model and options of scoring."""
        vocabulary, max_tokens = model.tokenizer.vocabulary, model.max_tokens
        start_ids = vocabulary.start_ids
        if max_tokens is not None and len(start_ids) + MIN_TEXT_TOKENS > max_tokens:
            raise InputError(
                f"what comes before every text takes {len(start_ids)} tokens, and the model's context has only "
                f"{max_tokens}; shorten `chat_prompt`."
            )
        capabilities = capabilities_of(model)
        tolerance_nats = options.tolerance * math.log(2.0)
        return cls(
            start_ids=start_ids,
            max_text_tokens=None if max_tokens is None else max_tokens - len(start_ids),
            has_end_token=bool(vocabulary.ends),
            min_context=options.min_context,
            statistics=required_statistics(options.extras),
            estimators=tuple(options.estimators),
            search=SearchSettings(tolerance_nats, options.max_open) if options.spellings == "all" else None,
            max_width=None if capabilities.has_whole_distributions else tolerance_nats,
            precision_nats=capabilities.precision_nats,
        )


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
        """Return ``[S, K]`` each: how atoms with cut-off characters are counted if only some of them are in a set."""
        shares = [self._atoms.open_shares(labels or frozenset()) for labels in list(self._numbers)]
        return OpenShares(np.array([each.counted for each in shares]), np.array([each.error for each in shares]))


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
        ``[S, K]`` each: how atom k is counted if it has cut-off characters and only some of them are in set s.
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
        passages = self.chunk.passages
        to_end = [passage.scored_end is None or passage.scored_end >= len(passage.text) for passage in passages]
        return np.array(to_end, dtype=bool)

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
        return self.chunk.passages[text].head

    @cached_property
    def head_lengths(self) -> Ints:
        """``[D]``: how many tokens the model sees before each text, besides those that come before every text."""
        return np.array([len(passage.head) for passage in self.chunk.passages], dtype=np.int64)

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
