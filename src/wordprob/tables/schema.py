"""Scored texts as arrays, and the columns that tables make of them: what each says, and its unit.

:class:`BatchScores` is what the scorer returns, and a :class:`Column` is a function of it.

A further column is an object that is registered once. It is then available to :meth:`wordprob.Scorer.score`, as a flag
of the commands that are started afterwards, and in every file format:

>>> column = Column("n_bytes", "bytes of the word", lambda batch: batch.spans[1] - batch.spans[0])
>>> register_column(column)
>>> import wordprob
>>> wordprob.load("exact:bow").score("the mark", extras=["n_bytes"]).to_pandas()["n_bytes"].tolist()
[3, 4]
>>> del EXTRA_COLUMNS["n_bytes"]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, cumulative_offsets
from wordprob.core.entropy_bounds import check_order
from wordprob.core.text import Document
from wordprob.errors import OptionError, did_you_mean
from wordprob.tables.word_level_columns import WORD_LEVEL, WordLevel, is_word_level

UNITS = {"bits": math.log(2.0), "nats": 1.0}
"""The size of each unit in nats."""


# --- scored texts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextTotals:
    """Sums over each of several texts, in nats.

    Attributes
    ----------
    words, scored
        The number of words, and of those that have a surprisal.
    surprisal
        The sum of the words' surprisals, including words between the given ones.
    tokens
        The number of tokens.
    token_log_prob
        log p of all tokens and the end of the text.
    words_log_prob
        log p of the words, from the tokens: Σ log p(token) + log B̃(last) − log B̃(start). Where other words stand
        between them, the sum over the words; not a number where no word has a value.
    end
        The surprisal of the text ending after its last word.
    is_partial
        True where the words were given, and are not all of the text.
    """

    words: Ints
    scored: Ints
    surprisal: Floats
    tokens: Ints
    token_log_prob: Floats
    words_log_prob: Floats
    end: Floats
    is_partial: Bools


@dataclass(frozen=True)
class BatchScores:
    """The words of several scored texts, one text after another. All numbers are in nats.

    Attributes
    ----------
    documents, counts
        The texts, and the number of words of each.
    data, spans
        The texts in UTF-8, and where each word starts and ends in those bytes.
    starts, ends
        Where each word starts and ends in its own text, in characters.
    n_tokens, context_tokens, surprisal, naive, before, after
        The columns of a word table; see :data:`WORD_COLUMNS`.
    notes
        By the position of the word in the batch; most words have none.
    totals, note
        Sums over each text, and a note that holds for all texts.
    first
        The number of the first word: more than 0 where the only text began in an earlier batch.
    goes_on
        True where the only text continues in the next batch, which then has the totals.
    statistics
        Statistics of the next-token distribution where each word begins, by name.
    estimates
        Surprisals by further estimators, by the estimator's name.
    prefixes_opened
        In the search for every spelling of each word, where there was one.
    pseudo_surprisal
        That of each word under a masked model, which has no surprisals.
    """

    documents: Sequence[Document]
    counts: Ints
    data: bytes
    spans: tuple[Ints, Ints]
    starts: Ints
    ends: Ints
    n_tokens: Ints
    context_tokens: Ints
    surprisal: Floats
    naive: Floats
    before: Floats
    after: Floats
    notes: Mapping[int, str]
    totals: TextTotals
    note: str = ""
    first: int = 0
    goes_on: bool = False
    statistics: Mapping[str, Floats] = field(default_factory=dict)
    estimates: Mapping[str, Floats] = field(default_factory=dict)
    prefixes_opened: Floats | None = None
    pseudo_surprisal: Floats | None = None

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.starts)

    @property
    def text_ids(self) -> Any:
        """The id of each word's text."""
        return np.repeat(id_array([document.id for document in self.documents]), self.counts)

    @property
    def word_ids(self) -> Ints:
        """The number of each word within its text."""
        first_of_text = np.repeat(cumulative_offsets(self.counts)[:-1], self.counts)
        return np.arange(len(self)) - first_of_text + self.first

    @property
    def words(self) -> Any:
        """Each word as it is spelled in the text, as an Arrow array."""
        return substrings(self.data, *self.spans)

    @property
    def word_notes(self) -> Any:
        """The note of each word, as an Arrow array; empty where there is none."""
        import pyarrow as pa

        distinct_notes = ["", *dict.fromkeys(self.notes.values())]
        number_of_note = {note: number for number, note in enumerate(distinct_notes)}
        numbers = np.zeros(len(self), dtype=np.int64)
        for word, note in self.notes.items():
            numbers[word] = number_of_note[note]
        return pa.array(distinct_notes).take(pa.array(numbers))


def id_array(ids: Sequence[int | str]) -> Any:
    """Return the ids of texts: as integers if all of them are, and otherwise unchanged."""
    all_integers = set(map(type, ids)) <= {int}
    return np.array(ids, dtype=np.int64 if all_integers else object)


def substrings(data: bytes, starts: Ints, ends: Ints) -> Any:
    """Return parts of a UTF-8 text as an Arrow array of strings.

    The text is cut at every start and end, without copying, into words and what lies between them.
    """
    import pyarrow as pa

    # Start, end, start, end, …: piece 2n is word n, and piece 2n + 1 what comes after it.
    edges = np.append(np.stack([starts, ends], axis=1).ravel(), len(data)).astype(np.int64)
    pieces = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(data))
    return pieces.take(pa.array(np.arange(0, len(edges) - 1, 2))).cast(pa.string())


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a table of words.

    Attributes
    ----------
    name
        The name in tables and files. On the command line, a further column has a flag of this name.
    description
        What the column says, in a few words; shown in the help and in the server's schema.
    values
        A function from a scored batch to an array with one value for each word.
    in_units
        True if the values are in nats; they are then divided by the size of the table's unit.
    statistics
        Names of statistics, from :data:`wordprob.models.protocol.STATISTICS`, that the model has to compute where each
        word begins. The function finds them in ``batch.statistics``.
    whole
        True if the values are whole numbers, though one may be missing.
    """

    name: str
    description: str
    values: Callable[[BatchScores], Any]
    in_units: bool = False
    statistics: tuple[str, ...] = ()
    whole: bool = False


def _of_token(statistic: str, description: str, in_units: bool = False, whole: bool = False) -> Column:
    """Return a column that holds a statistic of the next token."""
    return Column(
        f"token_{statistic}", description, lambda batch: batch.statistics[statistic], in_units, (statistic,), whole
    )


WORD_COLUMNS: tuple[Column, ...] = (
    Column("text_id", "which text, by its number (from 0) or the id given", attrgetter("text_ids")),
    Column("word_id", "which word of the text, from 0", attrgetter("word_ids")),
    Column("word", "the word as it stands in the text", attrgetter("words")),
    Column("start", "where it begins, in characters from 0", attrgetter("starts")),
    Column("end", "where it ends, exclusive: text[start:end] is the word", attrgetter("ends")),
    Column("n_tokens", "tokens that write the word, the separators before it included", attrgetter("n_tokens")),
    Column("context_tokens", "tokens of the text the model had seen before it", attrgetter("context_tokens")),
    Column("surprisal", "the word's surprisal, corrected", attrgetter("surprisal"), in_units=True),
    Column(
        "surprisal_naive",
        "the sum of its tokens' surprisals, as usually published",
        attrgetter("naive"),
        in_units=True,
    ),
    Column("before", "−log of the boundary mass before the word", attrgetter("before"), in_units=True),
    Column("after", "−log of the boundary mass after the word", attrgetter("after"), in_units=True),
    Column("note", "why a value is missing, or what to know about it", attrgetter("word_notes")),
)
"""The columns that every table of words has, in their order. Further ones come before the last."""

PSEUDO_SURPRISAL = Column(
    "pseudo_surprisal",
    "−log of the word's pseudo-likelihood, for masked models only",
    attrgetter("pseudo_surprisal"),
    in_units=True,
)
"""The column that takes the place of surprisals in tables of masked models, where those are missing."""

EXTRA_COLUMNS: dict[str, Column] = {}
"""The further columns that can be requested, by name."""


def register_column(column: Column) -> None:
    """Make a further column available under its name.

    Parameters
    ----------
    column
        The column; its name must not be that of another column.
    """
    if column.name in COLUMNS or column.name in EXTRA_COLUMNS:
        raise OptionError(f"there is a column called '{column.name}' already; give yours another name.")
    EXTRA_COLUMNS[column.name] = column


class ColumnDescriptions(Mapping[str, str]):
    """The names and descriptions of registered columns; includes those that are registered later."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> str:
        return self._columns[name].description

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


COLUMNS: dict[str, str] = {column.name: column.description for column in WORD_COLUMNS}
"""The columns that every table of words has, and what each says."""

EXTRAS: Mapping[str, str] = ColumnDescriptions(EXTRA_COLUMNS)
"""The further columns, and what each says."""

register_column(_of_token("entropy", "entropy of the next token where the word begins", in_units=True))
register_column(_of_token("rank", "rank of the word's first token there: 1 is the most probable", whole=True))

register_column(
    Column(
        "prefixes_opened",
        "prefixes of spellings expanded, with all spellings",
        lambda batch: np.full(len(batch), np.nan) if batch.prefixes_opened is None else batch.prefixes_opened,
        whole=True,
    )
)

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
"""The columns of the summary by text, and what each says."""


def estimate_name(estimator: str) -> str:
    """Return the name of the column that holds the surprisals of a further estimator."""
    return f"surprisal_{estimator}"


ALL_SPELLINGS: dict[str, str] = {
    "all": "the word's surprisal with every spelling that was found",
    "all_low": "the least that it can be, with every spelling",
    "all_high": "the most that it can be, with every spelling",
}
"""The estimates that are made with ``spellings="all"``, and what each says."""


SERVER_BOUNDS: dict[str, str] = {
    "low": "the least that the word's surprisal can be, by what a server lists",
    "high": "the most that the word's surprisal can be, by what a server lists",
}
"""The estimates that come with models on a server, and what each says."""


def further_estimates(estimators: Collection[str], spellings: str) -> list[str]:
    """Return the names of the estimates that a table has besides the two that every table has."""
    return [*estimators, *(ALL_SPELLINGS if spellings == "all" else ())]


def estimate_columns(names: Iterable[str]) -> list[str]:
    """Return those of a table's columns that hold the surprisals of other estimators, the naive one among them."""
    return [name for name in names if name.startswith(estimate_name(""))]


def columns_of(extra: str) -> list[Column]:
    """Return the columns of an extra: usually one.

    >>> [column.name for column in columns_of("word_rank")], [column.name for column in columns_of("token_rank")]
    (['word_rank_low', 'word_rank_high'], ['token_rank'])
    """
    if extra in EXTRA_COLUMNS:
        return [EXTRA_COLUMNS[extra]]
    columns = WordLevel.of([extra]).columns()
    return [
        Column(name, facts.description, _statistics_of(name), facts.in_units, whole=facts.whole)
        for name, facts in columns.items()
    ]


def _statistics_of(name: str) -> Callable[[BatchScores], Any]:
    """Return the function that takes a statistic from a batch."""
    return lambda batch: batch.statistics[name]


def summed_columns(names: Iterable[str]) -> list[str]:
    """Return those of a table's columns, besides ``surprisal``, that are added up over a region or a text."""
    given = list(names)
    return [*estimate_columns(given), *(name for name in given if name == PSEUDO_SURPRISAL.name)]


def check_extras(names: Collection[str]) -> None:
    """Raise :class:`OptionError` unless all names are those of further columns."""
    for name in names:
        if name not in EXTRA_COLUMNS and not is_word_level(name):
            allowed = [*EXTRA_COLUMNS, *WORD_LEVEL]
            raise OptionError(f"no further column is called '{name}'. {did_you_mean(name, allowed)}")
        for order in WordLevel.of([name]).orders.values():
            check_order(order)


def required_statistics(extras: Collection[str]) -> tuple[str, ...]:
    """Return the statistics that a model has to compute for these further columns, each once.

    Examples
    --------
    >>> required_statistics(["token_rank", "token_entropy"])
    ('rank', 'entropy')
    """
    check_extras(extras)
    statistics = [statistic for name in extras for column in columns_of(name) for statistic in column.statistics]
    return tuple(dict.fromkeys(statistics))


def unit_size(unit: str) -> float:
    """Return the size of a unit in nats."""
    if unit not in UNITS:
        raise OptionError(f"no unit is called '{unit}'; use {' or '.join(UNITS)}.")
    return UNITS[unit]
