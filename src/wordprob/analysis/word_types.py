"""Sums for each word type over a stream of scored words: count, length, Σ s and Σ s², naive and corrected.

Twenty million rows must not be in memory at once, nor pass through Python one by one. The words of a batch are encoded
as indices into its few distinct words; only these pass through Python, each once; the rest is :func:`numpy.bincount`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from wordprob.analysis.frequencies import OUTER_PUNCTUATION
from wordprob.analysis.input_tables import ESTIMATES, read_metadata, require
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError
from wordprob.tables.files import format_of
from wordprob.tables.schema import UNITS

KEEP = ("alphabetic", "all")
CASES = ("lower", "as-is")
BATCH_ROWS = 1 << 19
SCORED_COLUMNS = ["word", "surprisal", "surprisal_naive"]
OPTIONAL_COLUMNS = ["surprisal_all"]


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
            raise OptionError(f"`keep` is '{self.keep}'; it must be {' or '.join(KEEP)}.")
        if self.case not in CASES:
            raise OptionError(f"`case` is '{self.case}'; it must be {' or '.join(CASES)}.")
        if self.min_count < 1:
            raise OptionError(f"`min_count` is {self.min_count}; use 1 to keep all words.")

    def type_of(self, word: str) -> str | None:
        """Return the type a word belongs to; ``None`` when it does not count."""
        if self.keep == "alphabetic" and not word.isalpha():
            return None
        return word.lower() if self.case == "lower" else word

    def describe(self) -> str:
        """Return the filter in words, for captions."""
        words = "words of letters only" if self.keep == "alphabetic" else "all words"
        case = "lower-cased" if self.case == "lower" else "case kept"
        return f"{words}, {case}, seen at least {self.min_count} times"


class TypeSums:
    """Running sums for each word type.

    Attributes
    ----------
    rows
        Scored words so far, including those that do not count.
    missing
        Those of them without a surprisal.
    """

    def __init__(self, word_filter: WordFilter) -> None:
        self._filter = word_filter
        self._number_of_type: dict[str, int] = {}
        self._number_of_word: dict[str, int] = {}  # of the word's type; -1 for a word that does not count
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._sums: dict[str, Floats] = {}
        self.rows = 0
        self.missing = 0

    @property
    def estimates(self) -> list[str]:
        """The estimates that are added up."""
        return [name for name in ESTIMATES if name in self._sums]

    def add(self, words: Any, surprisals: Mapping[str, Floats]) -> None:
        """Add scored words.

        Parameters
        ----------
        words
            An Arrow array or a sequence of strings.
        surprisals
            In nats, by estimate. All words that are added together have the same estimates.
        """
        if self.rows and set(self.estimates) != set(surprisals):
            raise InputError(
                f"tables of one model have different estimates ({', '.join(self.estimates)}; {', '.join(surprisals)}): "
                "score all of them with the same `spellings`."
            )
        encoded = (words if isinstance(words, pa.Array) else pa.array(words, pa.string())).dictionary_encode()
        number_of_distinct = np.array(
            [self._type_number(word) for word in encoded.dictionary.to_pylist()], dtype=np.int64
        )
        # Rows hold indices into the distinct words, so that one lookup gives the type of every row.
        types = number_of_distinct[encoded.indices.to_numpy(zero_copy_only=False)]
        scored = np.all([np.isfinite(values) for values in surprisals.values()], axis=0)
        self.rows += len(types)
        self.missing += int((~scored).sum())
        used = scored & (types >= 0)
        self._grow()
        self._counts += np.bincount(types[used], minlength=len(self._counts))
        for name, values in surprisals.items():
            self._add_up(name, types[used], values[used])
            self._add_up(f"{name}_squared", types[used], values[used] ** 2)

    def _add_up(self, name: str, types: Ints, values: Floats) -> None:
        sums = self._sums.setdefault(name, np.zeros(len(self._counts)))
        sums += np.bincount(types, weights=values, minlength=len(self._counts))

    def _type_number(self, word: str) -> int:
        """Return the number of a word's type; -1 if it does not count."""
        number = self._number_of_word.get(word)
        if number is None:
            word_type = self._filter.type_of(word)
            number = -1
            if word_type is not None:
                number = self._number_of_type.setdefault(word_type, len(self._number_of_type))
            self._number_of_word[word] = number
        return number

    def _grow(self) -> None:
        """Make room for the types that were seen for the first time."""
        more = len(self._number_of_type) - len(self._counts)
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
        self._sums = {name: np.concatenate([values, np.zeros(more)]) for name, values in self._sums.items()}

    def table(self) -> pd.DataFrame:
        """Return ``word, length, count`` and the sums, for types seen often enough."""
        words = pd.Series(list(self._number_of_type), dtype=str)
        frame = pd.DataFrame({"word": words, "count": self._counts, **self._sums})
        frame.insert(1, "length", frame["word"].str.len().astype(np.int64))
        return frame[frame["count"] >= self._filter.min_count].reset_index(drop=True)


def count_words(texts: Iterable[str], word_filter: WordFilter) -> Counter[str]:
    """Count the word types of running text; punctuation around words is removed if words of letters only are kept."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(text.split())
    types: Counter[str] = Counter()
    for word, count in words.items():
        stripped = OUTER_PUNCTUATION.sub("", word) if word_filter.keep == "alphabetic" else word
        word_type = word_filter.type_of(stripped)
        if word_type:
            types[word_type] += count
    return types


# --- scored tables as a stream -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredFile:
    """A file of scored words, the model that scored it, and its unit; an empty unit is not known.

    ``columns`` are those that are read.
    """

    path: Path
    model: str
    unit: str
    columns: tuple[str, ...] = tuple(SCORED_COLUMNS)

    @property
    def size(self) -> float:
        """The size of the unit in nats; 1 for a table that does not say its unit."""
        return UNITS.get(self.unit, 1.0)


def open_scored(path: Path) -> ScoredFile:
    """Return the model and the unit of a scored table; raise if it lacks a column that is needed."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    present = _column_names(path)
    require(pd.DataFrame(columns=present), SCORED_COLUMNS, str(path))
    metadata = read_metadata(path)
    model = metadata.get("model", path.stem)
    if Path(model).is_absolute():
        model = Path(model).name
    columns = (*SCORED_COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in present))
    return ScoredFile(path, model, metadata.get("unit", ""), columns)


def _column_names(path: Path) -> list[str]:
    """Return the names of a table's columns; at most its first rows are read."""
    format = format_of(path)
    if format == "parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    if format == "jsonl":
        return [str(name) for name in pd.read_json(path, lines=True, nrows=1).columns]
    return [str(name) for name in pd.read_csv(path, sep="\t" if format == "tsv" else ",", nrows=0).columns]


def batches(scored: ScoredFile) -> Iterator[tuple[Any, dict[str, Floats]]]:
    """Yield words, and their surprisals in nats by estimate, a batch at a time."""

    def nats(batch: pa.RecordBatch, column: str) -> Floats:
        values: Floats = batch.column(column).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values * scored.size

    present = {name: column for name, column in ESTIMATES.items() if column in scored.columns}
    for batch in _record_batches(scored.path, list(scored.columns)):
        words = batch.column("word").cast(pa.string())
        yield words, {name: nats(batch, column) for name, column in present.items()}


def _record_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield a file's words and surprisals a batch at a time.

    The readers of :mod:`wordprob.tables.formats` keep every cell as it was written, and so the whole file; these keep
    only what is added up.
    """
    format = format_of(path)
    if format == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
    elif format == "jsonl":
        for frame in pd.read_json(
            path, lines=True, chunksize=BATCH_ROWS // 4, dtype={"word": str}, convert_dates=False
        ):
            require(frame, columns, str(path))
            yield pa.RecordBatch.from_pandas(frame[columns], preserve_index=False)
    else:
        yield from _delimited(path, "\t" if format == "tsv" else ",", columns)


def _delimited(path: Path, separator: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    surprisals = [name for name in columns if name != "word"]
    frames = pd.read_csv(
        path,
        sep=separator,
        usecols=columns,
        dtype={"word": str, **dict.fromkeys(surprisals, np.float64)},
        # NA and null are words; only an empty cell is a missing surprisal.
        keep_default_na=False,
        na_values={name: [""] for name in surprisals},
        chunksize=BATCH_ROWS // 2,
    )
    for frame in frames:
        yield pa.RecordBatch.from_pandas(frame[columns], preserve_index=False)
