"""Searches for next words after many contexts at a time: what they ask the model is asked together.

No number depends on which contexts are searched together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Floats
from wordprob.core.next_tokens import NextTokens
from wordprob.core.text import Document
from wordprob.core.words import WordDefinition
from wordprob.errors import InputError, OptionError, UnsupportedError
from wordprob.models.batching import group_by_prefix
from wordprob.models.protocol import PrefixStates, Request
from wordprob.options import ScoringOptions
from wordprob.scoring.estimate import estimate_batch
from wordprob.scoring.next_word_beginnings import Beginning
from wordprob.scoring.next_word_search import NextWordSearch
from wordprob.scoring.prepare import Chunk
from wordprob.scoring.scorer import Scorer, collect_chunk, score_chunk

CONTEXTS_TOGETHER = 64
"""Contexts whose next words are searched for at the same time."""
TOKENS_TOGETHER = 16
"""Tokens beyond one context that the model is asked about at a time. If all contexts have equally many, none waits."""
ASKED_TOGETHER = 256
"""Beginnings that the model is asked about at a time, over all contexts: each answer has the whole vocabulary."""
WORDS_TOGETHER = 512
"""Words that are scored at a time."""
FOLLOWERS = ("", " a", ".", "\n", "a")
"""What contexts are scored with behind them."""
LONGEST_WORD_TOKENS = 32
"""Tokens of a next word for which there must be room in the model's context."""


def check_possible(scorer: Scorer, definition: WordDefinition, max_open: int) -> None:
    """Raise where words cannot be enumerated."""
    vocabulary = scorer.model.tokenizer.vocabulary
    if getattr(scorer.model, "lists_top_only", False):
        raise UnsupportedError(
            "a server lists only the most probable tokens, and this needs whole distributions; run the model on this "
            "machine."
        )
    if max_open < 1:
        raise OptionError(f"`max_open` must be at least 1, not {max_open}.")
    if not definition.local:
        raise OptionError(
            f"the words of '{definition.name}' cannot be enumerated: one character does not show where they end. "
            "Use whitespace or punctuation."
        )
    if vocabulary.start is None:
        raise InputError("this model has no start-of-text token, and the sum needs one. Specify one as `bos`.")
    if vocabulary.marked.any() or vocabulary.spaced.any():
        raise InputError("the tokens of this model leave out white space, so its words cannot be enumerated.")


@dataclass
class SearchTask:
    """A search, and how far it is to go.

    Attributes
    ----------
    search
        The search.
    fault
        Why nothing can be found after this context; empty if something can.
    to_open
        How many beginnings to open, in all.
    """

    search: NextWordSearch
    fault: str = ""
    to_open: int = 0

    @property
    def is_done(self) -> bool:
        """Whether it went so far, or cannot go on."""
        return bool(self.fault) or self.search.is_exhausted or self.search.opened >= self.to_open


class SearchGroup:
    """Searches after some contexts that share their requests to the model.

    Parameters
    ----------
    scorer
        An open model.
    definition
        What a word is.
    tokens
        What is known about the vocabulary.
    contexts
        The texts so far, without white space at their ends.
    count_all_spellings
        As for :class:`NextWordSearch`.

    Attributes
    ----------
    tasks
        The searches, in the order of the contexts.
    """

    def __init__(
        self,
        scorer: Scorer,
        definition: WordDefinition,
        tokens: NextTokens,
        contexts: Sequence[str],
        count_all_spellings: bool = False,
    ) -> None:
        self.scorer = scorer
        self.definition = definition
        self.tokens = tokens
        self.tasks: list[SearchTask] = []
        self._states = PrefixStates()
        for context in contexts:
            search = NextWordSearch(tokens, scorer.model.tokenizer, definition, context, count_all_spellings)
            self.tasks.append(SearchTask(search, self._too_long(search)))
        self._find_events()

    def _too_long(self, search: NextWordSearch) -> str:
        """Return what is wrong unless the context, and a word after it, fit into the model's context."""
        max_tokens = self.scorer.model.max_tokens
        n_tokens = len(search.own_ids)
        if max_tokens is None or n_tokens + LONGEST_WORD_TOKENS <= max_tokens:
            return ""
        return (
            f"the context has {n_tokens} tokens, and the model takes {max_tokens}; leave some of its "
            f"beginning out, so that there is room for {LONGEST_WORD_TOKENS} more."
        )

    # --- the event that is shared out among the words ---

    def _find_events(self) -> None:
        """Find the probability of each context, and that the text ends after it.

        What follows the context makes no difference, unless it is impossible: then something else is tried.
        """
        waiting = [task for task in self.tasks if not task.fault and task.search.context]
        for behind in FOLLOWERS:
            if waiting:
                self._find_events_before(waiting, behind)
            waiting = [task for task in waiting if task.fault]

    def _find_events_before(self, tasks: Sequence[SearchTask], behind: str) -> None:
        """Find the probability of each context, written as it is before some text."""
        searches = [task.search for task in tasks]
        documents = [Document(number, search.context + behind) for number, search in enumerate(searches)]
        log_probs = self._log_probs_of_texts([document.text for document in documents])
        chunk = Chunk(
            documents,
            context_lengths=[search.last_word_start for search in searches],
            scored_ends=[len(search.context) for search in searches],
            shares_context=True,
        )
        preparer = self.scorer.preparer(self.definition)
        settings = self.scorer.settings(ScoringOptions())
        prepared, collected = collect_chunk(self.scorer.model, preparer, chunk, settings, self._states)
        scores = estimate_batch(prepared, collected)
        is_beyond = prepared.beyond
        for number, task in enumerate(tasks):
            search = task.search
            last_word = [word for word in prepared.alignment.words_of_text(number) if not is_beyond[word]][-1]
            n_tokens = prepared.alignment.stop_tokens[last_word] - prepared.alignment.token_offsets[number]
            stop = len(self.tokens.vocabulary.start_ids) + int(n_tokens)
            log_p = float(log_probs[number][len(search.root) - 1 : stop - 1].sum())
            mass = math.exp(log_p - float(scores.after[number]))
            is_exact = bool(prepared.alignment.exact[number])
            fault = _fault(search, is_exact, mass, float(scores.surprisal[number]))
            end = math.nan if behind else float(scores.totals.end[number])
            if not fault:
                search.event_mass = mass
                search.end_probability = 0.0 if math.isnan(end) else math.exp(-end)
                task.fault = ""
            elif not task.fault:
                task.fault = fault

    def _log_probs_of_texts(self, texts: Sequence[str]) -> list[Floats]:
        """Return log p of the tokens of each text, from the start on; the model keeps what it needs to go on."""
        start_ids = self.tokens.vocabulary.start_ids
        encoded = self.scorer.model.tokenizer.encode(texts)
        ids = [np.array([*start_ids, *tokens.ids.tolist()], dtype=np.int64) for tokens in encoded]
        groups = group_by_prefix(ids)
        requests = [Request(ids[group.longest], context_tokens=0) for group in groups]
        log_probs: dict[int, Floats] = {}
        for number, scores in self.scorer.model.open(requests, self.tokens.one_atom, self._states):
            for member in groups[number].members:
                log_probs[member] = scores.target[: len(ids[member]) - 1].astype(np.float64)
        return [log_probs[number] for number in range(len(texts))]

    # --- going on ---

    def run(self) -> None:
        """Let every search go as far as it is to go."""
        while True:
            asked: list[tuple[NextWordSearch, Beginning]] = []
            for task in self.tasks:
                if not task.is_done:
                    search = task.search
                    taken = search.take(task.to_open - search.opened, TOKENS_TOGETHER)
                    asked += [(search, beginning) for beginning in taken]
            if not asked:
                return
            for number, log_probs in self.distributions(asked):
                search, beginning = asked[number]
                search.open(beginning, log_probs)

    def distributions(self, asked: Sequence[tuple[NextWordSearch, Beginning]]) -> Iterator[tuple[int, Floats]]:
        """Yield the distribution of the next token after each beginning, with its number, in any order."""
        for low in range(0, len(asked), ASKED_TOGETHER):
            requests = [_next_token_request(search, each) for search, each in asked[low : low + ASKED_TOGETHER]]
            for number, scores in self.scorer.model.open(requests, self.tokens.one_atom, self._states):
                yield low + number, scores.statistics["log_probs"][0]

    # --- scoring words ---

    def score_words(self, examples: Sequence[tuple[NextWordSearch, str]]) -> list[float]:
        """Return the probability of the word with which each text goes on after its context.

        Each is scored as usual, with the text behind it with which it was found, on which its value does not depend.
        """
        preparer = self.scorer.preparer(self.definition)
        settings = self.scorer.settings(ScoringOptions())
        probabilities: list[float] = []
        for low in range(0, len(examples), WORDS_TOGETHER):
            part = examples[low : low + WORDS_TOGETHER]
            chunk = Chunk(
                [Document(number, search.context + text) for number, (search, text) in enumerate(part)],
                context_lengths=[len(search.context) for search, _ in part],
                shares_context=True,
            )
            scores = score_chunk(self.scorer.model, preparer, chunk, settings, self._states)
            first_words = np.cumsum(scores.counts) - scores.counts
            probabilities += np.exp(-scores.surprisal[first_words]).tolist()
        return probabilities


def search_groups(
    scorer: Scorer, definition: WordDefinition, contexts: Sequence[str], count_all_spellings: bool = False
) -> Iterator[SearchGroup]:
    """Yield groups of searches, one for each context, in order."""
    tokens = NextTokens(scorer.model.tokenizer.vocabulary, scorer.model.vocab_size, definition)
    for low in range(0, len(contexts), CONTEXTS_TOGETHER):
        yield SearchGroup(scorer, definition, tokens, contexts[low : low + CONTEXTS_TOGETHER], count_all_spellings)


def _fault(search: NextWordSearch, is_exact: bool, mass: float, surprisal_of_last_word: float) -> str:
    """Return why nothing can be found after a context of this mass; nothing if something can.

    ``is_exact`` says whether its tokens are the bytes of the context.
    """
    shown = search.context[-40:]
    if not is_exact:
        return f"the tokeniser reads the context '{shown}' as another text, so the words after it cannot be enumerated."
    if math.isnan(surprisal_of_last_word) or math.isnan(mass):
        return f"a word of the context '{shown}' has no value, so none after it has one."
    if mass == 0.0:
        return f"the context '{shown}' has probability zero: no word can follow it."
    return ""


def _next_token_request(search: NextWordSearch, beginning: Beginning) -> Request:
    """Return the request for the next token after a beginning; it goes on from what the model kept of the context."""
    ids = beginning.ids
    row = len(ids) - 1
    shared = _shared_length(ids, search.own_ids)
    return Request(
        np.array(ids, dtype=np.int64),
        row,
        statistics=("log_probs",),
        statistics_rows=np.array([row], dtype=np.int64),
        context_tokens=min(shared, row),
        is_extended_later=True,
    )


def _shared_length(ids: Sequence[int], other: Sequence[int]) -> int:
    """Return how many ids two sequences have in common at their beginnings."""
    for place, (one, two) in enumerate(zip(ids, other, strict=False)):
        if one != two:
            return place
    return min(len(ids), len(other))
