"""Figures of contrasts by item: of two conditions, or of two factors with two levels each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wordprob.analysis.contrasts import ContrastResult
from wordprob.analysis.factorial import FactorialResult
from wordprob.analysis.intervals import within_intervals
from wordprob.analysis.plot_style import (
    COLOURS,
    add_footnote,
    axis_label,
    line_styles,
    two_decimals,
    with_fonts,
    with_math_signs,
)
from wordprob.analysis.plots import style_axes
from wordprob.analysis.region_means import MIN_TEXTS_FOR_INTERVAL
from wordprob.core.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ModelPart(NamedTuple):
    """The part of a result for one model and measure; the model's name is empty if there is only one."""

    model: str
    measure: str
    tests: pd.DataFrame
    items: pd.DataFrame


def _by_model(result: ContrastResult | FactorialResult, measure: str | None) -> list[ModelPart]:
    """Return the tests and items of each model, for a measure; the first measure by default."""
    chosen = measure or str(result.summary["measure"].iloc[0])
    summary = result.summary[result.summary["measure"] == chosen]
    items = result.items[result.items["measure"] == chosen]
    if "model" not in summary.columns:
        return [ModelPart("", chosen, summary, items)]
    return [
        ModelPart(str(model), chosen, tests, items[items["model"] == model])
        for model, tests in summary.groupby("model", sort=False)
    ]


# --- two conditions ---------------------------------------------------------------------------------------------------


@with_fonts
def contrast(
    result: ContrastResult,
    measure: str | None = None,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    model: str = "",
) -> Figure:
    """Draw a contrast: every item in both conditions, and the differences with their mean and 95 % interval.

    Parameters
    ----------
    result
        What :func:`wordprob.analysis.contrasts.contrast` returned.
    measure
        Which measure; the first by default.
    unit, size, model
        As for :func:`wordprob.analysis.text_plots.plot_text`.
    """
    parts = _by_model(result, measure)
    figure = Figure(figsize=(size[0] or 6.4, size[1] or 3.2 * len(parts)), layout="constrained")
    panels = figure.subplots(len(parts), 2, squeeze=False, width_ratios=(1, 1.2))
    for (left, right), part in zip(panels, parts, strict=True):
        known = part.items[np.isfinite(part.items["difference"].to_numpy(dtype=float))]
        _draw_pairs(left, known, result, axis_label(part.measure, unit))
        _draw_differences(right, known, part.tests.iloc[0].to_dict(), unit)
        left.set_title(part.model or model, fontsize=8, loc="left", color="#555555", parse_math=False)
    add_footnote(figure, "band: 95 % interval of the mean (Student's t)")
    return figure


def _draw_pairs(axes: Axes, items: pd.DataFrame, result: ContrastResult, label: str) -> None:
    """Draw a line for each item from one condition to the other, and one for the means."""
    values = items[list(result.columns)].to_numpy(dtype=float)
    for both in values:
        axes.plot((0, 1), both, color="#bbbbbb", linewidth=0.8, marker=".", markersize=4)
    if len(values):
        axes.plot((0, 1), values.mean(axis=0), color=COLOURS[0], linewidth=2.2, marker="o", label="mean")
    axes.set_xticks((0, 1), result.levels, parse_math=False)
    axes.set_xlim(-0.35, 1.35)
    axes.set_ylabel(label, fontsize=8, parse_math=False)
    style_axes(axes)


def _draw_differences(axes: Axes, items: pd.DataFrame, test: Mapping[Any, Any], unit: str) -> None:
    """Draw the items' differences by size, and their mean with its 95 % interval."""
    ordered = np.sort(items["difference"].to_numpy(dtype=float))
    axes.axhline(0.0, color="#444444", linewidth=0.8)
    axes.plot(np.arange(len(ordered)), ordered, linestyle="none", marker="o", markersize=4, color="#888888")
    if np.isfinite(test["ci_low"]):
        axes.axhspan(test["ci_low"], test["ci_high"], color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.axhline(test["difference"], color=COLOURS[0], linewidth=1.6)
    axes.set_xticks([])
    axes.set_xlabel(f"{test['n_items']} items, by difference", fontsize=8)
    axes.set_ylabel(with_math_signs(axis_label(str(test["contrast"]), unit)), fontsize=8, parse_math=False)
    axes.set_title(
        f"mean {two_decimals(test['difference'])}; permutation test: {_p_value(test['p_permutation'])}", fontsize=8
    )
    style_axes(axes)


def _p_value(value: float) -> str:
    if not np.isfinite(value):
        return "p not known"
    return "p < .001" if value < 0.001 else f"p = {value:.3f}".replace("0.", ".")


# --- two factors ---------------------------------------------------------------------------------------------------


@with_fonts
def factorial(
    result: FactorialResult,
    measure: str | None = None,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    model: str = "",
) -> Figure:
    """Draw a 2×2 design: the means of the four conditions, and both main effects and the interaction.

    Parameters
    ----------
    result
        What :func:`wordprob.analysis.factorial.factorial` returned.
    measure
        Which measure; the first by default.
    unit, size, model
        As for :func:`wordprob.analysis.text_plots.plot_text`.
    """
    parts = _by_model(result, measure)
    figure = Figure(figsize=(size[0] or 7.2, size[1] or 0.3 + 3.0 * len(parts)), layout="constrained")
    panels = figure.subplots(len(parts), 2, squeeze=False, width_ratios=(1, 1.3))
    for (left, right), part in zip(panels, parts, strict=True):
        cells = part.items[result.cells].to_numpy(dtype=float)
        _draw_interaction(left, cells[np.isfinite(cells).all(axis=1)], result, axis_label(part.measure, unit))
        _draw_effects(right, part.tests, unit)
        left.set_title(part.model or model, fontsize=8, loc="left", color="#555555", parse_math=False)
    left_bars = "left: 95 % within-item intervals (Morey 2008)"
    add_footnote(figure, f"{left_bars}; right: 95 % intervals (Student's t), p by permutation test")
    return figure


def _draw_interaction(axes: Axes, cells: Floats, result: FactorialResult, label: str) -> None:
    """Draw the means of the four conditions: a line for each level of the first factor."""
    if len(cells):
        means = cells.mean(axis=0).reshape(2, 2)
        enough = len(cells) >= MIN_TEXTS_FOR_INTERVAL
        half_widths = (within_intervals(cells) if enough else np.full(4, np.nan)).reshape(2, 2)
        for k, style in enumerate(line_styles(2)):
            x = np.arange(2) + 0.06 * (k - 0.5)
            name = result.levels[0][k]
            axes.errorbar(x, means[k], yerr=half_widths[k], capsize=3, linewidth=1.4, markersize=6, label=name, **style)
        axes.legend(title=result.factors[0], fontsize=8, title_fontsize=8, frameon=False)
    axes.set_xticks((0, 1), result.levels[1], parse_math=False)
    axes.set_xlim(-0.4, 1.4)
    axes.set_xlabel(result.factors[1], fontsize=8, parse_math=False)
    axes.set_ylabel(label, fontsize=8, parse_math=False)
    style_axes(axes)


def _draw_effects(axes: Axes, tests: pd.DataFrame, unit: str) -> None:
    """Draw the effects below each other, with their intervals and p-values."""
    labels = []
    for place, test in enumerate(tests.to_dict("records")):
        width = np.array([[test["difference"] - test["ci_low"]], [test["ci_high"] - test["difference"]]])
        axes.errorbar(
            [test["difference"]],
            [place],
            xerr=width,
            capsize=3,
            marker="o",
            markersize=6,
            color=COLOURS[0],
            linewidth=1.4,
        )
        result = f"{two_decimals(test['difference'])}, {_p_value(test['p_permutation'])}"
        labels.append(with_math_signs(f"{test['contrast']}\n{result}"))
    axes.axvline(0.0, color="#444444", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8, parse_math=False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(axis_label("effect", unit), fontsize=8, parse_math=False)
    axes.set_title(f"{tests['n_items'].iloc[0]} items; permutation test", fontsize=8)
    style_axes(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", linewidth=0.4, color="#cccccc")
