"""The joined table of a reading-time study: times, surprisals, lengths and frequencies, ready for ``lmer`` in R.

There is a row for each word, or for each participant and word where participants' times are known. Surprisals are in
nats, frequencies on the Zipf scale, lengths in characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wordprob.analysis import outputs
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.frequencies import to_zipf
from wordprob.analysis.input_tables import ESTIMATES, WORD_KEYS, numbers
from wordprob.core.arrays import Floats
from wordprob.errors import counted
from wordprob.tables.columns import check_shape, column_suffix, combine
from wordprob.tables.files import FORMATS_WITH_JSON, format_of
from wordprob.tables.formats import with_types
from wordprob.tables.predictors import PREDICTOR_METADATA, add_predictors, earlier_name

NOTE = "surprisal_note"
"""The column of a dataset that says why a surprisal is missing; in the table it is called ``note``."""

STUDY_TABLE_COLUMNS: dict[str, str] = {
    "corpus": "which corpus or table",
    "model": "which model; the wide shape has its name at the end of columns instead",
    "participant": "who read the word, where participants' times are known",
    "text_id": "which text",
    "word_id": "which word of the text",
    "word": "the word as it was read",
    "time": "its reading time: the participant's, or the mean",
    "time_used": "1 if a participant's time counts in the mean, 0 for an outlier or a skipped word that does not",
    "length": "its characters",
    "frequency": "its frequency on the Zipf scale: log10 of occurrences in a billion words",
    "surprisal": "its corrected surprisal, in nats",
    "surprisal_naive": "its naive surprisal, in nats",
    "surprisal_all": "its surprisal with all spellings, in nats",
    "note": "why a surprisal is missing, or what to know about it",
}
"""The columns of the table, and what each says; ``_prev1`` and so on are those of the words before."""

COMPUTED = re.compile(r"prev\d*_.+|word_len|freq|.*surprisal.*")
"""Columns of a dataset that the table has under other names."""

EARLIER = re.compile(r".+_prev\d+")
"""Columns of the table that hold values of earlier words."""

READ_IN_R = {
    "csv": 'read.csv("{path}", na.strings = "")',
    "tsv": 'read.delim("{path}", na.strings = "", quote = "\\"")',
    "parquet": 'arrow::read_parquet("{path}")',
    "jsonl": 'jsonlite::stream_in(file("{path}"))',
    "json": 'jsonlite::fromJSON("{path}")',
}
"""How R reads each format; only an empty cell is missing, and the word *NA* stays a word."""


@dataclass(frozen=True)
class StudyTable:
    """The words of a reading-time study with all that a regression needs.

    Attributes
    ----------
    datasets
        One for each corpus and model.
    spillover
        How many words before each word have columns.
    metadata
        Where the numbers come from.
    """

    datasets: Sequence[Dataset] = field(repr=False)
    spillover: int = 3
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def models(self) -> list[str]:
        """The models, in the order given."""
        return list(dict.fromkeys(dataset.model for dataset in self.datasets))

    @property
    def corpora(self) -> list[str]:
        """The corpora, in the order given."""
        return list(dict.fromkeys(dataset.corpus for dataset in self.datasets))

    @property
    def has_participants(self) -> bool:
        """True if each row is a word read by a participant."""
        return all(dataset.readings is not None for dataset in self.datasets)

    def to_pandas(self, shape: str = "long") -> pd.DataFrame:
        """Return the table.

        Parameters
        ----------
        shape
            For several models: ``long`` (a column says which) or ``wide`` (surprisals end in the model's name).
        """
        check_shape(shape, self.models)
        if shape == "long":
            parts = [self._rows(dataset) for dataset in self.datasets]
        else:
            parts = [self._side_by_side(corpus) for corpus in self.corpora]
        table = pd.concat(parts, ignore_index=True)
        return table.assign(**with_types(table.drop(columns="word")))  # a word may be written as a number

    def write(self, path: str | Path, shape: str = "long", force: bool = False) -> Path:
        """Write the table, completely or not at all; the ending determines the format.

        Parameters
        ----------
        path
            A ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl`` or ``.json`` file. The metadata are stored inside a Parquet
            file, and next to any other file.
        shape
            As for :meth:`to_pandas`.
        force
            Replace a file that exists.
        """
        about = {**self.metadata, "unit": "nats", **PREDICTOR_METADATA, "shape": shape, "formula": self.formula(shape)}
        return outputs.write_table(path, self.to_pandas(shape), about, force)

    def missing(self) -> list[str]:
        """Return a line for each corpus and model in which words lack a surprisal, a frequency or a time."""
        lines = []
        for dataset in self.datasets:
            words = self._words(dataset).assign(time=numbers(dataset.frame, "time", dataset.where))
            counts = {
                name: int((~np.isfinite(words[name].to_numpy(dtype=np.float64))).sum()) for name in _needed(dataset)
            }
            parts = [f"{count} without {name}" for name, count in counts.items() if count]
            if parts:
                lines.append(f"{dataset.corpus}, {dataset.model}: of {counted(len(words), 'word')}, {', '.join(parts)}")
        return lines

    def formula(self, shape: str = "long") -> str:
        """Return the formula of a mixed model of the times, as ``lmer`` takes it."""
        estimate = ESTIMATES[self.datasets[0].estimates[0]]
        ending = f"_{column_suffix(self.models[0])}" if shape == "wide" and len(self.models) > 1 else ""
        terms = [f"{estimate}{ending}", "length * frequency"]
        for n in range(1, self.spillover + 1):
            terms.append(f"{earlier_name(estimate, n)}{ending}")
            terms.append(f"{earlier_name('length', n)} * {earlier_name('frequency', n)}")
        random = "(1 | participant) + (1 | text_id:word_id)" if self.has_participants else "(1 | text_id)"
        return f"time ~ {' + '.join(terms)} + {random}"

    def r_code(self, path: str | Path, shape: str = "long") -> str:
        """Return the lines of R that read the table and fit a mixed model."""
        read = READ_IN_R[format_of(Path(path), FORMATS_WITH_JSON)].format(path=path)
        chosen = []
        if len(self.corpora) > 1:
            chosen.append(f'corpus == "{self.corpora[0]}"')
        if len(self.models) > 1 and shape == "long":
            chosen.append(f'model == "{self.models[0]}"')
        if self.has_participants:
            chosen.append("time_used == 1")
        data = f"subset(words, {' & '.join(chosen)})" if chosen else "words"
        return f"words <- {read}\nlibrary(lme4)\nfit <- lmer({self.formula(shape)}, data = {data})"

    def _rows(self, dataset: Dataset) -> pd.DataFrame:
        """Return the rows of one corpus and model."""
        words = self._words(dataset)
        times = dataset.readings
        if times is None:
            times = dataset.frame[WORD_KEYS].assign(time=numbers(dataset.frame, "time", dataset.where))
        rows = times.merge(words, on=WORD_KEYS, how="left", validate="many_to_one")
        rows = rows.assign(corpus=dataset.corpus, model=dataset.model)
        first = [name for name in STUDY_TABLE_COLUMNS if name in rows.columns and name != "note"]
        earlier = [name for name in rows.columns if EARLIER.fullmatch(str(name))]
        own = [name for name in rows.columns if name not in (*first, *earlier, "note")]
        last = ["note"] if "note" in rows.columns else []
        return rows[[*first, *earlier, *own, *last]]

    def _words(self, dataset: Dataset) -> pd.DataFrame:
        """Return each word with its predictors, the user's own columns, and why a surprisal is missing."""
        frame, where = dataset.frame, dataset.where
        estimates = [ESTIMATES[name] for name in dataset.estimates]
        words = frame[[*WORD_KEYS, "word"]].assign(**{name: numbers(frame, name, where) for name in estimates})
        frequency = np.full(len(frame), np.nan)
        if "freq" in frame.columns:
            frequency = to_zipf(numbers(frame, "freq", where))
        lengths = _whole_numbers(numbers(frame, "word_len", where)) if "word_len" in frame.columns else None
        words = add_predictors(words, frequency, estimates, self.spillover, lengths, where)
        for name in frame.columns:
            if name not in (*WORD_KEYS, "word", "time") and not COMPUTED.fullmatch(str(name)):
                words[own_name(str(name))] = frame[name]
        return words.assign(note=frame[NOTE]) if NOTE in frame.columns else words

    def _side_by_side(self, corpus: str) -> pd.DataFrame:
        """Return the rows of a corpus with the surprisals of all models in columns."""
        of_models = {dataset.model: self._rows(dataset) for dataset in self.datasets if dataset.corpus == corpus}
        first = next(iter(of_models.values()))
        of_model = [name for name in first.columns if name == "note" or str(name).startswith("surprisal")]
        surprisals = combine({model: rows[of_model] for model, rows in of_models.items()}, "wide", "")
        return pd.concat([first.drop(columns=[*of_model, "model"]), surprisals], axis=1)


def _needed(dataset: Dataset) -> list[str]:
    """Return the columns that a regression needs for every word."""
    return ["time", "frequency", *(ESTIMATES[name] for name in dataset.estimates)]


def own_name(name: str) -> str:
    """Return the name of a column of the user's in the table, another one if the table has a column of that name.

    Examples
    --------
    >>> own_name("condition"), own_name("length")
    ('condition', 'own_length')
    """
    return f"own_{name}" if name in STUDY_TABLE_COLUMNS or EARLIER.fullmatch(name) else name


def _whole_numbers(lengths: Floats) -> Any:
    """Return lengths as whole numbers, if all of them are."""
    known = lengths[np.isfinite(lengths)]
    return pd.Series(lengths).astype("Int64").array if np.all(known == np.round(known)) else lengths
