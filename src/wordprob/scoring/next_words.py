"""The words that could come next, with their probabilities: the most probable first, and bounds for all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.errors import InputError, OptionError
from wordprob.options import SPELLINGS
from wordprob.scoring.capability_checks import check_enumerable
from wordprob.scoring.next_word_batch import SearchRunner, check_possible
from wordprob.scoring.next_word_search import NextWordSearch
from wordprob.scoring.requests import Progress
from wordprob.scoring.scorer import Scorer
from wordprob.tables.schema import unit_size

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TOP = 20
MAX_OPEN = 1000
"""Beginnings of words that are looked into for a context, at most, by default."""

NEGLIGIBLE = 1e-5
"""The probability of a word is that found by the search if no larger share of it may be missing."""
SPELLINGS_LEFT = 2.0**0.01 - 1.0
"""All spellings: the share that others may add to the probability of a word that is listed: a hundredth of a bit."""


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
    probability_high
        With all spellings: the most that its probability can be, with spellings that were not looked into.
    """

    word: str
    separator: str
    probability: float
    is_certain: bool
    probability_high: float | None = None


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
    spellings
        The spellings that count: ``own`` or ``all``.
    """

    context: str
    words: tuple[NextWord, ...]
    end: float
    opened: int
    unit: str = "bits"
    spellings: str = "own"

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
        table = pd.DataFrame(
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
        if self.spellings == "all":
            highest = [each.probability_high for each in self.words]
            place = list(table.columns).index("surprisal")
            table.insert(place, "probability_high", [*highest, self.end, self.rest])
        return table


def check_next_word_options(words: str | WordDefinition, top: int | None = None, mass: float | None = None) -> None:
    """Raise for options of :func:`next_words` that are wrong for every model."""
    _Wanted.check(top, mass)
    check_enumerable(define(words))


def next_words(
    scorer: Scorer,
    contexts: Sequence[str],
    words: str | WordDefinition = "whitespace",
    *,
    top: int | None = None,
    mass: float | None = None,
    max_open: int = MAX_OPEN,
    unit: str = "bits",
    spellings: str = "own",
    progress: Progress | None = None,
) -> list[NextWords]:
    """Return the words that could come after each of several contexts, the most probable first.

    Parameters
    ----------
    scorer
        An open model.
    contexts
        The texts so far; white space at their ends is ignored. Empty for first words.
    words
        ``whitespace`` or ``punctuation``, or another definition that looks at one character after a word.
    top
        How many words; 20 by default, unless ``mass`` is given.
    mass
        Stop when the words and the end have this much of the probability.
    max_open
        How many beginnings of words to look into after each context, at most. Words of which a more probable one may
        have been missed are then marked as not certain.
    unit
        ``bits`` or ``nats``.
    spellings
        ``own`` counts the tokenizer's own spellings of a word; ``all`` adds up every spelling that was found, and says
        how much those may have at most that were not.
    progress
        Called with the numbers of contexts done and in all.

    Examples
    --------
    >>> import wordprob
    >>> found, = next_words(wordprob.load("exact:bow"), ["She saw the"], "punctuation", top=2)
    >>> [(each.word, round(each.probability, 3), each.is_certain) for each in found.words], round(found.rest, 3)
    ([('mark', 0.4, True), ('marker', 0.35, True)], 0.25)
    """
    unit_size(unit)
    wanted = _Wanted.check(top, mass)
    definition = define(words)
    check_possible(scorer, definition, max_open)
    if spellings not in SPELLINGS:
        raise OptionError(f"no kind of spellings is called '{spellings}'; use {' or '.join(SPELLINGS)}.")
    runner = SearchRunner(scorer, definition, count_all_spellings=spellings == "all")
    stripped = [context.rstrip() for context in contexts]
    results: dict[int, NextWords] = {}
    for tasks in runner.run(stripped, wanted.is_reached, max_open):
        for task in tasks:
            if task.fault:
                raise InputError(task.fault)
        given = [contexts[task.number] for task in tasks]
        found = _results(runner, [task.search for task in tasks], given, wanted, unit)
        results |= zip((task.number for task in tasks), found, strict=True)
        if progress is not None:
            progress(len(results), len(contexts))
    return [results[number] for number in range(len(contexts))]


@dataclass(frozen=True)
class _Wanted:
    """How many words, or how much probability, are asked for."""

    top: int
    mass: float | None

    @classmethod
    def check(cls, top: int | None, mass: float | None) -> _Wanted:
        """Return what is wanted; raise for numbers that mean nothing."""
        if top is not None and top < 1:
            raise OptionError(f"`top` is {top}; it must be at least 1.")
        if mass is not None and not 0.0 < mass <= 1.0:
            raise OptionError(f"`mass` is {mass}; it must be above 0, and 1 at most.")
        if top is None:
            top = DEFAULT_TOP if mass is None else 1 << 30
        return cls(top, mass)

    def count(self, probabilities: Sequence[float], end: float) -> int | None:
        """Return how many of the most probable words make up what is wanted; ``None`` if they do not."""
        total = end
        for count, probability in enumerate(probabilities):
            if count == self.top or (self.mass is not None and total >= self.mass):
                return count
            total += probability
        if len(probabilities) >= self.top or (self.mass is not None and total >= self.mass):
            return len(probabilities)
        return None

    def is_reached(self, search: NextWordSearch) -> bool:
        """Return True if the words that were found are enough, and it is certain that no others are more probable."""
        masses = sorted((found.mass for found in search.found.values()), reverse=True)
        count = self.count([mass / search.event_mass for mass in masses], search.end_probability)
        if count is None:
            return False
        least = masses[count - 1] if count else math.inf
        if search.may_miss(least):
            return False
        if not search.count_all_spellings:
            return True
        chosen = [word for word, found in search.found.items() if found.mass >= least]
        return all(search.still_possible(word) <= SPELLINGS_LEFT * search.found[word].mass for word in chosen)


def _results(
    runner: SearchRunner, searches: Sequence[NextWordSearch], contexts: Sequence[str], wanted: _Wanted, unit: str
) -> list[NextWords]:
    """List the most probable words of each context."""
    candidates = [_candidates(search, wanted) for search in searches]
    known = _sums(searches, candidates) if runner.count_all_spellings else _own(runner, searches, candidates)
    spellings = "all" if runner.count_all_spellings else "own"
    results = []
    for context, search, values in zip(contexts, searches, known, strict=True):
        listed = _listed(values, search.heaviest_missing)
        count = wanted.count([word.probability for word in listed], search.end_probability)
        chosen = listed[: wanted.top if count is None else count]
        results.append(NextWords(context, tuple(chosen), search.end_probability, search.opened, unit, spellings))
    return results


Values = dict[str, tuple[float, float | None]]
"""The probability of each word, and the most that it can be if that is not the same."""


def _own(runner: SearchRunner, searches: Sequence[NextWordSearch], candidates: Sequence[Sequence[str]]) -> list[Values]:
    """Return the probabilities of words in the tokenizer's own spellings.

    Words of which the search has not found everything are scored as usual, all together.
    """
    known: list[Values] = []
    to_score: list[tuple[Values, NextWordSearch, str]] = []
    for search, words in zip(searches, candidates, strict=True):
        values: Values = {}
        for word, (counted, _, missing) in zip(words, search.not_found(words), strict=True):
            mass = search.found[word].mass + counted
            values[word] = mass / search.event_mass, None
            if missing > NEGLIGIBLE * mass:
                to_score.append((values, search, word))
        known.append(values)
    scored = runner.score_words([(search, search.found[word].example) for _, search, word in to_score])
    for (values, _, word), probability in zip(to_score, scored, strict=True):
        values[word] = probability, None
    return known


def _sums(searches: Sequence[NextWordSearch], candidates: Sequence[Sequence[str]]) -> list[Values]:
    """Return the probabilities of words in all spellings that were found, with what others may add."""
    known: list[Values] = []
    for search, words in zip(searches, candidates, strict=True):
        values: Values = {}
        for word in words:
            mass = search.found[word].mass
            values[word] = mass / search.event_mass, (mass + search.still_possible(word)) / search.event_mass
        known.append(values)
    return known


def _candidates(search: NextWordSearch, wanted: _Wanted) -> list[str]:
    """Return the words that may be among the most probable ones: the others have less, whatever is still found."""
    ordered = sorted(search.found.items(), key=lambda item: -item[1].mass)
    count = wanted.count([found.mass / search.event_mass for _, found in ordered], search.end_probability)
    if count is None or count >= len(ordered):
        return [word for word, _ in ordered]
    least = ordered[count - 1][1].mass if count else 0.0
    behind = [word for word, found in ordered[count:] if found.mass + search.still_possible(word) >= least * (1 - 1e-3)]
    return [word for word, _ in ordered[:count]] + behind


def _listed(known: Values, heaviest_missing: float) -> list[NextWord]:
    """Return the words that have a value, the most probable first."""
    found = []
    for text, (probability, highest) in sorted(known.items(), key=lambda item: -item[1][0]):
        if not math.isnan(probability):
            word = text.lstrip()
            separator = text[: len(text) - len(word)]
            found.append(NextWord(word, separator, probability, probability >= heaviest_missing, highest))
    return found
