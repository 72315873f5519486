"""From what the model said about a batch to the surprisal of its words."""

from __future__ import annotations

import numpy as np

from wordprob.core.alignment import Cut
from wordprob.core.arrays import Bools, Floats, segment_sums
from wordprob.core.characters import is_white_space
from wordprob.core.equation import ALWAYS, ESTIMATORS, WordTerms
from wordprob.scoring.all_spellings import SpellingSums
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.mass_bounds import MassBounds
from wordprob.scoring.prepare import NO_START
from wordprob.scoring.prepared_batch import BatchSettings, PreparedBatch
from wordprob.tables.schema import ALL_SPELLINGS, SERVER_BOUNDS, BatchScores, TextTotals

MAX_SILENT_UNDECIDED_SHARE = 0.01
"""A row says so when more than this share of what may follow leaves open whether the word has ended."""

NO_END = "no end-of-text token"
INSIDE_TOKEN = "begins inside a token: no entropy or rank of the next token there"
TOO_WIDE = "all spellings: the interval is wider than the tolerance after {opened} prefixes"
TOO_LONG = "all spellings: some do not fit into the model's context, so the interval is wider than the tolerance"
SERVER_TOO_WIDE = "what the server lists leaves an interval of {width:.2g} bits, wider than the tolerance"
PROBABILITY_ZERO = "probability zero"
SERVER_SILENT = "the server does not tell the probability of a token that ends inside a character"
CONTEXT_PROBABILITY_ZERO = "what comes before it has probability zero"


def estimate_batch(
    prepared: PreparedBatch, collected: CollectedScores, sums: SpellingSums | None = None
) -> BatchScores:
    """Put the equation's terms together for the words of a batch, those that are context only left out.

    ``sums`` are those over every spelling, where they are wanted.
    """
    alignment, chunk, settings = prepared.alignment, prepared.chunk, prepared.settings
    terms = WordTerms(
        token_log_prob=segment_sums(collected.token_log_probs, alignment.first_tokens, alignment.stop_tokens),
        log_before=collected.boundaries[alignment.boundary_after - 1],
        log_after=collected.boundaries[alignment.boundary_after],
        n_tokens=alignment.stop_tokens - alignment.first_tokens,
    )
    names = (*ALWAYS, *settings.estimators)
    estimates = {name: ESTIMATORS[name].estimate(terms) for name in names}
    if sums is not None:
        estimates |= _all_estimates(terms, sums)
        _note_wide_intervals(prepared, sums)
    if collected.bounds is not None:
        estimates |= _bounds(prepared, terms, collected.bounds)
    nothing_written = alignment.cuts == Cut.EMPTY
    for values in estimates.values():
        values[nothing_written] = np.nan
    for values in collected.statistics.values():
        values[nothing_written | _begins_mid_token(prepared)] = np.nan
    notes = _notes(prepared, collected, estimates["corrected"])

    scored = prepared.is_scored
    position = np.cumsum(scored) - 1
    chosen = slice(None) if scored.all() else scored  # most often all are, and nothing need be copied
    origins = alignment.batch.text_starts[:-1] + np.array(
        [passage.origin for passage in chunk.passages], dtype=np.int64
    )
    shift = origins[alignment.text_of_word]
    totals = _text_totals(prepared, collected, estimates["corrected"])
    return BatchScores(
        documents=chunk.documents,
        counts=totals.words,
        data=alignment.batch.utf8,
        spans=(alignment.byte_starts[chosen], alignment.byte_ends[chosen]),
        starts=(alignment.starts - shift)[chosen],
        ends=(alignment.ends - shift)[chosen],
        n_tokens=terms.n_tokens[chosen],
        context_tokens=prepared.context_tokens()[chosen],
        surprisal=estimates["corrected"][chosen],
        naive=estimates["naive"][chosen],
        before=(0.0 - terms.log_before)[chosen],
        after=(0.0 - terms.log_after)[chosen],
        estimates={name: values[chosen] for name, values in estimates.items() if name not in ALWAYS},
        prefixes_opened=None if sums is None else sums.opened[chosen],
        statistics={name: values[chosen] for name, values in collected.statistics.items()},
        notes={int(position[word]): note for word, note in notes.items()},
        totals=totals,
        note=_note_on_texts(settings),
    )


def _all_estimates(terms: WordTerms, sums: SpellingSums) -> dict[str, Floats]:
    """Return the surprisal of words in every spelling, and its bounds."""
    with np.errstate(invalid="ignore"):
        found = terms.log_before - sums.log_low
        least = terms.log_before - sums.log_high
    return dict(zip(ALL_SPELLINGS, (found, least, found.copy()), strict=True))


def _bounds(prepared: PreparedBatch, terms: WordTerms, bounds: MassBounds) -> dict[str, Floats]:
    """Return the least and the most that surprisals can be; say where they are farther apart than was asked for."""
    after = prepared.alignment.boundary_after
    least, most = bounds.boundaries
    naive = -terms.token_log_prob
    with np.errstate(invalid="ignore"):
        low = naive + least[after - 1] - most[after]
        high = naive + most[after - 1] - least[after]
        width = high - low
    too_wide = width > (np.inf if prepared.settings.max_width is None else prepared.settings.max_width)
    for word in np.flatnonzero(too_wide).tolist():
        prepared.add_note(word, SERVER_TOO_WIDE.format(width=width[word] / np.log(2.0)))
    return dict(zip(SERVER_BOUNDS, (low, high), strict=True))


def _note_wide_intervals(prepared: PreparedBatch, sums: SpellingSums) -> None:
    """Say where the interval is wider than it was asked for."""
    for word in np.flatnonzero(sums.within == 0.0).tolist():
        reason = TOO_LONG if sums.too_long[word] else TOO_WIDE.format(opened=int(sums.opened[word]))
        prepared.add_note(word, reason)


def _text_totals(prepared: PreparedBatch, collected: CollectedScores, corrected: Floats) -> TextTotals:
    """Return the totals of each text: from its words, and, to compare, from its tokens."""
    alignment = prepared.alignment
    text = np.arange(alignment.n_texts)
    knows_end = prepared.settings.has_end_token & prepared.is_scored_to_end
    ends = np.where(knows_end, collected.ends, np.nan)
    # From the boundary before the first word that is scored to the one after the last, and from there to the end.
    opening = alignment.first_boundaries + prepared.n_context_words
    closing = np.append(alignment.first_boundaries[1:], alignment.n_words + alignment.n_texts) - 1
    closing -= np.bincount(alignment.text_of_word[prepared.beyond], minlength=alignment.n_texts)
    first_token = alignment.boundary_rows[opening] - text
    stop_token = alignment.boundary_rows[closing] - text
    words_part = segment_sums(collected.token_log_probs, first_token, stop_token)
    end_part = segment_sums(collected.token_log_probs, stop_token, alignment.token_offsets[1:]) + ends
    log_opening, log_closing = collected.boundaries[opening], collected.boundaries[closing]
    with np.errstate(invalid="ignore"):  # what has no probability has no end either
        words_log_prob = words_part + log_closing - log_opening
        end = log_closing - end_part
        token_log_prob = np.where(prepared.is_scored_to_end, words_part + end_part - log_opening, words_log_prob)
    asked_for = _sums_by_text(prepared, corrected, prepared.is_scored)
    with_value = _sums_by_text(prepared, np.isfinite(corrected), prepared.is_scored).astype(np.int64)
    no_value = _sums_by_text(prepared, ~np.isnan(corrected), prepared.is_scored) == 0  # probability zero is a value
    is_partial = _is_partial(prepared)
    words_log_prob = np.where(is_partial, -asked_for, words_log_prob)
    return TextTotals(
        words=np.bincount(alignment.text_of_word[prepared.is_scored], minlength=alignment.n_texts),
        scored=with_value,
        surprisal=_sums_by_text(prepared, corrected, prepared.is_scored | prepared.between),
        tokens=np.where(prepared.is_scored_to_end, alignment.token_offsets[1:], stop_token) - first_token,
        token_log_prob=token_log_prob,
        words_log_prob=np.where(no_value, np.nan, words_log_prob),
        end=end,
        is_partial=is_partial,
    )


def _sums_by_text(prepared: PreparedBatch, values: Floats | Bools, chosen: Bools) -> Floats:
    """Return the sum over the chosen words of each text."""
    offsets = prepared.alignment.word_offsets
    return segment_sums(np.where(chosen, values, 0.0), offsets[:-1], offsets[1:])


def _is_partial(prepared: PreparedBatch) -> Bools:
    """Return True for texts whose words were given, and are not all of the text."""
    alignment = prepared.alignment
    is_partial = np.bincount(alignment.text_of_word[prepared.between], minlength=alignment.n_texts) > 0
    for text, passage in enumerate(prepared.chunk.passages):
        if passage.unscored is None or not prepared.is_scored_to_end[text]:
            continue  # what comes after the last word that is scored belongs to other excerpts
        words = alignment.words_of_text(text)
        last_end = int(alignment.ends[words[-1]] - alignment.batch.text_starts[text]) if len(words) else 0
        is_partial[text] |= not all(map(is_white_space, passage.text[last_end:]))
    return is_partial


def _begins_mid_token(prepared: PreparedBatch) -> Bools:
    """Return True for words that begin inside a token, where there is no distribution of a next token."""
    alignment = prepared.alignment
    after_shared = np.append(False, alignment.cuts == Cut.MID_TOKEN)[:-1]
    begins: Bools = after_shared & (alignment.index_in_text > 0)
    return begins


def _notes(prepared: PreparedBatch, collected: CollectedScores, corrected: Floats) -> dict[int, str]:
    """Return what is to be said about the words that are scored, by word."""
    alignment = prepared.alignment
    for boundary, share in collected.undecided.items():
        if share > MAX_SILENT_UNDECIDED_SHARE:
            word = boundary - alignment.text_of_boundary(boundary) - 1
            prepared.add_note(word, f"for {share:.0%} of what may follow, the pattern would have to read on")
    if prepared.settings.statistics:
        for word in np.flatnonzero(_begins_mid_token(prepared)).tolist():
            prepared.add_note(word, INSIDE_TOKEN)
    if not prepared.settings.start_ids:
        for word in np.flatnonzero(alignment.index_in_text == 0).tolist():
            prepared.add_note(word, NO_START)
    silent = _has_unknown_token(prepared, collected)
    scored = prepared.is_scored
    for word in np.flatnonzero(np.isposinf(corrected) & scored).tolist():
        prepared.add_note(word, PROBABILITY_ZERO)
    for word in np.flatnonzero(np.isnan(corrected) & scored).tolist():
        if word not in prepared.notes:
            prepared.add_note(word, SERVER_SILENT if silent[word] else CONTEXT_PROBABILITY_ZERO)
    return {word: "; ".join(dict.fromkeys(reasons)) for word, reasons in prepared.notes.items() if scored[word]}


def _has_unknown_token(prepared: PreparedBatch, collected: CollectedScores) -> Bools:
    """Return True for words of texts in which a server tells nothing of a token."""
    alignment = prepared.alignment
    if collected.bounds is None:
        return np.zeros(alignment.n_words, dtype=bool)
    of_text = segment_sums(collected.token_log_probs, alignment.token_offsets[:-1], alignment.token_offsets[1:])
    unknown: Bools = np.isnan(of_text)[alignment.text_of_word]
    return unknown


def _note_on_texts(settings: BatchSettings) -> str:
    if not settings.start_ids:
        return NO_START
    return "" if settings.has_end_token else NO_END
