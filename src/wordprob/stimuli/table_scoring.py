"""Score a table of stimuli in one call: the same rows come back, with surprisals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from wordprob.errors import InputWarning
from wordprob.options import DEFAULT_MODEL
from wordprob.scoring.model_choice import Model
from wordprob.scoring.requests import Progress
from wordprob.scoring.results import ScoredTable
from wordprob.stimuli.stimulus_reading import read_stimuli


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
