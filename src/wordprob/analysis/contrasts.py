"""Two conditions compared by item: a difference for each, their mean, and two tests of it.

Rows are words, regions or texts that have been scored. Those of one text are added up, so a region of several words
counts as one; texts of the same item and condition are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from wordprob.analysis.permutation import EXACT_UP_TO, sign_flip_test
from wordprob.analysis.tables import numbers, require
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError, did_you_mean, listing

SUMMARY: dict[str, str] = {
    "model": "which model, where there are several",
    "measure": "the column compared",
    "contrast": "which condition less which",
    "n_items": "items that have both",
    "n_missing": "items left out; the table of items says why",
    "mean_first": "mean of the first condition",
    "mean_second": "mean of the second",
    "difference": "mean difference, first less second",
    "sd": "standard deviation of the differences",
    "se": "standard error of their mean",
    "ci_low": "95 % interval of the mean difference (Student's t)",
    "ci_high": "its upper end",
    "d_z": "difference in standard deviations: difference / sd",
    "t": "paired t",
    "df": "its degrees of freedom",
    "p_t": "its two-sided p-value",
    "p_permutation": "two-sided p-value by sign flips",
}
"""The columns of a contrast, and what each says."""

COMBINE = ("sum", "mean")


@dataclass(frozen=True)
class Design:
    """What is compared.

    Attributes
    ----------
    item, condition
        The columns that say so.
    levels
        Two conditions; the difference is the first less the second. By default the two there are, as they first occur.
    where
        Rows that count: the value each of these columns must have.
    measures
        The columns compared; ``surprisal`` and, if there, ``surprisal_naive`` by default.
    combine
        ``sum`` or ``mean`` of several rows of an item and condition in a table without ``text_id``.
    """

    item: str = "item"
    condition: str = "condition"
    levels: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    measures: Sequence[str] = ()
    combine: str | None = None


@dataclass(frozen=True)
class Result:
    """A contrast: a row for each item, and a row for each test."""

    items: pd.DataFrame
    summary: pd.DataFrame
    levels: tuple[str, str]
    condition: str
    provenance: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of the two conditions in ``items``."""
        return f"{self.condition}_{self.levels[0]}", f"{self.condition}_{self.levels[1]}"


def contrast(frame: pd.DataFrame, design: Design, source: str = "the table") -> Result:
    """Compare two conditions by item.

    Parameters
    ----------
    frame
        Scored words, regions or texts, with columns for item and condition; a column ``model`` makes a contrast for
        each model.
    design
        What is compared.
    source
        What to call the table in messages.

    Examples
    --------
    >>> rows = [(1, "a", 3.0), (1, "b", 1.0), (2, "a", 5.0), (2, "b", 4.0), (3, "a", 4.0), (3, "b", 1.0)]
    >>> found = contrast(pd.DataFrame(rows, columns=["item", "condition", "surprisal"]), Design())
    >>> found.summary[["contrast", "n_items", "difference", "p_permutation"]].values.tolist()
    [['a - b', 3, 2.0, 0.25]]
    """
    measures = _measures(frame, design, source)
    chosen = _filtered(frame, design, source)
    levels = _levels(chosen, design, source)
    chosen = chosen[chosen[design.condition].isin(levels)]
    tables = list(_tables(chosen, measures, design, levels, source))
    tests = [{**names, **_test(table, levels)} for names, table in tables]
    items = pd.concat([table.assign(**names) for names, table in tables], ignore_index=True)
    about = {"item": design.item, "condition": design.condition, "levels": list(levels), "where": dict(design.where)}
    result = Result(items, pd.DataFrame(tests), levels, design.condition, about)
    first, second = result.columns
    order = [*tables[0][0], design.item, first, second, "difference", "note"]
    return replace(result, items=items.rename(columns={"first": first, "second": second})[order])


def _tables(
    frame: pd.DataFrame, measures: Sequence[str], design: Design, levels: tuple[str, str], source: str
) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Yield the table of items for each measure and, where there are several, each model."""
    models = dict.fromkeys(frame["model"]) if "model" in frame.columns else (None,)
    for measure in measures:
        valued = frame.assign(value=numbers(frame, measure, source))
        for model in models:
            rows = valued if model is None else valued[valued["model"] == model]
            named = {"measure": measure} if model is None else {"model": str(model), "measure": measure}
            yield named, _by_item(rows, design, levels, source)


# --- the door ------------------------------------------------------------------------------------------------------


def _measures(frame: pd.DataFrame, design: Design, source: str) -> list[str]:
    if design.combine not in (None, *COMBINE):
        raise OptionError(f"'{design.combine}' combines nothing; use {' or '.join(COMBINE)}.")
    usual = ["surprisal", *(name for name in ("surprisal_naive",) if name in frame.columns)]
    measures = list(design.measures) or usual
    require(frame, [design.item, design.condition, *design.where, *measures], source)
    return measures


def _filtered(frame: pd.DataFrame, design: Design, source: str) -> pd.DataFrame:
    frame = frame.assign(**{name: frame[name].astype(str) for name in (design.item, design.condition, *design.where)})
    for column, value in design.where.items():
        there = list(dict.fromkeys(frame[column]))
        frame = frame[frame[column] == value]
        if frame.empty:
            hint = did_you_mean(value, there)
            near = "" if hint.startswith("Known") else f" {hint}"
            raise InputError(
                f"{source}: no row has '{value}' in column '{column}'.{near} It holds: {listing(there, 12)}."
            )
    return frame


def _levels(frame: pd.DataFrame, design: Design, source: str) -> tuple[str, str]:
    there = list(dict.fromkeys(frame[design.condition]))
    chosen = list(design.levels) or there
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise InputError(
            f"{source}: a contrast is of two conditions, but column '{design.condition}' holds {len(there)}: "
            f"{listing(there, 12)}. Choose two: --levels {','.join((there * 2)[:2])}"
        )
    for level in chosen:
        if level not in there:
            raise InputError(
                f"{source}: no condition is called '{level}' in column '{design.condition}'. It holds: "
                f"{listing(there, 12)}."
            )
    return chosen[0], chosen[1]


# --- items ---------------------------------------------------------------------------------------------------------


def _by_item(rows: pd.DataFrame, design: Design, levels: tuple[str, str], source: str) -> pd.DataFrame:
    """Return a row for each item: both conditions, their difference, and why one is missing."""
    cells = {
        key: _cell(part, design, source) for key, part in rows.groupby([design.item, design.condition], sort=False)
    }
    found = []
    for item in dict.fromkeys(rows[design.item]):
        pair = [cells.get((item, level), (math.nan, f"no row in condition {level}")) for level in levels]
        notes = "; ".join(dict.fromkeys(note for _, note in pair if note))
        (first, _), (second, _) = pair
        found.append((item, first, second, first - second, notes))
    return pd.DataFrame(found, columns=[design.item, "first", "second", "difference", "note"])


def _cell(part: pd.DataFrame, design: Design, source: str) -> tuple[float, str]:
    """Return the value of an item in a condition, or why it has none."""
    if "text_id" in part.columns:
        sums = part.groupby("text_id", sort=False)["value"].agg(lambda values: values.to_numpy().sum())
        value = float(sums.to_numpy().mean())
    elif len(part) > 1 and design.combine is None:
        item, condition = part[design.item].iloc[0], part[design.condition].iloc[0]
        raise InputError(
            f"{source}: item {item} has {len(part)} rows in condition {condition}. Choose a region with --region, or "
            "say what several rows mean: --combine sum (words of one text) or --combine mean (several texts)."
        )
    else:
        value = float(part["value"].sum(skipna=False) if design.combine != "mean" else part["value"].mean(skipna=False))
    if math.isfinite(value):
        return value, ""
    lost = part.loc[~np.isfinite(part["value"].to_numpy())]
    reasons = [str(note) for note in lost.get("note", pd.Series(dtype=str)) if note and str(note) != "nan"]
    return math.nan, "; ".join(dict.fromkeys(reasons)) or "no value"


# --- tests ---------------------------------------------------------------------------------------------------------


def _test(items: pd.DataFrame, levels: tuple[str, str]) -> dict[str, Any]:
    known = items[np.isfinite(items["difference"].to_numpy(dtype=np.float64))]
    differences = known["difference"].to_numpy(dtype=np.float64)
    n = len(differences)
    return {
        "contrast": f"{levels[0]} - {levels[1]}",
        "n_items": n,
        "n_missing": len(items) - n,
        "mean_first": known["first"].mean(),
        "mean_second": known["second"].mean(),
        **paired(differences),
    }


def paired(differences: Floats) -> dict[str, float]:
    """Return mean, spread, interval and tests of paired differences; what too few of them do not tell is missing."""
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    sd = float(differences.std(ddof=1)) if n > 1 else math.nan
    se = sd / math.sqrt(n) if n > 1 else math.nan
    reach = se * float(stats.t.ppf(0.975, n - 1)) if n > 1 else math.nan
    t = mean / se if n > 1 and se > 0 else math.nan
    return {
        "difference": mean,
        "sd": sd,
        "se": se,
        "ci_low": mean - reach,
        "ci_high": mean + reach,
        "d_z": mean / sd if n > 1 and sd > 0 else math.nan,
        "t": t,
        "df": float(n - 1) if n > 1 else math.nan,
        "p_t": 2 * float(stats.t.sf(abs(t), n - 1)) if math.isfinite(t) else math.nan,
        "p_permutation": sign_flip_test(differences) if n > 1 else math.nan,
    }


def caption(result: Result, unit: str = "") -> str:
    """Say in words what was compared and how it was tested."""
    first, second = result.levels
    where = ", ".join(f"{column} {value}" for column, value in result.provenance["where"].items())
    flips = f"all sign flips up to {EXACT_UP_TO} items, 100,000 sampled beyond"
    return (
        f"{first} less {second}{f' ({where})' if where else ''}{f', in {unit}' if unit else ''}, by item. Interval "
        f"and p_t: Student's t; p_permutation: {flips}."
    )
