"""The columns of a scored text, what each says, and their units."""

from __future__ import annotations

import math
from collections.abc import Collection

from wordprob.errors import OptionError, did_you_mean

UNITS = {"bits": math.log(2.0), "nats": 1.0}
"""Size of a unit in nats."""


COLUMNS: dict[str, str] = {
    "text_id": "which text, by its number (from 0) or the id given",
    "word_id": "which word of the text, from 0",
    "word": "the word as it stands in the text",
    "start": "where it begins, in characters from 0",
    "end": "where it ends, exclusive: text[start:end] is the word",
    "n_tokens": "tokens that write the word, the separators before it included",
    "context_tokens": "tokens of the text the model had seen before it",
    "surprisal": "the word's surprisal, corrected",
    "surprisal_naive": "the sum of its tokens' surprisals, as usually published",
    "before": "−log of the boundary mass before the word",
    "after": "−log of the boundary mass after the word",
    "note": "why a value is missing, or what to know about it",
}
"""The columns of a scored text, and what each says."""


TEXT_COLUMNS: dict[str, str] = {
    "text_id": "which text",
    "n_words": "its words",
    "n_scored": "words that have a surprisal",
    "n_tokens": "its tokens",
    "n_characters": "its characters",
    "n_bytes": "its bytes in UTF-8",
    "log_prob": "log p(text), its words and its end, natural logarithm",
    "log_prob_words": "log p of the words alone: that a text begins so",
    "end": "surprisal of the text ending where it does, given its words",
    "bits_per_word": "−log2 p of the words, for each word",
    "bits_per_character": "the same for each character",
    "bits_per_byte": "the same for each byte of UTF-8",
    "perplexity": "2 to the power of bits_per_word",
    "conservation": "words and end less the tokens, in nats: near 0, or something is wrong",
    "note": "why a value is missing",
}
"""The columns of the summary by text."""


NUMBERS = ("surprisal", "surprisal_naive", "before", "after")


EXTRAS: dict[str, str] = {
    "entropy": "entropy of the next token where the word begins",
    "rank": "rank of the word's first token there: 1 is the likeliest",
}
"""Further columns, on request."""


MEASURED = (*NUMBERS, "entropy")
"""Columns in the table's unit."""


def unit_size(unit: str) -> float:
    """Return the size of a unit in nats."""
    if unit not in UNITS:
        raise OptionError(f"no unit is called '{unit}'; use {' or '.join(UNITS)}.")
    return UNITS[unit]


def check_extras(extras: Collection[str]) -> None:
    """Raise, unless these are further columns that can be asked for."""
    for name in extras:
        if name not in EXTRAS:
            raise OptionError(f"no further column is called '{name}'. {did_you_mean(name, EXTRAS)}")
