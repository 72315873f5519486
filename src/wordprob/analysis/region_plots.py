"""Figures of surprisal by region and condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wordprob.analysis.contrasts import COMBINE
from wordprob.analysis.input_tables import require
from wordprob.analysis.plot_columns import PlotColumns
from wordprob.analysis.plot_style import add_footnote, axis_label, line_styles, with_fonts
from wordprob.analysis.plots import style_axes
from wordprob.analysis.region_means import region_means
from wordprob.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@with_fonts
def by_region(
    frame: pd.DataFrame,
    condition: str,
    region: str | None = None,
    columns: PlotColumns | None = None,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    source: str = "the table",
    item: str | None = None,
    combine: str | None = None,
    model: str = "",
) -> Figure:
    """Draw the mean surprisal of each region by condition, with 95 % intervals over three items or texts, or more.

    Parameters
    ----------
    frame
        Scored words, or regions; the words of a region are added up in each text.
    condition
        The column of the conditions, or two columns with a comma between them.
    region
        The column of the regions, drawn in the order in which they first occur; the word's number by default.
    item
        The column of the items, whose differences are then taken out of the intervals (Morey 2008). Without it, and
        where an item lacks a condition, intervals are over texts.
    combine
        ``sum`` (the default) of a region's words, or ``mean``, for regions of unequal length.
    columns, unit, size, source, model
        As for :func:`wordprob.analysis.text_plots.plot_text`.
    """
    columns = columns or PlotColumns()
    factors = [name.strip() for name in condition.split(",")] if condition not in frame.columns else [condition]
    if combine not in (None, *COMBINE):
        raise OptionError(f"`combine` is '{combine}'; it must be {' or '.join(COMBINE)}.")
    needed = [columns.value, *factors, *columns.texts, *filter(None, (region, item))]
    require(frame, needed, source)
    means = region_means(frame, factors, region, columns, item, combine, source)
    models = list(dict.fromkeys(means["model"]))
    regions = list(dict.fromkeys(means["region"]))
    conditions = list(dict.fromkeys(means["condition"]))
    legend_columns = min(len(conditions), 2 if len(conditions) == 4 else 3)
    legend_width = legend_columns * (0.7 + 0.09 * max(map(len, conditions)))
    width = size[0] or max(min(1.6 + 0.55 * len(regions) * len(models), 10.0), legend_width, 3.8)
    height = size[1] or 3.4 + 0.2 * (len(conditions) > legend_columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for axes, name in zip(panels, models, strict=True):
        _draw_regions(axes, means[means["model"] == name], regions, rotated=region is not None)
        axes.set_xlabel(region or "word", fontsize=8, parse_math=False)
        axes.set_title(name or model, fontsize=8, loc="right", color="#555555", parse_math=False)
    shown = f"{columns.value} per word" if combine == "mean" else columns.value
    panels[0].set_ylabel(axis_label(shown, unit), fontsize=9, parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    title = ", ".join(factors)
    look = {"frameon": False, "fontsize": 8, "title_fontsize": 9}
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns, title=title, **look)
    add_footnote(figure, _interval_note(means))
    return figure


def _draw_regions(axes: Axes, means: pd.DataFrame, regions: Sequence[str], rotated: bool) -> None:
    """Draw a line for each condition."""
    conditions = list(dict.fromkeys(means["condition"]))
    for k, (level, style) in enumerate(zip(conditions, line_styles(len(conditions)), strict=True)):
        rows = means[means["condition"] == level]
        # Conditions are a small step apart, so that error bars do not hide one another.
        step = 0.08 * (k - (len(conditions) - 1) / 2)
        x = np.array([regions.index(name) for name in rows["region"]]) + step
        axes.errorbar(
            x, rows["mean"], yerr=rows["half_width"], capsize=2, linewidth=1.2, markersize=5, label=level, **style
        )
    angle, side = (30, "right") if rotated else (0, "center")
    axes.set_xticks(range(len(regions)), regions, rotation=angle, ha=side, parse_math=False)
    style_axes(axes)


def _interval_note(means: pd.DataFrame) -> str:
    """Return a line on what the error bars are."""
    if not np.isfinite(means["half_width"].to_numpy()).any():
        return ""
    if means["within"].all():
        return "bars: 95 % within-item intervals (Morey 2008)"
    if means["within"].any():
        return "bars: 95 % within-item intervals (Morey 2008); over texts where an item lacks a condition"
    return "bars: 95 % intervals over texts (Student's t)"
