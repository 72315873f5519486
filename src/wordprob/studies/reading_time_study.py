"""The reading-time study: how much surprisal helps to predict reading times, and what the correction changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wordprob.analysis import outputs
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.reading_time_preparation import texts_of, with_surprisals
from wordprob.analysis.reading_time_results import ReadingTimesResult
from wordprob.analysis.reading_times import ReadingTimesProtocol, analyse
from wordprob.analysis.study_table import StudyTable
from wordprob.errors import OptionError
from wordprob.options import ScoringOptions
from wordprob.scoring.loading import Model, open_scorer
from wordprob.studies.reading_time_corpora import prepare_corpora
from wordprob.studies.reading_time_inputs import CorpusToScore, PreparedStudy, dataset, fold_files
from wordprob.studies.reading_time_tables import prepare_tables
from wordprob.studies.study_models import (
    StudyProgress,
    as_list,
    model_labels,
    options_record,
    score_texts,
)
from wordprob.studies.study_options import ReadingTimesOptions, check_scoring, parse_sizes

TABLE_OPTIONS = ("word_column", "time_column", "group_by", "position_column", "participant", "texts", "fold_column")
"""Options that say something about users' tables, and nothing about corpora."""

PARTICIPANT_OPTIONS = ("outliers", "skipped")
"""Options that say which of the participants' times count."""

SCORING_OPTIONS = ("boundary", "min_context", "max_context", "spellings", "tolerance", "max_open", "readers")
"""The options of scoring that this study uses: its words are those that were read, its unit is nats."""


def reading_times(
    tables: str | Path | Sequence[str | Path] = (),
    corpora: str | Sequence[str] = (),
    models: Model | Sequence[Model] = (),
    options: ReadingTimesOptions | None = None,
    *,
    scoring: ScoringOptions | None = None,
    progress: StudyProgress | None = None,
    download_progress: StudyProgress | None = None,
    **named_options: Any,
) -> ReadingTimesResult:
    """Measure how much surprisal helps to predict reading times, naive and corrected.

    Parameters
    ----------
    tables
        Files with a row for each word, or for each participant and word. Without ``models`` they hold surprisals
        (``surprisal``, and ``surprisal_naive`` or ``surprisal_buggy``), and a file called ``CORPUS-MODEL.tsv`` names
        both.
    corpora
        Corpora by name, instead of tables; :func:`wordprob.corpora.names` lists them.
    models
        Models that score the words first: names, paths, :class:`wordprob.options.ModelOptions`, or open scorers.
    options
        Columns, cleaning, regressions and folds.
    scoring
        How models score: ``min_context``, ``max_context`` and ``readers`` are used.
    progress
        Called with a description, the texts scored so far and the number of texts.
    download_progress
        Called with a file's name, the bytes fetched so far and the number of bytes.
    named_options
        Fields of :class:`ReadingTimesOptions` by name, instead of ``options`` or on top of them.

    Returns
    -------
    ReadingTimesResult
        Data frames, and the provenance of the numbers; its method ``write`` makes the folder of results.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile
    >>> words = "She saw the mark She saw the marker".split() * 15
    >>> times = 200 + 20 * np.array([len(word) for word in words]) + np.random.default_rng(1).normal(0, 9, len(words))
    >>> folder = Path(tempfile.mkdtemp())
    >>> table = pd.DataFrame({"text_id": np.arange(len(words)) // 4, "word": words, "time": times, "freq": 1.0})
    >>> table.to_csv(folder / "mine.csv", index=False)
    >>> result = reading_times(folder / "mine.csv", models="exact:bow", baseline="time ~ word_len", spillover=0)
    >>> result.models, result.summary["contrast"].tolist()
    (['exact:bow'], ['corrected - baseline', 'naive - baseline', 'corrected - naive'])
    >>> sorted(path.name for path in result.write(folder / "results").iterdir())[:3]
    ['coefficients.tsv', 'delta_llh.tsv', 'figure.pdf']
    """
    inputs = StudyInputs.given(tables, corpora, models, options, scoring, named_options)
    protocol = _protocol(inputs.options)
    sizes = parse_sizes(inputs.options.sizes)
    words = _read_and_score(inputs, progress, download_progress)
    result = analyse(words.datasets, protocol, sizes)
    return replace(result, provenance={**result.provenance, **words.metadata}, words=words)


def reading_time_table(
    tables: str | Path | Sequence[str | Path] = (),
    corpora: str | Sequence[str] = (),
    models: Model | Sequence[Model] = (),
    options: ReadingTimesOptions | None = None,
    *,
    scoring: ScoringOptions | None = None,
    progress: StudyProgress | None = None,
    download_progress: StudyProgress | None = None,
    **named_options: Any,
) -> StudyTable:
    """Join reading times, surprisals, lengths and frequencies, for regressions elsewhere; nothing is fitted.

    The parameters are those of :func:`reading_times`. Its result has the same table as ``result.words``.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.csv"
    >>> words = pd.DataFrame({"word": "She saw the mark".split(), "time": [310, 287, 255, 301], "freq": 1.0})
    >>> words.to_csv(path, index=False)
    >>> table = reading_time_table(path, models="exact:bow")
    >>> table.to_pandas()[["word", "time", "surprisal", "surprisal_prev1"]].round(2).values.tolist()[1]
    ['saw', 287.0, 0.42, 0.87]
    """
    inputs = StudyInputs.given(tables, corpora, models, options, scoring, named_options)
    return _read_and_score(inputs, progress, download_progress)


@dataclass(frozen=True)
class StudyInputs:
    """What a study was given, checked as far as that is possible before anything is read."""

    tables: list[Path]
    corpora: list[str]
    models: list[Model]
    labels: list[str]
    options: ReadingTimesOptions
    scoring: ScoringOptions

    @classmethod
    def given(
        cls, tables: Any, corpora: Any, models: Any, options: Any, scoring: Any, named_options: dict[str, Any]
    ) -> StudyInputs:
        """Check the arguments of a study; they are those of :func:`reading_times`."""
        options = (options or ReadingTimesOptions()).updated(named_options)
        scoring = scoring or ScoringOptions()
        paths = [Path(path) for path in as_list(tables)]
        chosen_models: list[Model] = as_list(models)
        _check_inputs(paths, as_list(corpora), chosen_models, options)
        check_scoring(scoring, *SCORING_OPTIONS)
        return cls(paths, as_list(corpora), chosen_models, model_labels(chosen_models, scoring), options, scoring)


def _read_and_score(
    inputs: StudyInputs, progress: StudyProgress | None, download_progress: StudyProgress | None
) -> StudyTable:
    """Return the words of all corpora with their times and surprisals, and where they come from."""
    options, models = inputs.options, inputs.models
    if inputs.corpora:
        prepared = prepare_corpora(inputs.corpora, options, bool(models), download_progress)
    else:
        prepared = prepare_tables(inputs.tables, options, bool(models))
    datasets = list(prepared.scored)
    provenance = dict(prepared.provenance)
    if models:
        datasets, provenance["models"] = _score(prepared, models, inputs.labels, options, inputs.scoring, progress)
    provenance["inputs"] = outputs.checksums(_input_files(inputs.tables, options))
    used = {name: getattr(inputs.scoring, name) for name in SCORING_OPTIONS}
    sources = {"tables": inputs.tables, "corpora": inputs.corpora}
    provenance["options"] = options_record(sources, options, models, inputs.labels, used)
    return StudyTable(datasets, options.spillover, provenance)


def _check_inputs(
    tables: Sequence[Path], corpora: Sequence[str], models: Sequence[Model], options: ReadingTimesOptions
) -> None:
    """Raise if inputs and options contradict one another, or if an option would be ignored."""
    given = options.changed()
    if bool(tables) == bool(corpora):
        raise OptionError("specify either `tables` or `corpora`, and not both; for example the corpus provo.")
    if options.fold_files and options.fold_column:
        raise OptionError("specify `fold_files` or `fold_column`, and not both.")
    for name in TABLE_OPTIONS:
        if corpora and name in given:
            raise OptionError(f"`{name}` is about tables; the columns and texts of a corpus are known.")
    if tables and options.data_dir:
        raise OptionError("`data_dir` is the folder of corpora; name the files in it as `tables`.")
    if options.texts and not models:
        raise OptionError("`texts` need a model that scores them; specify a `model`.")
    for name in PARTICIPANT_OPTIONS:
        if tables and not options.participant and name in given:
            raise OptionError(f"`{name}` is about participants' times; specify their column as `participant`.")


def _protocol(options: ReadingTimesOptions) -> ReadingTimesProtocol:
    return ReadingTimesProtocol(
        baseline=options.baseline or "",
        predictors=options.predictors or "",
        spillover=options.spillover,
        folds=options.n_folds,
        seed=options.seed,
        correction=options.correction,
    )


def _input_files(tables: Sequence[Path], options: ReadingTimesOptions) -> list[str | Path]:
    return [*tables, *fold_files(options), options.texts or "", options.frequencies or ""]


# --- scoring ---------------------------------------------------------------------------------------------------------


def _score(
    prepared: PreparedStudy,
    models: Sequence[Model],
    labels: Sequence[str],
    options: ReadingTimesOptions,
    scoring: ScoringOptions,
    progress: StudyProgress | None,
) -> tuple[list[Dataset], dict[str, Any]]:
    """Score every corpus with every model; return the datasets, and the metadata of the models."""
    names = [corpus.name for corpus in prepared.to_score]
    datasets: list[Dataset] = []
    metadata: dict[str, Any] = {}
    for model, label in zip(models, labels, strict=True):
        scorer = open_scorer(model)
        for corpus in prepared.to_score:
            words = _words_to_score(corpus)
            table = score_texts(scorer, corpus.texts, words, scoring, f"{corpus.name}, {label}", progress)
            metadata[label] = table.metadata
            rows = with_surprisals(corpus.rows, table.to_pandas(), corpus.source)
            datasets.append(
                dataset(corpus.name, label, rows, options, names, title=corpus.title, readings=corpus.readings)
            )
    return datasets, metadata


def _words_to_score(corpus: CorpusToScore) -> str | list[list[str]]:
    """Return how the words of the texts are found: by white space, unless a word of the table contains some."""
    lists = list(texts_of(corpus.rows).values())
    for words in lists:
        if any(len(word.split()) != 1 for word in words):
            return lists
    return "whitespace"
