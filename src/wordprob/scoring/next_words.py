"""The words that could come next, with their probabilities: the most probable first, and bounds for all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.covers.next_word_search import NextWordSearch
from wordprob.errors import InputError, OptionError
from wordprob.options import ScoringOptions
from wordprob.scoring.capability_checks import enumerable_definition
from wordprob.scoring.next_word_batch import SearchRunner, check_possible
from wordprob.scoring.open_model import OpenModel
from wordprob.scoring.requests import Progress
from wordprob.tables.schema import unit_size

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TOP = 20
NEGLIGIBLE = 1e-5
"""The probability of a word is that found by the search if no larger share of it may be missing."""
SPELLINGS_LEFT = 2.0**0.01 - 1.0
"""All spellings: the share that others may add to the probability of a word that is listed: a hundredth of a bit."""
ROUNDING_ERROR = 1e-12
"""Words whose probabilities differ by no larger share are equally probable."""


@dataclass(frozen=True)
class NextWord:
    """A word that could come next.

    Attributes
    ----------
    word
        The word, without the white space before it.
    separator
        What comes before it: white space, and with a pattern whatever belongs to no word.
    probability
        Its probability after the context.
    is_certain
        Whether no word that is not listed can be more probable: neither one that was not found, nor one that was found
        and has spellings that were not expanded. This says nothing about the order of the words that are listed:
        with all spellings, two of them may change places if the probabilities that they can have overlap.
    probability_high
        With all spellings: the most that its probability can be, with spellings that were not expanded.
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
        The probability that the text ends there.
    opened
        How many beginnings of words were expanded.
    unit
        The unit of surprisal in :meth:`to_pandas`.
    spellings
        The spellings that count: ``own`` or ``all``.
    limit_reached
        Whether ``max_open`` stopped the search before all that was asked for was found and certain.
    """

    context: str
    words: tuple[NextWord, ...]
    end: float
    opened: int
    unit: str = "bits"
    spellings: str = "own"
    limit_reached: bool = False

    @property
    def rest(self) -> float:
        """The probability of everything that is not listed.

        It is never negative: where all words are listed, their sum can exceed one by a rounding error, which is left
        out.
        """
        return max(0.0, 1.0 - math.fsum([*(word.probability for word in self.words), self.end]))

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word, then one for the end of the text and one for everything else.

        ``kind`` says which: ``word``, ``end`` or ``rest``. The probabilities add up to one. ``separator`` is the white
        space before a word; it is empty for a word that follows without any.
        """
        import pandas as pd

        rows = [("word", each.separator, each.word, each.probability, each.is_certain) for each in self.words]
        rows += [("end", "", "", self.end, True), ("rest", "", "", self.rest, True)]
        kinds, separators, words, probabilities, certain = zip(*rows, strict=True)
        ranks = [*range(1, len(self.words) + 1), None, None]
        size = unit_size(self.unit)
        table = pd.DataFrame(
            {
                "context": self.context,
                "kind": kinds,
                "rank": pd.array(ranks, dtype="Int64"),
                "separator": separators,
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
    enumerable_definition(define(words))


def next_words(
    scorer: OpenModel,
    contexts: Sequence[str],
    options: ScoringOptions | None = None,
    *,
    top: int | None = None,
    mass: float | None = None,
    progress: Progress | None = None,
) -> list[NextWords]:
    """Return the words that could come after each of several contexts, the most probable first.

    Parameters
    ----------
    scorer
        An open model.
    contexts
        The texts so far; white space at their ends is ignored. Empty for first words.
    options
        How to score; by default what the scorer has. ``words`` is ``whitespace`` or ``punctuation``, a pattern that is
        one class of characters (``regex:[a-z]+``), or another definition that looks at one character after a word.
        ``max_open`` limits how many beginnings of words are expanded after each context; words of which a more probable
        one may have been missed are then marked as not certain. With ``spellings="all"``, every spelling that was found
        is added up, and there is a bound on those that were not. ``unit`` is that of the surprisals.
    top
        How many words; 20 by default, unless ``mass`` is given.
    mass
        Stop when the words and the end have this much of the probability.
    progress
        Called with the numbers of contexts done and in all.

    Examples
    --------
    >>> import wordprob
    >>> found, = next_words(wordprob.load("exact:bow").with_options(words="punctuation"), ["She saw the"], top=2)
    >>> [(each.word, round(each.probability, 3), each.is_certain) for each in found.words], round(found.rest, 3)
    ([('mark', 0.4, True), ('marker', 0.35, True)], 0.25)
    """
    options = options or scorer.options
    wanted = _Wanted.check(top, mass)
    contexts = _check_contexts(contexts)
    definition = check_possible(scorer, define(options.words), options.max_open)
    runner = SearchRunner(scorer, definition, count_all_spellings=options.spellings == "all")
    stripped = [context.rstrip() for context in contexts]
    results: dict[int, NextWords] = {}
    for tasks in runner.run(stripped, wanted.is_reached, options.max_open):
        for task in tasks:
            if task.fault:
                raise InputError(task.fault)
        given = [contexts[task.number] for task in tasks]
        found = _results(runner, [task.search for task in tasks], given, wanted, options.unit)
        results |= zip((task.number for task in tasks), found, strict=True)
        if progress is not None:
            progress(len(results), len(contexts))
    return [results[number] for number in range(len(contexts))]


def _check_whole_number(name: str, value: object) -> None:
    """Raise unless an option is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise OptionError(f"`{name}` is {value!r}; it must be a whole number of at least 1.")


def _check_contexts(contexts: Sequence[str]) -> list[str]:
    """Return the contexts as a list; raise unless each is a text."""
    is_table = isinstance(contexts, Mapping) or hasattr(contexts, "columns")
    if is_table or not isinstance(contexts, Iterable) or isinstance(contexts, str | bytes):
        given = f"a {type(contexts).__name__}" if is_table else repr(contexts)
        raise InputError(f"`context` is {given}; give a text or a list of texts.")
    contexts = list(contexts)
    for number, context in enumerate(contexts):
        if not isinstance(context, str):
            raise InputError(f"context {number + 1} of {len(contexts)} is {context!r}, which is not a text.")
    return contexts


@dataclass(frozen=True)
class _Wanted:
    """How many words, or how much probability, are asked for."""

    top: int
    mass: float | None

    @classmethod
    def check(cls, top: int | None, mass: float | None) -> _Wanted:
        """Return what is wanted; raise for numbers that mean nothing."""
        if top is not None:
            _check_whole_number("top", top)
        if mass is not None and (not isinstance(mass, Real) or not 0.0 < mass <= 1.0):
            raise OptionError(f"`mass` is {mass!r}; it must be above 0, and 1 at most.")
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
        ordered = _by_mass(search)
        count = self.count([mass / search.event_mass for _, mass in ordered], search.end_probability)
        if count is None:
            return False
        least = ordered[count - 1][1] if count else math.inf
        if not search.count_all_spellings:  # words that were found are scored, so that all that they have is known
            return not search.may_miss(least)
        others = ordered[count:]
        if not _are_narrow(search, ordered[:count]) or _may_overtake(search, others[:1], least):
            return False  # the quick checks come first
        return not search.may_miss(least) and not _may_overtake(search, others, least)


def _by_mass(search: NextWordSearch) -> list[tuple[str, float]]:
    """Return the words that were found with the mass that was found for each, the most first."""
    return sorted(((word, found.mass) for word, found in search.found.items()), key=lambda item: -item[1])


def _are_narrow(search: NextWordSearch, words: Sequence[tuple[str, float]]) -> bool:
    """Return True if spellings that were not found can add little to any of these words."""
    return all(search.still_possible(word) <= SPELLINGS_LEFT * mass for word, mass in words)


def _may_overtake(search: NextWordSearch, words: Sequence[tuple[str, float]], least: float) -> bool:
    """Return True if one of these words can have more than a mass, with the spellings that were not found."""
    unopened = search.unopened
    limit = least * (1.0 + ROUNDING_ERROR)
    return any(mass + unopened > limit and mass + search.still_possible(word) > limit for word, mass in words)


def _results(
    runner: SearchRunner, searches: Sequence[NextWordSearch], contexts: Sequence[str], wanted: _Wanted, unit: str
) -> list[NextWords]:
    """List the most probable words of each context."""
    candidates = [_candidates(search, wanted) for search in searches]
    known = _sums(searches, candidates) if runner.count_all_spellings else _own(runner, searches, candidates)
    spellings = "all" if runner.count_all_spellings else "own"
    results = []
    for context, search, values in zip(contexts, searches, known, strict=True):
        ordered = sorted((item for item in values.items() if not math.isnan(item[1][0])), key=lambda item: -item[1][0])
        count = wanted.count([probability for _, (probability, _) in ordered], search.end_probability)
        n_listed = wanted.top if count is None else count
        left_out = max((_at_most(value) for _, value in ordered[n_listed:]), default=0.0)
        listed = _listed(search, ordered[:n_listed], max(search.heaviest_missing, left_out))
        is_limited = not search.is_exhausted and not wanted.is_reached(search)
        end, opened = search.end_probability, search.opened
        results.append(NextWords(context, listed, end, opened, unit, spellings, is_limited))
    return results


Value = tuple[float, float | None]
"""The probability of a word, and the most that it can be if that is not the same."""
Values = dict[str, Value]
"""The values of words, with the white space before them."""


def _at_most(value: Value) -> float:
    """Return the most that the probability of a word can be."""
    probability, highest = value
    return probability if highest is None else highest


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
    ordered = _by_mass(search)
    count = wanted.count([mass / search.event_mass for _, mass in ordered], search.end_probability)
    if count is None or count >= len(ordered):
        return [word for word, _ in ordered]
    least = ordered[count - 1][1] if count else 0.0
    behind = [word for word, mass in ordered[count:] if mass + search.still_possible(word) >= least * (1 - 1e-3)]
    return [word for word, _ in ordered[:count]] + behind


def _listed(search: NextWordSearch, values: Sequence[tuple[str, Value]], most_left_out: float) -> tuple[NextWord, ...]:
    """Return the words that are listed; ``most_left_out`` is the most that a word can have that is not."""
    listed = []
    for text, (probability, highest) in values:
        n_before = search.separator_length(text)
        is_certain = probability >= most_left_out * (1.0 - ROUNDING_ERROR)
        listed.append(NextWord(text[n_before:], text[:n_before], probability, is_certain, highest))
    return tuple(listed)
