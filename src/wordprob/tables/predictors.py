"""What a regression on words needs besides surprisal: length, frequency, and the same of the words before (spillover).

>>> import pandas as pd
>>> words = pd.DataFrame({"text_id": [0, 0, 1], "word_id": [0, 1, 0], "word": ["She", "ran", "Go"], "surprisal": 1.0})
>>> table = add_predictors(words, frequency=[7.0, 5.5, 6.0], spillover=1)
>>> table["length_prev1"].tolist()
[<NA>, 3, <NA>]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

SPILLOVER_WORDS = 3
"""How many words before each word have columns of their own."""

PREDICTOR_COLUMNS: dict[str, str] = {
    "length": "characters of the word, with the punctuation that is part of it",
    "frequency": "how frequent the word is by itself, on the Zipf scale: log10 of occurrences in a billion words",
    "surprisal_prev1": "surprisal of the word before",
    "surprisal_naive_prev1": "naive surprisal of the word before",
    "length_prev1": "length of the word before",
    "frequency_prev1": "frequency of the word before",
}
"""The predictors, and what each says; those that end in ``_prev2`` and ``_prev3`` are of the words before that."""

PREDICTOR_METADATA = {"frequency_unit": "Zipf: log10 of occurrences in a billion words", "length_unit": "characters"}
"""What the metadata of a table say about its predictors."""


def earlier_name(name: str, distance: int) -> str:
    """Return the name of the column that holds the value of an earlier word."""
    return f"{name}_prev{distance}"


def predictor_names(estimates: Iterable[str] = (), spillover: int = SPILLOVER_WORDS) -> list[str]:
    """Return the names of the columns that :func:`add_predictors` adds.

    Parameters
    ----------
    estimates
        The columns of surprisals.
    spillover
        How many words before count.

    Examples
    --------
    >>> predictor_names(["surprisal"], spillover=1)
    ['length', 'frequency', 'surprisal_prev1', 'length_prev1', 'frequency_prev1']
    """
    of_word = [*estimates, "length", "frequency"]
    earlier = [earlier_name(name, distance) for distance in range(1, spillover + 1) for name in of_word]
    return ["length", "frequency", *earlier]


def add_predictors(
    words: pd.DataFrame,
    frequency: Sequence[float] | Floats,
    estimates: Iterable[str] = ("surprisal",),
    spillover: int = SPILLOVER_WORDS,
    lengths: Any = None,
    where: str = "the table",
) -> pd.DataFrame:
    """Return a table of words with the length and frequency of each, and the values of the words before it.

    Parameters
    ----------
    words
        ``text_id``, ``word_id`` (the position in the text), ``word``, and the estimates.
    frequency
        The frequency of each word, on the Zipf scale; not a number where it is unknown.
    estimates
        The columns of surprisals.
    spillover
        How many words before count. Where a text does not have that many before a word, their values are missing.
    lengths
        The length of each word; its characters by default.
    where
        What errors call the table.
    """
    estimates = list(estimates)
    lengths = words["word"].str.len().astype("Int64") if lengths is None else lengths
    table = words.assign(length=lengths, frequency=frequency)
    for distance in range(1, spillover + 1):
        rows = rows_of_earlier_words(words, distance, where)
        for name in (*estimates, "length", "frequency"):
            # Position -1 stands for no such word: its value is missing.
            earlier = table[name].reset_index(drop=True).reindex(np.where(rows < 0, len(table), rows))
            table[earlier_name(name, distance)] = earlier.to_numpy() if name != "length" else earlier.array
    return table


def rows_of_earlier_words(words: pd.DataFrame, distance: int, where: str = "the table") -> Ints:
    """Return, for every word, the position of the row that holds the word ``distance`` before it; -1 if there is none.

    Words are found by their position in their text, not by their row: a row that is missing must not move the words
    before it closer, and the words of another text are not before it.
    """
    import pandas as pd

    position = pd.to_numeric(words["word_id"]).to_numpy(dtype=np.float64)
    places = pd.MultiIndex.from_arrays([words["text_id"], position])
    if places.has_duplicates:
        text, word = places[places.duplicated()][0]
        raise InputError(
            f"{where}: word {word:g} of text {text} has several rows. If they are participants, specify their column "
            "as `participant`; otherwise give every text a name of its own, in the column `group_by`."
        )
    earlier = pd.MultiIndex.from_arrays([words["text_id"], position - distance])
    return np.asarray(places.get_indexer(earlier), dtype=np.int64)
