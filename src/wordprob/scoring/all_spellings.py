"""Every spelling of a word counted, in rounds: the heaviest prefixes of all words are opened together.

The theory is in :mod:`wordprob.covers.spelling_search`, the beginning of each search in
:mod:`wordprob.covers.search_plan`. The readable twin is in the tests: a sum over all token sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, cumulative_offsets, segment_sums
from wordprob.core.atoms import Atoms
from wordprob.covers.rounds import Step, ask_together
from wordprob.covers.search_plan import SearchPlan
from wordprob.covers.search_steps import WHOLE_WORD, needed_lists
from wordprob.covers.spelling_search import Prefixes, SpellingSearch
from wordprob.models.id_sequences import IdSequences
from wordprob.models.protocol import NO_ROWS, LanguageModel, PrefixStates
from wordprob.models.request_arrays import RequestArrays
from wordprob.scoring.certain_masses import certain_boundaries
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.cut_off_characters import LONGEST_CHARACTER_BYTES
from wordprob.scoring.prepared_batch import PreparedBatch
from wordprob.scoring.requests import prefix_ids

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
    too_long
        ``[W]``: whether prefixes were left unopened because they do not fit into the model's context.
    """

    log_low: Floats
    log_high: Floats
    opened: Floats
    within: Floats
    too_long: Floats


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
        contexts = _Contexts(prepared)
        search = _begin(prepared, collected, contexts, keep_spellings)
        ask_together([self._rounds(search, contexts)], self._model, self._atoms, states)
        return search

    def _rounds(self, search: SpellingSearch, contexts: _Contexts) -> Step:
        """Ask the model about prefixes, and go on from them, until all intervals are narrow enough."""
        while len(chosen := search.choose(self.tolerance_nats, self._max_open)):
            fits = contexts.fits(chosen)
            search.leave_unopened(chosen.at(np.flatnonzero(~fits)))
            prefixes = chosen.at(np.flatnonzero(fits))
            if not len(prefixes):
                continue
            answers = yield _requests(contexts, prefixes)
            is_whole = np.array([steps is WHOLE_WORD for steps in prefixes.steps])
            inside, whole = np.flatnonzero(~is_whole), np.flatnonzero(is_whole)
            search.open_inside(prefixes.at(inside), answers.gathered.astype(np.float64))
            search.open_whole(prefixes.at(whole), answers.mass[whole])


# --- what the pass along the texts says -------------------------------------------------------------------------------


def _begin(
    prepared: PreparedBatch, collected: CollectedScores, contexts: _Contexts, keep_spellings: bool
) -> SpellingSearch:
    """Set out from the prefixes alive where words begin, and go along the observed path as far as it leads.

    A path is followed up to the end of the window that it begins in: what comes then was asked after another context.
    """
    plan = prepared.search_plan or SearchPlan()
    scales = _log_scales(prepared, collected, plan)
    search = SpellingSearch(plan.words, scales, keep_spellings, _log_own_masses(prepared, collected, plan, contexts))
    if not plan.words:
        return search

    # A prefix on the observed path has the masses of the observed tokens since the path began. One that leaves the text
    # before the word begins is relative to the observed tokens up to there.
    goes_on = plan.observed_masses >= 0
    observed = np.zeros(len(plan.steps))
    observed[goes_on] = collected.step_masses[plan.observed_masses[goes_on]]
    on_path = segment_sums(observed, plan.path_firsts, np.arange(len(plan.steps)))
    known = Prefixes(plan.searches, plan.known_rows, [()] * len(plan.steps), plan.steps, on_path)
    begins = plan.known_rows[plan.path_firsts]
    leads_on = goes_on & contexts.are_same(begins, plan.known_rows + 1)
    log_masses = collected.step_masses.copy()
    log_masses[plan.observed_masses[leads_on]] = -np.inf  # these lead to prefixes that are known too, and do not wait
    seen = contexts.are_same(begins, plan.known_rows)
    n_steps = [len(steps.kinds) for steps in plan.steps]
    seen_known = _relative(prepared, collected, plan, known.at(np.flatnonzero(seen)))
    search.open_inside(seen_known, log_masses[np.repeat(seen, n_steps)])

    begins = plan.whole.row - (plan.whole.stop - plan.whole.first)
    is_seen = contexts.are_same(begins, plan.whole.row)
    searches, rows, firsts, stops = (column[is_seen] for column in plan.whole)
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


def _log_own_masses(
    prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, contexts: _Contexts
) -> Floats | None:
    """Return the logarithm of what the tokenizer's own spellings of each word have for certain, if that is known.

    Nothing is certain where some of them may have been asked about after another context than that of the word.
    """
    if collected.unread is None:
        return None
    log_own = _with_observed(prepared, collected, plan, certain_boundaries(prepared, collected, collected.unread))
    stop_rows = prepared.alignment.boundary_rows[prepared.alignment.boundary_after[plan.word_numbers]]
    room = LONGEST_CHARACTER_BYTES + max((len(tail.ids) for tail in prepared.branches.tails.values()), default=0)
    is_same = contexts.are_same(plan.start_rows, stop_rows) & contexts.have_room(stop_rows, room)
    return np.where(is_same, log_own, -np.inf)


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
    """What the model sees up to the end of prefixes: all after the context that it sees where their words begin.

    Parameters
    ----------
    prepared
        The texts, and the words in them that are searched for.
    """

    def __init__(self, prepared: PreparedBatch) -> None:
        self._prepared = prepared
        self._start_rows = (prepared.search_plan or SearchPlan()).start_rows
        most = prepared.settings.max_text_tokens
        self._most = np.iinfo(np.int64).max if most is None else most
        windows = [(text, window) for text, own in enumerate(prepared.windows) for window in own]
        # A word may go on behind the window that it begins in, as long as it fits into the model's context.
        stops = [window.last if most is None else window.low + most for _, window in windows]
        self._seen = [prefix_ids(prepared, *own, stop) for own, stop in zip(windows, stops, strict=True)]
        # Of each window: its text, the row of the batch at which that begins, and the window's first token and row.
        self._texts = np.array([text for text, _ in windows], dtype=np.int64)
        self._text_rows = prepared.alignment.token_offsets[self._texts] + self._texts
        self._lows = np.array([window.low for _, window in windows], dtype=np.int64)
        self._first_rows = self._text_rows + np.array([window.first for _, window in windows], dtype=np.int64)

    def are_same(self, rows: Ints, others: Ints) -> Bools:
        """Return True where one window answers for both of two rows of a text."""
        same: Bools = self._windows(rows) == self._windows(others)
        return same

    def have_room(self, rows: Ints, room: int) -> Bools:
        """Return True where so many tokens more than those before a row fit into the model's context."""
        fits: Bools = self._n_tokens(rows, self._windows(rows)) <= self._most - room
        return fits

    def fits(self, prefixes: Prefixes) -> Bools:
        """Return True for prefixes that fit into the model's context, after all that it sees before their words."""
        n_own = np.array([len(ids) for ids in prefixes.ids], dtype=np.int64)
        fits: Bools = self._n_tokens(prefixes.row, self._windows_before(prefixes)) <= self._most - n_own
        return fits

    def sequences(self, prefixes: Prefixes) -> IdSequences:
        """Return what the model sees up to the end of prefixes that fit: what it sees of the text, and the prefix."""
        windows = self._windows_before(prefixes)
        head_lengths = len(self._prepared.start_ids) + self._n_tokens(prefixes.row, windows)
        own_offsets = cumulative_offsets(map(len, prefixes.ids))
        own_ids = np.fromiter(chain.from_iterable(prefixes.ids), dtype=np.int64, count=int(own_offsets[-1]))
        return IdSequences(self._seen, windows, head_lengths, own_ids, own_offsets)

    def _windows_before(self, prefixes: Prefixes) -> Ints:
        """Return the window that prefixes set out in: where they leave the text, or their words begin before that."""
        return self._windows(np.minimum(prefixes.row, self._start_rows[prefixes.search]))

    def _windows(self, rows: Ints) -> Ints:
        """Return the windows that answer for rows of the batch."""
        windows: Ints = np.searchsorted(self._first_rows, rows, side="right") - 1
        return windows

    def _n_tokens(self, rows: Ints, windows: Ints) -> Ints:
        """Return how many tokens come before rows in windows, of the texts and of what comes before them."""
        n_tokens: Ints = (
            self._prepared.head_lengths[self._texts[windows]] + rows - self._text_rows[windows] - self._lows[windows]
        )
        return n_tokens


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
    sums = SpellingSums(*(np.full(prepared.alignment.n_words, np.nan) for _ in range(5)))
    spellings = AllSpellings(model, atoms, settings.tolerance_nats, settings.max_open)
    search = spellings.search(prepared, collected, states)
    words = [searched.word for searched in search.words]
    sums.log_low[words] = search.log_low
    sums.log_high[words] = search.log_high
    sums.opened[words] = search.opened
    sums.within[words] = search.is_within(settings.tolerance_nats)
    sums.too_long[words] = search.too_long > 0.0
    return sums
