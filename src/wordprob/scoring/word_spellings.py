"""The spellings of one word after a context, each with its probability."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from wordprob.core.arrays import segment_sums
from wordprob.core.text import Document
from wordprob.core.vocabulary import Vocabulary
from wordprob.covers.ask import ask_together
from wordprob.covers.search import FoundSpelling, Search, Searched
from wordprob.errors import InputError, counted
from wordprob.models.protocol import PrefixStates, capabilities_of
from wordprob.options import ScoringOptions
from wordprob.scoring.all_spellings import all_spellings
from wordprob.scoring.capability_checks import check_model_can_search
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.continuations import join_texts
from wordprob.scoring.open_model import OpenModel, collect_chunk
from wordprob.scoring.passages import Chunk, Passage, WordChoice, choose_words
from wordprob.scoring.prepared_batch import BoundarySets, PreparedBatch
from wordprob.tables.schema import unit_size

if TYPE_CHECKING:
    import pandas as pd

ONE_OF_SEVERAL = "…"
"""The last token of spellings that are counted together: it holds the rest of the word and what ends it."""

SHOWN_SPACES = " \n\t"
"""White space for which there are signs where spellings are shown."""

BYTE_TOKEN = re.compile("<0x[0-9A-Fa-f]{2}>")
"""How tokenizers write a token that stands for one byte, beside the token for the character."""


class Spelling(NamedTuple):
    """One way to write a word.

    Attributes
    ----------
    tokens
        Its tokens as text, the white space before the word and marks (``</w>``, ``##``) included. Tokens for single
        bytes are ``<0x78>``, characters that cannot be seen ``<U+00A0>``. The last token may hold what ends the word,
        too; it is ``…`` where several spellings are counted together that differ in it.
    ids
        Their ids, without a last one that differs.
    probability
        The probability of this spelling, given the words before.
    is_own
        Whether the tokenizer writes the word like this before some text.
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
    probability
        The probability of the word in every spelling, at least: in those that were found, or in the tokenizer's own
        ones, if that is more.
    rest
        The probability of everything that was not found, at most.
    own_probability
        The probability of the word in the tokenizer's own spellings.
    opened
        How many beginnings of spellings were expanded.
    is_within
        Whether the interval is as narrow as it was asked for.
    unit
        The unit of the surprisals below.
    has_too_long
        Whether beginnings were not expanded because they do not fit into the model's context.
    """

    context: str
    word: str
    spellings: tuple[Spelling, ...]
    probability: float
    rest: float
    own_probability: float
    opened: int
    is_within: bool
    unit: str = "bits"
    has_too_long: bool = False

    @property
    def highest_probability(self) -> float:
        """The most that the probability of the word in every spelling can be."""
        return math.fsum(spelling.probability for spelling in self.spellings) + self.rest

    @property
    def surprisal(self) -> float:
        """The surprisal of the word in the tokenizer's own spellings."""
        return self.surprisal_of(self.own_probability)

    @property
    def surprisal_all(self) -> float:
        """The most that the surprisal of the word in every spelling can be, from the mass that was found."""
        return self.surprisal_of(self.probability)

    @property
    def surprisal_all_low(self) -> float:
        """The least that the surprisal of the word in every spelling can be."""
        return self.surprisal_of(self.highest_probability)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each spelling: tokens with ``·`` between them, ids, surprisal, probability and share."""
        import pandas as pd

        total = self.highest_probability
        return pd.DataFrame(
            {
                "spelling": ["·".join(each.tokens) for each in self.spellings],
                "ids": [" ".join(map(str, each.ids)) for each in self.spellings],
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


def check_one_word(context: str, word: str, options: ScoringOptions, separator: str = " ") -> None:
    """Raise unless ``word`` is one word after a context; parameters as for :func:`spellings_of`."""
    text, begin = join_texts(context, word, separator)
    choice = choose_words(options.words, options.boundary, [Passage(Document(0, text), begin)], after_contexts=True)
    given = choice.passages[0].words
    found = choice.definition.segment(text) if given is None else given
    _check_count(sum(each.end > begin for each in found), word, choice)


def _check_count(n_words: int, word: str, choice: WordChoice) -> None:
    if n_words != 1:
        raise InputError(f"'{word}' is {counted(n_words, 'word')} by the definition '{choice.description}'; give one.")


def spellings_of(
    scorer: OpenModel,
    context: str,
    word: str,
    options: ScoringOptions | None = None,
    *,
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
    options
        How to score; by default what the scorer has. All spellings are searched for, whatever ``spellings`` is.
    separator
        As for :meth:`wordprob.Scorer.score_continuations`.

    Examples
    --------
    >>> import wordprob
    >>> found = spellings_of(wordprob.load("exact:leaky").with_options(tolerance=0.5), "the", "mark")
    >>> ["·".join(spelling.tokens) for spelling in found.spellings]
    [' mark']
    >>> found.surprisal_all_low <= found.surprisal_all <= found.surprisal
    True
    """
    options = replace(options or scorer.options, spellings="all")
    check_model_can_search(capabilities_of(scorer.model), scorer.model.metadata.get("model", "the model"))
    text, begin = join_texts(context, word, separator)
    passages = [Passage(Document(0, text), begin)]
    choice = choose_words(options.words, options.boundary, passages, after_contexts=True)
    settings = scorer.settings(options)
    chunk = Chunk(choice.passages)
    states = PrefixStates()
    preparer = scorer.preparer(choice.definition)
    prepared, collected = collect_chunk(scorer.model, preparer, chunk, settings, states)
    scored = prepared.is_scored.nonzero()[0].tolist()
    _check_count(len(scored), word, choice)
    step = all_spellings(prepared, collected, keep_spellings=True)
    (search,) = ask_together([step], scorer.model, preparer.atoms, states)
    if not search.searched:
        reason = "; ".join(prepared.notes.get(scored[0], ["it has no value"]))
        raise InputError(f"there are no spellings of '{word}' to look for: {reason}.")
    empty = WordSpellings(context, word, (), 0.0, 0.0, 0.0, 0, bool(search.is_within[0]), options.unit)
    return _word_spellings(scorer, prepared, collected, search, empty)


def _word_spellings(
    scorer: OpenModel, prepared: PreparedBatch, collected: CollectedScores, search: Search, empty: WordSpellings
) -> WordSpellings:
    """Put together what the search for one word found, as probabilities given the words before."""
    alignment = prepared.alignment
    (word,) = search.searched
    boundary = int(alignment.boundary_after[word.number])
    start_row = int(alignment.boundary_rows[boundary - 1])
    log_before = float(collected.boundaries[boundary - 1])
    to_probability = math.exp(float(search.log_scales[0]) - log_before)
    (found,) = search.spellings or [[]]
    is_own = _OwnSpellings(prepared, word, boundary)
    spellings = []
    for each in found:
        if each.mass > 0.0:
            ids = (*word.observed[start_row - word.first_row : each.row - word.first_row], *each.ids)
            ids, tokens = _ids_and_tokens(scorer.model.tokenizer.vocabulary, ids, each.last_ids)
            spellings.append(Spelling(tokens, ids, each.mass * to_probability, is_own(each)))
    spellings.sort(key=lambda spelling: -spelling.probability)
    own = segment_sums(collected.token_log_probs, alignment.first_tokens, alignment.stop_tokens)[word.number]
    highest = math.exp(float(search.log_high[0]) - log_before)
    return empty._replace(
        spellings=tuple(spellings),
        probability=math.exp(float(search.log_low[0]) - log_before),
        rest=max(0.0, highest - math.fsum(spelling.probability for spelling in spellings)),
        own_probability=math.exp(float(own) + float(collected.boundaries[boundary]) - log_before),
        opened=int(search.opened[0]),
        has_too_long=bool(search.too_long[0] > 0.0),
    )


def _ids_and_tokens(
    vocabulary: Vocabulary, ids: tuple[int, ...], last_ids: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the ids of a spelling, and its tokens as text; ``last_ids`` are those of which one more comes."""
    if len(last_ids) == 1:
        ids += last_ids
    tokens = tuple(_token_text(vocabulary, token) for token in ids)
    return ids, (*tokens, ONE_OF_SEVERAL) if len(last_ids) > 1 else tokens


def _token_text(vocabulary: Vocabulary, token: int) -> str:
    """Return a token as text that can be told from others.

    One that stands for a single byte is as the tokenizer writes it, and a character that cannot be seen has its number.
    Marks that stand for no text are shown.
    """
    if BYTE_TOKEN.fullmatch(vocabulary.tokens[token]):
        return vocabulary.tokens[token]
    text = vocabulary.token_bytes[token].decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() or c in SHOWN_SPACES else f"<U+{ord(c):04X}>" for c in text)
    before, after = vocabulary.shown_marks(token)
    return before + shown + after


class _OwnSpellings:
    """Tells which spellings of a word are the tokenizer's own, for some text that may follow.

    Parameters
    ----------
    prepared, word, boundary
        The batch, the word, and the boundary after it.
    """

    def __init__(self, prepared: PreparedBatch, word: Searched, boundary: int) -> None:
        self._word = word
        self._branches = prepared.branches
        self._numbers = [n for n, to in enumerate(prepared.branches.boundaries) if to == boundary]
        # The row after the observed tokens of the word, if they end with it.
        ends_word = prepared.boundary_sets[boundary] != BoundarySets.NOTHING
        self._last_row = int(prepared.alignment.boundary_rows[boundary]) if ends_word else None

    def __call__(self, found: FoundSpelling) -> bool:
        """Return True if a spelling is the observed one, or one of the others of the tokenizer."""
        if found.row == self._last_row:
            return True
        if not found.ids and self._word.observed_after(found.row) in found.last_ids:
            return True
        return any(self._is_branch(found, n) for n in self._numbers)

    def _is_branch(self, found: FoundSpelling, number: int) -> bool:
        """Return True if a spelling leaves the observed tokens as a branch does, and goes on like it."""
        if found.row != self._branches.rows[number]:
            return False
        tail = self._branches.tails.get(number)
        if tail is None:
            return _goes_on_with(found, (), self._branches.id_lists[self._branches.lists[number]])
        if tail.last_ids:
            return _goes_on_with(found, tail.ids, tail.last_ids)
        return found.ids[: len(tail.ids)] == tail.ids if tail.pending else found.ids == tail.ids


def _goes_on_with(found: FoundSpelling, ids: tuple[int, ...], last_ids: tuple[int, ...]) -> bool:
    """Return True if a spelling consists of these ids and one of the others."""
    if found.last_ids:
        return found.ids == ids and not set(last_ids).isdisjoint(found.last_ids)
    return found.ids[:-1] == ids and found.ids[-1:] != () and found.ids[-1] in last_ids
