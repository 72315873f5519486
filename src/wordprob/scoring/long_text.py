"""One long text as a row of sections, so that what is held while it is scored does not grow with it.

A section is read like a continuation: with enough of the text before it, whose words are only context. Cuts fall where
neither a word nor a token goes on; the boundary there belongs to the section after it, which knows what follows.
"""

from __future__ import annotations

from wordprob.core.text import Document
from wordprob.core.windows import context_size
from wordprob.core.word_definition import WordDefinition
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.passages import Chunk, Passage
from wordprob.scoring.prepared_batch import BatchSettings

OVERLAP_CHARACTERS = 256
"""Characters before a section, at least: more than definitions and spellings look at."""

SECTION_CHARACTERS_PER_WINDOW_TOKEN = 32
"""Characters of a section for each token of a window, at least: some ten windows, the last of which is not full."""

CHARACTERS_PER_TOKEN = 5
"""A first guess at how many characters a token takes."""


def sections(
    passage: Passage,
    definition: WordDefinition,
    tokenizer: Tokenizer,
    settings: BatchSettings,
    section_characters: int,
) -> list[Chunk]:
    """Cut a text that is much longer than the model's context into sections of about so many characters.

    A text that fits, or that cannot be cut for certain, comes back whole.
    """
    whole = [Chunk([passage])]
    if settings.max_text_tokens is None or not definition.local:
        return whole
    size = max(section_characters, SECTION_CHARACTERS_PER_WINDOW_TOKEN * settings.max_text_tokens)
    text = passage.text
    if len(text) <= 2 * size:
        return whole
    chunks = []
    context_start = section_start = 0
    while len(text) - section_start > 2 * size:
        cut = tokenizer.cut(text, section_start + size)
        if cut is None:
            break
        section_end, _ = cut
        chunks.append(_section(passage.document, context_start, section_start, section_end, continues=True))
        context_tokens = context_size(settings.max_text_tokens, settings.min_context)
        section_start = section_end
        context_start = _context_start(text, section_start, tokenizer, context_tokens)
    chunks.append(_section(passage.document, context_start, section_start, len(text), continues=False))
    fits = len(tokenizer.encode([chunks[0].passages[0].text])[0].ids) <= settings.max_text_tokens
    return whole if len(chunks) == 1 or fits else chunks


def _section(document: Document, context_start: int, start: int, end: int, continues: bool) -> Chunk:
    text = Document(document.id, document.text[context_start:end])
    return Chunk([Passage(text, start - context_start, origin=-context_start, source=document)], continues)


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
