"""The columns that models add to a table of stimuli: those of one model, then of all models behind the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.tables import columns, regions
from wordprob.tables.columns import ModelColumns
from wordprob.tables.formats import ExtendedSheet
from wordprob.tables.frames import pick_texts
from wordprob.tables.metadata import table_metadata
from wordprob.tables.predictors import PREDICTOR_METADATA, add_predictors
from wordprob.tables.result import ScoredTable, WordTable
from wordprob.tables.schema import estimate_columns
from wordprob.tables.stimulus_table import DEFAULT_FREQUENCIES, StimulusTable

if TYPE_CHECKING:
    import pandas as pd


# --- the columns of one model -----------------------------------------------------------------------------------------


def columns_of_model(stimuli: StimulusTable, table: WordTable, number_of_text: Sequence[int]) -> ModelColumns:
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


def assemble(
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
