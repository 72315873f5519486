"""Scored texts as arrays, in nats: what the scorer returns, and tables are built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wordprob.core.arrays import Bools, Floats, Ints, cumulative_offsets
from wordprob.core.text import Document


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
        The columns of a word table; see :mod:`wordprob.tables.schema`.
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
