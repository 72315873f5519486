"""The words that can follow a context, and the end of the text, must add up to a probability of one.

A wrong boundary shows here and nowhere else: along one text, whatever a word gains its neighbour loses. The words are
found by going through the model's tokens, the most probable ones first, without asking what the probability of a word
is. Then each word is scored as usual, and the probabilities are added up.

What is missing from one must be accounted for: beginnings that were not expanded, and spellings that the tokenizer
never writes (``m`` + ``ark`` where it writes ``mark``), which belong to no word's probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from wordprob.core.word_definition import WordDefinition
from wordprob.core.words import define
from wordprob.covers.next_word_search import NextWordSearch
from wordprob.errors import InputError
from wordprob.options import ScoringKeywords, ScoringOptions
from wordprob.scoring.next_word_batch import SearchRunner, check_possible
from wordprob.scoring.passages import Rule
from wordprob.scoring.scorer import Scorer

MAX_ERROR = 2e-4
"""How far the account may be out for a model in single precision."""


@dataclass(frozen=True)
class SumCheck:
    """What the words after a context add up to.

    Attributes
    ----------
    context, words
        The context, and the word definition.
    probabilities
        Each word that was found, with the white space before it, and its probability; the most probable first.
    missing
        Words that have no value.
    end
        The probability that the text ends.
    unopened
        The probability of beginnings that were not expanded: at most so much of it belongs to words.
    other_spellings
        The probability of spellings that the tokenizer never writes, of tokens that stand for no text, and of texts
        that end without another word, but not right after the context.
    opened
        How many beginnings were expanded.
    max_error
        How far the account may be out.
    """

    context: str
    words: str
    probabilities: dict[str, float]
    missing: tuple[str, ...]
    end: float
    unopened: float
    other_spellings: float
    opened: int
    max_error: float = MAX_ERROR

    @property
    def total(self) -> float:
        """All words that were found, and the end."""
        return math.fsum([*self.probabilities.values(), self.end])

    @property
    def remainder(self) -> float:
        """What is missing from one."""
        return 1.0 - self.total

    @property
    def unexplained(self) -> float:
        """What is missing from one although everything that belongs to a word was expanded."""
        return self.remainder - self.unopened - self.other_spellings

    @property
    def fault(self) -> str:
        """What is wrong; empty if nothing is."""
        if math.isnan(self.unopened):
            return "a word of the context has no value"
        if self.missing:
            return f"{len(self.missing)} words have no value, for example '{self.missing[0].strip()}'"
        if self.remainder < -self.max_error:
            return f"the sum is above one by {-self.remainder:.2g}"
        if self.unexplained > self.max_error:
            return f"{self.unexplained:.2g} is missing from the sum, and nothing accounts for it"
        return ""


def check_sum(
    scorer: Scorer,
    context: str,
    words: Rule | None = None,
    *,
    max_error: float = MAX_ERROR,
    **options: Unpack[ScoringKeywords],
) -> SumCheck:
    """Add up the probabilities of the words that can follow a context.

    Parameters
    ----------
    scorer
        An open model.
    context
        The text so far; white space at its end is ignored. Empty for first words.
    words
        ``whitespace`` or ``punctuation``, or another definition that looks at one character after a word.
    max_error
        How far the account may be out before it is a fault.
    **options
        Options of scoring by name. ``max_open`` says how many beginnings of words are expanded, each in one step of the
        model.

    Examples
    --------
    >>> from wordprob.models.exact import ExactLM
    >>> check = check_sum(Scorer(ExactLM.bigram("bow")), "She saw the", "punctuation")
    >>> round(check.probabilities[" mark"], 12), round(check.total, 12), check.fault
    (0.4, 1.0, '')
    """
    ScoringOptions.check_used(options, "words", "max_open")
    scorer = scorer.with_options(words=words, **options)
    max_open = scorer.options.max_open
    definition = check_possible(scorer, define(scorer.options.words), max_open)
    context = context.rstrip()
    ((task,),) = SearchRunner(scorer, definition).run([context], lambda _: False, max_open)
    if task.fault:
        raise InputError(task.fault)
    search = task.search
    probabilities = _score_words(scorer, search, definition)
    event = search.event_mass
    return SumCheck(
        context=context,
        words=definition.name,
        probabilities={word: p for word, p in probabilities.items() if not math.isnan(p)},
        missing=tuple(word for word, p in probabilities.items() if math.isnan(p)),
        end=search.end_probability,
        unopened=search.unopened / event,
        other_spellings=search.other_spellings / event,
        opened=search.opened,
        max_error=max_error,
    )


def _score_words(scorer: Scorer, search: NextWordSearch, definition: WordDefinition) -> dict[str, float]:
    """Return the probability of each word that was found, the largest first; NaN for a missing one.

    Each is scored with the text behind it with which it was found, on which its value does not depend.
    """
    if not search.found:
        return {}
    examples = [found.example for found in search.found.values()]
    table = scorer.score_continuations(search.context, examples, definition, unit="nats", separator="").to_pandas()
    first = table[~table["text_id"].duplicated()].set_index("text_id")["surprisal"]
    probabilities = {word: float(np.exp(-first[n])) for n, word in enumerate(search.found)}
    return dict(sorted(probabilities.items(), key=lambda item: -item[1]))
