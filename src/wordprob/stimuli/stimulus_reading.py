"""From a table or plain texts to stimuli that can be scored: read, laid out and checked, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wordprob.core.words import define
from wordprob.errors import InputError, OptionError
from wordprob.options import TableLayout
from wordprob.stimuli.stimuli import Stimuli
from wordprob.tables import formats
from wordprob.tables.formats.base import check_rows
from wordprob.tables.layout import Layout, lay_out, parse_columns, with_marks
from wordprob.tables.stimulus_table import DEFAULT_FREQUENCIES, StimulusTable
from wordprob.tables.targets import targets_after_contexts, with_targets

WITH_CONTEXTS = (
    *TableLayout.reading,
    "context_column",
    "target_column",
    "separator",
    "per_word",
    "offsets",
    "prefix",
    "frequencies",
)
"""Options that mean something where targets are scored after contexts."""


def read_stimuli(
    table: Any,
    options: TableLayout | None = None,
    *,
    words: str | None = None,
    name: str | None = None,
    **keywords: Any,
) -> Stimuli:
    """Read a table and check all that can be checked without a model.

    Parameters
    ----------
    table
        As for :func:`wordprob.score_table`.
    options, **keywords
        How the table holds its texts: as one object, or by name.
    words
        What a word is, for a text on each row; by default what the scorer has.
    name
        What messages and the metadata call the table.
    """
    chosen = (options or TableLayout()).updated(keywords)
    if words is not None and not isinstance(words, str):
        raise OptionError(f"`words` is {words!r}; it must be a string.")
    sheet = open_table(table, name=name, **chosen.how_to_read())
    stimuli = Stimuli(sheet, _layout(sheet, chosen), chosen, words)
    _check_predictors(stimuli)
    if chosen.source_column is not None:
        sheet.require(chosen.source_column)
        stimuli.sources()
    _check_row_options(stimuli)
    return stimuli


def _layout(sheet: formats.Sheet, options: TableLayout) -> Layout:
    """Return the texts of a table, with the regions that are asked about."""
    target_columns = parse_columns(sheet, options.target_column, "target_column")
    if options.context_column is None:
        return _with_regions(lay_out(sheet, options), sheet, target_columns, options)
    _check_beside_contexts(options)
    if not target_columns:
        raise OptionError("`context_column` needs `target_column`: the column that holds what is scored after it.")
    return targets_after_contexts(sheet, options.context_column, target_columns)


def stimuli_from_texts(
    texts: Sequence[str],
    words: str | Sequence[Sequence[str]] | None = None,
    options: TableLayout | None = None,
    *,
    name: str = "the texts",
    **keywords: Any,
) -> Stimuli:
    """Return plain texts as a table without columns; the result has a row for each word.

    Parameters
    ----------
    texts
        The texts.
    words
        What a word is, or the words of each text; by default what the scorer has.
    options, **keywords
        What is wanted, as one object or by name: ``prefix``, ``marks`` and ``region_names`` (the result then has a row
        for each region), ``predictors`` and ``frequencies``.
    name
        What the texts are called in messages and in the metadata: their file, for example.
    """
    import pandas as pd

    chosen = (options or TableLayout()).updated(keywords)
    chosen = replace(chosen, per_word=chosen.marks is None)
    rule = words if isinstance(words, str) else None
    user_words = None if words is None or rule is not None else [list(words_of_text) for words_of_text in words]
    if chosen.marks is not None and user_words is not None:
        raise OptionError("`marks` is for words that a rule finds, not for lists of words.")
    no_columns = formats.Frame(pd.DataFrame(index=range(len(texts))), name)
    layout = Layout(list(texts), user_words, [[position] for position in range(len(texts))])
    stimuli = Stimuli(no_columns, _with_regions(layout, no_columns, None, chosen), chosen, rule)
    _check_predictors(stimuli)
    return stimuli


def open_table(
    table: Any, *, input_format: str | None = None, name: str | None = None, **reading: Any
) -> formats.Sheet:
    """Return a data frame or a file as a table that has rows; parameters as for :func:`wordprob.score_table`."""
    opened = formats.read(_as_source(table), input_format, name=name, **reading)
    check_rows(len(opened), opened.name)
    return opened


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


def _with_regions(
    layout: Layout, sheet: formats.Sheet, target_columns: Sequence[str] | None, options: TableLayout
) -> Layout:
    """Return the layout with the regions that a column names or that marks show."""
    marks, names = options.marks, _listed(options.region_names)
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


def _listed(names: str | Sequence[str]) -> list[str]:
    """Return names from a list, or from a string with commas between them."""
    if not isinstance(names, str):
        return list(names)
    return [name.strip() for name in names.split(",") if name.strip()]


# --- options that do not go together ----------------------------------------------------------------------------------


def _check_beside_contexts(options: TableLayout) -> None:
    """Raise if an option is specified that means nothing beside ``context_column``."""
    for name in options.changed():
        if name not in WITH_CONTEXTS:
            raise OptionError(
                f"`{name}` does not go with `context_column`, after which targets are scored; leave it out."
            )


def _check_predictors(stimuli: StimulusTable) -> None:
    """Raise unless the result has a row for each word, and there are frequencies, where predictors are wanted."""
    from wordprob.analysis.frequencies import unigrams

    if not stimuli.options.predictors:
        if stimuli.options.frequencies is not None:
            raise OptionError("`frequencies` is for `predictors`; specify both.")
        return
    if stimuli.options.sum_by is not None:
        raise OptionError("`predictors` belong to words, and `sum_by` adds words up; leave one of them out.")
    if stimuli.adds_up or not stimuli.rows_are_words:
        what = "regions" if stimuli.adds_up else "texts"
        advice = "add `per_word`" if stimuli.layout.text_column else "leave `marks` out"
        raise OptionError(f"`predictors` belong to words, and the rows of the result are {what}; {advice}.")
    unigrams(stimuli.options.frequencies or DEFAULT_FREQUENCIES)


def _check_row_options(stimuli: StimulusTable) -> None:
    """Raise if an option does not fit what the rows of the table or of the result are, or if ``words`` is unknown."""
    layout = stimuli.layout
    name = stimuli.sheet.name
    if stimuli.options.offsets and not stimuli.rows_are_words:
        raise OptionError("`offsets` are those of words, and this table has a text on each row; use `per_word`.")
    if stimuli.options.offsets and layout.by_offsets:
        raise OptionError(
            f"{name} has its offsets in '{layout.start_column}' and '{layout.end_column}'; leave `offsets` out."
        )
    if layout.by_word and stimuli.words not in (None, "whitespace"):
        raise OptionError(f"the rows of {name} are the words; `words` is for a text on each row.")
    if layout.by_word and stimuli.options.per_word:
        raise OptionError(f"{name} has a row for each word already; `per_word` is for a text on each row.")
    if stimuli.options.sum_by is not None:
        if not layout.by_word:
            raise OptionError("`sum_by` is for a word on each row; name that column with `word_column`.")
        stimuli.sheet.require(stimuli.options.sum_by)
        if not stimuli.regions():
            raise InputError(f"{name}: column '{stimuli.options.sum_by}' names no region on any row.")
    if stimuli.words is not None:
        define(stimuli.words)
