"""The words that could come next, with their probabilities: the most probable first, and bounds for all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wordprob.core.words import WordDefinition, define
from wordprob.errors import InputError, OptionError
from wordprob.scoring.next_word_search import NextWordSearch, check_possible, score_words
from wordprob.scoring.scorer import Scorer
from wordprob.tables.schema import unit_size

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TOP = 20
MAX_OPEN = 1000
"""Beginnings of words that are looked into for a context, at most, by default."""
FIRST_OPEN = 32
"""Beginnings that are looked into before the words are counted for the first time; then twice as many, and so on."""


@dataclass(frozen=True)
class NextWord:
    """A word that could come next.

    Attributes
    ----------
    word
        The word, without the white space before it.
    separator
        The white space before it.
    probability
        Its probability after the context.
    is_certain
        Whether no word that was not found could be more probable.
    """

    word: str
    separator: str
    probability: float
    is_certain: bool


@dataclass(frozen=True)
class NextWords:
    """The words that could come after a context.

    Attributes
    ----------
    context
        The text so far.
    words
        The most probable words, in order.
    end
        The probability that the text ends.
    opened
        How many beginnings of words were looked into.
    unit
        The unit of surprisal in :meth:`to_pandas`.
    """

    context: str
    words: tuple[NextWord, ...]
    end: float
    opened: int
    unit: str = "bits"

    @property
    def rest(self) -> float:
        """The probability of everything that is not listed."""
        return 1.0 - math.fsum([*(word.probability for word in self.words), self.end])

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word, then one for the end of the text and one for everything else.

        ``kind`` says which: ``word``, ``end`` or ``rest``. The probabilities add up to one.
        """
        import pandas as pd

        rows = [("word", each.word, each.probability, each.is_certain) for each in self.words]
        rows += [("end", "", self.end, True), ("rest", "", self.rest, True)]
        kinds, words, probabilities, certain = zip(*rows, strict=True)
        ranks = [*range(1, len(self.words) + 1), None, None]
        size = unit_size(self.unit)
        return pd.DataFrame(
            {
                "context": self.context,
                "kind": kinds,
                "rank": pd.array(ranks, dtype="Int64"),
                "word": words,
                "probability": probabilities,
                "surprisal": [math.inf if p <= 0.0 else -math.log(p) / size for p in probabilities],
                "certain": certain,
            }
        )


def next_words(
    scorer: Scorer,
    context: str,
    words: str | WordDefinition = "whitespace",
    *,
    top: int | None = None,
    mass: float | None = None,
    max_open: int = MAX_OPEN,
    unit: str = "bits",
) -> NextWords:
    """Return the words that could come after a context, the most probable first.

    Parameters
    ----------
    scorer
        An open model.
    context
        The text so far; white space at its end is ignored. Empty for first words.
    words
        ``whitespace`` or ``punctuation``, or another definition that looks at one character after a word.
    top
        How many words; 20 by default, unless ``mass`` is given.
    mass
        Stop when the words and the end have this much of the probability.
    max_open
        How many beginnings of words to look into, at most. Words of which a more probable one may have been missed are
        then marked as not certain.
    unit
        ``bits`` or ``nats``.

    Examples
    --------
    >>> import wordprob
    >>> found = next_words(wordprob.load("exact:bow"), "She saw the", "punctuation", top=2)
    >>> [(each.word, round(each.probability, 3), each.is_certain) for each in found.words], round(found.rest, 3)
    ([('mark', 0.4, True), ('marker', 0.35, True)], 0.25)
    """
    unit_size(unit)
    top = _check(top, mass)
    definition = define(words)
    check_possible(scorer, definition, max_open)
    search = NextWordSearch(scorer, definition, context.rstrip())
    known: dict[str, float] = {}
    to_open = FIRST_OPEN
    while True:
        search.run(min(to_open, max_open))
        if math.isnan(search.event_mass):
            raise InputError(f"a word of the context '{context[-40:]}' has no value, so none after it has one.")
        new = {word: example for word, example in search.example_of_word.items() if word not in known}
        known |= score_words(scorer, search.context, new, definition)
        listed = _listed(known, search.heaviest_missing)
        chosen = _choose(listed, search.end_probability, top, mass)
        enough = chosen is not None and all(word.is_certain for word in chosen)
        if enough or search.is_exhausted or search.opened >= max_open:
            break
        to_open *= 2
    listed = listed[:top] if chosen is None else chosen
    return NextWords(context, tuple(listed), search.end_probability, search.opened, unit)


def _check(top: int | None, mass: float | None) -> int:
    """Return how many words are listed at most; raise for numbers that mean nothing."""
    if top is not None and top < 1:
        raise OptionError(f"`top` is {top}; it must be at least 1.")
    if mass is not None and not 0.0 < mass <= 1.0:
        raise OptionError(f"`mass` is {mass}; it must be above 0, and 1 at most.")
    if top is None:
        return DEFAULT_TOP if mass is None else 1 << 30
    return top


def _listed(known: dict[str, float], heaviest_missing: float) -> list[NextWord]:
    """Return the words that have a value, the most probable first."""
    found = []
    for text, probability in sorted(known.items(), key=lambda item: -item[1]):
        if not math.isnan(probability):
            word = text.lstrip()
            separator = text[: len(text) - len(word)]
            found.append(NextWord(word, separator, probability, probability >= heaviest_missing))
    return found


def _choose(listed: Sequence[NextWord], end: float, top: int, mass: float | None) -> list[NextWord] | None:
    """Return the words that were asked for; ``None`` while there are too few."""
    total = end
    for count, word in enumerate(listed):
        if count == top or (mass is not None and total >= mass):
            return list(listed[:count])
        total += word.probability
    if len(listed) >= top or (mass is not None and total >= mass):
        return list(listed)
    return None
