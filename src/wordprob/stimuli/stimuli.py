"""Stimuli that have been read and checked, and how they are scored: equal texts once, one model after the other.

The columns that models add go behind the rows of the table.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.errors import OptionError
from wordprob.models.registry import is_on_server
from wordprob.options import DEFAULT_MODEL, ScoringOptions
from wordprob.scoring.loading import Model, as_models, check_models, check_models_can_score, open_scorer
from wordprob.scoring.passages import Words
from wordprob.scoring.progress import progress_callback
from wordprob.scoring.requests import Progress
from wordprob.scoring.results import ScoredTable, WordTable
from wordprob.scoring.scorer import Scorer
from wordprob.tables import columns, regions
from wordprob.tables.columns import ModelColumns
from wordprob.tables.formats import ExtendedSheet
from wordprob.tables.frames import pick_texts
from wordprob.tables.layout import Offsets
from wordprob.tables.metadata import table_metadata
from wordprob.tables.predictors import PREDICTOR_METADATA, add_predictors
from wordprob.tables.schema import SERVER_BOUNDS, estimate_columns, further_estimates
from wordprob.tables.stimulus_table import DEFAULT_FREQUENCIES, StimulusTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Stimuli(StimulusTable):
    """A table that has been read and checked, and can be scored."""

    def check_columns(self, labels: Sequence[str], shape: str, options: ScoringOptions | None = None) -> None:
        """Raise, before a model is loaded, unless the new columns have names that the table does not have.

        Parameters
        ----------
        labels
            The names of the models, from :func:`wordprob.scoring.loading.check_models`.
        shape
            ``long`` or ``wide``.
        options
            How texts are scored.
        """
        options = options or ScoringOptions()
        estimates = further_estimates(options.estimators, options.spellings)
        if any(map(is_on_server, labels)):
            estimates = [*estimates, *SERVER_BOUNDS]
        names = columns.expected_columns(self, options.extras, estimates)
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
            How to score; by default what a scorer has. What a word is was decided when the table was read.
        shape
            For several models: ``long`` or ``wide``.
        load_options
            For models given by name: further arguments of :func:`wordprob.load`.
        progress
            ``True`` shows a progress bar. Or a function that is called with the number of texts that are done and the
            number of all texts, over all models.
        **scoring
            Options of scoring by name, which replace those of ``options``.
        """
        models = as_models(models)
        chosen = options_for(models, options, scoring)
        labels = check_models(models)
        self.check_columns(labels, shape, chosen)
        check_models_can_score(
            models,
            chosen,
            load_options,
            has_sources=self.options.source_column is not None,
            after_contexts=self.layout.contexts is not None,
        )
        distinct_texts, number_of_text = self._distinct_texts()
        n_distinct = len(distinct_texts)
        results: dict[str, ModelColumns] = {}
        metadata: dict[str, dict[str, Any]] = {}
        with progress_callback(progress) as advance:
            for n, (label, model) in enumerate(zip(labels, models, strict=True)):
                shown = _offset_progress(advance, n * n_distinct, len(models) * n_distinct)
                # A model that is opened here is not kept.
                scorer = open_scorer(model, **(load_options or {})).with_options(chosen)
                table = self._score_texts(scorer, distinct_texts, shown)
                del scorer
                results[label] = _columns_of_model(self, table, number_of_text)
                metadata[label] = table.metadata
                columns.check_new_columns(self, list(results[label].added.columns), labels, shape)
                gc.collect()  # the memory of a model that was opened here is free before the next one is loaded
        return _assemble(self, results, metadata, shape)

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

    def _score_texts(self, scorer: Scorer, positions: Sequence[int], progress: Progress | None) -> WordTable:
        """Score the texts at these positions."""
        words: Words | None = self.words
        if self.layout.places is not None:
            words = [self.layout.places[position] for position in positions]
        elif self.layout.words is not None:
            words = [self.layout.words[position] for position in positions]
        texts = [self.layout.texts[position] for position in positions]
        if self.layout.contexts is not None:
            contexts = [self.layout.contexts[position] for position in positions]
            separator = self.options.separator
            return scorer.score_continuations(contexts, texts, words, separator=separator, progress=progress)
        sources = self.sources()
        of_texts = None if sources is None else [sources[position] for position in positions]
        return scorer.score(texts, words, sources=of_texts, progress=progress)


def options_for(models: Sequence[Model], options: ScoringOptions | None, by_name: Mapping[str, Any]) -> ScoringOptions:
    """Return how models score texts: by options, or by what scorers have; options by name replace these.

    Raises if scorers would score in different ways.
    """
    own = [model.options if isinstance(model, Scorer) else ScoringOptions() for model in models]
    chosen = [(options or each).updated(by_name) for each in own]
    for each in chosen[1:]:
        for name, value in each.to_dict().items():
            if value != getattr(chosen[0], name):
                raise OptionError(f"the scorers have different values of `{name}`; specify it here.")
    return chosen[0]


def _offset_progress(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Return a progress function that counts on from what earlier models have done."""
    if progress is None:
        return None
    return lambda n, _: progress(done + n, total)


# --- the columns of one model -----------------------------------------------------------------------------------------


def _columns_of_model(stimuli: StimulusTable, table: WordTable, number_of_text: Sequence[int]) -> ModelColumns:
    """Return the columns that one model adds, and the words and texts behind them.

    Parameters
    ----------
    stimuli
        The table.
    table
        What the model says of the distinct texts.
    number_of_text
        For each text of the stimuli, which of the distinct texts it is.
    """
    layout = stimuli.layout
    words, texts = _repeat_texts(table, number_of_text)
    if layout.word_column is not None:
        words["note"] = _notes_on_cells(words)
    if stimuli.options.predictors:
        words = _with_predictors(stimuli, words)
    if stimuli.options.sum_by is not None:
        added = regions.add_up(words, layout.texts, stimuli.regions())
    elif layout.spans is not None and stimuli.options.per_word:
        added = words.assign(region=regions.region_names(words, layout.spans))
        if layout.contexts is not None:
            added = regions.with_wordless(added, layout.texts, layout.spans, layout.unscored)
    elif layout.spans is not None:
        added = regions.add_up_spans(words, layout.texts, layout.spans, layout.unscored)
    elif stimuli.rows_are_words:
        added = words
    else:
        added = columns.text_columns(words, texts, table.unit)
    names = columns.without_own_numbers(stimuli, list(added.columns))
    return ModelColumns(added[names], words, texts)


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
        notes.append(_joined_notes([note, together]))
    return notes


def _joined_notes(notes: Iterable[str]) -> str:
    """Return notes as one, without those that are empty."""
    return "; ".join(filter(None, notes))


def _with_predictors(stimuli: StimulusTable, words: pd.DataFrame) -> pd.DataFrame:
    """Return the words with length, frequency and the values of the words before them; ``note`` stays last."""
    from wordprob.analysis.frequencies import unigrams, zipf

    source = stimuli.options.frequencies or DEFAULT_FREQUENCIES
    frequency = zipf(words["word"], unigrams(source))
    missing = [f"no frequency in {source}" if unknown else "" for unknown in np.isnan(frequency)]
    notes = [_joined_notes(both) for both in zip(words["note"], missing, strict=True)]
    estimates = ["surprisal", *estimate_columns(words.columns)]
    return add_predictors(words.drop(columns="note"), frequency, estimates).assign(note=notes)


# --- all models -------------------------------------------------------------------------------------------------------


def _assemble(
    stimuli: StimulusTable, results: Mapping[str, ModelColumns], metadata: Mapping[str, Any], shape: str
) -> ScoredTable:
    """Put the columns of all models behind the rows of the table.

    Parameters
    ----------
    stimuli
        The table.
    results, metadata
        The columns of each model, and the metadata of its table, by its name.
    shape
        ``long`` or ``wide``.
    """
    first = next(iter(results.values()))
    sheet, rows = stimuli.own_rows(first.texts)
    if shape == "long":
        rows = np.tile(rows, len(results))
    added = columns.combine({label: result.added for label, result in results.items()}, shape, stimuli.options.prefix)
    words = columns.stack({label: result.words for label, result in results.items()})
    texts = columns.stack({label: result.texts for label, result in results.items()})
    return ScoredTable(
        words,
        _with_groups(stimuli, texts, len(results)),
        _table_metadata(stimuli, metadata),
        ExtendedSheet(sheet, rows, added),
    )


def _table_metadata(stimuli: StimulusTable, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metadata of the table: what all models have in common, and where the texts come from."""
    layout = {**stimuli.layout.to_metadata(), "sum_by": stimuli.options.sum_by or "", "prefix": stimuli.options.prefix}
    if stimuli.layout.contexts is not None:
        layout["separator"] = stimuli.options.separator
    if stimuli.options.predictors:
        layout |= {"frequencies": stimuli.options.frequencies or DEFAULT_FREQUENCIES, **PREDICTOR_METADATA}
    return table_metadata(metadata, stimuli.sheet.name, layout)


def _with_groups(stimuli: StimulusTable, texts: pd.DataFrame, n_models: int) -> pd.DataFrame:
    """Put the columns of their groups before the texts."""
    for name in reversed(stimuli.layout.group_by):
        cells = stimuli.sheet.cells(name)
        groups = [cells[rows[0]] for rows in stimuli.layout.rows]
        texts = texts.drop(columns=name, errors="ignore")
        texts.insert(0, name, groups * n_models)
    return texts
