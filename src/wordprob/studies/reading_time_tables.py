"""Reading times from users' tables: a row for each word, or for each participant and word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wordprob.analysis.input_tables import numbers, read_table
from wordprob.analysis.reading_time_preparation import (
    Cleaning,
    StudyColumns,
    cleaning_record,
    mark_used,
    readings_of,
    texts_of,
    words_and_times,
)
from wordprob.errors import InputError, OptionError
from wordprob.sources.plain_text import read_lines
from wordprob.studies.reading_time_inputs import CorpusToScore, PreparedStudy, add_unigrams, dataset

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.studies.study_options import ReadingTimesOptions


def prepare_tables(paths: Sequence[Path], options: ReadingTimesOptions, to_score: bool) -> PreparedStudy:
    """Read tables, clean and average their times, and add unigram surprisals.

    Parameters
    ----------
    paths
        The files.
    options
        Which columns hold what, and which times count.
    to_score
        Whether models will score the words; otherwise the tables hold surprisals.
    """
    provenance: dict[str, Any] = {"frequencies": {}, "cleaning": {}}
    tables = [_read_words(path, options, provenance) for path in paths]
    if to_score:
        return PreparedStudy(to_score=_corpora_to_score(tables, options), provenance=provenance)
    corpora = [corpus_and_model(path)[0] for path in paths]
    scored = []
    for table in tables:
        corpus, model = corpus_and_model(table.path)
        scored.append(dataset(corpus, model, table.rows, options, corpora, source=str(table.path)))
    return PreparedStudy(scored=scored, provenance=provenance)


class TableOfWords(NamedTuple):
    """A table that was read: a row for each word, and for each participant and word if it has those."""

    path: Path
    rows: pd.DataFrame
    readings: pd.DataFrame | None


def _read_words(path: Path, options: ReadingTimesOptions, provenance: dict[str, Any]) -> TableOfWords:
    """Return the words of a table and their times, and note in ``provenance`` how the times were cleaned."""
    source = str(path)
    table = read_table(path)
    cleaning = Cleaning(options.outliers, options.skipped)
    columns = _columns(table, options)
    rows = words_and_times(_with_usual_names(table), columns, cleaning, source)
    readings = None
    if options.participant:
        times = numbers(table, options.time_column, source)
        provenance["cleaning"][source] = cleaning_record(times, cleaning)
        readings = mark_used(readings_of(table, columns, source), cleaning)
    rows, frequencies = add_unigrams(rows, options.frequencies, "en")
    provenance["frequencies"][source] = frequencies or "its column freq"
    return TableOfWords(path, rows, readings)


def _with_usual_names(table: pd.DataFrame) -> pd.DataFrame:
    """Rename the naive estimate, which the authors' tables call buggy."""
    return table.rename(columns=lambda name: str(name).replace("surprisal_buggy", "surprisal_naive"))


def _columns(table: pd.DataFrame, options: ReadingTimesOptions) -> StudyColumns:
    def usual(name: str) -> str | None:
        return name if name in table.columns else None

    return StudyColumns(
        word=options.word_column,
        time=options.time_column,
        text=options.group_by or usual("text_id"),
        position=options.position_column or usual("word_id"),
        participant=options.participant,
    )


def corpus_and_model(path: Path) -> tuple[str, str]:
    """Return the corpus and the model that a file's name tells: ``CORPUS-MODEL.tsv``.

    Examples
    --------
    >>> corpus_and_model(Path("provo-gpt2-small.tsv"))
    ('provo', 'gpt2-small')
    """
    corpus, _, model = path.stem.partition("-")
    return corpus, model or "surprisal"


def _corpora_to_score(tables: Sequence[TableOfWords], options: ReadingTimesOptions) -> list[CorpusToScore]:
    """Return the texts of each table: as they were read, if they were given, else its words joined by spaces."""
    names = [table.path.stem for table in tables]
    if len(set(names)) < len(names):
        raise InputError(
            f"two tables have the same name: {', '.join(names)}. Rename one: a corpus is named after its file."
        )
    if options.texts and len(tables) > 1:
        raise OptionError("`texts` can be used with one table only.")
    corpora = []
    for path, rows, readings in tables:
        if options.texts:
            texts = [line for line in read_lines(options.texts) if line.strip()]
        else:
            texts = [" ".join(words) for words in texts_of(rows).values()]
        corpora.append(CorpusToScore(path.stem, "", str(path), texts, rows, readings))
    return corpora
