"""The spellings of one word after a context, each with its probability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from wordprob.core.arrays import segment_sums
from wordprob.core.spelling_search import FoundSpelling, SearchedWord, SpellingSearch
from wordprob.core.text import Document
from wordprob.core.vocabulary import Vocabulary
from wordprob.errors import InputError, counted
from wordprob.models.capabilities import capabilities_of
from wordprob.models.protocol import PrefixStates
from wordprob.options import ScoringOptions
from wordprob.scoring.all_spellings import AllSpellings
from wordprob.scoring.capability_checks import check_model_can_search
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.continuations import join_texts
from wordprob.scoring.prepared_batch import Chunk, PreparedBatch
from wordprob.scoring.scorer import Scorer, collect_chunk
from wordprob.scoring.word_choice import BY_RULE, WordChoice, choose_words_of_continuations
from wordprob.tables.schema import unit_size

if TYPE_CHECKING:
    import pandas as pd

REACHES_OVER = "…"
"""The last token of spellings that are counted together: it holds the rest of the word and what ends it."""


class Spelling(NamedTuple):
    """One way to write a word.

    Attributes
    ----------
    tokens
        Its tokens as text, the white space before the word included. The last one is ``…`` where several spellings
        are counted together whose last token holds the rest of the word and what ends it.
    ids
        Their ids, without that last one.
    probability
        The probability of this spelling, given the words before.
    is_own
        Whether the text's own tokens are these.
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probability: float
    is_own: bool


class WordSpellings(NamedTuple):
    """The spellings of a word that were found, the most probable first, and bounds for the others.

    Attributes
    ----------
    context, word
        The text before the word, and the word.
    spellings
        What was found.
    rest
        The probability of everything that was not found, at most.
    own_probability
        The probability of the word in the tokenizer's own spellings.
    opened
        How many beginnings of spellings were looked into.
    unit
        The unit of the surprisals below.
    """

    context: str
    word: str
    spellings: tuple[Spelling, ...]
    rest: float
    own_probability: float
    opened: int
    unit: str = "bits"

    @property
    def probability(self) -> float:
        """The probability of the word in the spellings that were found."""
        return math.fsum(spelling.probability for spelling in self.spellings)

    @property
    def surprisal(self) -> float:
        """The surprisal of the word in the tokenizer's own spellings."""
        return self.surprisal_of(self.own_probability)

    @property
    def surprisal_all(self) -> float:
        """The surprisal of the word in all spellings that were found, which is also its upper bound."""
        return self.surprisal_of(self.probability)

    @property
    def surprisal_all_low(self) -> float:
        """The least that the surprisal of the word in every spelling can be."""
        return self.surprisal_of(self.probability + self.rest)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each spelling: its tokens with ``·`` between them, surprisal, probability and share."""
        import pandas as pd

        total = self.probability + self.rest
        return pd.DataFrame(
            {
                "spelling": ["·".join(each.tokens) for each in self.spellings],
                "n_tokens": [len(each.tokens) for each in self.spellings],
                "surprisal": [self.surprisal_of(each.probability) for each in self.spellings],
                "probability": [each.probability for each in self.spellings],
                "share": [each.probability / total for each in self.spellings],
                "own": [each.is_own for each in self.spellings],
            }
        )

    def surprisal_of(self, probability: float) -> float:
        """Return a surprisal in the table's unit."""
        return math.inf if probability <= 0.0 else -math.log(probability) / unit_size(self.unit)


def check_one_word(
    context: str, word: str, words: str = "whitespace", boundary: str = BY_RULE, separator: str = " "
) -> None:
    """Raise unless ``word`` is one word after a context; parameters as for :func:`spellings_of`."""
    text, begin = join_texts(context, word, separator)
    choice = choose_words_of_continuations(words, boundary, [Document(0, text)], [begin])
    found = choice.definition.segment(text) if choice.given is None else choice.given[0]
    _check_count(sum(each.end > begin for each in found), word, choice)


def _check_count(n_words: int, word: str, choice: WordChoice) -> None:
    if n_words != 1:
        raise InputError(f"'{word}' is {counted(n_words, 'word')} by the definition '{choice.description}'; give one.")


def spellings_of(
    scorer: Scorer,
    context: str,
    word: str,
    words: str = "whitespace",
    *,
    boundary: str = BY_RULE,
    unit: str = "bits",
    tolerance: float = 0.01,
    max_open: int = 128,
    separator: str = " ",
) -> WordSpellings:
    """Return the spellings of a word after a context.

    Parameters
    ----------
    scorer
        An open model.
    context
        The text before the word; may be empty.
    word
        One word, by the definition.
    words, boundary, unit, tolerance, max_open, separator
        As for :meth:`wordprob.Scorer.score_continuations`.

    Examples
    --------
    >>> import wordprob
    >>> found = spellings_of(wordprob.load("exact:leaky"), "the", "mark", tolerance=0.5)
    >>> ["·".join(spelling.tokens) for spelling in found.spellings]
    [' mark']
    >>> found.surprisal_all_low <= found.surprisal_all <= found.surprisal
    True
    """
    options = ScoringOptions(
        words=words, boundary=boundary, unit=unit, spellings="all", tolerance=tolerance, max_open=max_open
    )
    check_model_can_search(capabilities_of(scorer.model), scorer.model.metadata.get("model", "the model"))
    text, begin = join_texts(context, word, separator)
    documents = [Document(0, text)]
    choice = choose_words_of_continuations(words, options.boundary, documents, [begin])
    settings = scorer.settings(options)
    chunk = Chunk(documents, user_words=choice.given, rules=choice.rules, context_lengths=[begin])
    states = PrefixStates()
    preparer = scorer.preparer(choice.definition)
    prepared, collected = collect_chunk(scorer.model, preparer, chunk, settings, states)
    scored = prepared.is_scored.nonzero()[0].tolist()
    _check_count(len(scored), word, choice)
    searcher = AllSpellings(scorer.model, preparer.atoms, tolerance * math.log(2.0), max_open)
    search = searcher.search(prepared, collected, states, keep_spellings=True)
    if not search.words:
        reason = "; ".join(prepared.notes.get(scored[0], ["it has no value"]))
        raise InputError(f"there are no spellings of '{word}' to look for: {reason}.")
    return _word_spellings(scorer, prepared, collected, search, WordSpellings(context, word, (), 0.0, 0.0, 0, unit))


def _word_spellings(
    scorer: Scorer, prepared: PreparedBatch, collected: CollectedScores, search: SpellingSearch, empty: WordSpellings
) -> WordSpellings:
    """Put together what the search for one word found, as probabilities given the words before."""
    alignment = prepared.alignment
    (word,) = search.words
    boundary = int(alignment.boundary_after[word.word])
    start_row = int(alignment.boundary_rows[boundary - 1])
    log_before = float(collected.boundaries[boundary - 1])
    to_probability = math.exp(float(search.log_scales[0]) - log_before)
    (found,) = search.spellings or [[]]
    vocabulary = scorer.model.tokenizer.vocabulary
    spellings = [_spelling(vocabulary, word, start_row, each, to_probability) for each in found if each.mass > 0.0]
    spellings.sort(key=lambda spelling: -spelling.probability)
    own = segment_sums(collected.token_log_probs, alignment.first_tokens, alignment.stop_tokens)[word.word]
    return empty._replace(
        spellings=tuple(spellings),
        rest=math.exp(float(search.log_high[0]) - log_before) - math.exp(float(search.log_low[0]) - log_before),
        own_probability=math.exp(float(own) + float(collected.boundaries[boundary]) - log_before),
        opened=int(search.opened[0]),
    )


def _spelling(
    vocabulary: Vocabulary, word: SearchedWord, start_row: int, found: FoundSpelling, to_probability: float
) -> Spelling:
    """Return a spelling from where the word before ended, in tokens as text."""
    observed = word.observed[start_row - word.first_row : found.row - word.first_row]
    ids = (*observed, *found.ids)
    pieces = vocabulary.token_bytes
    tokens = [pieces[token].decode("utf-8", "backslashreplace") for token in ids]
    if found.reaches_over:
        tokens.append(REACHES_OVER)
    own = not found.ids
    return Spelling(tuple(tokens), ids, found.mass * to_probability, own)
