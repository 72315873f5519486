"""The entropy of the next word, and the rank of the one that came: for every word of scored texts.

For each word, the words that could have come in its place are searched for, the most probable first (the *head*). What
the search did not expand is sampled from the model, with a fixed seed, and each word of the sample is scored. The
arithmetic is in :mod:`wordprob.core.entropy_bounds`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.entropy_bounds import PartlyKnown, entropy_bounds, entropy_estimate, rank_bounds
from wordprob.core.word_definition import WordDefinition
from wordprob.covers.next_word_beginnings import Beginning, Children, NextTokenMasses
from wordprob.covers.next_word_search import NextWordSearch
from wordprob.errors import WordprobError
from wordprob.scoring.next_word_batch import LONGEST_WORD_TOKENS, SearchRunner, check_possible
from wordprob.scoring.open_model import OpenModel
from wordprob.tables.schema import BatchScores
from wordprob.tables.word_level_columns import WordLevel

RuleOfText = Callable[[int], WordDefinition]
"""What ends the words of a text, by the number of the text."""

NO_PATTERNS = "the words of '{name}' are not enumerated for every word of a text. Use whitespace or punctuation."
NO_VALUE = "no entropy or rank of the word: {reason}"
SAMPLES = 64
"""Samples from the tail of each distribution."""
SEED = 20240917
"""Of the random numbers, with the context: a value does not depend on which others are computed with it."""
SMALL_TAIL = 0.02
"""The search ends when what it has not expanded has no more probability than this."""
NEGLIGIBLE = 1e-4
"""The probability of a word that was found is that found for it if no larger share of it may be missing."""


@dataclass(frozen=True)
class NextWordDistribution:
    """What is known about the words that could come after a context.

    Attributes
    ----------
    known
        Bounds of the probabilities of the words that were found, in the order of ``words``, and, as the last outcome,
        of the end of the text; and what all others can have.
    words
        The words that were found, with the white space before them.
    head
        Their probabilities, and that of the end.
    sampled
        For each sample of what was not expanded, the probability of the word that it shows; 0 if that was found
        before, or is no word.
    unopened
        The probability of what was not expanded.
    opened
        How many beginnings of words were expanded.
    """

    known: PartlyKnown
    words: tuple[str, ...]
    head: Floats
    sampled: Floats
    unopened: float
    opened: int

    def statistics(self, wanted: WordLevel, word: str, probability: float) -> dict[str, float]:
        """Return the values of the columns that are wanted, in nats, where a word came that has a probability."""
        values: dict[str, float] = {}
        for name, order in wanted.orders.items():
            bounds = entropy_bounds(self.known, order)
            estimate = entropy_estimate(self.head, self.sampled, self.unopened, self.known.tail_largest, order)
            values[name] = estimate.value
            values[f"{name}_se"] = estimate.standard_error
            values[f"{name}_low"] = bounds.low
            if order > 1.0:
                values[f"{name}_high"] = math.nan if bounds.high is None else bounds.high
        if wanted.rank:
            low, high = self._rank(word, probability)
            values |= {"word_rank_low": low, "word_rank_high": high}
        return values

    def _rank(self, word: str, probability: float) -> tuple[float, float]:
        """Return bounds of the rank of a word, among words."""
        if math.isnan(probability) or probability <= 0.0:
            return math.nan, math.nan
        others = np.array([other != word for other in self.words] + [False], dtype=bool)  # the end is no word
        known = replace(self.known, low=self.known.low[others], high=self.known.high[others])
        return rank_bounds(known, probability, is_in_tail=word not in self.words)


def distributions(
    scorer: OpenModel, definition: WordDefinition, contexts: Sequence[str], max_open: int, n_samples: int = SAMPLES
) -> Iterator[NextWordDistribution | str]:
    """Yield what is known about the next word after each context, in order, or why nothing is.

    Parameters
    ----------
    scorer
        An open model.
    definition
        What a word is.
    contexts
        The texts so far, without white space at their ends.
    max_open
        How many beginnings of words to expand after each context, at most.
    n_samples
        How many samples to draw of what was not expanded.
    """
    runner = SearchRunner(scorer, definition)
    found: dict[int, NextWordDistribution | str] = {}
    n_yielded = 0
    for tasks in runner.run(contexts, _is_small, max_open):
        searches = [task.search for task in tasks if not task.fault]
        heads = iter(_heads(runner, searches))
        samples = iter(_sample_tails(runner, searches, n_samples))
        for task in tasks:
            found[task.number] = task.fault or _distribution(task.search, next(heads), next(samples))
        while n_yielded in found:
            yield found.pop(n_yielded)
            n_yielded += 1


def _is_small(search: NextWordSearch) -> bool:
    """Return True if little was not expanded."""
    return search.unopened <= SMALL_TAIL * search.event_mass


def _distribution(search: NextWordSearch, head: _FoundProbabilities, sampled: Floats) -> NextWordDistribution:
    unopened = search.unopened / search.event_mass
    not_found = 1.0 - float(head.low.sum())
    known = PartlyKnown(head.low, head.high, max(0.0, min(unopened, not_found)), min(1.0, search.heaviest_missing))
    return NextWordDistribution(known, tuple(search.found), head.values, sampled, unopened, search.opened)


# --- the head ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FoundProbabilities:
    """The probabilities of the words that were found, and of the end as the last one, and their bounds."""

    values: Floats
    low: Floats
    high: Floats


def _heads(runner: SearchRunner, searches: Sequence[NextWordSearch]) -> list[_FoundProbabilities]:
    """Return the heads; words of which more may be missing than a negligible share are scored as usual."""
    heads: list[_FoundProbabilities] = []
    examples: list[tuple[NextWordSearch, str]] = []
    places: list[tuple[int, int]] = []
    for number, search in enumerate(searches):
        masses = np.array([found.mass for found in search.found.values()], dtype=np.float64)
        counted, error, missing = np.array(search.not_found(list(search.found)), dtype=np.float64).reshape(-1, 3).T
        for place, word in enumerate(search.found):
            if missing[place] > NEGLIGIBLE * masses[place]:
                examples.append((search, search.found[word].example))
                places.append((number, place))
        low = np.append(masses / search.event_mass, search.end_probability)
        high = np.append((masses + counted + error + missing) / search.event_mass, search.end_probability)
        heads.append(_FoundProbabilities(low.copy(), low, high))
    for (number, place), probability in zip(places, runner.score_words(examples), strict=True):
        if not math.isnan(probability):
            for values in (heads[number].values, heads[number].low, heads[number].high):
                values[place] = probability
    return heads


# --- the tail ---------------------------------------------------------------------------------------------------------


class _Walk:
    """One sample: tokens that are drawn until they show a word.

    Attributes
    ----------
    search, random
        The search whose tail it is from, and its random numbers.
    at
        The tokens so far; ``None`` when the walk has ended.
    among
        If there is something, the next token is one of those that were too light to be kept there.
    word, example
        The word that was reached, if it is one, and the text with it from the end of the context on.
    """

    def __init__(self, search: NextWordSearch, random: np.random.Generator) -> None:
        self.search = search
        self.random = random
        self.at: Beginning | None = None
        self.among: Children | None = None
        self.word = ""
        self.example = ""

    def start(self, children: Children) -> None:
        """Take the first step, to one of the beginnings that are left."""
        u = self.random.random() * children.left
        if u >= children.rest_from(children.taken) or not len(children):
            self.at = children.parent
            self.among = children
            return
        sums = np.cumsum(children.masses[children.taken :])
        place = min(int(np.searchsorted(sums, u, side="right")), len(sums) - 1)
        self._arrive(self.search.child(children, children.taken + place))

    def step(self, next_tokens: NextTokenMasses, probabilities: Floats) -> None:
        """Draw what comes next."""
        at = self.at
        assert at is not None
        self.at = None
        if self.among is not None:
            light = np.setdiff1d(next_tokens.going_on, self.among.tokens)
            self.among = None
            self._go_on(at, light, probabilities)
            return
        text = self.search.text_of(at)
        u = self.random.random() * at.mass
        if u < next_tokens.closing:
            self._reach(at, text + next_tokens.closing_text, len(text))
        elif u < next_tokens.closing + next_tokens.end:
            self._reach(at, text, self.search.next_word_end(text))
        elif u >= next_tokens.closing + next_tokens.end + next_tokens.no_text:
            u -= next_tokens.closing + next_tokens.end + next_tokens.no_text
            if u < at.mass * next_tokens.probability_going_on:
                self._go_on(at, next_tokens.going_on, probabilities)

    def _go_on(self, at: Beginning, tokens: Ints, probabilities: Floats) -> None:
        """Draw one of some tokens, in proportion to their probabilities."""
        sums = np.cumsum(probabilities[tokens])
        if not len(sums) or sums[-1] <= 0.0 or len(at.ids) >= len(self.search.own_ids) + LONGEST_WORD_TOKENS:
            return
        place = min(int(np.searchsorted(sums, self.random.random() * sums[-1], side="right")), len(sums) - 1)
        self._arrive(self.search.longer(at, int(tokens[place]), at.mass * float(probabilities[tokens[place]])))

    def _arrive(self, child: Beginning) -> None:
        """Stand at a beginning; if it shows a word, the walk has ended."""
        seen = self.search.look_at(child)
        if seen.must_be_opened:
            self.at = child
        else:
            self._reach(child, seen.text, seen.word_end)

    def _reach(self, at: Beginning, text: str, word_end: int) -> None:
        """Take the word that ends at a place, if these tokens are a spelling that counts."""
        word = self.search.word_written(at.ids, text, word_end) if word_end else None
        if word:
            self.word = word
            self.example = text[len(self.search.context) :]


def _sample_tails(runner: SearchRunner, searches: Sequence[NextWordSearch], n_samples: int) -> list[Floats]:
    """Return, for each search, the probabilities of words drawn from what it did not expand."""
    walks_of_search = [_start_walks(search, n_samples) for search in searches]
    walking = [walk for walks in walks_of_search for walk in walks]
    while True:
        places: dict[tuple[int, tuple[int, ...]], list[_Walk]] = {}
        asked: list[tuple[NextWordSearch, Beginning]] = []
        for walk in walking:
            if walk.at is not None:
                place = (id(walk.search), walk.at.ids)
                if place not in places:
                    asked.append((walk.search, walk.at))
                places.setdefault(place, []).append(walk)
        if not asked:
            return _score_walks(runner, walks_of_search)
        for number, log_probs in runner.distributions(asked):
            search, at = asked[number]
            probabilities = np.exp(log_probs.astype(np.float64))
            next_tokens = search.next_tokens(at, probabilities, with_lightest=True)
            for walk in places[(id(search), at.ids)]:
                walk.step(next_tokens, probabilities)


def _start_walks(search: NextWordSearch, n_samples: int) -> list[_Walk]:
    """Return walks that have taken their first steps; none if everything was expanded."""
    children = [each for each in search.all_children() if each.left > 0.0]
    if not children:
        return []
    random = np.random.default_rng([SEED, zlib.crc32(search.context.encode())])
    sums = np.cumsum([each.left for each in children])
    walks = []
    for number in range(n_samples):
        # One walk starts in each of as many equal parts of the mass, which makes the estimates more accurate.
        u = (number + random.random()) / n_samples * sums[-1]
        walk = _Walk(search, np.random.default_rng(random.integers(1 << 62)))
        walk.start(children[min(int(np.searchsorted(sums, u, side="right")), len(children) - 1)])
        walks.append(walk)
    return walks


def _score_walks(runner: SearchRunner, walks_of_search: Sequence[Sequence[_Walk]]) -> list[Floats]:
    """Return the probability of the word that each walk reached; 0 if that was found before, or it reached none."""
    examples: dict[tuple[int, str], tuple[NextWordSearch, str]] = {}
    for walks in walks_of_search:
        for walk in walks:
            if walk.word and walk.word not in walk.search.found:
                examples.setdefault((id(walk.search), walk.word), (walk.search, walk.example))
    probabilities = dict(zip(examples, runner.score_words(list(examples.values())), strict=True))
    return [
        np.nan_to_num(np.array([probabilities.get((id(walk.search), walk.word), 0.0) for walk in walks]))
        for walks in walks_of_search
    ]


# --- columns of scored texts ------------------------------------------------------------------------------------------


def with_word_level(
    batches: Iterable[BatchScores],
    scorer: OpenModel,
    rule_of_text: RuleOfText,
    extras: Collection[str],
    max_open: int,
) -> Iterator[BatchScores]:
    """Add the values of columns at the level of words to scored texts; where there is none, the note says why.

    Parameters
    ----------
    batches
        The scored texts.
    scorer
        The model.
    rule_of_text
        What ends the words of a text, by its number.
    extras
        The further columns that are wanted.
    max_open
        How many beginnings of words to expand for each word, at most.
    """
    wanted = WordLevel.of(extras)
    if not wanted:
        yield from batches
        return
    done = 0
    for batch in batches:
        rules = [rule_of_text(done + number) for number in range(len(batch.documents))]
        yield _with_statistics(batch, scorer, rules, wanted, max_open)
        done += 0 if batch.goes_on else len(batch.documents)


def _with_statistics(
    batch: BatchScores, scorer: OpenModel, rules: Sequence[WordDefinition], wanted: WordLevel, max_open: int
) -> BatchScores:
    values = {name: np.full(len(batch), np.nan) for name in wanted.columns()}
    notes = dict(batch.notes)
    text_of_word = np.repeat(np.arange(len(batch.documents)), batch.counts)
    for rule in dict.fromkeys(rules):
        words = [word for word in range(len(batch)) if rules[text_of_word[word]] == rule]
        texts = [batch.documents[text_of_word[word]].text for word in words]
        contexts = [text[: batch.starts[word]].rstrip() for word, text in zip(words, texts, strict=True)]
        for word, text, context, found in zip(
            words, texts, contexts, _of_contexts(scorer, rule, contexts, max_open), strict=True
        ):
            if isinstance(found, str):
                notes[word] = "; ".join(filter(None, [notes.get(word, ""), NO_VALUE.format(reason=found)]))
                continue
            spelled = text[len(context) : batch.ends[word]]
            probability = math.exp(-batch.surprisal[word])
            for name, value in found.statistics(wanted, spelled, probability).items():
                values[name][word] = value
    return replace(batch, statistics={**batch.statistics, **values}, notes=notes)


def _of_contexts(
    scorer: OpenModel, rule: WordDefinition, contexts: Sequence[str], max_open: int
) -> Iterator[NextWordDistribution | str]:
    """Yield what is known about the next word after each context, which is found out once for equal ones."""
    if not rule.local:  # a context may end in what belongs to no word
        yield from [NO_PATTERNS.format(name=rule.name)] * len(contexts)
        return
    try:
        check_possible(scorer, rule, max_open)
    except WordprobError as error:
        yield from [str(error)] * len(contexts)
        return
    different = list(dict.fromkeys(contexts))
    found = dict(zip(different, distributions(scorer, rule, different, max_open), strict=True))
    yield from (found[context] for context in contexts)
