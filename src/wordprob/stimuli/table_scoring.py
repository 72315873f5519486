"""Score a table of stimuli in one call: the same rows come back, with surprisals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from wordprob.errors import InputWarning
from wordprob.options import DEFAULT_MODEL, TableLayout
from wordprob.scoring.loading import Model
from wordprob.scoring.requests import Progress
from wordprob.scoring.results import ScoredTable
from wordprob.stimuli.stimulus_reading import read_stimuli


def score_table(
    table: Any,
    model: Model | Sequence[Model] = DEFAULT_MODEL,
    layout: TableLayout | None = None,
    *,
    shape: str = "long",
    load_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> ScoredTable:
    """Score a table of stimuli: the same rows come back, with new columns behind the old ones.

    Parameters
    ----------
    table
        A data frame, or a CSV, TSV, JSON-lines, Parquet or Excel file.
    model
        A name as for :func:`wordprob.load`, a :class:`wordprob.options.ModelOptions`, a scorer, or several of them,
        which are loaded one after the other.
    layout
        How the table holds its texts and what is added to it; by default columns are told by their names.
    shape
        For several models: ``long`` (a column says which) or ``wide`` (columns end in the model's name).
    load_options
        For models given by name: ``device``, ``dtype`` and so on, as for :func:`wordprob.load`.
    progress
        ``True`` shows a progress bar. Or a function that is called with the numbers of texts done and in all.
    **options
        Plain keywords: what a :class:`wordprob.options.TableLayout` holds, for example ``text_column`` or ``group_by``,
        and options of scoring, for example ``words`` or ``unit``, which :class:`wordprob.options.ScoringOptions`
        describes.

    Examples
    --------
    >>> import pandas as pd
    >>> stimuli = pd.DataFrame({"item": [1, 1, 1], "word": ["She", "saw", "the"], "rt": [310, 287, 255]})
    >>> scored = score_table(stimuli, "exact:bow", group_by="item").to_pandas()
    >>> scored[["word", "rt", "surprisal"]].round(2).values.tolist()
    [['She', 310, 1.25], ['saw', 287, 0.61], ['the', 255, 0.74]]
    """
    chosen, scoring = TableLayout.split(layout, options, ["layout", "shape", "load_options", "progress"])
    stimuli = read_stimuli(table, chosen, words=scoring.pop("words", None))
    guesses = [stimuli.guesses()] if "group_by" in stimuli.layout.guessed else []
    for remark in [*guesses, *stimuli.warnings()]:
        warnings.warn(remark, InputWarning, stacklevel=2)
    return stimuli.score(model, shape=shape, load_options=load_options, progress=progress, **scoring)
