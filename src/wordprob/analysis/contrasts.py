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

from wordprob.analysis.input_tables import numbers, require
from wordprob.analysis.intervals import half_width
from wordprob.analysis.permutation import EXACT_UP_TO, sign_flip_test
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError, did_you_mean, listing

SUMMARY: dict[str, str] = {
    "model": "which model, where there are several",
    "measure": "the column compared",
    "contrast": "the first condition minus the second",
    "n_items": "items that have both",
    "n_missing": "items left out; the table of items says why",
    "mean_first": "mean of the first condition",
    "mean_second": "mean of the second",
    "difference": "mean difference, first minus second",
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
        The columns of the items and of the conditions.
    levels
        Two conditions; the difference is the first minus the second. By default the two in the table, in the order in
        which they first occur.
    where
        Rows that count: the value that each of these columns must have.
    measures
        The columns compared; ``surprisal`` and, if there, ``surprisal_naive`` by default.
    combine
        ``sum`` (the default) or ``mean`` of the words of a text; the mean is for regions of unequal length. In a table
        without ``text_id``: of several rows of an item and condition, where the mean is that of texts.
    """

    item: str = "item"
    condition: str = "condition"
    levels: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    measures: Sequence[str] = ()
    combine: str | None = None


@dataclass(frozen=True)
class ContrastResult:
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


def contrast(frame: pd.DataFrame, design: Design, source: str = "the table") -> ContrastResult:
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
    >>> result = contrast(pd.DataFrame(rows, columns=["item", "condition", "surprisal"]), Design())
    >>> result.summary[["contrast", "n_items", "difference", "p_permutation"]].values.tolist()
    [['a - b', 3, 2.0, 0.25]]
    """
    measures = measures_of(frame, design, source)
    rows = filtered_rows(frame, design, source)
    levels = two_levels(rows, design, source)
    rows = rows[rows[design.condition].isin(levels)]
    tables = list(_item_tables(rows, measures, design, levels, source))
    tests = [{**names, **_test(table, levels)} for names, table in tables]
    items = pd.concat([table.assign(**names) for names, table in tables], ignore_index=True)
    provenance = {
        "item": design.item,
        "condition": design.condition,
        "levels": list(levels),
        "where": dict(design.where),
    }
    result = ContrastResult(items, pd.DataFrame(tests), levels, design.condition, provenance)
    first, second = result.columns
    name_columns = list(tables[0][0])
    order = [*name_columns, design.item, first, second, "difference", "note"]
    return replace(result, items=items.rename(columns={"first": first, "second": second})[order])


def _item_tables(
    frame: pd.DataFrame, measures: Sequence[str], design: Design, levels: tuple[str, str], source: str
) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Yield a table of items for each measure and, where there are several, each model; each with their names."""
    for measure in measures:
        rows = frame.assign(value=numbers(frame, measure, source))
        if "model" not in frame.columns:
            yield {"measure": measure}, _by_item(rows, design, levels, source)
            continue
        for model in dict.fromkeys(frame["model"]):
            names = {"model": str(model), "measure": measure}
            yield names, _by_item(rows[rows["model"] == model], design, levels, source)


# --- which rows and conditions ---------------------------------------------------------------------------------------


def measures_of(frame: pd.DataFrame, design: Design, source: str) -> list[str]:
    """Return the columns that are compared; raise unless the table has all that the design names."""
    if design.combine not in (None, *COMBINE):
        raise OptionError(f"`combine` is '{design.combine}'; it must be {' or '.join(COMBINE)}.")
    usual = ["surprisal"]
    if "surprisal_naive" in frame.columns:
        usual.append("surprisal_naive")
    measures = list(design.measures) or usual
    require(frame, [design.item, design.condition, *design.where, *measures], source)
    return measures


def filtered_rows(frame: pd.DataFrame, design: Design, source: str) -> pd.DataFrame:
    """Return the rows that count, with names of items and conditions as text."""
    names = (design.item, design.condition, *design.where)
    frame = frame.assign(**{name: frame[name].astype(str) for name in names})
    for column, value in design.where.items():
        values = list(dict.fromkeys(frame[column]))
        frame = frame[frame[column] == value]
        if frame.empty:
            hint = did_you_mean(value, values)
            similar = "" if hint.startswith("Known") else f" {hint}"
            raise InputError(
                f"{source}: no row has '{value}' in column '{column}'.{similar} It holds: {listing(values, 12)}."
            )
    return frame


def two_levels(frame: pd.DataFrame, design: Design, source: str) -> tuple[str, str]:
    """Return the two conditions that are compared."""
    conditions = list(dict.fromkeys(frame[design.condition]))
    chosen = list(design.levels) or conditions
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        example = ",".join((conditions * 2)[:2])
        raise InputError(
            f"{source}: a contrast is of two conditions, but column '{design.condition}' holds {len(conditions)}: "
            f"{listing(conditions, 12)}. Choose two of them as `levels`, for example {example}"
        )
    for level in chosen:
        if level not in conditions:
            raise InputError(
                f"{source}: no condition is called '{level}' in column '{design.condition}'. It holds: "
                f"{listing(conditions, 12)}."
            )
    return chosen[0], chosen[1]


# --- items ---------------------------------------------------------------------------------------------------------


def _by_item(rows: pd.DataFrame, design: Design, levels: tuple[str, str], source: str) -> pd.DataFrame:
    """Return a row for each item: both conditions, their difference, and why one is missing."""
    groups = rows.groupby([design.item, design.condition], sort=False)
    cells = {key: cell_value(cell_rows, design, source) for key, cell_rows in groups}
    items = []
    for item in dict.fromkeys(rows[design.item]):
        pair = [cells.get((item, level), (math.nan, f"no row in condition {level}")) for level in levels]
        (first, first_note), (second, second_note) = pair
        notes = dict.fromkeys(note for note in (first_note, second_note) if note)  # each once, in order
        items.append((item, first, second, first - second, "; ".join(notes)))
    return pd.DataFrame(items, columns=[design.item, "first", "second", "difference", "note"])


def cell_value(rows: pd.DataFrame, design: Design, source: str) -> tuple[float, str]:
    """Return the value of an item in a condition, or NaN and why it has none."""
    value = _combined(rows, design, source)
    if math.isfinite(value):
        return value, ""
    without_value = rows.loc[~np.isfinite(rows["value"].to_numpy())]
    notes = without_value.get("note", pd.Series(dtype=str))
    reasons = [str(note) for note in notes if note and str(note) != "nan"]
    return math.nan, "; ".join(dict.fromkeys(reasons)) or "no value"


def _combined(rows: pd.DataFrame, design: Design, source: str) -> float:
    """Return the rows of an item and condition as one number: sums over texts, averaged."""
    if "text_id" in rows.columns:
        of_texts = [text_value(of_text, design.combine, source) for _, of_text in rows.groupby("text_id", sort=False)]
        return float(np.mean(of_texts))
    if len(rows) > 1 and design.combine is None:
        item = rows[design.item].iloc[0]
        condition = rows[design.condition].iloc[0]
        raise InputError(
            f"{source}: item {item} has {len(rows)} rows in condition {condition}. Choose a region, or specify what "
            "several rows mean: `combine` is sum (words of one text) or mean (several texts)."
        )
    if design.combine == "mean":
        return float(rows["value"].mean(skipna=False))
    return float(rows["value"].sum(skipna=False))


def text_value(rows: pd.DataFrame, combine: str | None, source: str) -> float:
    """Return the sum of a text's rows, or the mean for each of their words; NaN if one of them has no value."""
    total = float(rows["value"].to_numpy().sum())
    if combine != "mean":
        return total
    n_words = numbers(rows, "n_words", source).sum() if "n_words" in rows.columns else len(rows)
    return total / float(n_words)


# --- tests ---------------------------------------------------------------------------------------------------------


def _test(items: pd.DataFrame, levels: tuple[str, str]) -> dict[str, Any]:
    known = items[np.isfinite(items["difference"].to_numpy(dtype=np.float64))]
    differences = known["difference"].to_numpy(dtype=np.float64)
    n_items = len(differences)
    return {
        "contrast": f"{levels[0]} - {levels[1]}",
        "n_items": n_items,
        "n_missing": len(items) - n_items,
        "mean_first": known["first"].mean(),
        "mean_second": known["second"].mean(),
        **paired(differences),
    }


def paired(differences: Floats) -> dict[str, float]:
    """Return mean, spread, interval and tests of paired differences; NaN for what needs more of them."""
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    sd = float(differences.std(ddof=1)) if n > 1 else math.nan
    se = sd / math.sqrt(n) if n > 1 else math.nan
    t = mean / se if n > 1 and se > 0 else math.nan
    return {
        "difference": mean,
        "sd": sd,
        "se": se,
        "ci_low": mean - half_width(differences),
        "ci_high": mean + half_width(differences),
        "d_z": mean / sd if n > 1 and sd > 0 else math.nan,
        "t": t,
        "df": float(n - 1) if n > 1 else math.nan,
        "p_t": 2 * float(stats.t.sf(abs(t), n - 1)) if math.isfinite(t) else math.nan,
        "p_permutation": sign_flip_test(differences) if n > 1 else math.nan,
    }


def caption(result: ContrastResult, unit: str = "") -> str:
    """Return a sentence on what was compared and how it was tested."""
    first, second = result.levels
    where = ", ".join(f"{column} {value}" for column, value in result.provenance["where"].items())
    flips = f"all sign flips up to {EXACT_UP_TO} items, 100,000 sampled beyond"
    formula = r_formula(str(result.summary["measure"].iloc[0]), [result.condition], result.provenance["item"])
    return (
        f"{first} minus {second}{f' ({where})' if where else ''}{f', in {unit}' if unit else ''}, by item. Interval "
        f"and p_t: Student's t; p_permutation: {flips}. {formula}"
    )


def r_formula(measure: str, factors: Sequence[str], item: str) -> str:
    """Return a sentence with the mixed model of a design, for R.

    Examples
    --------
    >>> r_formula("surprisal", ["gender", "number"], "item")
    'In R: lmer(surprisal ~ gender * number + (1 | item), data = d).'
    """
    names = [name if name.isidentifier() else f"`{name}`" for name in (measure, *factors, item)]
    return f"In R: lmer({names[0]} ~ {' * '.join(names[1:-1])} + (1 | {names[-1]}), data = d)."
