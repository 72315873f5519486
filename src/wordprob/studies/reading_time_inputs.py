"""What a reading-time study is prepared into, whichever way its words and times come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.analysis import folds
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.frequencies import unigrams
from wordprob.analysis.input_tables import read_table, require
from wordprob.analysis.reading_time_preparation import with_unigrams
from wordprob.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.core.arrays import Ints
    from wordprob.studies.study_options import ReadingTimesOptions


@dataclass(frozen=True)
class CorpusToScore:
    """Words with reading times, and the texts that a model is to score.

    Attributes
    ----------
    name, title
        What the corpus is called in result files, and in tables and figures.
    source
        What messages call it.
    texts
        The texts, in the order of the rows.
    rows
        A row for each word: ``text_id``, ``word_id``, ``word``, ``time``, ``word_len``, ``freq``.
    readings
        A row for each participant and word, where the times are means of them.
    """

    name: str
    title: str
    source: str
    texts: Sequence[str] = field(repr=False)
    rows: pd.DataFrame = field(repr=False)
    readings: pd.DataFrame | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PreparedStudy:
    """What is ready to be scored or analysed, and where it came from.

    Attributes
    ----------
    to_score
        Corpora that models are to score.
    scored
        Corpora that came with surprisals.
    provenance
        Frequencies, cleaning, files and the like.
    """

    to_score: Sequence[CorpusToScore] = ()
    scored: Sequence[Dataset] = ()
    provenance: dict[str, Any] = field(default_factory=dict)


def add_unigrams(rows: pd.DataFrame, chosen: str | None, language: str) -> tuple[pd.DataFrame, str | None]:
    """Add unigram surprisals where needed, and return where they come from; ``None`` if the rows had them already."""
    source = chosen
    if source is None and "freq" not in rows.columns:
        source = f"wordfreq:{language}"
    if source is None:
        return rows, None
    return with_unigrams(rows, unigrams(source)), source


# --- folds -----------------------------------------------------------------------------------------------------------


def dataset(
    corpus: str,
    model: str,
    rows: pd.DataFrame,
    options: ReadingTimesOptions,
    corpora: Sequence[str],
    source: str = "",
    title: str = "",
    readings: pd.DataFrame | None = None,
) -> Dataset:
    """Return one corpus scored by one model, with the folds that were given for it; ``corpora`` names all of them."""
    return Dataset(corpus, model, rows, _given_folds(corpus, rows, options, corpora, source), source, title, readings)


def _given_folds(
    corpus: str, rows: pd.DataFrame, options: ReadingTimesOptions, corpora: Sequence[str], source: str
) -> Ints | None:
    """Return the fold of every row, if folds were given."""
    if options.fold_column:
        require(rows, [options.fold_column], source or corpus)
        return folds.look_up(rows, rows.assign(fold=rows[options.fold_column]), source or corpus)
    if not options.fold_files:
        return None
    path = _fold_file(corpus, fold_files(options), set(corpora))
    return folds.look_up(rows, read_table(path), str(path))


def fold_files(options: ReadingTimesOptions) -> list[Path]:
    """Return the files of folds: those named, and those in folders named."""
    files = []
    for path in map(Path, options.fold_files):
        files += sorted(path.glob("*.tsv")) if path.is_dir() else [path]
    return files


def _fold_file(corpus: str, files: Sequence[Path], corpora: set[str]) -> Path:
    if len(files) == 1 and len(corpora) == 1:
        return files[0]
    for file in files:
        if file.stem == corpus:
            return file
    names = ", ".join(file.name for file in files) or "none"
    raise InputError(
        f"no folds for {corpus}: with several corpora, `fold_files` needs a file {corpus}.tsv; there is: {names}."
    )
