"""Figures of results; they never see a model.

Colours are the first two of a palette that survives colour blindness and greyscale; the estimates also differ in
marker and line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from wordprob.analysis import reading_times as rt
from wordprob.analysis import word_lengths as wl
from wordprob.core.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES: dict[str, dict[str, Any]] = {
    "corrected": {"color": "#0072B2", "marker": "o", "linestyle": "-", "label": "corrected"},
    "naive": {"color": "#D55E00", "marker": "^", "linestyle": "--", "label": "naive (buggy)"},
}
HUNDREDTHS = "Δ log-likelihood ($10^{-2}$ nats per word)"
ACROSS = 4
"""Panels beside one another, at most."""

MARGIN = 1.6
"""Factor by which the axis of sizes goes beyond the smallest and the largest model."""

BARS_FROM = 4
"""One model on so many corpora makes bars by corpus; otherwise there is a panel for each corpus."""


def reading_times(result: rt.Result) -> Figure:
    """Draw the paper's figure: Δ log-likelihood by model size, a panel for each corpus, both estimates.

    Lines join the models of one family.

    One model on many corpora is drawn as bars by corpus, as in the paper's multilingual figure. Error bars are 95 %
    intervals (Student's t) over folds.
    """
    if len(result.models) == 1 and len(result.corpora) >= BARS_FROM:
        return _bars(result)
    across = min(len(result.corpora), ACROSS)
    down = -(-len(result.corpora) // across)
    figure = Figure(figsize=(1.2 + 2.7 * across, 0.4 + 3 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    panels: Sequence[Axes] = list(grid.flat)
    for unused in panels[len(result.corpora) :]:
        unused.remove()
    places, by_name = _places(result.models, result.sizes)
    for corpus, axes in zip(result.corpora, panels, strict=False):
        _panel(axes, result, corpus, places, by_name)
        _model_axis(axes, places, by_name)
        axes.set_title(result.titles[corpus])
    for axes in grid[:, 0]:
        axes.set_ylabel(HUNDREDTHS)
    _legend(figure, panels[0])
    return figure


def _panel(axes: Axes, result: rt.Result, corpus: str, places: Mapping[str, float], by_name: bool) -> None:
    for k, (estimate, style) in enumerate(STYLES.items()):
        rows = result.summary[
            (result.summary["corpus"] == corpus)
            & (result.summary["contrast"] == f"{estimate} - baseline")
            & result.summary["model"].isin(places)
        ]
        # The two estimates nearly coincide: a small step apart keeps both error bars in sight.
        x = np.array([places[model] for model in rows["model"]]) * _aside(places, k - 0.5)
        y, reach = 100 * rows["mean"].to_numpy(), 100 * (rows["ci_high"] - rows["mean"]).to_numpy()
        if len(rows):
            _points(axes, rows["model"].tolist(), x, y, reach, by_name, linewidth=1.2, markersize=5, **style)
            if not by_name and _crowded(places):
                _name_families(axes, rows["model"].tolist(), x, y + reach)
    tidy(axes)


def _points(
    axes: Axes, models: Sequence[str], x: Floats, y: Floats, reach: Floats, by_name: bool, **style: Any
) -> None:
    """Draw points with error bars, and join those of one family: only between those is size the difference."""
    families = np.array([model if by_name else _family(model) for model in models])
    for n, family in enumerate(dict.fromkeys(families)):
        rows = np.flatnonzero(families == family)
        rows = rows[np.argsort(x[rows])]
        shown = {**style, "label": style["label"] if n == 0 else None}
        axes.errorbar(x[rows], y[rows], yerr=reach[..., rows], capsize=2, **shown)


def _name_families(axes: Axes, models: Sequence[str], x: Floats, y: Floats) -> None:
    """Write, once in a panel, the name of each family over its smallest model."""
    families = [_family(model) for model in models]
    for family in dict.fromkeys(families):
        at = min((n for n, name in enumerate(families) if name == family), key=lambda n: float(x[n]))
        if family not in {text.get_text() for text in axes.texts}:
            axes.annotate(family, (x[at], y[at]), xytext=(0, 3), textcoords="offset points", fontsize=7, ha="center")


def _family(model: str) -> str:
    """Return what models of one family have in common: gpt2 of gpt2-small and gpt2-xl."""
    return model.rpartition("/")[2].partition("-")[0].lower()


def _places(models: Sequence[str], sizes: Mapping[str, float | None]) -> tuple[dict[str, float], bool]:
    """Put models on an axis by size, or one after the other when a size is unknown or shared."""
    known = [sizes[model] for model in models]
    if None in known or len(set(known)) < len(known):
        return {model: float(n + 1) for n, model in enumerate(models)}, True
    return {model: float(sizes[model] or 0.0) for model in models}, False


def _crowded(places: Mapping[str, float]) -> bool:
    """Tell whether the names of models would stand on one another."""
    sizes = np.log(sorted(places.values()))
    return len(sizes) > 1 and bool(np.diff(sizes).min() < max(np.ptp(sizes) / 8, 0.1))


def _aside(places: Mapping[str, float], steps: float) -> float:
    """Return the factor that moves a point a few steps along the axis, whatever the axis spans."""
    span = np.log(max(places.values()) / min(places.values())) + 2 * np.log(MARGIN)
    return float(np.exp(0.018 * span * steps))


def _model_axis(axes: Axes, places: Mapping[str, float], by_name: bool) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    names = list(places) if by_name else [f"{_size(size)}\n{model}" for model, size in places.items()]
    if not by_name and _crowded(places):
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _size(size)))
    else:
        axes.set_xticks(list(places.values()), names, rotation=30, fontsize=7, ha="right")
    low, high = min(places.values()), max(places.values())
    axes.set_xlim(low / MARGIN, high * MARGIN)
    axes.set_xlabel("model" if by_name else "parameters", fontsize=8)


def _size(millions: float) -> str:
    return f"{millions / 1000:g}B" if millions >= 1000 else f"{millions:g}M"


def _bars(result: rt.Result) -> Figure:
    figure = Figure(figsize=(1.5 + 0.8 * len(result.corpora), 3.4), layout="constrained")
    axes = figure.subplots()
    present = [name for name in STYLES if name in set(result.folds["estimate"])]
    width = 0.8 / len(present)
    for k, estimate in enumerate(present):
        rows = result.summary[result.summary["contrast"] == f"{estimate} - baseline"].set_index("corpus")
        rows = rows.loc[result.corpora]
        x = np.arange(len(rows)) + (k - (len(present) - 1) / 2) * width
        reach = 100 * (rows["ci_high"] - rows["mean"])
        axes.bar(x, 100 * rows["mean"], width, yerr=reach, capsize=2, color=STYLES[estimate]["color"],
                 label=STYLES[estimate]["label"], error_kw={"linewidth": 0.9})  # fmt: skip
    axes.set_xticks(range(len(result.corpora)), [result.titles[c] for c in result.corpora], rotation=20, ha="right")
    axes.set_ylabel(HUNDREDTHS)
    axes.set_title(result.models[0], fontsize=9)
    tidy(axes)
    _legend(figure, axes)
    return figure


def word_lengths(result: wl.Result) -> Figure:
    """Draw the paper's figure: correlation with word length by model size, for each hypothesis and estimate."""
    figure = Figure(figsize=(8.2, 3.8), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(1, 2, squeeze=False)[0]
    places, by_name = _places(result.models, result.sizes)
    for axes, kind in zip(panels, ("spearman", "pearson"), strict=True):
        _lines(axes, result, kind, places, by_name)
        _model_axis(axes, places, by_name)
        axes.set_title(f"{kind.title()} correlation with length", fontsize=10)
        tidy(axes)
    panels[0].set_ylabel("correlation")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _lines(axes: Axes, result: wl.Result, kind: str, places: Mapping[str, float], by_name: bool) -> None:
    markers = {"Zipf": "s", "CCH (Piantadosi)": "o", "CCH (Pimentel)": "D"}
    groups = result.correlations.groupby(["predictor", "estimate"], sort=False)
    for k, ((predictor, estimate), rows) in enumerate(groups):
        style = STYLES.get(str(estimate), {"color": "#444444", "linestyle": ":"})
        x = np.array([places[model] for model in rows["model"]])
        step = _aside(places, k - (len(groups) - 1) / 2)
        reach = np.abs(np.stack([rows[kind] - rows[f"{kind}_low"], rows[f"{kind}_high"] - rows[kind]]))
        _points(axes, rows["model"].tolist(), x * step, rows[kind].to_numpy(), reach, by_name, linewidth=1.1,
                markersize=4.5, marker=markers[str(predictor)], color=style["color"], linestyle=style["linestyle"],
                label=f"{predictor} {estimate}".strip(),
                fillstyle="full" if predictor != "CCH (Pimentel)" else "none")  # fmt: skip
        if estimate and not by_name and _crowded(places):
            _name_families(axes, rows["model"].tolist(), x * step, rows[f"{kind}_high"].to_numpy())


def tidy(axes: Axes) -> None:
    """Leave out what carries no data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, color="#cccccc")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
