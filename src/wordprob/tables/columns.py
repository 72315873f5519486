"""The columns that are added to a user's table: which ones, and their names, for one model or several."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wordprob.errors import InputError, OptionError
from wordprob.tables.predictors import predictor_names
from wordprob.tables.schema import (
    COLUMNS,
    EXTRAS,
    TEXT_COLUMNS,
    UNITS,
    columns_of,
    estimate_columns,
    estimate_name,
    summed_columns,
)
from wordprob.tables.stimulus_table import StimulusTable
from wordprob.tables.word_level_columns import is_word_level_column

if TYPE_CHECKING:
    import pandas as pd

SHAPES = ("long", "wide")

SAME_FOR_ALL_MODELS = (
    *("text_id", "word_id", "word", "region", "start", "end", "n_words", "n_characters", "n_bytes"),
    *predictor_names(),
)
"""Columns that do not depend on the model; the wide shape has them once."""

NOT_ON_TEXT_ROWS = ("text_id", "conservation")
"""Columns of the summary by text that a table with a text on each row does not get."""


@dataclass(frozen=True)
class ModelColumns:
    """The result of one model: the columns to add, and the words and texts behind them."""

    added: pd.DataFrame
    words: pd.DataFrame
    texts: pd.DataFrame


# --- a text on each row ----------------------------------------------------------------------------------------------


def text_columns(words: pd.DataFrame, texts: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Return the new columns for a table that has a text on each row.

    ``surprisal`` is that of all words together, computed from the tokens, so it exists even where a word has none of
    its own. ``surprisal_naive``, and what further estimators say, are sums over the words.
    """
    counts = texts["n_words"].to_numpy(dtype=np.int64)
    last = np.cumsum(counts)
    words_of_texts = [slice(end - count, end) for end, count in zip(last.tolist(), counts.tolist(), strict=True)]
    no_words = counts == 0
    total = -texts["log_prob_words"].to_numpy(dtype=np.float64) / UNITS[unit]
    table = texts.drop(columns=list(NOT_ON_TEXT_ROWS))
    table.insert(0, "surprisal", total)
    for position, name in enumerate(summed_columns(words.columns), start=1):
        values = words[name].to_numpy(dtype=np.float64)
        sums = [values[span].sum() for span in words_of_texts]
        table.insert(position, name, np.where(no_words, np.nan, sums))
    notes = zip(words_of_texts, texts["note"].tolist(), strict=True)
    table["note"] = [_text_note(words.iloc[span], note) for span, note in notes]
    return table


def _text_note(words: pd.DataFrame, note: str) -> str:
    """Return a text's own note, and why some of its words have no value by one of the estimates."""
    by_estimate = words[["surprisal", *estimate_columns(words.columns)]].to_numpy(dtype=np.float64)
    without_value = ~np.isfinite(by_estimate).all(axis=1)
    if not without_value.any() or not np.isfinite(by_estimate[:, 0]).any():  # the note says so already
        return note
    reasons = dict.fromkeys(words.loc[without_value, "note"].tolist())
    missing = f"{int(without_value.sum())} of its words: {', '.join(reasons)}"
    return f"{note}; {missing}" if note else missing


# --- which columns ---------------------------------------------------------------------------------------------------


def expected_columns(
    stimuli: StimulusTable, extras: Collection[str] = (), estimators: Collection[str] = ()
) -> list[str]:
    """Return the columns that will be added, as far as they are known before scoring."""
    estimates = [estimate_name(name) for name in estimators]
    if stimuli.rows_are_words:
        if stimuli.options.predictors:
            extras = [*extras, *predictor_names(["surprisal", "surprisal_naive", *estimates])]
        n_words = ["n_words"] if stimuli.adds_up else []
        region = ["region"] if stimuli.layout.spans is not None else []
        further = [column for name in extras for column in _names_of(name)]
        return without_own_numbers(stimuli, [*COLUMNS, *estimates, *further, *n_words, *region])
    if extras:
        raise OptionError(
            f"{' and '.join(extras)} belong to words, and this table has a text on each row; use `per_word`."
        )
    of_texts = [name for name in TEXT_COLUMNS if name not in NOT_ON_TEXT_ROWS]
    return ["surprisal", "surprisal_naive", *estimates, *of_texts]


def _names_of(extra: str) -> list[str]:
    """Return the names of the columns of an extra; a predictor has one, of its own name."""
    return [column.name for column in columns_of(extra)] or [extra]


def without_own_numbers(stimuli: StimulusTable, names: Sequence[str]) -> list[str]:
    """Leave out what the table has already: its words, and numbers of texts and words."""
    present: set[str] = set()
    if stimuli.layout.by_word:
        if not stimuli.options.offsets:
            present |= {"start", "end"}
        if stimuli.options.sum_by is None and (not stimuli.layout.by_offsets or "word" in stimuli.sheet.columns):
            present.add("word")
    if not stimuli.options.prefix:
        if stimuli.numbers_texts():
            present.add("text_id")
        if not stimuli.adds_up and stimuli.numbers_words():
            present.add("word_id")
    return [name for name in names if name not in present]


def check_new_columns(stimuli: StimulusTable, names: Sequence[str], labels: Sequence[str], shape: str) -> None:
    """Raise unless the new columns have names that the table's own columns do not have.

    Parameters
    ----------
    stimuli
        The table.
    names
        The columns of one model, without a prefix.
    labels
        The names of the models.
    shape
        ``long`` or ``wide``.
    """
    check_shape(shape, labels)
    own_columns = stimuli.own_columns()
    clashes = [name for name in final_names(names, labels, shape, stimuli.options.prefix) if name in own_columns]
    if clashes:
        example = stimuli.options.prefix + "wp_"
        raise InputError(
            f"{stimuli.sheet.name} has columns called {', '.join(clashes)} already. Name the new ones differently: "
            f"`prefix` {example} makes {example}{clashes[0].removeprefix(stimuli.options.prefix)}."
        )


def check_shape(shape: str, labels: Sequence[str] = ()) -> None:
    """Raise unless there is such a shape, and the columns of several models have names of their own in it."""
    if shape not in SHAPES:
        raise OptionError(f"no shape is called '{shape}'; use {' or '.join(SHAPES)}.")
    if shape == "wide" and len({column_suffix(label) for label in labels}) < len(labels):
        raise OptionError(
            f"the columns of {' and '.join(labels)} would have the same names; use the long `shape`, or rename a model."
        )


# --- several models --------------------------------------------------------------------------------------------------


def final_names(names: Sequence[str], labels: Sequence[str], shape: str, prefix: str) -> list[str]:
    """Return the names that the columns have in the result."""
    if len(labels) == 1:
        return [prefix + name for name in names]
    if shape == "long":
        return [prefix + name for name in ("model", *names)]
    shared = [prefix + name for name in names if name in SAME_FOR_ALL_MODELS]
    own = [name for name in names if name not in SAME_FOR_ALL_MODELS]
    return shared + [f"{prefix}{name}_{column_suffix(label)}" for label in labels for name in own]


def column_suffix(label: str) -> str:
    """Return what a model's columns end in: its name, with _ for what R would not take in the name of a column.

    Examples
    --------
    >>> column_suffix("pythia-1.4b"), column_suffix("openai-community/gpt2")
    ('pythia_1.4b', 'openai_community_gpt2')
    """
    return re.sub(r"[^\w.]+", "_", label)


def to_long(frame: pd.DataFrame, labels: Collection[str] = ()) -> pd.DataFrame:
    """Return a scored table in the long shape, with a column ``model``; a table that is not wide is returned unchanged.

    Parameters
    ----------
    frame
        A table with the columns of several models side by side: ``surprisal_gpt2``, ``surprisal_naive_gpt2`` and so on.
    labels
        The names of the models, where they are known.
    """
    import pandas as pd

    names = [str(name) for name in frame.columns]
    naive = estimate_name("naive_")
    suffixes = [name.removeprefix(naive) for name in names if name.startswith(naive)]
    suffixes = [suffix for suffix in suffixes if {estimate_name(suffix), f"n_tokens_{suffix}"} <= set(names)]
    if "surprisal" in names or not suffixes:
        return frame
    known = {column_suffix(label): label for label in labels}
    own: dict[str, dict[str, str]] = {suffix: {} for suffix in suffixes}
    for name in names:
        suffix = max((suffix for suffix in suffixes if name.endswith(f"_{suffix}")), key=len, default=None)
        if suffix is not None and _is_result(name.removesuffix(f"_{suffix}")):
            own[suffix][name] = name.removesuffix(f"_{suffix}")
    taken = {name for columns in own.values() for name in columns}
    shared = frame[[name for name in frame.columns if name not in taken]]
    parts = []
    for suffix, columns in own.items():
        part = pd.concat([shared, frame[list(columns)].rename(columns=columns)], axis=1)
        parts.append(part.assign(model=known.get(suffix, suffix)))
    return pd.concat(parts, ignore_index=True)


def _is_result(name: str) -> bool:
    known = {*COLUMNS, *TEXT_COLUMNS, *EXTRAS}
    return name in known or is_word_level_column(name) or name.startswith(estimate_name(""))


def combine(frames: Mapping[str, pd.DataFrame], shape: str, prefix: str) -> pd.DataFrame:
    """Put the columns of several models below each other (long) or side by side (wide)."""
    import pandas as pd

    first = next(iter(frames.values()))
    names = final_names(list(first.columns), list(frames), shape, prefix)
    if len(frames) == 1 or shape == "long":
        return stack(frames).set_axis(names, axis=1)
    shared = first[[name for name in first.columns if name in SAME_FOR_ALL_MODELS]]
    own = [frame.drop(columns=shared.columns) for frame in frames.values()]
    return pd.concat([shared, *own], axis=1).set_axis(names, axis=1)


def stack(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put tables below each other, with a column that names the model where there are several."""
    import pandas as pd

    if len(frames) == 1:
        return next(iter(frames.values())).copy()
    named = [frame.assign(model=label)[["model", *frame.columns]] for label, frame in frames.items()]
    return pd.concat(named, ignore_index=True)
