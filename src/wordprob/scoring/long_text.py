"""One long text as a row of sections, so that what is held while it is scored does not grow with it.

A section is read like a continuation: with enough of the text before it, whose words are only context. Cuts fall where
neither a word nor a token goes on; the boundary there belongs to the section after it, which knows what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from wordprob.core.text import Document
from wordprob.core.windows import context_size
from wordprob.core.words import WordDefinition
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.ahead import Chunk, RequestSettings
from wordprob.tables.batch_scores import BatchScores, TextTotals

WINDOWS = 32
"""Characters of a section for each token of a window, at least: some ten windows, the last of which is not full."""

OVERLAP = 256
"""Characters before a section, at least: more than definitions and spellings look at."""


def sections(
    document: Document, rule: WordDefinition, tokenizer: Tokenizer, settings: RequestSettings, size: int
) -> list[Chunk]:
    """Cut a text that is much longer than the model's context into sections of about so many characters."""
    text, whole = document.text, [Chunk([document])]
    if settings.room is None or not rule.local:
        return whole
    size = max(size, WINDOWS * settings.room)
    if len(text) <= 2 * size:
        return whole
    found, begin, low = [], 0, 0
    while len(text) - low > 2 * size and (cut := tokenizer.cut(text, low + size)) is not None:
        found.append(_part(document, begin, low, cut[0], True))
        low, begin = cut[0], _begin(text, cut[0], tokenizer, context_size(settings.room, settings.min_context))
    found.append(_part(document, begin, low, len(text), False))
    fits = len(tokenizer.encode([found[0].documents[0].text])[0].ids) <= settings.room
    return whole if len(found) == 1 or fits else found


def _part(document: Document, begin: int, low: int, high: int, goes_on: bool) -> Chunk:
    piece = Document(document.id, document.text[begin:high])
    return Chunk([piece], begins=[low - begin], origins=[-begin], said=[document], goes_on=goes_on)


def _begin(text: str, low: int, tokenizer: Tokenizer, context: int) -> int:
    """Return where to begin reading so that so many tokens, at least, come before a place."""
    back = OVERLAP + 5 * context
    while back < low:
        cut = tokenizer.cut(text, low - back)
        begin = low if cut is None else cut[1]
        if low - begin >= OVERLAP and len(tokenizer.encode([text[begin:low]])[0].ids) >= context:
            return begin
        back += back // 2
    return 0


def joined(pages: Iterable[tuple[BatchScores, Chunk]]) -> Iterator[BatchScores]:
    """Yield pages with the documents they speak of; sections of one text number their words on and are added up."""
    held: BatchScores | None = None
    sums: TextTotals | None = None
    for scores, part in pages:
        page = replace(scores, documents=part.said or part.documents, goes_on=part.goes_on)
        if held is not None:
            closed = _closed(held, page)
            yield closed
            sums = closed.totals if sums is None else _added(sums, closed.totals)
            page = replace(page, first=held.first + len(held.starts))
        held = page if part.goes_on else None
        if held is None:
            yield page if sums is None else replace(page, totals=_added(sums, page.totals))
            sums = None


def _closed(page: BatchScores, following: BatchScores) -> BatchScores:
    """Return a section whose last boundary is the one that the section after it found."""
    change = following.before[0] - page.after[-1]
    surprisal, after, notes = page.surprisal.copy(), page.after.copy(), dict(page.notes)
    surprisal[-1] += change
    after[-1] += change
    if np.isnan(change) and 0 in following.notes:
        notes.setdefault(len(after) - 1, following.notes[0])
    words = page.totals.words_log_prob - change
    totals = replace(
        page.totals,
        scored=np.array([np.isfinite(surprisal).sum()]),
        surprisal=np.array([surprisal.sum()]),
        words_log_prob=words,
        token_log_prob=words,  # up to the boundary, as nothing is known of the end
    )
    return replace(page, surprisal=surprisal, after=after, notes=notes, totals=totals)


def _added(one: TextTotals, other: TextTotals) -> TextTotals:
    """Return what two stretches of a text come to; where it ends, the second one knows."""
    return TextTotals(
        words=one.words + other.words,
        scored=one.scored + other.scored,
        surprisal=one.surprisal + other.surprisal,
        tokens=one.tokens + other.tokens,
        token_log_prob=one.token_log_prob + other.token_log_prob,
        words_log_prob=one.words_log_prob + other.words_log_prob,
        end=other.end,
    )
