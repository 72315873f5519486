"""Checks of a table's options, before any model is loaded: their types, and whether they go together."""

from __future__ import annotations

from wordprob.core.words import define
from wordprob.errors import InputError, OptionError
from wordprob.options import TableLayout
from wordprob.tables.stimulus_table import DEFAULT_FREQUENCIES, StimulusTable

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


def check_beside_contexts(options: TableLayout) -> None:
    """Raise if an option is specified that means nothing beside ``context_column``."""
    for name in options.changed():
        if name not in WITH_CONTEXTS:
            raise OptionError(
                f"`{name}` does not go with `context_column`, after which targets are scored; leave it out."
            )


def check_predictors(stimuli: StimulusTable) -> None:
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


def check_row_options(stimuli: StimulusTable) -> None:
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
