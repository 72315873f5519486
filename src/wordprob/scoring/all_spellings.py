"""The sum over every spelling of the words of a batch, with certain bounds.

Where each search begins is in :mod:`wordprob.covers.search_plan`, the search itself in :mod:`wordprob.covers.search`.
The readable twin is in the tests: a sum over all token sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wordprob.core.arrays import Floats, Ints, segment_sums
from wordprob.core.atoms import Atoms
from wordprob.covers.ask import Step, ask_together, search_rounds
from wordprob.covers.search import Prefixes, Search
from wordprob.covers.search_plan import SearchPlan
from wordprob.models.protocol import LanguageModel, PrefixStates
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.contexts import TextContexts
from wordprob.scoring.prepared_batch import PreparedBatch, SearchSettings

SMALLEST_LOG_SCALE = -600.0
"""Below it, masses would overflow that are not scaled by less."""

LONGEST_CHARACTER_BYTES = 4


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


def sum_all_spellings(
    model: LanguageModel,
    atoms: Atoms,
    prepared: PreparedBatch,
    collected: CollectedScores,
    states: PrefixStates | None,
) -> SpellingSums | None:
    """Return the sums over every spelling of the words of a batch; ``None`` if they are not wanted."""
    return ask_together([all_sums(prepared, collected)], model, atoms, states)[0]


def all_sums(prepared: PreparedBatch, collected: CollectedScores) -> Step[SpellingSums | None]:
    """Sum over every spelling of the words of a batch: the same, asking together with other batches."""
    if prepared.settings.search is None:
        return None
    search = yield from all_spellings(prepared, collected)
    sums = SpellingSums(*(np.full(prepared.alignment.n_words, np.nan) for _ in range(5)))
    words = [searched.number for searched in search.searched]
    sums.log_low[words] = search.log_low
    sums.log_high[words] = search.log_high
    sums.opened[words] = search.opened
    sums.within[words] = search.is_within
    sums.too_long[words] = search.too_long > 0.0
    return sums


def all_spellings(prepared: PreparedBatch, collected: CollectedScores, keep_spellings: bool = False) -> Step[Search]:
    """Search for every spelling of the words of a batch, once its other scores are complete."""
    plan = prepared.search_plan or SearchPlan()
    settings = prepared.settings.search or SearchSettings(np.inf, 0)
    contexts = TextContexts(prepared, plan.start_rows)
    search = Search(
        plan.words,
        _log_scales(prepared, collected, plan),
        np.full(len(plan.words), settings.tolerance_nats),
        keep_spellings=keep_spellings,
        log_certain=_log_own_masses(prepared, collected, plan, contexts),
    )
    if plan.words:
        _begin(search, plan, prepared, collected, contexts)
        yield from search_rounds(search, contexts, settings.max_open)
    return search


def _begin(
    search: Search, plan: SearchPlan, prepared: PreparedBatch, collected: CollectedScores, contexts: TextContexts
) -> None:
    """Set out from the prefixes alive where words begin, and follow the observed path as far as it leads.

    A path is followed up to the end of the window that it begins in: what comes then was asked after another context.
    """
    # A prefix on the observed path has the masses of the observed tokens since the path began. One that leaves the text
    # before the word begins is relative to the observed tokens up to there.
    continues = plan.observed_masses >= 0
    observed = np.zeros(len(plan.transitions))
    observed[continues] = collected.step_masses[plan.observed_masses[continues]]
    on_path = segment_sums(observed, plan.path_firsts, np.arange(len(plan.transitions)))
    known = Prefixes.scored(plan.searches, plan.known_rows, on_path, plan.transitions)
    begins = plan.known_rows[plan.path_firsts]
    leads_on = continues & contexts.are_same(begins, plan.known_rows + 1)
    log_masses = collected.step_masses.copy()
    log_masses[plan.observed_masses[leads_on]] = -np.inf  # these lead to prefixes that are known too, and do not wait
    seen = contexts.are_same(begins, plan.known_rows)
    n_masses = [len(transitions.outcomes) for transitions in plan.transitions]
    seen_known = _relative(prepared, collected, plan, known.at(np.flatnonzero(seen)))
    search.open_inside(seen_known, log_masses[np.repeat(seen, n_masses)])

    begins = plan.whole.row - (plan.whole.stop - plan.whole.first)
    is_seen = contexts.are_same(begins, plan.whole.row)
    searches, rows, firsts, stops = (column[is_seen] for column in plan.whole[:4])
    after_words = [plan.whole.transitions[number] for number in np.flatnonzero(is_seen).tolist()]
    whole = Prefixes.scored(searches, rows, segment_sums(observed, firsts, stops), after_words)
    boundaries = prepared.alignment.boundary_after[plan.word_numbers[searches]]
    search.open_whole(whole, collected.boundary_masses[boundaries])
    search.wait_for(_relative(prepared, collected, plan, _tails(plan, collected)))


def _tails(plan: SearchPlan, collected: CollectedScores) -> Prefixes:
    """Return other spellings of the words before that have several tokens; of some only the first is scored."""
    branches = np.array([tail.branch for tail in plan.tails], dtype=np.int64)
    n_after_first = np.array([len(tail.ids) - 1 for tail in plan.tails], dtype=np.int64)
    return Prefixes(
        search=np.array([tail.search for tail in plan.tails], dtype=np.int64),
        row=np.array([tail.row for tail in plan.tails], dtype=np.int64),
        ids=[tail.ids for tail in plan.tails],
        transitions=[tail.transitions for tail in plan.tails],
        log_prob=collected.leaving[branches],
        n_unscored=np.where(collected.is_tail_scored[branches], 0, n_after_first),
    )


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
    prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, contexts: TextContexts
) -> Floats:
    """Return the logarithm of what the tokenizer's own spellings of each word have for certain.

    Nothing is certain where some of them may have been asked about after another context than that of the word.
    """
    log_own = _with_observed(prepared, collected, plan, collected.certain)
    stop_rows = _stop_rows(prepared, plan)
    room = LONGEST_CHARACTER_BYTES + max((len(tail.ids) for tail in prepared.branches.tails.values()), default=0)
    is_same = contexts.are_same(plan.start_rows, stop_rows) & contexts.have_room(stop_rows, room)
    return np.where(is_same & ~np.isnan(log_own), log_own, -np.inf)


def _with_observed(
    prepared: PreparedBatch, collected: CollectedScores, plan: SearchPlan, log_boundaries: Floats
) -> Floats:
    """Return log p of each word's observed tokens and of what ends it, which is given at every boundary."""
    alignment = prepared.alignment
    texts, after = alignment.text_of_word[plan.word_numbers], alignment.boundary_after[plan.word_numbers]
    observed = segment_sums(collected.token_log_probs, plan.start_rows - texts, _stop_rows(prepared, plan) - texts)
    return observed + log_boundaries[after]


def _stop_rows(prepared: PreparedBatch, plan: SearchPlan) -> Ints:
    """Return the row of the batch after each word."""
    alignment = prepared.alignment
    rows: Ints = alignment.boundary_rows[alignment.boundary_after[plan.word_numbers]]
    return rows
