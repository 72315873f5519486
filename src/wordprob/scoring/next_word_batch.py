"""Searches for next words after many contexts at a time: what they ask the model is asked together.

Contexts whose search has ended make room for others, so that the model always has enough to do. No number depends on
which contexts are searched together.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wordprob.core.arrays import Floats, Ints, common_prefix_length
from wordprob.core.text import Document
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.context_reader import TokenizedPieces
from wordprob.covers.next_tokens import next_tokens_of
from wordprob.covers.next_word_beginnings import Beginning
from wordprob.covers.next_word_search import NextWordSearch
from wordprob.errors import InputError, OptionError
from wordprob.models.batching import group_by_prefix
from wordprob.models.protocol import PrefixStates, Request, capabilities_of
from wordprob.options import ScoringOptions
from wordprob.scoring.capability_checks import check_model_can_search, enumerable_definition
from wordprob.scoring.estimate import estimate_batch
from wordprob.scoring.open_model import OpenModel, collect_chunk, score_chunk
from wordprob.scoring.passages import Chunk, Passage, passages_of

CONTEXTS_TOGETHER = 64
"""Contexts whose next words are searched for at the same time. When half of them are done, others take their places."""
DONE_TOGETHER = 8
"""Searches that have ended and are handed on at a time: what is asked about their words is asked together too."""
OPENED_TOGETHER = 8
"""Beginnings after one context that the model is asked about at a time."""
ASKED_TOGETHER = 512
"""Beginnings that the model is asked about at a time, over all contexts: each answer has the whole vocabulary."""
WORDS_TOGETHER = 512
"""Words that are scored at a time."""
FOLLOWERS = ("", " a", ".", "\n", "a")
"""What contexts are scored with behind them."""
FIRST_TEXT = "a"
"""A text that begins without white space. The mass of all such texts does not depend on which one it is."""
LONGEST_WORD_TOKENS = 32
"""Tokens of a next word for which there must be room in the model's context."""


def check_possible(scorer: OpenModel, definition: WordDefinition, max_open: int) -> WordDefinition:
    """Return the definition to enumerate words with, which has the same words; raise where that is not possible."""
    vocabulary = scorer.model.tokenizer.vocabulary
    check_model_can_search(capabilities_of(scorer.model), scorer.model.metadata.get("model", "the model"))
    if max_open < 1:
        raise OptionError(f"`max_open` must be at least 1, not {max_open}.")
    enumerable = enumerable_definition(definition)
    if vocabulary.start is None:
        raise InputError("this model has no start-of-text token, and the sum needs one. Specify one as `bos`.")
    if vocabulary.marked.any() or vocabulary.spaced.any():
        raise InputError("the tokens of this model leave out white space, so its words cannot be enumerated.")
    return enumerable


@dataclass
class SearchTask:
    """A search after one of several contexts.

    Attributes
    ----------
    number
        Which of the contexts.
    search
        The search.
    fault
        Why nothing can be found after this context; empty if something can.
    known
        Distributions of the next token that the model has returned before they are asked for: after the beginnings
        with which the context itself is written.
    """

    number: int
    search: NextWordSearch
    fault: str = ""
    known: dict[tuple[int, ...], Floats] = field(default_factory=dict)


class SearchRunner:
    """Runs searches with a model.

    Parameters
    ----------
    scorer
        An open model.
    definition
        What a word is.
    count_all_spellings
        As for :class:`NextWordSearch`.
    """

    def __init__(self, scorer: OpenModel, definition: WordDefinition, count_all_spellings: bool = False) -> None:
        self.scorer = scorer
        self.definition = definition
        self.tokens = next_tokens_of(scorer.model.tokenizer.vocabulary, scorer.model.vocab_size, definition)
        self.count_all_spellings = count_all_spellings
        self._states = PrefixStates()
        self._pieces = TokenizedPieces(scorer.model.tokenizer)
        self._finder = scorer.preparer(definition).finder(definition)

    def run(
        self, contexts: Sequence[str], is_enough: Callable[[NextWordSearch], bool], max_open: int
    ) -> Iterator[list[SearchTask]]:
        """Yield the searches after some contexts when they have found enough, several at a time, in any order.

        Parameters
        ----------
        contexts
            The texts so far, without white space at their ends.
        is_enough
            Whether a search has found enough.
        max_open
            How many beginnings to open in each search, at most.
        """
        contexts = self._as_read(contexts)
        n_started = 0
        active: list[SearchTask] = []
        done: list[SearchTask] = []
        while active or n_started < len(contexts):
            if len(active) <= CONTEXTS_TOGETHER // 2 and n_started < len(contexts):
                n_new = min(CONTEXTS_TOGETHER - len(active), len(contexts) - n_started)
                started = self._start(range(n_started, n_started + n_new), contexts)
                n_started += n_new
                active += [task for task in started if not task.fault]
                if faulty := [task for task in started if task.fault]:
                    yield faulty
            self._open_round(active, max_open)
            going_on: list[SearchTask] = []
            for task in active:
                search = task.search
                is_done = search.is_exhausted or search.opened >= max_open or is_enough(search)
                (done if is_done else going_on).append(task)
            active = going_on
            if done and (len(done) >= DONE_TOGETHER or not active):
                yield done
                done = []

    def _as_read(self, contexts: Sequence[str]) -> list[str]:
        """Return contexts as the tokenizer reads them, where it changes their case, accents or Unicode form alone."""
        tokenizer = self.scorer.model.tokenizer
        vocabulary = tokenizer.vocabulary
        read = list(contexts)
        for number, tokens in enumerate(tokenizer.encode(contexts) if contexts else ()):
            pieces = [vocabulary.token_bytes[token] for token in tokens.ids.tolist()]
            text = b"".join(pieces).decode("utf-8", "replace")
            text = text.removeprefix(" ") if vocabulary.first_word_marked else text
            if not tokens.exact and _base_letters(text) == _base_letters(contexts[number]):
                read[number] = text
        return read

    def _start(self, numbers: Sequence[int], contexts: Sequence[str]) -> list[SearchTask]:
        """Begin the searches after some of the contexts."""
        tasks = []
        for number in numbers:
            search = NextWordSearch(
                self.tokens,
                self.scorer.model.tokenizer,
                self.definition,
                contexts[number],
                self.count_all_spellings,
                self._pieces,
                self._finder,
            )
            tasks.append(SearchTask(number, search, self._too_long(search) or self._no_word_at_end(search)))
        self._find_events([task for task in tasks if not task.fault and task.search.context])
        for task in tasks:
            if not task.search.context:
                task.search.event_mass = self._start_mass
        return tasks

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

    def _no_word_at_end(self, search: NextWordSearch) -> str:
        """Return what is wrong unless the context ends with a word; what comes behind one belongs to the next."""
        if not search.context or search.ends_with_word:
            return ""
        return (
            f"the context '{search.context[-40:]}' does not end with a word of '{self.definition.name}'; leave out "
            "what comes after its last word, or use another definition of a word, such as punctuation."
        )

    # --- the event that is shared out among the words ---

    @cached_property
    def _start_mass(self) -> float:
        """The mass of texts that begin without white space: what the first word of a text is divided by."""
        chunk = Chunk(passages_of(FIRST_TEXT))
        preparer = self.scorer.preparer(self.definition)
        settings = self.scorer.settings(ScoringOptions())
        scores = score_chunk(self.scorer.model, preparer, chunk, settings, self._states)
        return math.exp(-float(scores.before[0]))

    def _find_events(self, waiting: Sequence[SearchTask]) -> None:
        """Find the probability of each context, and that the text ends after it.

        What follows the context makes no difference, unless it is impossible: then something else is tried.
        """
        for behind in FOLLOWERS:
            if waiting:
                self._find_events_before(waiting, behind)
            waiting = [task for task in waiting if task.fault]

    def _find_events_before(self, tasks: Sequence[SearchTask], behind: str) -> None:
        """Find the probability of each context, written as it is before some text."""
        searches = [task.search for task in tasks]
        passages = [
            Passage(Document(number, search.context + behind), search.last_word_start, len(search.context))
            for number, search in enumerate(searches)
        ]
        log_probs = self._run_contexts(tasks, behind)
        chunk = Chunk(passages, shares_context=True)
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
            log_p = float(log_probs[number][: stop - len(search.root)].sum())
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

    def _run_contexts(self, tasks: Sequence[SearchTask], behind: str) -> list[Floats]:
        """Run the contexts before some text; return log p of the tokens of each, from the search's root on.

        The model keeps what it needs to go on. What it says after the root, and after each longer part of a context, is
        noted as known.
        """
        start_ids = self.tokens.vocabulary.start_ids
        encoded = self.scorer.model.tokenizer.encode([task.search.context + behind for task in tasks])
        ids = [np.array([*start_ids, *tokens.ids.tolist()], dtype=np.int64) for tokens in encoded]
        rows = [
            np.arange(len(task.search.root) - 1, len(own), dtype=np.int64) for task, own in zip(tasks, ids, strict=True)
        ]
        groups = group_by_prefix(ids)
        requests = [
            _context_request(ids[group.longest], [rows[member] for member in group.members]) for group in groups
        ]
        log_probs: dict[int, Floats] = {}
        for number, scores in self.scorer.model.open(requests, self.tokens.one_atom, self._states):
            request = requests[number]
            for member in groups[number].members:
                log_probs[member] = scores.target[rows[member][:-1] - request.first].astype(np.float64)
                places = np.searchsorted(request.statistics_rows, rows[member])
                for row, place in zip(rows[member].tolist(), places.tolist(), strict=True):
                    beginning = tuple(request.ids[: row + 1].tolist())
                    tasks[member].known[beginning] = scores.statistics["log_probs"][place]
        return [log_probs[number] for number in range(len(tasks))]

    # --- going on ---

    def _open_round(self, tasks: Sequence[SearchTask], max_open: int) -> None:
        """Open the heaviest beginnings of each search."""
        asked: list[tuple[NextWordSearch, Beginning]] = []
        for task in tasks:
            asked += [(task.search, beginning) for beginning in self._take(task, max_open)]
        self._pieces.encode([search.piece_of(beginning) for search, beginning in asked])  # faster than one by one
        for search, beginning in asked:
            search.note_own(beginning)
        for number, log_probs in self.distributions(asked):
            search, beginning = asked[number]
            search.open(beginning, log_probs)

    def _take(self, task: SearchTask, max_open: int) -> list[Beginning]:
        """Return the heaviest beginnings, about which the model is to be asked; open those after which all is known."""
        search = task.search
        asked: list[Beginning] = []
        while True:
            taken = search.take(min(OPENED_TOGETHER, max_open - search.opened) - len(asked))
            is_known = [beginning.ids in task.known for beginning in taken]
            for beginning, known in zip(taken, is_known, strict=True):
                if known:
                    search.open(beginning, task.known[beginning.ids])
                else:
                    asked.append(beginning)
            if not any(is_known):
                task.known.clear()  # the context's own beginnings come first
                return asked

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
            passages = [
                Passage(Document(number, search.context + text), len(search.context))
                for number, (search, text) in enumerate(part)
            ]
            chunk = Chunk(passages, shares_context=True)
            scores = score_chunk(self.scorer.model, preparer, chunk, settings, self._states)
            first_words = np.cumsum(scores.counts) - scores.counts
            probabilities += np.exp(-scores.surprisal[first_words]).tolist()
        return probabilities


def _base_letters(text: str) -> str:
    """Return a text without case, accents and differences of Unicode form."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(character for character in decomposed if not unicodedata.combining(character))


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


def _context_request(ids: Ints, rows: Sequence[Ints]) -> Request:
    """Return the request for the next token at some rows of a context; the model keeps what it needs to go on."""
    wanted = np.unique(np.concatenate(rows))
    return Request(ids, int(wanted[0]), statistics=("log_probs",), statistics_rows=wanted, context_tokens=0)


def _next_token_request(search: NextWordSearch, beginning: Beginning) -> Request:
    """Return the request for the next token after a beginning; it goes on from what the model kept of the context."""
    ids = beginning.ids
    row = len(ids) - 1
    shared = common_prefix_length(ids, search.own_ids)
    return Request(
        np.array(ids, dtype=np.int64),
        row,
        statistics=("log_probs",),
        statistics_rows=np.array([row], dtype=np.int64),
        context_tokens=min(shared, row),
        is_extended_later=True,
    )
