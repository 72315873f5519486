"""Every spelling of a word counted, in rounds: the heaviest prefixes of all words are opened together.

The theory is in :mod:`wordprob.core.spelling_search`, the beginning of each search in
:mod:`wordprob.scoring.search_plan`. The readable twin is in the tests: a sum over all token sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.spelling_search import Prefix, WordSearch
from wordprob.models.protocol import LanguageModel, PrefixStates, Request, Scores
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.prepare import PreparedBatch
from wordprob.scoring.requests import prefix_ids, window_of
from wordprob.scoring.search_plan import KnownSteps, PlannedSearch

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


class Opening(NamedTuple):
    """A prefix that is opened, and the search that it belongs to."""

    search: WordSearch
    prefix: Prefix


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
    ) -> list[WordSearch]:
        """Search for every spelling of the words of a batch, once its other scores are complete."""
        planned_searches = [] if prepared.search_plan is None else prepared.search_plan.searches
        searches = [self._begin(prepared, collected, planned, keep_spellings) for planned in planned_searches]
        active = searches
        while active:
            openings = []
            for search in active:
                chosen = search.choose(self._tolerance_nats, self._max_open)
                openings += [Opening(search, prefix) for prefix in chosen]
            self._open(prepared, openings, states)
            active = list({id(opening.search): opening.search for opening in openings}.values())
        return searches

    # --- what the pass along the texts says ---

    def _begin(
        self, prepared: PreparedBatch, collected: CollectedScores, planned: PlannedSearch, keep_spellings: bool
    ) -> WordSearch:
        """Set out from the prefixes alive where a word begins, and go along the observed path as far as it leads."""
        search = WordSearch(planned.word, planned.target, planned.ending, planned.finder, planned.observed)
        search.spellings = [] if keep_spellings else None
        search.log_scale = _log_scale(prepared, collected, planned)
        text = int(prepared.alignment.text_of_word[planned.word])
        for known in planned.leaving:
            observed = _observed_log_prob(collected, text, known.prefix.row, planned.start_row)
            self._open_known(search, known, known.prefix._replace(log_prob=-observed), collected)
        for branch, prefix in planned.tails.items():
            observed = _observed_log_prob(collected, text, prefix.row, planned.start_row)
            search.wait_for(prefix._replace(log_prob=float(collected.leaving[branch]) - observed))
        for prefix in planned.starts:
            search.wait_for(prefix)
        self._follow_observed(prepared, collected, planned, search)
        return search

    def _follow_observed(
        self, prepared: PreparedBatch, collected: CollectedScores, planned: PlannedSearch, search: WordSearch
    ) -> None:
        """Open the prefixes on the observed path, whose distributions are known."""
        boundary = prepared.alignment.boundary_after[planned.word]
        while True:
            prefix = next((prefix for prefix in search.waiting if prefix.is_on_observed_path), None)
            if prefix is None:
                return
            search.waiting.remove(prefix)
            if search.is_whole(prefix):
                search.open_whole(prefix, collected.boundary_masses[boundary])
            else:
                self._open_known(search, planned.known[prefix.row], prefix, collected)

    @staticmethod
    def _open_known(search: WordSearch, known: KnownSteps, prefix: Prefix, collected: CollectedScores) -> None:
        stop = known.first_mass + len(known.steps.id_lists())
        search.open_inside(prefix, known.steps, collected.step_masses[known.first_mass : stop])

    # --- what the model is asked ---

    def _open(self, prepared: PreparedBatch, openings: Sequence[Opening], states: PrefixStates | None) -> None:
        """Ask the model about prefixes, and go on from them."""
        requests = list(self._requests(prepared, openings))
        for n, scores in self._model.open(requests, self._atoms, states):
            self._take(openings[n], scores)

    def _requests(self, prepared: PreparedBatch, openings: Sequence[Opening]) -> Iterator[Request]:
        id_lists: list[Ints] = []
        numbers: dict[tuple[int, ...], int] = {}
        for search, prefix in openings:
            wanted = [] if search.is_whole(prefix) else search.steps(prefix).id_lists()
            for listed in wanted:
                if listed not in numbers:
                    numbers[listed] = len(id_lists)
                    id_lists.append(np.array(listed, dtype=np.int64))
            ids, context_tokens = self._ids(prepared, search, prefix)
            last = len(ids) - 1
            yield Request(
                ids,
                first=last,
                gather=np.full(len(wanted), last),
                gather_lists=np.array([numbers[listed] for listed in wanted], dtype=np.int64),
                id_lists=id_lists,
                context_tokens=context_tokens,
                is_extended_later=not search.is_whole(prefix),
            )

    def _ids(self, prepared: PreparedBatch, search: WordSearch, prefix: Prefix) -> tuple[Ints, int]:
        """Return what the model sees up to a prefix's end, and how much of it is the observed text."""
        text, row = prepared.text_and_row(int(prepared.alignment.boundary_after[search.word]), prefix.row)
        room = len(search.target) + BEYOND_WORD_TOKENS
        context = prefix_ids(prepared, text, window_of(prepared, text, row), row, room=room)
        if not prefix.ids:
            return context, len(context) - 1
        return np.append(context, prefix.ids), len(context)

    @staticmethod
    def _take(opening: Opening, scores: Scores) -> None:
        search, prefix = opening
        if search.is_whole(prefix):
            search.open_whole(prefix, scores.mass[-1])
        else:
            search.open_inside(prefix, search.steps(prefix), scores.gathered)


def _observed_log_prob(collected: CollectedScores, text: int, first_row: int, stop_row: int) -> float:
    """Return log p of the observed tokens between two rows."""
    return float(collected.token_log_probs[first_row - text : stop_row - text].sum())


def _log_scale(prepared: PreparedBatch, collected: CollectedScores, planned: PlannedSearch) -> float:
    """Return about the logarithm of a word's mass, so that masses relative to it are near 1."""
    boundary = int(prepared.alignment.boundary_after[planned.word])
    text = int(prepared.alignment.text_of_word[planned.word])
    stop_row = int(prepared.alignment.boundary_rows[boundary])
    scale = _observed_log_prob(collected, text, planned.start_row, stop_row) + float(collected.boundaries[boundary])
    if not math.isfinite(scale):
        return 0.0
    return scale if scale > SMALLEST_LOG_SCALE else scale / 2


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
    for search in spellings.search(prepared, collected, states):
        sums.log_low[search.word] = search.log_low
        sums.log_high[search.word] = search.log_high
        sums.opened[search.word] = search.opened
        sums.within[search.word] = search.is_within(settings.tolerance_nats)
    return sums
