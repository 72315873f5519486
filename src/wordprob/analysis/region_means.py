"""The mean surprisal of each region by condition, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from wordprob.analysis.contrasts import text_value
from wordprob.analysis.input_tables import numbers
from wordprob.analysis.intervals import half_width, within_intervals
from wordprob.analysis.plot_columns import PlotColumns

MIN_TEXTS_FOR_INTERVAL = 3
"""Texts or items that an interval needs; that of two would be much larger than the rest of the figure."""

NO_REGION = ("", "NA", "nan", "None")
"""The cells of the region column that mean that a word is in no region."""


def region_means(
    frame: pd.DataFrame,
    factors: Sequence[str],
    region: str | None,
    columns: PlotColumns,
    item: str | None,
    combine: str | None = None,
    source: str = "the table",
) -> pd.DataFrame:
    """Return the mean of each region in each condition and model, and the half width of its 95 % interval.

    Parameters
    ----------
    frame, region, columns, item, combine, source
        As for :func:`wordprob.analysis.region_plots.by_region`.
    factors
        The columns whose values together are the conditions.
    """
    rows = _rows_in_regions(frame, factors, region, columns, item, source)
    order = _order_of_regions(rows)
    keys = ["text", "item", "model", "condition", "region"]
    values = [(*key, text_value(group, combine, source)) for key, group in rows.groupby(keys, sort=False)]
    values_of_texts = pd.DataFrame(values, columns=[*keys, "value"])
    by_region = values_of_texts.groupby(["model", "region"], sort=False)
    means = pd.concat([_means_of_region(texts, item) for _, texts in by_region], ignore_index=True)
    return means.sort_values("region", key=lambda names: names.map(order), kind="stable")


def _rows_in_regions(
    frame: pd.DataFrame,
    factors: Sequence[str],
    region: str | None,
    columns: PlotColumns,
    item: str | None,
    source: str,
) -> pd.DataFrame:
    """Return the text, model, condition, item, region and value of every row that is in a region."""
    levels_of_factors = [frame[name].astype(str) for name in factors]
    ids_of_texts = [frame[name].astype(str) for name in columns.texts]
    rows = pd.DataFrame(
        {
            "text": list(zip(*ids_of_texts, strict=True)),
            "model": frame["model"].astype(str).tolist() if "model" in frame.columns else "",
            "condition": [", ".join(levels) for levels in zip(*levels_of_factors, strict=True)],
            "item": frame[item].astype(str).tolist() if item else "",
            "value": numbers(frame, columns.value, source),
        }
    )
    if "n_words" in frame.columns:
        rows["n_words"] = numbers(frame, "n_words", source)
    if region:
        rows["region"] = frame[region].astype(str).tolist()
    else:
        word_numbers = rows.groupby(["text", "model"], sort=False).cumcount() + 1
        rows["region"] = word_numbers.astype(str)
    return rows[~rows["region"].isin(NO_REGION)]


def _order_of_regions(rows: pd.DataFrame) -> dict[str, int]:
    """Return the place of each region: one that only some texts have comes after the one that is before it there."""
    ordered: list[str] = []
    for _, text in rows.groupby("text", sort=False):
        place = 0
        for name in dict.fromkeys(text["region"]):
            if name not in ordered:
                ordered.insert(place, name)
            place = ordered.index(name) + 1
    return {name: place for place, name in enumerate(ordered)}


def _means_of_region(texts: pd.DataFrame, item: str | None) -> pd.DataFrame:
    """Return the means of the conditions of one region and model, with their intervals."""
    known = texts[np.isfinite(texts["value"].to_numpy())]
    conditions = list(dict.fromkeys(texts["condition"]))
    means = []
    for condition in conditions:
        values = known.loc[known["condition"] == condition, "value"].to_numpy()
        n = len(values)
        interval = half_width(values) if n >= MIN_TEXTS_FOR_INTERVAL else np.nan
        means.append((condition, values.mean() if n else np.nan, interval, n))
    table = pd.DataFrame(means, columns=["condition", "mean", "half_width", "n"])
    table["within"] = False
    if item and len(conditions) > 1:
        by_item = known.pivot_table(index="item", columns="condition", values="value", aggfunc="mean", sort=False)
        complete = by_item.reindex(columns=conditions).dropna()
        if len(complete) == texts["item"].nunique() and len(complete) >= MIN_TEXTS_FOR_INTERVAL:
            table["half_width"] = within_intervals(complete.to_numpy())
            table["within"] = True
    first = texts.iloc[0]
    return table.assign(model=first["model"], region=first["region"])
