"""Every spelling of a word counted, in rounds: the heaviest prefixes of all words are opened together.

The theory is in :mod:`wordprob.core.spelling_search`, the beginning of each search in
:mod:`wordprob.scoring.search_plan`. The readable twin is in the tests: a sum over all token sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordprob.core.arrays import Floats, Ints, segment_sums
from wordprob.core.atoms import Atoms
from wordprob.core.search_steps import Steps, needed_lists
from wordprob.core.spelling_search import Prefix, SpellingSearch
from wordprob.models.protocol import LanguageModel, PrefixStates, Request
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.prepare import PreparedBatch
from wordprob.scoring.requests import prefix_ids, window_of
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
        self._tolerance_nats = tolerance_nats
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
        contexts = _Contexts(prepared, search)
        while True:
            prefixes, log_probs = search.choose(self._tolerance_nats, self._max_open)
            if not prefixes:
                return search
            self._open(search, contexts, prefixes, log_probs, states)

    def _open(
        self,
        search: SpellingSearch,
        contexts: _Contexts,
        prefixes: Sequence[Prefix],
        log_probs: Floats,
        states: PrefixStates | None,
    ) -> None:
        """Ask the model about prefixes, and go on from them."""
        all_steps = [search.steps(prefix) for prefix in prefixes]
        requests = _requests(contexts, prefixes, all_steps)
        answers: list[Floats] = [np.zeros(0)] * len(prefixes)
        for n, scores in self._model.open(requests, self._atoms, states):
            answers[n] = scores.mass[-1] if all_steps[n] is None else scores.gathered
        inside = [n for n, steps in enumerate(all_steps) if steps is not None]
        whole = [n for n, steps in enumerate(all_steps) if steps is None]
        if inside:
            search.open_inside(
                [prefixes[n] for n in inside],
                [steps for steps in all_steps if steps is not None],
                log_probs[inside],
                np.concatenate([answers[n] for n in inside], dtype=np.float64),
            )
        if whole:
            search.open_whole([prefixes[n] for n in whole], log_probs[whole], np.stack([answers[n] for n in whole]))


# --- what the pass along the texts says -------------------------------------------------------------------------------


def _begin(prepared: PreparedBatch, collected: CollectedScores, keep_spellings: bool) -> SpellingSearch:
    """Set out from the prefixes alive where words begin, and go along the observed path as far as it leads."""
    plan = prepared.search_plan or SearchPlan()
    search = SpellingSearch(plan.words, _log_scales(prepared, collected, plan), keep_spellings)
    if not plan.words:
        return search

    # A prefix on the observed path has the masses of the observed tokens since the path began. One that leaves the text
    # before the word begins is relative to the observed tokens up to there.
    goes_on = plan.observed_masses >= 0
    observed_masses = plan.observed_masses[goes_on]
    observed = np.zeros(len(plan.known))
    observed[goes_on] = collected.step_masses[observed_masses]
    path_firsts = np.array(plan.path_firsts, dtype=np.int64)
    on_path = segment_sums(observed, path_firsts, np.arange(len(plan.known)))
    log_probs = on_path - _observed_log_probs(prepared, collected, plan, plan.known)
    log_masses = collected.step_masses.copy()
    log_masses[observed_masses] = -np.inf  # these lead to prefixes that are known too, and do not wait
    search.open_inside(plan.known, plan.steps, log_probs, log_masses)
    if plan.whole:
        prefixes, firsts, stops = zip(*plan.whole, strict=True)
        boundaries = prepared.alignment.boundary_after[[plan.words[prefix.search].word for prefix in prefixes]]
        log_probs = segment_sums(observed, np.array(firsts), np.array(stops))
        search.open_whole(prefixes, log_probs, collected.boundary_masses[boundaries])
    if plan.tails:
        tails, branches = zip(*plan.tails, strict=True)
        observed_before = _observed_log_probs(prepared, collected, plan, tails)
        search.wait_for(tails, collected.leaving[list(branches)] - observed_before)
    return search


def _observed_log_probs(
    prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, prefixes: Sequence[Prefix]
) -> Floats:
    """Return log p of the observed tokens from where each prefix leaves them up to where its word begins."""
    searches = np.array([prefix.search for prefix in prefixes], dtype=np.int64)
    rows = np.array([prefix.row for prefix in prefixes], dtype=np.int64)
    texts = prepared.alignment.text_of_word[plan.word_numbers[searches]]
    return segment_sums(collected.token_log_probs, rows - texts, plan.start_rows[searches] - texts)


def _log_scales(prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan) -> Floats:
    """Return about the logarithm of each word's mass, so that masses relative to it are near 1."""
    alignment = prepared.alignment
    texts, after = alignment.text_of_word[plan.word_numbers], alignment.boundary_after[plan.word_numbers]
    stop_rows = alignment.boundary_rows[after]
    observed = segment_sums(collected.token_log_probs, plan.start_rows - texts, stop_rows - texts)
    scales = observed + collected.boundaries[after]
    scales[~np.isfinite(scales)] = 0.0
    return np.where(scales > SMALLEST_LOG_SCALE, scales, scales / 2)


# --- what the model is asked ------------------------------------------------------------------------------------------


def _requests(contexts: _Contexts, prefixes: Sequence[Prefix], all_steps: Sequence[Steps | None]) -> list[Request]:
    """Return what the model is asked about prefixes: the masses of steps, or those of all atoms, after each of them."""
    all_ids = [contexts.ids(prefix) for prefix in prefixes]
    last_rows = [len(ids) - 1 for ids in all_ids]
    counts = [0 if steps is None else len(steps.kinds) for steps in all_steps]
    gather = np.repeat(last_rows, counts)
    lists, id_lists = needed_lists([steps for steps in all_steps if steps is not None])
    requests = []
    first = 0
    for prefix, ids, last, count in zip(prefixes, all_ids, last_rows, counts, strict=True):
        requests.append(
            Request(
                ids,
                first=last,
                gather=gather[first : first + count],
                gather_lists=lists[first : first + count],
                id_lists=id_lists,
                context_tokens=min(last, len(ids) - len(prefix.ids)),
                is_extended_later=count > 0,
            )
        )
        first += count
    return requests


class _Contexts:
    """What the model sees up to the end of prefixes.

    Parameters
    ----------
    prepared, search
        The texts, and the search for their words.
    """

    def __init__(self, prepared: PreparedBatch, search: SpellingSearch) -> None:
        self._prepared = prepared
        self._words = search.words
        self._known: dict[tuple[int, int], Ints] = {}
        self._seen_in_windows: dict[tuple[int, int], Ints] = {}

    def ids(self, prefix: Prefix) -> Ints:
        """Return what the model sees up to a prefix's end: what it sees of the observed text, and the prefix."""
        word = self._words[prefix.search]
        room = len(word.target) + BEYOND_WORD_TOKENS
        context = self._known.get((prefix.row, room))
        if context is None:
            context = self._known[prefix.row, room] = self._before(word.text, prefix.row, room)
        return np.concatenate((context, prefix.ids)) if prefix.ids else context

    def _before(self, text: int, batch_row: int, room: int) -> Ints:
        """Return what the model sees before a row, if there must be room for some further tokens."""
        prepared = self._prepared
        row = batch_row - prepared.alignment.token_offset_list[text] - text
        window = window_of(prepared, text, row)
        max_tokens = prepared.settings.max_text_tokens
        if max_tokens is not None and int(prepared.head_lengths[text]) + row + room > max_tokens + window.low:
            return prefix_ids(prepared, text, window, row, room=room)
        key = (text, window.first)
        if key not in self._seen_in_windows:
            self._seen_in_windows[key] = prefix_ids(prepared, text, window, window.last)
        seen = self._seen_in_windows[key]
        return seen[: len(seen) - (window.last - row)]


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
