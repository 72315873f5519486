"""From a table or plain texts to stimuli that can be scored: read, laid out and checked, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wordprob.errors import InputError, OptionError
from wordprob.stimuli.stimuli import Stimuli
from wordprob.stimuli.stimulus_checks import (
    check_beside_contexts,
    check_predictors,
    check_row_options,
    check_strings,
)
from wordprob.tables import formats
from wordprob.tables.formats.base import check_rows
from wordprob.tables.layout import Layout, lay_out, parse_columns, with_marks
from wordprob.tables.targets import targets_after_contexts, with_targets


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
    """Read a table and check all that can be checked without a model.

    Parameters are as for :func:`wordprob.score_table`. ``name`` is what messages and the metadata call the table.
    """
    check_strings(
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
        check_beside_contexts(
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
        layout = _with_regions(layout, opened, target_columns, marks, _listed(region_names))
    stimuli = Stimuli(
        opened, layout, words, per_word, sum_by, prefix, predictors, frequencies, offsets, separator, source_column
    )
    check_predictors(stimuli)
    if source_column is not None:
        opened.require(source_column)
        stimuli.sources()
    check_row_options(stimuli)
    return stimuli


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
        As for :func:`wordprob.score_table`; the result then has a row for each region.
    predictors, frequencies
        As for :func:`wordprob.score_table`.
    """
    import pandas as pd

    user_words = None if isinstance(words, str) else [list(words_of_text) for words_of_text in words]
    layout = Layout(list(texts), user_words, [[position] for position in range(len(texts))])
    no_columns = formats.Frame(pd.DataFrame(index=range(len(texts))), name)
    definition = words if isinstance(words, str) else "whitespace"
    if marks is not None and user_words is not None:
        raise OptionError("`marks` is for words that a rule finds, not for lists of words.")
    layout = _with_regions(layout, no_columns, None, marks, _listed(region_names))
    stimuli = Stimuli(no_columns, layout, definition, marks is None, None, prefix, predictors, frequencies)
    check_predictors(stimuli)
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


def _listed(names: str | Sequence[str]) -> list[str]:
    """Return names from a list, or from a string with commas between them."""
    if not isinstance(names, str):
        return list(names)
    return [name.strip() for name in names.split(",") if name.strip()]
