"""Two factors with two levels each, compared by item: both main effects and their interaction.

Every effect is one number for each item, a difference of means of its four conditions. It is then tested as a contrast
of two conditions is. For two factors within items these t-tests are those of a repeated-measures analysis of variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from wordprob.analysis.contrasts import (
    Design,
    cell_value,
    filtered_rows,
    measures_of,
    paired,
    r_formula,
    two_levels,
)
from wordprob.analysis.input_tables import numbers, require
from wordprob.analysis.permutation import EXACT_UP_TO
from wordprob.errors import OptionError

EFFECTS = np.array([[0.5, 0.5, -0.5, -0.5], [0.5, -0.5, 0.5, -0.5], [1.0, -1.0, -1.0, 1.0]])
"""Weights of an item's four conditions in the three effects; the second factor changes first."""


@dataclass(frozen=True)
class FactorialDesign:
    """What is compared.

    Attributes
    ----------
    factors
        The columns of the two factors.
    levels
        The two levels of each factor; an effect is the first minus the second. By default those in the table, in the
        order in which they first occur.
    item, where, measures, combine
        As for :class:`wordprob.analysis.contrasts.Design`.
    """

    factors: tuple[str, str]
    levels: tuple[Sequence[str], Sequence[str]] = ((), ())
    item: str = "item"
    where: Mapping[str, str] = field(default_factory=dict)
    measures: Sequence[str] = ()
    combine: str | None = None

    def of_factor(self, number: int) -> Design:
        """Return the design of one factor alone."""
        return Design(self.item, self.factors[number], self.levels[number], self.where, self.measures, self.combine)


@dataclass(frozen=True)
class FactorialResult:
    """The effects of two factors: a row for each item, and a row for each test."""

    items: pd.DataFrame
    summary: pd.DataFrame
    factors: tuple[str, str]
    levels: tuple[tuple[str, str], tuple[str, str]]
    provenance: Mapping[str, Any]

    @property
    def cells(self) -> list[str]:
        """The columns of the four conditions in ``items``."""
        return [f"{first}_{second}" for first in self.levels[0] for second in self.levels[1]]

    @property
    def effects(self) -> list[str]:
        """The names of the effects, which are columns of ``items`` and values of ``contrast`` in ``summary``."""
        return effect_names(self.factors, self.levels)


def effect_names(factors: Sequence[str], levels: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of both main effects and of the interaction."""
    main = [f"{factor}: {first} - {second}" for factor, (first, second) in zip(factors, levels, strict=True)]
    return [*main, f"{factors[0]} x {factors[1]}"]


def factorial(frame: pd.DataFrame, design: FactorialDesign, source: str = "the table") -> FactorialResult:
    """Compute main effects and interaction of a 2×2 design by item.

    Parameters
    ----------
    frame
        Scored words, regions or texts, with columns for item and both factors; a column ``model`` makes the tests for
        each model.
    design
        What is compared.
    source
        What to call the table in messages.

    Examples
    --------
    >>> cells = [(n, a, b) for n in (1, 2, 3) for a in "xy" for b in "pq"]
    >>> rows = [(n, a, b, 1.0 + 2 * (a == "x") + n * (a + b == "xp")) for n, a, b in cells]
    >>> result = factorial(pd.DataFrame(rows, columns=["item", "a", "b", "surprisal"]), FactorialDesign(("a", "b")))
    >>> result.summary[["contrast", "difference"]].values.tolist()
    [['a: x - y', 3.0], ['b: p - q', 1.0], ['a x b', 2.0]]
    """
    if design.factors[0] == design.factors[1]:
        raise OptionError(f"both factors are '{design.factors[0]}'; name two columns.")
    measures = measures_of(frame, design.of_factor(0), source)
    require(frame, design.factors, source)
    rows = filtered_rows(frame, design.of_factor(0), source)
    rows = rows.assign(**{design.factors[1]: rows[design.factors[1]].astype(str)})
    levels = (two_levels(rows, design.of_factor(0), source), two_levels(rows, design.of_factor(1), source))
    for factor, chosen in zip(design.factors, levels, strict=True):
        rows = rows[rows[factor].isin(chosen)]
    tables, tests = [], []
    for measure in measures:
        valued = rows.assign(value=numbers(rows, measure, source))
        models = list(dict.fromkeys(rows["model"])) if "model" in rows.columns else [None]
        for model in models:
            names = ({} if model is None else {"model": str(model)}) | {"measure": measure}
            of_model = valued if model is None else valued[valued["model"] == model]
            items = _by_item(of_model, design, levels, source)
            tables.append(pd.DataFrame({**{name: [value] * len(items) for name, value in names.items()}, **items}))
            tests += [{**names, **test} for test in _tests(items, design, levels)]
    provenance = {"item": design.item, "factors": list(design.factors), "levels": levels, "where": dict(design.where)}
    return FactorialResult(
        pd.concat(tables, ignore_index=True), pd.DataFrame(tests), design.factors, levels, provenance
    )


def _by_item(
    rows: pd.DataFrame, design: FactorialDesign, levels: tuple[tuple[str, str], tuple[str, str]], source: str
) -> pd.DataFrame:
    """Return a row for each item: its four conditions, its three effects, and why one is missing."""
    groups: dict[Any, pd.DataFrame] = dict(iter(rows.groupby([design.item, *design.factors], sort=False)))
    pairs = [(first, second) for first in levels[0] for second in levels[1]]
    table = []
    for item in dict.fromkeys(rows[design.item]):
        values, notes = [], []
        for first, second in pairs:
            cell = groups.get((item, first, second))
            value, note = (math.nan, f"no row in {first}, {second}")
            if cell is not None:
                value, note = cell_value(cell, design.of_factor(0), source)
            values.append(value)
            notes.append(note)
        effects = EFFECTS @ np.array(values)
        table.append((item, *values, *effects, "; ".join(dict.fromkeys(filter(None, notes)))))
    cells = [f"{first}_{second}" for first, second in pairs]
    return pd.DataFrame(table, columns=[design.item, *cells, *effect_names(design.factors, levels), "note"])


def _tests(
    items: pd.DataFrame, design: FactorialDesign, levels: tuple[tuple[str, str], tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return the tests of the three effects, with the means that each compares."""
    names = effect_names(design.factors, levels)
    known = items[np.isfinite(items[names[2]].to_numpy(dtype=np.float64))]
    cells = known[[f"{first}_{second}" for first in levels[0] for second in levels[1]]].to_numpy(dtype=np.float64)
    means = cells.mean(axis=0) if len(cells) else np.full(4, np.nan)
    compared = (
        (means[[0, 1]].mean(), means[[2, 3]].mean()),
        (means[[0, 2]].mean(), means[[1, 3]].mean()),
        (means[0] - means[1], means[2] - means[3]),
    )
    tests = []
    for name, (first, second) in zip(names, compared, strict=True):
        counts = {"contrast": name, "n_items": len(known), "n_missing": len(items) - len(known)}
        tests.append(
            {**counts, "mean_first": first, "mean_second": second, **paired(known[name].to_numpy(dtype=np.float64))}
        )
    return tests


def caption(result: FactorialResult, unit: str = "") -> str:
    """Return a sentence on what was compared and how it was tested."""
    first, second = result.factors
    where = ", ".join(f"{column} {value}" for column, value in result.provenance["where"].items())
    flips = f"all sign flips up to {EXACT_UP_TO} items, 100,000 sampled beyond"
    formula = r_formula(str(result.summary["measure"].iloc[0]), result.factors, result.provenance["item"])
    interaction = f"the effect of {second} in {result.levels[0][0]} minus that in {result.levels[0][1]}"
    return (
        f"{first} and {second}{f' ({where})' if where else ''}{f', in {unit}' if unit else ''}, by item. The "
        f"interaction is {interaction}. Interval and p_t: Student's t; p_permutation: {flips}. {formula}"
    )
