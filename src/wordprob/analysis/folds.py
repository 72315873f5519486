"""Which fold a row is in: read from a file, or drawn as R draws.

The paper's folds come from R: shuffle all rows with ``set.seed(42); sample(n)``, leave out the incomplete ones, cut
what remains into ten runs of equal length. :func:`draw` does exactly the same, so that seeded folds are the same in
Python and in R, and the paper's numbers follow from its data alone.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from wordprob.analysis.input_tables import WORD_KEYS, Mask, numbers, require
from wordprob.core.arrays import Ints
from wordprob.errors import InputError, OptionError, listing


def draw(complete: Mask, count: int, seed: int) -> Ints:
    """Return the fold (1 … ``count``) of every row, 0 for rows that are not ``complete``."""
    n_complete = complete.sum()
    if not 2 <= count <= n_complete:
        raise OptionError(f"{n_complete} complete rows cannot make {count} folds; use between 2 and {n_complete}.")
    shuffled = r_sample(len(complete), seed)
    shuffled_complete = shuffled[complete[shuffled]]
    folds = np.zeros(len(complete), dtype=np.int64)
    folds[shuffled_complete] = cut(len(shuffled_complete), count)
    return folds


def cut(n: int, count: int) -> Ints:
    """Return the fold of ``1 … n`` as R's ``cut(1:n, breaks=count, labels=FALSE)`` does."""
    breaks = np.linspace(1, n, count + 1)
    return np.clip(np.searchsorted(breaks[1:-1], np.arange(1, n + 1), side="left") + 1, 1, count).astype(np.int64)


def r_sample(n: int, seed: int) -> Ints:
    """Return ``set.seed(seed); sample(n) - 1`` of R (3.6 and later: Mersenne Twister, rejection sampling)."""
    uniform = _r_uniform(seed)
    remaining = list(range(n))
    drawn = np.empty(n, dtype=np.int64)
    for i in range(n):
        size = n - i
        j = _r_index(uniform, size, (size - 1).bit_length())
        drawn[i] = remaining[j]
        # The last of the remaining ones takes the place of the one drawn, as in R.
        remaining[j] = remaining[size - 1]
    return drawn


class _Uniform:
    """R's ``unif_rand()``: one 32-bit word of the Mersenne Twister for each number."""

    def __init__(self, state: np.random.RandomState) -> None:
        self._state = state

    def __call__(self) -> float:
        word = int(self._state.randint(0, 2**32, dtype=np.uint32))
        # R's constants: 2⁻³², and the distance that keeps a number from being 0 or 1.
        return min(max(word * 2.3283064365386963e-10, 2.328306437080797e-10), 1.0 - 2.328306437080797e-10)


def _r_uniform(seed: int) -> _Uniform:
    """Seed as R does: a congruential generator, 50 steps to warm up, then 625 words, the first of which R discards."""
    words = []
    value = seed % 2**32
    for _ in range(50):
        value = (69069 * value + 1) % 2**32
    for _ in range(625):
        value = (69069 * value + 1) % 2**32
        words.append(value)
    state = np.random.RandomState()
    state.set_state(("MT19937", np.array(words[1:], dtype=np.uint32), 624, 0, 0.0))
    return _Uniform(state)


def _r_index(uniform: _Uniform, size: int, bits: int) -> int:
    """Draw from ``0 … size - 1``: take bits sixteen at a time, and repeat until the number is small enough."""
    while True:
        value = 0
        for _ in range(0, bits + 1, 16):
            value = 65536 * value + int(uniform() * 65536)
        value &= (1 << bits) - 1
        if value < size:
            return value


def look_up(frame: pd.DataFrame, table: pd.DataFrame, where: str) -> Ints:
    """Look up the fold of every row of ``frame`` in a table of ``text_id, word_id, fold``; 0 where it has none."""
    require(table, [*WORD_KEYS, "fold"], where)
    keys = pd.MultiIndex.from_arrays([_key(table[name]) for name in WORD_KEYS])
    if keys.has_duplicates:
        repeated = keys[keys.duplicated()]
        raise InputError(f"{where} names words twice: {listing(_word_name(key) for key in repeated)}.")
    rows = pd.MultiIndex.from_arrays([_key(frame[name]) for name in WORD_KEYS])
    unknown = keys.difference(rows)
    if len(unknown):
        raise InputError(
            f"{where} does not belong to this data: it names words that are not in it: "
            f"{listing(_word_name(key) for key in unknown)}."
        )
    values = pd.Series(numbers(table, "fold", where), index=keys).reindex(rows).fillna(0.0).to_numpy()
    if not np.all(values == np.round(values)) or np.any(values < 0):
        raise InputError(f"{where}: folds must be whole numbers, starting at 1.")
    return values.astype(np.int64)


def _key(values: pd.Series) -> pd.Series:
    """Return ids as text, so that 3, 3.0 and "3" are the same text."""
    return values.astype(str).str.removesuffix(".0")


def _word_name(key: tuple[str, str]) -> str:
    return f"text {key[0]} word {key[1]}"
