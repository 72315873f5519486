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
from wordprob.core.word_definition import WordDefinition
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.batching import OVERLAP_CHARACTERS
from wordprob.scoring.prepared_batch import BatchSettings, Chunk
from wordprob.tables.batch_scores import BatchScores, TextTotals

SECTION_CHARACTERS_PER_WINDOW_TOKEN = 32
"""Characters of a section for each token of a window, at least: some ten windows, the last of which is not full."""

CHARACTERS_PER_TOKEN = 5
"""A first guess at how many characters a token takes."""


def sections(
    document: Document,
    definition: WordDefinition,
    tokenizer: Tokenizer,
    settings: BatchSettings,
    section_characters: int,
) -> list[Chunk]:
    """Cut a text that is much longer than the model's context into sections of about so many characters.

    A text that fits, or that cannot be cut for certain, comes back whole.
    """
    whole = [Chunk([document])]
    if settings.max_text_tokens is None or not definition.local:
        return whole
    size = max(section_characters, SECTION_CHARACTERS_PER_WINDOW_TOKEN * settings.max_text_tokens)
    text = document.text
    if len(text) <= 2 * size:
        return whole
    chunks = []
    context_start = section_start = 0
    while len(text) - section_start > 2 * size:
        cut = tokenizer.cut(text, section_start + size)
        if cut is None:
            break
        section_end, _ = cut
        chunks.append(_section(document, context_start, section_start, section_end, continues=True))
        context_tokens = context_size(settings.max_text_tokens, settings.min_context)
        section_start = section_end
        context_start = _context_start(text, section_start, tokenizer, context_tokens)
    chunks.append(_section(document, context_start, section_start, len(text), continues=False))
    fits = len(tokenizer.encode([chunks[0].documents[0].text])[0].ids) <= settings.max_text_tokens
    return whole if len(chunks) == 1 or fits else chunks


def _section(document: Document, context_start: int, start: int, end: int, continues: bool) -> Chunk:
    return Chunk(
        [Document(document.id, document.text[context_start:end])],
        context_lengths=[start - context_start],
        offset_origins=[-context_start],
        source_documents=[document],
        continues=continues,
    )


def _context_start(text: str, section_start: int, tokenizer: Tokenizer, context_tokens: int) -> int:
    """Return where to begin reading so that so many tokens, at least, come before a section."""
    back = OVERLAP_CHARACTERS + CHARACTERS_PER_TOKEN * context_tokens
    while back < section_start:
        cut = tokenizer.cut(text, section_start - back)
        start = section_start if cut is None else cut[1]
        far_enough = section_start - start >= OVERLAP_CHARACTERS
        if far_enough and len(tokenizer.encode([text[start:section_start]])[0].ids) >= context_tokens:
            return start
        back += back // 2
    return 0


# --- and together again -----------------------------------------------------------------------------------------------


def join_sections(scored: Iterable[tuple[BatchScores, Chunk]]) -> Iterator[BatchScores]:
    """Yield batches with the documents that they are about; sections of one text count their words on and add up."""
    previous: BatchScores | None = None
    totals: TextTotals | None = None
    for scores, chunk in scored:
        batch = replace(scores, documents=chunk.source_documents or chunk.documents, goes_on=chunk.continues)
        if previous is not None:
            # Where contexts are limited, the boundary between two words has another value for each of them.
            closed = _close_section(previous, batch) if chunk.n_excerpts is None else previous
            yield closed
            totals = closed.totals if totals is None else _add_totals(totals, closed.totals)
            batch = replace(batch, first=previous.first + len(previous.starts))
        if chunk.continues:
            previous = batch
            continue
        yield batch if totals is None else replace(batch, totals=_add_totals(totals, batch.totals))
        previous = totals = None


def _close_section(section: BatchScores, following: BatchScores) -> BatchScores:
    """Return a section whose last boundary is the one that the section after it found."""
    change = following.before[0] - section.after[-1]
    surprisal, after, notes = section.surprisal.copy(), section.after.copy(), dict(section.notes)
    surprisal[-1] += change
    after[-1] = following.before[0]
    if np.isnan(change) and 0 in following.notes:
        notes.setdefault(len(after) - 1, following.notes[0])
    words_log_prob = section.totals.words_log_prob - change
    totals = replace(
        section.totals,
        scored=np.array([np.isfinite(surprisal).sum()]),
        surprisal=np.array([surprisal.sum()]),
        words_log_prob=words_log_prob,
        token_log_prob=words_log_prob,  # up to the boundary, as nothing is known of the end
    )
    return replace(section, surprisal=surprisal, after=after, notes=notes, totals=totals)


def _add_totals(first: TextTotals, second: TextTotals) -> TextTotals:
    """Return what two stretches of a text come to; only the second knows where the text ends."""
    return TextTotals(
        words=first.words + second.words,
        scored=first.scored + second.scored,
        surprisal=first.surprisal + second.surprisal,
        tokens=first.tokens + second.tokens,
        token_log_prob=first.token_log_prob + second.token_log_prob,
        words_log_prob=first.words_log_prob + second.words_log_prob,
        end=second.end,
        is_partial=first.is_partial | second.is_partial,
    )
