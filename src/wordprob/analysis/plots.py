"""The figures of the two studies, from the tables of their results.

Colours are the first two of a palette that survives colour blindness and greyscale; the estimates also differ in
marker and line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from wordprob.analysis.correlations import CORRELATION_NAMES
from wordprob.core.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES: dict[str, dict[str, Any]] = {
    "corrected": {"color": "#0072B2", "marker": "o", "linestyle": "-", "label": "corrected"},
    "naive": {"color": "#D55E00", "marker": "^", "linestyle": "--", "label": "naive (buggy)"},
    "all": {"color": "#009E73", "marker": "s", "linestyle": "-.", "label": "all spellings"},
}
DELTA_LLH_LABEL = "Δ log-likelihood ($10^{-2}$ nats per word)"
MAX_PANELS_PER_ROW = 4
"""Panels next to one another, at most."""

SIZE_AXIS_MARGIN = 1.6
"""Factor by which the axis of model sizes extends beyond the smallest and the largest model."""

MIN_CORPORA_FOR_BARS = 4
"""From this number of corpora on, one model is drawn as bars by corpus; otherwise there is a panel for each corpus."""


def reading_times(summary: pd.DataFrame, titles: Mapping[str, str], sizes: Mapping[str, float | None]) -> Figure:
    """Draw the paper's figure: Δ log-likelihood by model size, a panel for each corpus, both estimates.

    Lines join the models of one family.

    One model on many corpora is drawn as bars by corpus, as in the paper's multilingual figure. Error bars are 95 %
    intervals (Student's t) over folds.

    Parameters
    ----------
    summary
        As in a :class:`~wordprob.analysis.reading_time_results.ReadingTimesResult`.
    titles
        The title of each corpus; panels and bars are in this order.
    sizes
        Millions of parameters of each model, ``None`` if unknown.
    """
    if len(sizes) == 1 and len(titles) >= MIN_CORPORA_FOR_BARS:
        return _bars(summary, titles, next(iter(sizes)))
    n_columns = min(len(titles), MAX_PANELS_PER_ROW)
    n_rows = -(-len(titles) // n_columns)  # rounded up
    figure = Figure(figsize=(1.2 + 2.7 * n_columns, 0.4 + 3 * n_rows), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    panels: Sequence[Axes] = list(grid.flat)
    for unused in panels[len(titles) :]:
        unused.remove()
    x_of_model, by_name = _x_of_models(sizes)
    for corpus, axes in zip(titles, panels, strict=False):
        _panel(axes, summary[summary["corpus"] == corpus], x_of_model, by_name)
        _model_axis(axes, x_of_model, by_name)
        axes.set_title(titles[corpus])
    for axes in grid[:, 0]:
        axes.set_ylabel(DELTA_LLH_LABEL)
    _legend(figure, panels[0])
    return figure


def _panel(axes: Axes, summary: pd.DataFrame, x_of_model: Mapping[str, float], by_name: bool) -> None:
    for k, (estimate, style) in enumerate(STYLES.items()):
        rows = summary[(summary["contrast"] == f"{estimate} - baseline") & summary["model"].isin(x_of_model)]
        if rows.empty:
            continue
        # The two estimates nearly coincide: a small step apart keeps both error bars visible.
        x = np.array([x_of_model[model] for model in rows["model"]]) * _step_factor(x_of_model, k - 0.5)
        y = 100 * rows["mean"].to_numpy()
        half_width = 100 * (rows["ci_high"] - rows["mean"]).to_numpy()
        models = rows["model"].tolist()
        _points(axes, models, x, y, half_width, by_name, linewidth=1.2, markersize=5, **style)
        if not by_name and _crowded(x_of_model):
            _name_families(axes, models, x, y + half_width)
    style_axes(axes)


def _points(
    axes: Axes, models: Sequence[str], x: Floats, y: Floats, half_width: Floats, by_name: bool, **style: Any
) -> None:
    """Draw points with error bars, and join those of one family, whose models differ in size only."""
    families = np.array([model if by_name else _family(model) for model in models])
    for n, family in enumerate(dict.fromkeys(families)):
        rows = np.flatnonzero(families == family)
        rows = rows[np.argsort(x[rows])]
        label = style["label"] if n == 0 else None  # one entry in the legend
        axes.errorbar(x[rows], y[rows], yerr=half_width[..., rows], capsize=2, **{**style, "label": label})


def _name_families(axes: Axes, models: Sequence[str], x: Floats, y: Floats) -> None:
    """Write, once in a panel, the name of each family over its smallest model."""
    families = [_family(model) for model in models]
    for family in dict.fromkeys(families):
        members = [n for n, name in enumerate(families) if name == family]
        smallest = min(members, key=lambda n: float(x[n]))
        if family not in {text.get_text() for text in axes.texts}:
            axes.annotate(
                family,
                (x[smallest], y[smallest]),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=7,
                ha="center",
            )


def _family(model: str) -> str:
    """Return the name that models of one family share: gpt2 for gpt2-small and gpt2-xl."""
    return model.rpartition("/")[2].partition("-")[0].lower()


def _x_of_models(sizes: Mapping[str, float | None]) -> tuple[dict[str, float], bool]:
    """Return the place of each model on the axis, and True if it is its number: a size is unknown or shared."""
    if None in sizes.values() or len(set(sizes.values())) < len(sizes):
        return {model: float(n + 1) for n, model in enumerate(sizes)}, True
    return {model: float(size or 0.0) for model, size in sizes.items()}, False


def _crowded(x_of_model: Mapping[str, float]) -> bool:
    """Return True if the names of models would overlap."""
    sizes = np.log(sorted(x_of_model.values()))
    return len(sizes) > 1 and bool(np.diff(sizes).min() < max(np.ptp(sizes) / 8, 0.1))


def _step_factor(x_of_model: Mapping[str, float], steps: float) -> float:
    """Return the factor that moves a point a few steps along the logarithmic axis, whatever the axis spans."""
    span = np.log(max(x_of_model.values()) / min(x_of_model.values())) + 2 * np.log(SIZE_AXIS_MARGIN)
    return float(np.exp(0.018 * span * steps))


def _model_axis(axes: Axes, x_of_model: Mapping[str, float], by_name: bool) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    names = list(x_of_model) if by_name else [f"{_size(size)}\n{model}" for model, size in x_of_model.items()]
    if not by_name and _crowded(x_of_model):
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _size(size)))
    else:
        axes.set_xticks(list(x_of_model.values()), names, rotation=30, fontsize=7, ha="right")
    axes.set_xlim(min(x_of_model.values()) / SIZE_AXIS_MARGIN, max(x_of_model.values()) * SIZE_AXIS_MARGIN)
    axes.set_xlabel("model" if by_name else "parameters", fontsize=8)


def _size(millions: float) -> str:
    return f"{millions / 1000:g}B" if millions >= 1000 else f"{millions:g}M"


def _bars(summary: pd.DataFrame, titles: Mapping[str, str], model: str) -> Figure:
    figure = Figure(figsize=(1.5 + 0.8 * len(titles), 3.4), layout="constrained")
    axes = figure.subplots()
    contrasts = set(summary["contrast"])
    present = [name for name in STYLES if f"{name} - baseline" in contrasts]
    width = 0.8 / len(present)
    for k, estimate in enumerate(present):
        rows = summary[summary["contrast"] == f"{estimate} - baseline"].set_index("corpus").loc[list(titles)]
        x = np.arange(len(rows)) + (k - (len(present) - 1) / 2) * width
        axes.bar(
            x,
            100 * rows["mean"],
            width,
            yerr=100 * (rows["ci_high"] - rows["mean"]),
            capsize=2,
            color=STYLES[estimate]["color"],
            label=STYLES[estimate]["label"],
            error_kw={"linewidth": 0.9},
        )
    axes.set_xticks(range(len(titles)), list(titles.values()), rotation=20, ha="right")
    axes.set_ylabel(DELTA_LLH_LABEL)
    axes.set_title(model, fontsize=9)
    style_axes(axes)
    _legend(figure, axes)
    return figure


def word_lengths(correlations: pd.DataFrame, sizes: Mapping[str, float | None]) -> Figure:
    """Draw the paper's figure: correlation with word length by model size, for each hypothesis and estimate.

    Parameters
    ----------
    correlations
        As in a :class:`~wordprob.analysis.word_length_results.WordLengthResult`.
    sizes
        Millions of parameters of each model, ``None`` if unknown.
    """
    figure = Figure(figsize=(8.2, 3.8), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(1, 2, squeeze=False)[0]
    x_of_model, by_name = _x_of_models(sizes)
    for axes, correlation in zip(panels, CORRELATION_NAMES, strict=True):
        _lines(axes, correlations, correlation, x_of_model, by_name)
        _model_axis(axes, x_of_model, by_name)
        axes.set_title(f"{correlation.title()} correlation with length", fontsize=10)
        style_axes(axes)
    panels[0].set_ylabel("correlation")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _lines(
    axes: Axes, correlations: pd.DataFrame, correlation: str, x_of_model: Mapping[str, float], by_name: bool
) -> None:
    markers = {"Zipf": "s", "CCH (Piantadosi)": "o", "CCH (Pimentel)": "D"}
    groups = correlations.groupby(["predictor", "estimate"], sort=False)
    for k, ((predictor, estimate), rows) in enumerate(groups):
        style = STYLES.get(str(estimate), {"color": "#444444", "linestyle": ":"})
        models = rows["model"].tolist()
        step = _step_factor(x_of_model, k - (len(groups) - 1) / 2)
        x = np.array([x_of_model[model] for model in models]) * step
        y, low, high = (rows[correlation + suffix].to_numpy() for suffix in ("", "_low", "_high"))
        half_widths = np.abs(np.stack([y - low, high - y]))
        _points(
            axes,
            models,
            x,
            y,
            half_widths,
            by_name,
            linewidth=1.1,
            markersize=4.5,
            marker=markers[str(predictor)],
            color=style["color"],
            linestyle=style["linestyle"],
            label=f"{predictor} {estimate}".strip(),
            fillstyle="full" if predictor != "CCH (Pimentel)" else "none",
        )
        if estimate and not by_name and _crowded(x_of_model):
            _name_families(axes, models, x, high)


def style_axes(axes: Axes) -> None:
    """Remove lines that carry no data, and draw a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, color="#cccccc")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
