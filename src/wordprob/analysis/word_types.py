"""What is kept of each word type while scored words stream by: count, length, Σ s and Σ s², naive and corrected.

Twenty million rows must not be in memory at once, nor go through Python one by one. A batch's words are encoded to the
few distinct ones; only those meet Python, and only once in a run; the rest is :func:`numpy.bincount`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from wordprob.analysis.frequencies import OUTER
from wordprob.analysis.tables import require
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError
from wordprob.tables.files import format_of, sidecar
from wordprob.tables.schema import UNITS

KEEP = ("alphabetic", "all")
CASES = ("lower", "as-is")
BATCH = 1 << 19
NEEDED = ["word", "surprisal", "surprisal_naive"]
SUMS = ("corrected", "corrected_squared", "naive", "naive_squared")


@dataclass(frozen=True)
class WordFilter:
    """Which words count, and which of them are the same.

    Attributes
    ----------
    keep
        ``alphabetic``: words of letters only, so that no punctuation is in the length or the surprisal; or ``all``.
    case
        ``lower``: *The* and *the* are one word; or ``as-is``.
    min_count
        Rarer words are left out: a mean over few contexts is mostly noise.
    """

    keep: str = "alphabetic"
    case: str = "lower"
    min_count: int = 5

    def __post_init__(self) -> None:
        if self.keep not in KEEP:
            raise OptionError(f"words to keep are {' or '.join(KEEP)}, not '{self.keep}'.")
        if self.case not in CASES:
            raise OptionError(f"case is {' or '.join(CASES)}, not '{self.case}'.")
        if self.min_count < 1:
            raise OptionError(f"a minimum count of {self.min_count} cannot be; use 1 to keep all words.")

    def type_of(self, word: str) -> str | None:
        """Return the type a word belongs to; ``None`` when it does not count."""
        if self.keep == "alphabetic" and not word.isalpha():
            return None
        return word.lower() if self.case == "lower" else word

    def describe(self) -> str:
        """Say it in a sentence."""
        kind = "words of letters only" if self.keep == "alphabetic" else "all words"
        case = "lower-cased" if self.case == "lower" else "case kept"
        return f"{kind}, {case}, seen at least {self.min_count} times"


class TypeSums:
    """Running sums for each word type."""

    def __init__(self, which: WordFilter) -> None:
        self._which = which
        self._types: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._sums: dict[str, Floats] = {name: np.zeros(0) for name in SUMS}
        self.rows = 0
        self.missing = 0

    def add(self, words: Any, corrected: Floats, naive: Floats) -> None:
        """Add scored words; ``words`` is an Arrow array or a sequence of strings."""
        encoded = (words if isinstance(words, pa.Array) else pa.array(words, pa.string())).dictionary_encode()
        ids = np.array([self._id(word) for word in encoded.dictionary.to_pylist()], dtype=np.int64)
        ids = ids[encoded.indices.to_numpy(zero_copy_only=False)]
        scored = np.isfinite(corrected) & np.isfinite(naive)
        self.rows += len(ids)
        self.missing += int((~scored).sum())
        used = scored & (ids >= 0)
        self._grow()
        self._counts += np.bincount(ids[used], minlength=len(self._counts))
        s, b = corrected[used], naive[used]
        for name, values in zip(SUMS, (s, s * s, b, b * b), strict=True):
            self._sums[name] += np.bincount(ids[used], weights=values, minlength=len(self._counts))

    def _id(self, word: str) -> int:
        found = self._known.get(word)
        if found is None:
            kind = self._which.type_of(word)
            found = -1 if kind is None else self._types.setdefault(kind, len(self._types))
            self._known[word] = found
        return found

    def _grow(self) -> None:
        more = len(self._types) - len(self._counts)
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
        self._sums = {name: np.concatenate([values, np.zeros(more)]) for name, values in self._sums.items()}

    def table(self) -> pd.DataFrame:
        """Return ``word, length, count`` and the sums, for types seen often enough."""
        words = pd.Series(list(self._types), dtype=str)
        frame = pd.DataFrame({"word": words, "count": self._counts, **self._sums})
        frame.insert(1, "length", frame["word"].str.len().astype(np.int64))
        return frame[frame["count"] >= self._which.min_count].reset_index(drop=True)


def count_words(texts: Iterable[str], which: WordFilter) -> Counter[str]:
    """Count the word types of running text, the punctuation around words aside."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    types: Counter[str] = Counter()
    for word, count in counts.items():
        kind = which.type_of(OUTER.sub("", word)) if which.keep == "alphabetic" else which.type_of(word)
        if kind:
            types[kind] += count
    return types


# --- scored tables as a stream -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """A file of scored words: who scored it, and the size of its unit in nats."""

    path: Path
    model: str
    unit: str

    @property
    def size(self) -> float:
        """Nats in a unit; an unnamed unit is taken as it is."""
        return UNITS.get(self.unit, 1.0)


def open_scored(path: Path) -> Scored:
    """Look at a scored table: its columns, model and unit."""
    import json

    if not path.is_file():
        raise InputError(f"no such file: {path}")
    about: dict[str, str] = {}
    if format_of(path) == "parquet":
        import pyarrow.parquet as pq

        schema = pq.read_schema(path)
        require(pd.DataFrame(columns=schema.names), NEEDED, str(path))
        about = json.loads((schema.metadata or {}).get(b"wordprob", b"{}"))
    elif sidecar(path).is_file():
        about = json.loads(sidecar(path).read_text(encoding="utf-8"))
    model = about.get("model", path.stem)
    return Scored(path, Path(model).name if Path(model).is_absolute() else model, about.get("unit", ""))


def batches(scored: Scored) -> Iterator[tuple[Any, Floats, Floats]]:
    """Yield words, corrected and naive surprisals in nats, a batch at a time."""
    for batch in _record_batches(scored.path):
        values = [
            batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) * scored.size for name in NEEDED[1:]
        ]
        yield batch.column("word").cast(pa.string()), values[0], values[1]


def _record_batches(path: Path) -> Iterator[pa.RecordBatch]:
    format = format_of(path)
    if format == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH, columns=NEEDED)
    elif format == "jsonl":
        for frame in pd.read_json(path, lines=True, chunksize=BATCH // 4, dtype={"word": str}, convert_dates=False):
            require(frame, NEEDED, str(path))
            yield pa.RecordBatch.from_pandas(frame[NEEDED], preserve_index=False)
    else:
        yield from _delimited(path, "\t" if format == "tsv" else ",")


def _delimited(path: Path, separator: str) -> Iterator[pa.RecordBatch]:
    kinds = {"word": str, "surprisal": np.float64, "surprisal_naive": np.float64}
    numbers = {name: [""] for name in NEEDED[1:]}
    require(pd.read_csv(path, sep=separator, nrows=0), NEEDED, str(path))
    reader = pd.read_csv(path, sep=separator, usecols=NEEDED, dtype=kinds, keep_default_na=False, na_values=numbers,
                         chunksize=BATCH // 2)  # fmt: skip
    for frame in reader:
        yield pa.RecordBatch.from_pandas(frame[NEEDED], preserve_index=False)
