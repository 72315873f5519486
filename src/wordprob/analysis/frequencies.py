"""Unigram surprisal: −log p of a word without its context, in nats, from a frequency file or from wordfreq."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import regex

from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError
from wordprob.tables.formats.encoding import decode, read_bytes

OUTER_PUNCTUATION = regex.compile(r"^[\p{P}\p{S}]+|[\p{P}\p{S}]+$")
"""Punctuation and symbols before and after a word."""


LOG10_OF_A_BILLION = 9.0


class Unigrams(Protocol):
    """Anything that knows how probable a word is without its context."""

    @property
    def source(self) -> str:
        """Where the frequencies come from."""

    def surprisal(self, word: str) -> float:
        """Return −log p in nats; NaN for an unknown word."""


def surprisals(words: Iterable[str], unigrams: Unigrams) -> Floats:
    """Return the unigram surprisal of every word: lower-cased, without the punctuation around it."""
    return np.array([unigrams.surprisal(word) for word in words], dtype=np.float64)


def zipf(words: Iterable[str], unigrams: Unigrams) -> Floats:
    """Return the frequency of every word on the Zipf scale: log10 of its occurrences in a billion words.

    Examples
    --------
    >>> zipf(["the", "mark"], FrequencyList({"the": math.log(100), "mark": math.log(1e6)})).round(3).tolist()
    [7.0, 3.0]
    """
    return to_zipf(surprisals(words, unigrams))


def to_zipf(surprisal: Floats) -> Floats:
    """Return unigram surprisals, −log p in nats, on the Zipf scale."""
    frequency: Floats = LOG10_OF_A_BILLION - surprisal / math.log(10)
    return frequency


def normalize_word(word: str) -> str:
    """Return a word lower-cased and without the punctuation around it.

    Examples
    --------
    >>> normalize_word('"Garryowen!"')
    'garryowen'
    """
    return str(OUTER_PUNCTUATION.sub("", word.lower()))


@dataclass(frozen=True)
class FrequencyList:
    """Unigrams from a list of words and their −log p.

    A word that is not listed but has an apostrophe costs what its parts cost, as in the paper's data: *it's* is *it*
    and *'s*. The surprisal of a word that is still unknown is missing.
    """

    costs: Mapping[str, float] = field(repr=False)
    source: str = "frequencies"

    def surprisal(self, word: str) -> float:
        """Return −log p, nats; NaN for a word that is not listed."""
        normalized = normalize_word(word)
        if normalized in self.costs:
            return self.costs[normalized]
        parts = regex.split("['’]", normalized)
        if len(parts) == 1:
            return math.nan
        return sum(self.costs.get(part, math.nan) for part in parts)


@dataclass(frozen=True)
class WordFreq:
    """Unigrams from the package ``wordfreq``."""

    language: str
    source: str = "wordfreq"

    def surprisal(self, word: str) -> float:
        """Return −log p, nats; NaN for a word wordfreq has not seen."""
        from wordfreq import word_frequency

        p = word_frequency(word.lower(), self.language)
        return -math.log(p) if p > 0 else math.nan


def unigrams(chosen: str) -> Unigrams:
    """Open a source of frequencies: a file, or ``wordfreq`` or ``wordfreq:LANGUAGE``.

    A file has two columns, a word and a number, separated by a comma or a tab; the numbers are log-probabilities
    (none above 0), probabilities (none above 1) or counts.
    """
    if chosen == "wordfreq" or chosen.startswith("wordfreq:"):
        return _wordfreq(chosen.partition(":")[2] or "en")
    return FrequencyList(read_costs(Path(chosen)), source=chosen)


def _wordfreq(language: str) -> WordFreq:
    try:
        from wordfreq import available_languages
    except ImportError as error:
        raise OptionError("wordfreq is not installed: pip install 'wordprob[study]', or give a file.") from error
    if language not in available_languages("small"):
        known = ", ".join(sorted(available_languages("small")))
        raise OptionError(f"wordfreq has no frequencies for '{language}'. It has: {known}.")
    return WordFreq(language)


def read_costs(path: Path) -> dict[str, float]:
    """Read a frequency file into −log p, nats."""
    rows = _rows(path)
    values = np.array([value for _, value in rows])
    if np.all(values <= 0):
        return {word: -value for word, value in rows}
    if np.any(values < 0):
        raise InputError(f"{path} mixes negative and positive numbers; give log p, p or counts.")
    total = 1.0 if np.all(values <= 1) else float(values.sum())
    return {word: -math.log(value / total) for word, value in rows if value > 0}


def costs_of(counts: Counter[str]) -> dict[str, float]:
    """Return −log of the relative frequencies, nats."""
    total = counts.total()
    return {word: -math.log(count / total) for word, count in counts.items()}


def _rows(path: Path) -> list[tuple[str, float]]:
    """Return words and numbers; a header is optional, which is why this is not read as a table with columns."""
    text, _ = decode(read_bytes(path), str(path))
    lines = text.splitlines()
    separator = "\t" if lines and "\t" in lines[0] else ","
    rows: list[tuple[str, float]] = []
    for number, cells in enumerate(csv.reader(lines, delimiter=separator), start=1):
        value = _number(cells)
        if value is not None:
            rows.append((cells[0], value))
        elif number > 1:  # the first line may be a header
            raise InputError(f"{path}, line {number}: expected a word and a number, got {separator.join(cells)!r}.")
    if not rows:
        raise InputError(f"{path} holds no frequencies; write a word and a number on each line, with a comma between.")
    return rows


def _number(cells: list[str]) -> float | None:
    """Return the number in the second cell, if there is one."""
    try:
        return float(cells[1])
    except (IndexError, ValueError):
        return None
