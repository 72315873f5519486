"""Every spelling of a word counted, in rounds: the heaviest prefixes of all words are opened together.

The theory is in :mod:`wordprob.core.spelling_search`, the beginning of each search in
:mod:`wordprob.scoring.search_plan`. The readable twin is in the tests: a sum over all token sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from wordprob.core.arrays import Floats, cumulative_offsets, segment_sums
from wordprob.core.atoms import Atoms
from wordprob.core.search_steps import WHOLE_WORD, needed_lists
from wordprob.core.spelling_search import Prefixes, SearchedWord, SpellingSearch
from wordprob.models.id_sequences import IdSequences
from wordprob.models.protocol import NO_ROWS, LanguageModel, PrefixStates
from wordprob.models.request_arrays import RequestArrays
from wordprob.scoring.certain_masses import certain_boundaries
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import prefix_ids
from wordprob.scoring.rounds import Step, ask_together
from wordprob.scoring.search_plan import SearchPlan

BEYOND_WORD_TOKENS = 4
"""Tokens after the end of a word for which there must be room in the model's context: bytes of one character."""

SMALLEST_LOG_SCALE = -600.0
"""Below it, masses would overflow that are not scaled by less."""


@dataclass
class SpellingSums:
    """Sums over every spelling, in nats; not a number for words that were not searched.

    Attributes
    ----------
    log_low, log_high
        ``[W]``: the mass that was found, and the most that it can be, relative to the observed tokens before the word.
    opened
        ``[W]``: how many prefixes were opened.
    within
        ``[W]``: whether the interval is as narrow as it was asked for.
    """

    log_low: Floats
    log_high: Floats
    opened: Floats
    within: Floats


class AllSpellings:
    """Sums over every spelling of the words of a batch.

    Parameters
    ----------
    model, atoms
        The model, and the partition of its vocabulary.
    tolerance_nats
        How wide the interval may stay.
    max_open
        How many prefixes may be opened for a word.
    """

    def __init__(self, model: LanguageModel, atoms: Atoms, tolerance_nats: float, max_open: int) -> None:
        self._model = model
        self._atoms = atoms
        self.tolerance_nats = tolerance_nats
        self._max_open = max_open

    def search(
        self,
        prepared: PreparedBatch,
        collected: CollectedScores,
        states: PrefixStates | None,
        keep_spellings: bool = False,
    ) -> SpellingSearch:
        """Search for every spelling of the words of a batch, once its other scores are complete."""
        search = _begin(prepared, collected, keep_spellings)
        ask_together([self._rounds(search, _Contexts(prepared, search.words))], self._model, self._atoms, states)
        return search

    def _rounds(self, search: SpellingSearch, contexts: _Contexts) -> Step:
        """Ask the model about prefixes, and go on from them, until all intervals are narrow enough."""
        while len(prefixes := search.choose(self.tolerance_nats, self._max_open)):
            answers = yield _requests(contexts, prefixes)
            is_whole = np.array([steps is WHOLE_WORD for steps in prefixes.steps])
            inside, whole = np.flatnonzero(~is_whole), np.flatnonzero(is_whole)
            search.open_inside(prefixes.at(inside), answers.gathered.astype(np.float64))
            search.open_whole(prefixes.at(whole), answers.mass[whole])


# --- what the pass along the texts says -------------------------------------------------------------------------------


def _begin(prepared: PreparedBatch, collected: CollectedScores, keep_spellings: bool) -> SpellingSearch:
    """Set out from the prefixes alive where words begin, and go along the observed path as far as it leads."""
    plan = prepared.search_plan or SearchPlan()
    scales = _log_scales(prepared, collected, plan)
    search = SpellingSearch(plan.words, scales, keep_spellings, _log_own_masses(prepared, collected, plan))
    if not plan.words:
        return search

    # A prefix on the observed path has the masses of the observed tokens since the path began. One that leaves the text
    # before the word begins is relative to the observed tokens up to there.
    goes_on = plan.observed_masses >= 0
    observed_masses = plan.observed_masses[goes_on]
    observed = np.zeros(len(plan.steps))
    observed[goes_on] = collected.step_masses[observed_masses]
    on_path = segment_sums(observed, plan.path_firsts, np.arange(len(plan.steps)))
    known = Prefixes(plan.searches, plan.known_rows, [()] * len(plan.steps), plan.steps, on_path)
    log_masses = collected.step_masses.copy()
    log_masses[observed_masses] = -np.inf  # these lead to prefixes that are known too, and do not wait
    search.open_inside(_relative(prepared, collected, plan, known), log_masses)

    searches, rows, firsts, stops = plan.whole
    n_whole = len(searches)
    log_probs = segment_sums(observed, firsts, stops)
    whole = Prefixes(searches, rows, [()] * n_whole, [WHOLE_WORD] * n_whole, log_probs)
    boundaries = prepared.alignment.boundary_after[plan.word_numbers[searches]]
    search.open_whole(whole, collected.boundary_masses[boundaries])

    tails = Prefixes(
        np.array([tail.search for tail in plan.tails], dtype=np.int64),
        np.array([tail.row for tail in plan.tails], dtype=np.int64),
        [tail.ids for tail in plan.tails],
        [tail.steps for tail in plan.tails],
        collected.leaving[np.array([tail.branch for tail in plan.tails], dtype=np.int64)],
    )
    search.wait_for(_relative(prepared, collected, plan, tails))
    return search


def _relative(prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, prefixes: Prefixes) -> Prefixes:
    """Return prefixes relative to the observed tokens from where each leaves them up to where its word begins."""
    texts = prepared.alignment.text_of_word[plan.word_numbers[prefixes.search]]
    start_rows = plan.start_rows[prefixes.search]
    observed = segment_sums(collected.token_log_probs, prefixes.row - texts, start_rows - texts)
    return replace(prefixes, log_prob=prefixes.log_prob - observed)


def _log_scales(prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan) -> Floats:
    """Return about the logarithm of each word's mass, so that masses relative to it are near 1."""
    scales = _with_observed(prepared, collected, plan, collected.boundaries)
    scales[~np.isfinite(scales)] = 0.0
    return np.where(scales > SMALLEST_LOG_SCALE, scales, scales / 2)


def _log_own_masses(prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan) -> Floats | None:
    """Return the logarithm of what the tokenizer's own spellings of each word have for certain, if that is known."""
    if collected.unread is None:
        return None
    return _with_observed(prepared, collected, plan, certain_boundaries(prepared, collected, collected.unread))


def _with_observed(
    prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, log_boundaries: Floats
) -> Floats:
    """Return log p of each word's observed tokens and of what ends it, which is given at every boundary."""
    alignment = prepared.alignment
    texts, after = alignment.text_of_word[plan.word_numbers], alignment.boundary_after[plan.word_numbers]
    stop_rows = alignment.boundary_rows[after]
    observed = segment_sums(collected.token_log_probs, plan.start_rows - texts, stop_rows - texts)
    return observed + log_boundaries[after]


# --- what the model is asked ------------------------------------------------------------------------------------------


def _requests(contexts: _Contexts, prefixes: Prefixes) -> RequestArrays:
    """Return what the model is asked about prefixes: the masses of steps, or those of all atoms, after each of them."""
    sequences = contexts.sequences(prefixes)
    last_rows = sequences.lengths - 1
    n_steps = np.array([len(steps.kinds) for steps in prefixes.steps])
    lists, id_lists = needed_lists(prefixes.steps)
    n_own = np.array([len(ids) for ids in prefixes.ids])
    return RequestArrays(
        sequences=sequences,
        firsts=last_rows,
        context_tokens=np.minimum(last_rows, sequences.lengths - n_own),
        gather=np.repeat(last_rows, n_steps),
        gather_lists=lists,
        gather_offsets=cumulative_offsets(n_steps),
        id_lists=id_lists,
        statistics=[()] * len(prefixes),
        statistics_rows=NO_ROWS,
        statistics_offsets=np.zeros(len(prefixes) + 1, dtype=np.int64),
        is_extended_later=n_steps > 0,
    )


class _Contexts:
    """What the model sees up to the end of prefixes.

    Parameters
    ----------
    prepared, words
        The texts, and the words in them that are searched for.
    """

    def __init__(self, prepared: PreparedBatch, words: Sequence[SearchedWord]) -> None:
        self._prepared = prepared
        self._rooms = np.array([len(word.target) + BEYOND_WORD_TOKENS for word in words], dtype=np.int64)
        windows = [(text, window) for text, own in enumerate(prepared.windows) for window in own]
        self._seen = [prefix_ids(prepared, text, window, window.last) for text, window in windows]
        # Of each window: its text, the row of the batch at which that begins, and the window's first token and row.
        self._texts = np.array([text for text, _ in windows], dtype=np.int64)
        self._text_rows = prepared.alignment.token_offsets[self._texts] + self._texts
        self._lows = np.array([window.low for _, window in windows], dtype=np.int64)
        self._first_rows = self._text_rows + np.array([window.first for _, window in windows], dtype=np.int64)

    def sequences(self, prefixes: Prefixes) -> IdSequences:
        """Return what the model sees up to the end of prefixes: what it sees of the observed text, and the prefix."""
        prepared = self._prepared
        windows = np.searchsorted(self._first_rows, prefixes.row, side="right") - 1
        rows = prefixes.row - self._text_rows[windows]
        n_start = len(prepared.start_ids)
        tokens = prepared.head_lengths[self._texts[windows]] + rows - self._lows[windows]
        head_lengths = n_start + tokens
        own = prefixes.ids
        if prepared.settings.max_text_tokens is not None:  # there must be room for the rest of the word
            dropped = np.clip(tokens + self._rooms[prefixes.search] - prepared.settings.max_text_tokens, 0, tokens)
            own = list(own)
            for n in np.flatnonzero(dropped).tolist():
                seen = self._seen[windows[n]][: head_lengths[n]].tolist()
                own[n] = (*seen[:n_start], *seen[n_start + int(dropped[n]) :], *own[n])
            head_lengths = np.where(dropped, 0, head_lengths)
        own_offsets = cumulative_offsets(map(len, own))
        own_ids = np.fromiter(chain.from_iterable(own), dtype=np.int64, count=int(own_offsets[-1]))
        return IdSequences(self._seen, windows, head_lengths, own_ids, own_offsets)


def sum_all_spellings(
    model: LanguageModel,
    atoms: Atoms,
    prepared: PreparedBatch,
    collected: CollectedScores,
    states: PrefixStates | None,
) -> SpellingSums | None:
    """Return the sums over every spelling of the words of a batch; ``None`` if they are not wanted."""
    settings = prepared.settings.search
    if settings is None:
        return None
    sums = SpellingSums(*(np.full(prepared.alignment.n_words, np.nan) for _ in range(4)))
    spellings = AllSpellings(model, atoms, settings.tolerance_nats, settings.max_open)
    search = spellings.search(prepared, collected, states)
    words = [searched.word for searched in search.words]
    sums.log_low[words] = search.log_low
    sums.log_high[words] = search.log_high
    sums.opened[words] = search.opened
    sums.within[words] = search.is_within(settings.tolerance_nats)
    return sums
