"""From a table to the same rows with surprisals: checked first, then scored with one model after the other."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.words import define
from wordprob.errors import InputError, InputWarning, OptionError
from wordprob.models.registry import (
    ModelIdentity,
    check_model,
    distinct_labels,
    identity_of,
    is_on_server,
    model_label,
)
from wordprob.options import DEFAULT_MODEL, ModelOptions, ScoringOptions
from wordprob.scoring.loading import load
from wordprob.scoring.progress import progress_callback
from wordprob.scoring.requests import Progress
from wordprob.scoring.scorer import Scorer
from wordprob.scoring.word_choice import Words
from wordprob.tables import columns, formats, regions
from wordprob.tables.columns import ModelColumns
from wordprob.tables.formats import ExtendedSheet
from wordprob.tables.formats.base import check_rows
from wordprob.tables.frames import pick_texts
from wordprob.tables.layout import Layout, Offsets, lay_out, parse_columns, with_marks
from wordprob.tables.metadata import table_metadata
from wordprob.tables.predictors import PREDICTOR_METADATA, add_predictors
from wordprob.tables.result import ScoredTable, WordTable
from wordprob.tables.schema import SERVER_BOUNDS, estimate_columns, further_estimates
from wordprob.tables.stimulus_table import DEFAULT_FREQUENCIES, StimulusTable
from wordprob.tables.targets import targets_after_contexts, with_targets

if TYPE_CHECKING:
    import pandas as pd

Model = str | Path | ModelOptions | Scorer
"""What a model can be given as: its name, its name and how to open it, or a scorer that holds it."""


@dataclass(frozen=True)
class Stimuli(StimulusTable):
    """A table that has been read and checked, and can be scored."""

    def check_columns(
        self,
        labels: Sequence[str],
        shape: str,
        extras: Collection[str] = (),
        estimates: Collection[str] = (),
    ) -> None:
        """Raise, before a model is loaded, unless the new columns have names that the table does not have.

        Parameters
        ----------
        labels
            The names of the models, from :func:`check_models`.
        shape
            ``long`` or ``wide``.
        extras
            As for :meth:`wordprob.Scorer.score`.
        estimates
            The names of further estimates, from :func:`wordprob.tables.schema.further_estimates`.
        """
        if any(map(is_on_server, labels)):
            estimates = [*estimates, *SERVER_BOUNDS]
        names = columns.expected_columns(self, extras, estimates)
        columns.check_new_columns(self, names, labels, shape)

    def score(
        self,
        models: Model | Sequence[Model] = DEFAULT_MODEL,
        *,
        options: ScoringOptions | None = None,
        shape: str = "long",
        load_options: Mapping[str, Any] | None = None,
        progress: Progress | bool | None = None,
        **scoring: Any,
    ) -> ScoredTable:
        """Score the texts with each model in turn, and put the surprisals behind the rows.

        Parameters
        ----------
        models
            One model or several.
        options
            How to score. What a word is was decided when the table was read.
        shape
            For several models: ``long`` or ``wide``.
        load_options
            For models given by name: further arguments of :func:`wordprob.load`.
        progress
            ``True`` shows a progress bar. Or a function that is called with the number of texts that are done and the
            number of all texts, over all models.
        **scoring
            Arguments of :meth:`wordprob.Scorer.score`, which override ``options``.
        """
        models = _as_models(models)
        arguments = scoring_arguments(options, scoring)
        labels = check_models(models)
        estimates = further_estimates(arguments.get("estimators", ()), arguments.get("spellings", "own"))
        self.check_columns(labels, shape, arguments.get("extras", ()), estimates)
        distinct_texts, number_of_text = self._distinct_texts()
        n_distinct = len(distinct_texts)
        results: dict[str, ModelColumns] = {}
        metadata: dict[str, dict[str, Any]] = {}
        with progress_callback(progress) as advance:
            for n, (label, model) in enumerate(zip(labels, models, strict=True)):
                shown = _offset_progress(advance, n * n_distinct, len(models) * n_distinct)
                table = self._score_texts(model, load_options or {}, distinct_texts, progress=shown, **arguments)
                results[label] = self._new_columns(table, number_of_text)
                metadata[label] = table.metadata
                columns.check_new_columns(self, list(results[label].added.columns), labels, shape)
                gc.collect()  # the memory of a model that was opened here is free before the next one is loaded
        return self._assemble(results, metadata, shape)

    def _distinct_texts(self) -> tuple[list[int], list[int]]:
        """Return the positions of the texts to score, each once, and for every text which of them it is."""
        layout = self.layout
        word_lists: Sequence[Sequence[str | Offsets]] = [[]] * len(layout.texts)
        word_lists = layout.places or layout.words or word_lists
        before = layout.contexts or self.sources() or [""] * len(layout.texts)
        positions: dict[tuple[str, str, tuple[str | Offsets, ...]], int] = {}
        keys = []
        for position, (context, text, words) in enumerate(zip(before, layout.texts, word_lists, strict=True)):
            keys.append((context, text, tuple(words)))
            positions.setdefault(keys[-1], position)
        # Targets after the same context, or after contexts that begin alike, are scored together.
        chosen = list(positions) if layout.contexts is None else sorted(positions)
        numbers = {key: number for number, key in enumerate(chosen)}
        return [positions[key] for key in chosen], [numbers[key] for key in keys]

    def _score_texts(
        self, model: Model, load_options: Mapping[str, Any], positions: Sequence[int], **scoring: Any
    ) -> WordTable:
        """Score the texts at these positions; a model that is opened here is not kept."""
        scorer = _open_scorer(model, load_options)
        words: Words = self.words
        if self.layout.places is not None:
            words = [self.layout.places[position] for position in positions]
        elif self.layout.words is not None:
            words = [self.layout.words[position] for position in positions]
        texts = [self.layout.texts[position] for position in positions]
        if self.layout.contexts is not None:
            contexts = [self.layout.contexts[position] for position in positions]
            return scorer.score_continuations(contexts, texts, words, separator=self.separator, **scoring)
        sources = self.sources()
        if sources is not None:
            scoring["sources"] = [sources[position] for position in positions]
        return scorer.score(texts, words, **scoring)

    def _new_columns(self, table: WordTable, number_of_text: Sequence[int]) -> ModelColumns:
        """Return the columns that one model adds."""
        words, texts = _repeat_texts(table, number_of_text)
        if self.layout.word_column is not None:
            words["note"] = _notes_on_cells(words)
        if self.predictors:
            words = self._with_predictors(words)
        if self.sum_by is not None:
            added = regions.add_up(words, self.layout.texts, self.regions())
        elif self.layout.spans is not None and self.per_word:
            added = words.assign(region=regions.region_names(words, self.layout.spans))
            if self.layout.contexts is not None:
                added = regions.with_wordless(added, self.layout.texts, self.layout.spans, self.layout.unscored)
        elif self.layout.spans is not None:
            added = regions.add_up_spans(words, self.layout.texts, self.layout.spans, self.layout.unscored)
        elif self.rows_are_words:
            added = words
        else:
            added = columns.text_columns(words, texts, table.unit)
        return ModelColumns(added[columns.without_own_numbers(self, list(added.columns))], words, texts)

    def _with_predictors(self, words: pd.DataFrame) -> pd.DataFrame:
        """Return the words with length, frequency and the values of the words before them; ``note`` stays last."""
        from wordprob.analysis.frequencies import unigrams, zipf

        source = self.frequencies or DEFAULT_FREQUENCIES
        frequency = zipf(words["word"], unigrams(source))
        without = [f"no frequency in {source}" if unknown else "" for unknown in np.isnan(frequency)]
        notes = ["; ".join(filter(None, both)) for both in zip(words["note"], without, strict=True)]
        estimates = ["surprisal", *estimate_columns(words.columns)]
        return add_predictors(words.drop(columns="note"), frequency, estimates).assign(note=notes)

    def _assemble(self, results: Mapping[str, ModelColumns], metadata: Mapping[str, Any], shape: str) -> ScoredTable:
        """Put the columns of all models behind the rows."""
        first = next(iter(results.values()))
        sheet, rows = self.own_rows(first.texts)
        if shape == "long":
            rows = np.tile(rows, len(results))
        added = columns.combine({label: result.added for label, result in results.items()}, shape, self.prefix)
        words = columns.stack({label: result.words for label, result in results.items()})
        texts = columns.stack({label: result.texts for label, result in results.items()})
        return ScoredTable(
            words,
            self._with_groups(texts, len(results)),
            self._table_metadata(metadata),
            ExtendedSheet(sheet, rows, added),
        )

    def _table_metadata(self, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the metadata of the table: what all models have in common, and where the texts come from."""
        layout = {**self.layout.to_metadata(), "sum_by": self.sum_by or "", "prefix": self.prefix}
        if self.layout.contexts is not None:
            layout["separator"] = self.separator
        if self.predictors:
            layout |= {"frequencies": self.frequencies or DEFAULT_FREQUENCIES, **PREDICTOR_METADATA}
        return table_metadata(metadata, self.sheet.name, layout)

    def _with_groups(self, texts: pd.DataFrame, n_models: int) -> pd.DataFrame:
        """Put the columns of their groups before the texts."""
        for name in reversed(self.layout.group_by):
            cells = self.sheet.cells(name)
            groups = [cells[rows[0]] for rows in self.layout.rows]
            texts = texts.drop(columns=name, errors="ignore")
            texts.insert(0, name, groups * n_models)
        return texts


def read_stimuli(
    table: Any,
    *,
    input_format: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    text_column: str | None = None,
    word_column: str | None = None,
    group_by: str | Sequence[str] | None = None,
    space_after: str | None = None,
    words: str = "whitespace",
    per_word: bool = False,
    sum_by: str | None = None,
    prefix: str = "",
    context_column: str | None = None,
    target_column: str | Sequence[str] | None = None,
    separator: str = " ",
    marks: str | None = None,
    region_names: str | Sequence[str] = (),
    start_column: str | None = None,
    end_column: str | None = None,
    offsets: bool = False,
    name: str | None = None,
    encoding: str | None = None,
    predictors: bool = False,
    frequencies: str | None = None,
    source_column: str | None = None,
) -> Stimuli:
    """Read a table and check all that can be checked without a model; parameters as for :func:`score_table`."""
    _check_strings(
        input_format=input_format,
        sheet=sheet,
        decimal=decimal,
        encoding=encoding,
        text_column=text_column,
        word_column=word_column,
        space_after=space_after,
        words=words,
        sum_by=sum_by,
        prefix=prefix,
        context_column=context_column,
        separator=separator,
        marks=marks,
        frequencies=frequencies,
        start_column=start_column,
        end_column=end_column,
        source_column=source_column,
    )
    opened = open_table(table, input_format=input_format, sheet=sheet, decimal=decimal, name=name, encoding=encoding)
    target_columns = parse_columns(opened, target_column, "target_column")
    if context_column is not None:
        _check_alone(
            text_column=text_column,
            word_column=word_column,
            group_by=group_by,
            space_after=space_after,
            sum_by=sum_by,
            start_column=start_column,
            end_column=end_column,
            marks=marks,
            region_names=region_names,
            predictors=predictors,
            source_column=source_column,
        )
        if not target_columns:
            raise OptionError("`context_column` needs `target_column`: the column that holds what is scored after it.")
        layout = targets_after_contexts(opened, context_column, target_columns)
    else:
        layout = lay_out(opened, text_column, word_column, group_by, space_after, sum_by, start_column, end_column)
        layout = _with_regions(layout, opened, target_columns, marks, _names(region_names))
    stimuli = Stimuli(
        opened, layout, words, per_word, sum_by, prefix, predictors, frequencies, offsets, separator, source_column
    )
    _check_predictors(stimuli)
    if source_column is not None:
        opened.require(source_column)
        stimuli.sources()
    if offsets and not stimuli.rows_are_words:
        raise OptionError("`offsets` are those of words, and this table has a text on each row; use `per_word`.")
    if offsets and layout.by_offsets:
        raise OptionError(f"{opened.name} has its offsets in '{start_column}' and '{end_column}'; leave `offsets` out.")
    if layout.by_word and words != "whitespace":
        raise OptionError(f"the rows of {opened.name} are the words; `words` is for a text on each row.")
    if layout.by_word and per_word:
        raise OptionError(f"{opened.name} has a row for each word already; `per_word` is for a text on each row.")
    if sum_by is not None:
        if not layout.by_word:
            raise OptionError("`sum_by` is for a word on each row; name that column with `word_column`.")
        opened.require(sum_by)
        if not stimuli.regions():
            raise InputError(f"{opened.name}: column '{sum_by}' names no region on any row.")
    define(words)
    return stimuli


def _check_alone(**options: Any) -> None:
    """Raise if an option is specified that means nothing beside ``context_column``."""
    for name, value in options.items():
        if value:
            raise OptionError(
                f"`{name}` does not go with `context_column`, after which targets are scored; leave it out."
            )


def _check_predictors(stimuli: Stimuli) -> None:
    """Raise unless the result has a row for each word, and there are frequencies, where predictors are wanted."""
    from wordprob.analysis.frequencies import unigrams

    if not stimuli.predictors:
        if stimuli.frequencies is not None:
            raise OptionError("`frequencies` is for `predictors`; specify both.")
        return
    if stimuli.sum_by is not None:
        raise OptionError("`predictors` belong to words, and `sum_by` adds words up; leave one of them out.")
    if stimuli.adds_up or not stimuli.rows_are_words:
        what = "regions" if stimuli.adds_up else "texts"
        advice = "add `per_word`" if stimuli.layout.text_column else "leave `marks` out"
        raise OptionError(f"`predictors` belong to words, and the rows of the result are {what}; {advice}.")
    unigrams(stimuli.frequencies or DEFAULT_FREQUENCIES)


def open_table(
    table: Any, *, input_format: str | None = None, name: str | None = None, **reading: Any
) -> formats.Sheet:
    """Return a data frame or a file as a table that has rows; parameters as for :func:`score_table`."""
    opened = formats.read(_as_source(table), input_format, name=name, **reading)
    check_rows(len(opened), opened.name)
    return opened


def _with_regions(
    layout: Layout, sheet: formats.Sheet, target_columns: Sequence[str] | None, marks: str | None, names: Sequence[str]
) -> Layout:
    """Return the layout with the regions that a column names or that marks show."""
    if names and marks is None:
        raise OptionError("`region_names` names the regions that are marked in the texts; specify `marks` too.")
    if not target_columns and marks is None:
        return layout
    if layout.by_word:
        raise OptionError(
            "`target_column` and `marks` are for a text on each row; for a word on each row name regions with `sum_by`."
        )
    if not target_columns:
        return with_marks(layout, str(marks), names, sheet.place)
    if marks is not None:
        raise OptionError("`target_column` and `marks` both say which words are asked about; specify one of them.")
    return with_targets(layout, sheet, target_columns)


def _names(names: str | Sequence[str]) -> list[str]:
    """Return names from a list, or from a string with commas between them."""
    if not isinstance(names, str):
        return list(names)
    return [name.strip() for name in names.split(",") if name.strip()]


def _as_source(table: Any) -> Any:
    """Return a table as the formats take it; data frames of other packages become those of pandas."""
    import pandas as pd

    if isinstance(table, str | Path | bytes | pd.DataFrame):
        return table
    if isinstance(table, pd.Series) or not hasattr(table, "to_pandas"):
        raise InputError(
            f"a table is a data frame or a file, not a {type(table).__name__}. For texts use scorer.score(texts); to "
            "make a data frame, pandas.DataFrame(…)."
        )
    frame = table.to_pandas()
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"a table is a data frame or a file, not a {type(table).__name__}.")
    return frame


def _check_strings(**options: Any) -> None:
    """Raise unless options that are names or texts are strings."""
    for name, value in options.items():
        if value is not None and not isinstance(value, str):
            raise OptionError(f"`{name}` is {value!r}; it must be a string.")


def stimuli_from_texts(
    texts: Sequence[str],
    words: str | Sequence[Sequence[str]] = "whitespace",
    prefix: str = "",
    name: str = "the texts",
    marks: str | None = None,
    region_names: str | Sequence[str] = (),
    predictors: bool = False,
    frequencies: str | None = None,
) -> Stimuli:
    """Return plain texts as a table without columns; the result has a row for each word.

    Parameters
    ----------
    texts
        The texts.
    words
        What a word is, or the words of each text.
    prefix
        What the names of all columns begin with.
    name
        What the texts are called in messages and in the metadata: their file, for example.
    marks, region_names
        As for :func:`score_table`; the result then has a row for each region.
    predictors, frequencies
        As for :func:`score_table`.
    """
    import pandas as pd

    user_words = None if isinstance(words, str) else [list(words_of_text) for words_of_text in words]
    layout = Layout(list(texts), user_words, [[position] for position in range(len(texts))])
    no_columns = formats.Frame(pd.DataFrame(index=range(len(texts))), name)
    definition = words if isinstance(words, str) else "whitespace"
    if marks is not None and user_words is not None:
        raise OptionError("`marks` is for words that a rule finds, not for lists of words.")
    layout = _with_regions(layout, no_columns, None, marks, _names(region_names))
    stimuli = Stimuli(no_columns, layout, definition, marks is None, None, prefix, predictors, frequencies)
    _check_predictors(stimuli)
    return stimuli


def score_table(
    table: Any,
    model: Model | Sequence[Model] = DEFAULT_MODEL,
    *,
    text_column: str | None = None,
    word_column: str | None = None,
    group_by: str | Sequence[str] | None = None,
    space_after: str | None = None,
    words: str = "whitespace",
    per_word: bool = False,
    sum_by: str | None = None,
    context_column: str | None = None,
    target_column: str | Sequence[str] | None = None,
    separator: str = " ",
    marks: str | None = None,
    region_names: str | Sequence[str] = (),
    start_column: str | None = None,
    end_column: str | None = None,
    offsets: bool = False,
    shape: str = "long",
    prefix: str = "",
    unit: str = "bits",
    input_format: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    predictors: bool = False,
    frequencies: str | None = None,
    source_column: str | None = None,
    load_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    **scoring: Any,
) -> ScoredTable:
    """Score a table of stimuli: the same rows come back, with new columns behind the old ones.

    Parameters
    ----------
    table
        A data frame, or a CSV, TSV, JSON-lines, Parquet or Excel file.
    model
        A name as for :func:`wordprob.load`, a :class:`wordprob.options.ModelOptions`, a scorer, or several of them,
        which are loaded one after the other.
    text_column
        The column that holds a text on each row; the new columns describe whole texts.
    word_column
        The column that holds a word on each row; the new columns describe words. With ``text_column`` as well, the
        text is as that column has it, on every row, and the words are looked up in it.
    group_by
        The columns that tell which rows make a text. Rows of a text stand together, in the order of its words.
    space_after
        A column of true and false: whether a space comes after the word. By default one always does.
    words
        What a word is, for a text on each row: ``whitespace``, ``punctuation`` or ``regex:PATTERN``.
    per_word
        For a text on each row: return a row for each word, with the columns of its text.
    sum_by
        For a word on each row: return a row for each region, consecutive words with the same value in this column.
    target_column
        For a text on each row: the column that holds the critical word or words of the text. The new columns describe
        these words only. Several columns (a list, or names with commas) give a row for each, and ``region`` says which.
    context_column
        For a context on each row: the column that holds it. Only the targets of ``target_column`` are scored, as what
        comes next; a context that several rows share is run once. A row without a context or a target has no value.
    separator
        What stands between context and target, unless either brings white space of its own.
    marks
        For a text on each row: ``stars`` if the text marks its regions as in ``The puppet *fell* down.``, ``bars`` if
        it is divided as in ``The puppet | fell | down.`` There is a row for each region, and marks are not scored.
    region_names
        The names of such regions, in their order; their numbers by default.
    start_column, end_column
        For a stretch of a text on each row: the columns that say where it starts and ends in the text of
        ``text_column``, in characters from 0; ``text[start:end]`` is scored. Rows with the same text stand together.
    offsets
        For a word on each row: add where the word starts and ends in its text.
    shape
        For several models: ``long`` (a column says which) or ``wide`` (columns end in the model's name).
    prefix
        Put before the names of all new columns.
    unit
        ``bits`` or ``nats``.
    input_format, sheet, decimal, encoding
        The format of a file without the usual extension, the sheet of a workbook, the decimal mark of what is added to
        a CSV file, and the encoding of a text file, where the file does not show them.
    predictors
        Add what a regression needs besides surprisal: ``length``, ``frequency``, and the surprisals, lengths and
        frequencies of the three words before (``surprisal_prev1``, …), which are missing where a text begins.
    frequencies
        Where frequencies come from: ``wordfreq:LANGUAGE``, or a file of words and counts or log p. English by default.
    source_column
        For encoder–decoder models: the column that holds the source of each text, such as the sentence that the text
        translates.
    load_options
        For models given by name: ``device``, ``dtype`` and so on, as for :func:`wordprob.load`.
    progress
        ``True`` shows a progress bar. Or a function that is called with the numbers of texts done and in all.
    **scoring
        Further arguments of :meth:`wordprob.Scorer.score`, for example ``min_context``.

    Examples
    --------
    >>> import pandas as pd
    >>> stimuli = pd.DataFrame({"item": [1, 1, 1], "word": ["She", "saw", "the"], "rt": [310, 287, 255]})
    >>> scored = score_table(stimuli, "exact:bow", group_by="item").to_pandas()
    >>> scored[["word", "rt", "surprisal"]].round(2).values.tolist()
    [['She', 310, 1.25], ['saw', 287, 0.61], ['the', 255, 0.74]]
    """
    stimuli = read_stimuli(
        table,
        input_format=input_format,
        sheet=sheet,
        decimal=decimal,
        text_column=text_column,
        word_column=word_column,
        group_by=group_by,
        space_after=space_after,
        words=words,
        per_word=per_word,
        sum_by=sum_by,
        context_column=context_column,
        target_column=target_column,
        separator=separator,
        marks=marks,
        region_names=region_names,
        start_column=start_column,
        end_column=end_column,
        offsets=offsets,
        prefix=prefix,
        encoding=encoding,
        predictors=predictors,
        frequencies=frequencies,
        source_column=source_column,
    )
    guesses = [stimuli.guesses()] if "group_by" in stimuli.layout.guessed else []
    for remark in [*guesses, *stimuli.warnings()]:
        warnings.warn(remark, InputWarning, stacklevel=2)
    return stimuli.score(model, shape=shape, unit=unit, load_options=load_options, progress=progress, **scoring)


def scoring_arguments(options: ScoringOptions | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of :meth:`wordprob.Scorer.score` from options and from arguments that override them.

    ``words`` is not among them, as it depends on the table.
    """
    arguments = {} if options is None else options.to_dict("words")
    if not arguments.get("estimators"):
        arguments.pop("estimators", None)
    return {**arguments, **overrides}


def check_models(models: Sequence[Model]) -> list[str]:
    """Return the names that tables use for models, each another one.

    Raises, before any is loaded, if a model does not exist or is named twice.
    """
    if not models:
        raise OptionError("no model was named.")
    return distinct_labels([_identity(model) for model in models])


def _as_models(models: Model | Sequence[Model]) -> list[Model]:
    """Return one model or several as a list; raise for what is none."""
    given: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
    for model in given:
        if not isinstance(model, Model):
            raise OptionError(
                f"a model is a name, a path, a ModelOptions or a Scorer, not a {type(model).__name__}: {model!r:.60}"
            )
    return given


def _identity(model: Model) -> ModelIdentity:
    if isinstance(model, Scorer):
        about = model.model.metadata
        path = Path(about["path"]) if "path" in about else None
        return ModelIdentity(model_label(about.get("model", "model")), path, about.get("revision", ""))
    options = model if isinstance(model, ModelOptions) else ModelOptions(model=str(model))
    check_model(options)
    return identity_of(options)


def _open_scorer(model: Model, load_options: Mapping[str, Any]) -> Scorer:
    if isinstance(model, Scorer):
        return model
    if isinstance(model, ModelOptions):
        return load(**model.to_dict())
    return load(model, **load_options)


def _offset_progress(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Return a progress function that counts on from what earlier models have done."""
    if progress is None:
        return None
    return lambda n, _: progress(done + n, total)


def _repeat_texts(table: WordTable, number_of_text: Sequence[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the words and the summary of all texts, where equal texts were scored once.

    ``number_of_text`` says for each text which of the scored ones it is.
    """
    words, texts = pick_texts(table.words(), table.texts(), number_of_text)
    words["text_id"] = np.repeat(np.arange(len(texts)), texts["n_words"].to_numpy(dtype=np.int64))
    texts["text_id"] = range(len(texts))
    return words, texts


def _notes_on_cells(words: pd.DataFrame) -> list[str]:
    """Return the notes of words; a cell that holds several words has a note about that as well."""
    notes = []
    for cell, note in zip(words["word"].tolist(), words["note"].tolist(), strict=True):
        n_words = len(cell.split())
        together = f"{n_words} words in one cell, taken together" if n_words > 1 else ""
        notes.append("; ".join(filter(None, [note, together])))
    return notes
