"""Texts cut into chunks that are scored together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_TEXTS_PER_CHUNK = 8192

CHARACTERS_PER_BATCH_TOKEN = 128
"""Characters in a chunk, about, for each token that the model takes at a time: some thirty batches."""

CHARACTERS_PER_TOKEN = 3
"""Characters of a token, about, in most languages and vocabularies."""

FIRST_CHUNK_CHARACTERS = 1 << 16
"""Characters of the first chunk, where chunks are larger: the model need not wait long for it."""

SHARED_CONTEXT_CHARACTERS = 1 << 20
"""Characters of whole texts that share a context, in a chunk."""

OVERLAP_CHARACTERS = 256
"""Characters before a part of a text that is read apart, at least: more than definitions and spellings look at."""


def chunk_slices(
    lengths: Iterable[int], max_texts: int, max_characters: int, first_characters: int | None = None
) -> Iterator[slice]:
    """Cut a row of texts into chunks of at most ``max_texts`` texts and about ``max_characters`` characters.

    The first has about ``first_characters`` and each twice as many as the one before, so that work begins soon.

    >>> list(chunk_slices([3, 3, 9, 1], max_texts=2, max_characters=8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    limit = max_characters if first_characters is None else min(first_characters, max_characters)
    first = count = total = 0
    for length in lengths:
        if count and (count == max_texts or total + length > limit):
            yield slice(first, first + count)
            first, count, total = first + count, 0, 0
            limit = min(2 * limit, max_characters)
        count += 1
        total += length
    if count:
        yield slice(first, first + count)
