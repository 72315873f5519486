"""Figures of scored texts: surprisal along a text, by region and condition, and contrasts by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from scipy import stats

from wordprob.analysis.contrasts import ContrastResult
from wordprob.analysis.plots import STYLES, style_axes
from wordprob.analysis.tables import numbers, pair, require
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "^", "s", "D", "v", "P")
"""A palette that survives colour blindness, and markers for greyscale."""

WORDS_PER_LINE = 18
"""Words next to one another; longer texts continue below."""

MAX_TEXTS = 8
"""Texts in one figure, at most."""

MORE_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans",
    "Malgun Gothic", "Noto Sans Thai", "Noto Sans Devanagari", "Noto Sans Arabic", "Arial Unicode MS", "Noto Sans",
)  # fmt: skip
"""Fonts for the scripts that the usual font lacks."""

MIN_TEXTS_FOR_INTERVAL = 3
"""Texts that an interval needs; that of two texts would be much larger than the rest of the figure."""

NO_REGION = ("", "NA", "nan", "None")


@dataclass(frozen=True)
class PlotColumns:
    """Which columns of a scored table hold what."""

    word: str = "word"
    value: str = "surprisal"
    texts: Sequence[str] = ("text_id",)
    naive: str = "surprisal_naive"


def _styles(count: int) -> list[dict[str, Any]]:
    pairs = zip(cycle(COLOURS), cycle(MARKERS), strict=False)
    return [{"color": colour, "marker": marker} for _, (colour, marker) in zip(range(count), pairs, strict=False)]


# --- along a text --------------------------------------------------------------------------------------------------


def plot_text(
    frame: pd.DataFrame,
    columns: PlotColumns | None = None,
    texts: Sequence[str] = (),
    naive: bool = False,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    source: str = "the table",
) -> Figure:
    """Draw surprisal word by word, a panel for each text.

    Parameters
    ----------
    frame
        Scored words, or regions.
    columns
        Which columns hold what.
    texts
        Which texts: an id, or ``item=3`` or ``item=3,condition=a``. All of a few by default.
    naive
        Draw the naive estimate as well.
    unit
        For the axis.
    size
        Width and height in inches; what fits by default.
    source
        What to call the table in messages.
    """
    columns = columns or PlotColumns()
    needed = [columns.word, columns.value, *columns.texts]
    if naive:
        needed.append(columns.naive)
    require(frame, needed, source)
    lines = []
    for name, rows in _choose(frame, columns, texts, source).items():
        lines += _broken_into_lines(name, rows)
    models = list(dict.fromkeys(frame["model"])) if "model" in frame.columns else [""]
    longest = max(len(words) for _, words in lines) // len(models)
    width = size[0] or min(1.5 + 0.45 * longest, 9.0)
    figure = Figure(figsize=(width, size[1] or 0.6 + 2.0 * len(lines)), layout="constrained")
    panels = figure.subplots(len(lines), 1, squeeze=False, sharey=True)[:, 0]
    with rc_context({"font.family": _fonts()}):
        for axes, (title, words) in zip(panels, lines, strict=True):
            _line(axes, words, columns, models, naive, source)
            axes.set_xlim(-0.5, longest - 0.5)
            axes.set_title(title, fontsize=9, loc="left", parse_math=False)
            axes.set_ylabel(_label(columns.value, unit), fontsize=8, parse_math=False)
    if all(axes.dataLim.ymin >= 0 for axes in panels):
        panels[0].set_ylim(bottom=0)
    if naive or len(models) > 1:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


along = plot_text
"""The name of :func:`plot_text` in earlier versions, so that scripts written for them run."""


def _fonts() -> list[str]:
    """Return the usual font, and those of the fonts for other scripts that are installed."""
    installed = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in MORE_FONTS if name in installed)]


def _label(value: str, unit: str) -> str:
    return f"{value} ({unit})" if unit else value


def _choose(frame: pd.DataFrame, columns: PlotColumns, texts: Sequence[str], source: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each text that is to be drawn, by its name."""
    keyed = frame.assign(**{name: frame[name].astype(str) for name in columns.texts})
    rows = keyed
    if texts:
        rows = pd.concat([keyed[_matches(keyed, columns, text, source)] for text in texts])
    chosen = {_name(columns, key): text_rows for key, text_rows in rows.groupby(list(columns.texts), sort=False)}
    if len(chosen) > MAX_TEXTS:
        example = next(iter(chosen)).replace(", ", ",").replace(" = ", "=")
        raise InputError(
            f"{source} has {len(chosen)} texts to draw; choose up to {MAX_TEXTS} as `texts`, for example '{example}'"
        )
    return chosen


def _matches(frame: pd.DataFrame, columns: PlotColumns, text: str, source: str) -> Any:
    """Return which rows belong to a text, given by its id or as ``item=3,condition=a``."""
    if "=" in text:
        wanted = dict(map(pair, text.split(",")))
    else:
        wanted = {"text_id" if "text_id" in frame.columns else columns.texts[0]: text}
    require(frame, wanted, source)
    matches = np.logical_and.reduce([(frame[name].astype(str) == value).to_numpy() for name, value in wanted.items()])
    if not matches.any():
        name = next(iter(wanted))
        values = dict.fromkeys(frame[name].astype(str))
        raise InputError(f"{source}: no text has {text.replace('=', ' = ')}; '{name}' holds {listing(values, 12)}.")
    return matches


def _name(columns: PlotColumns, key: Any) -> str:
    values = key if isinstance(key, tuple) else (key,)
    return ", ".join(f"{name} = {value}" for name, value in zip(columns.texts, values, strict=True))


def _broken_into_lines(name: str, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the lines of a text, the first with its name; every model's words are broken at the same places."""
    rows_of_models = [rows]
    if "model" in rows.columns:
        rows_of_models = [model_rows for _, model_rows in rows.groupby("model", sort=False)]
    lines = []
    for start in range(0, max(map(len, rows_of_models)), WORDS_PER_LINE):
        line = pd.concat([model_rows.iloc[start : start + WORDS_PER_LINE] for model_rows in rows_of_models])
        lines.append((name if start == 0 else "", line))
    return lines


def _line(
    axes: Axes, rows: pd.DataFrame, columns: PlotColumns, models: Sequence[str], naive: bool, source: str
) -> None:
    """Draw one line of a text: a curve for each model, and one for its naive estimate."""
    rows_of_models = [rows[rows["model"] == model] if model else rows for model in models]
    for model, model_rows, model_style in zip(models, rows_of_models, _styles(len(models)), strict=True):
        # One model has the colours of the two estimates; several have a colour each.
        if len(models) == 1:
            style = dict(STYLES["corrected"])
            naive_style = {**style, **STYLES["naive"], "label": "naive"}
        else:
            style = {**model_style, "linestyle": "-", "label": model}
            naive_style = {**style, "label": f"{model}, naive"}
        x = np.arange(len(model_rows))
        y = _finite(numbers(model_rows, columns.value, source))
        axes.plot(x, y, linewidth=1.3, markersize=4.5, **style)
        _mark_gaps(axes, y)
        if naive:
            naive_y = _finite(numbers(model_rows, columns.naive, source))
            axes.plot(x, naive_y, linewidth=1.0, markersize=3.5, **{**naive_style, "linestyle": "--"})
    longest = max(rows_of_models, key=len)
    axes.set_xticks(range(len(longest)), longest[columns.word].astype(str), rotation=40, ha="right", parse_math=False)
    style_axes(axes)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _mark_gaps(axes: Axes, values: Floats) -> None:
    """Mark words without a value at the bottom of the panel."""
    for x in np.flatnonzero(np.isnan(values)):
        axes.text(float(x), 0.02, "–", transform=axes.get_xaxis_transform(), ha="center", color="#888888")


# --- by region and condition ---------------------------------------------------------------------------------------


def by_region(
    frame: pd.DataFrame,
    condition: str,
    region: str | None = None,
    columns: PlotColumns | None = None,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    source: str = "the table",
) -> Figure:
    """Draw the mean surprisal of each region by condition, with 95 % intervals (Student's t) over three texts or more.

    Parameters
    ----------
    frame
        Scored words, or regions; the words of a region are added up in each text.
    condition
        The column of the conditions.
    region
        The column of the regions, drawn in the order in which they first occur; the word's number by default.
    columns, unit, size, source
        As for :func:`plot_text`.
    """
    columns = columns or PlotColumns()
    needed = [columns.value, condition, *columns.texts]
    if region:
        needed.append(region)
    require(frame, needed, source)
    means = _means(frame, condition, region, columns, source)
    models = list(dict.fromkeys(means["model"]))
    conditions = list(dict.fromkeys(means["condition"]))
    regions = list(dict.fromkeys(means["region"]))
    width = size[0] or min(1.6 + 0.55 * len(regions) * len(models), 10.0)
    figure = Figure(figsize=(max(width, 3.5), size[1] or 3.2), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for axes, model in zip(panels, models, strict=True):
        model_means = means[means["model"] == model]
        for k, (level, style) in enumerate(zip(conditions, _styles(len(conditions)), strict=True)):
            rows = model_means[model_means["condition"] == level]
            # Conditions are a small step apart, so that error bars do not hide one another.
            x = np.array([regions.index(name) for name in rows["region"]]) + 0.08 * (k - (len(conditions) - 1) / 2)
            axes.errorbar(
                x, rows["mean"], yerr=rows["half_width"], capsize=2, linewidth=1.2, markersize=5, label=level, **style
            )
        axes.set_xticks(
            range(len(regions)),
            regions,
            rotation=30 if region else 0,
            ha="right" if region else "center",
            parse_math=False,
        )
        axes.set_xlabel(region or "word", fontsize=8, parse_math=False)
        axes.set_title(model, fontsize=9)
        style_axes(axes)
    panels[0].set_ylabel(_label(columns.value, unit), parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9, title=condition)
    return figure


def _means(frame: pd.DataFrame, condition: str, region: str | None, columns: PlotColumns, source: str) -> pd.DataFrame:
    """Add up each region of each text, and average over texts."""
    rows = pd.DataFrame(
        {
            "text": list(zip(*(frame[name].astype(str) for name in columns.texts), strict=True)),
            "model": frame["model"].astype(str).tolist() if "model" in frame.columns else "",
            "condition": frame[condition].astype(str).tolist(),
            "value": numbers(frame, columns.value, source),
        }
    )
    if region:
        rows["region"] = frame[region].astype(str).tolist()
    else:
        word_numbers = rows.groupby(["text", "model"], sort=False).cumcount() + 1
        rows["region"] = word_numbers.astype(str)
    keys = ["model", "condition", "region"]
    rows = rows[~rows["region"].isin(NO_REGION)]
    sums = rows.groupby(["text", *keys], sort=False)["value"].agg(lambda values: values.to_numpy().sum()).reset_index()
    means = []
    for (model, level, name), texts in sums.groupby(keys, sort=False):
        values = texts["value"].to_numpy()
        values = values[np.isfinite(values)]
        n = len(values)
        mean = values.mean() if n else np.nan
        half_width = np.nan
        if n >= MIN_TEXTS_FOR_INTERVAL:
            half_width = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        means.append((model, level, name, mean, half_width, n))
    return pd.DataFrame(means, columns=["model", "condition", "region", "mean", "half_width", "n"])


# --- contrasts -----------------------------------------------------------------------------------------------------


def contrast(
    result: ContrastResult,
    measure: str | None = None,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
) -> Figure:
    """Draw a contrast: every item in both conditions, and the differences with their mean and 95 % interval.

    Parameters
    ----------
    result
        What :func:`wordprob.analysis.contrasts.contrast` returned.
    measure
        Which measure; the first by default.
    unit, size
        As for :func:`plot_text`.
    """
    chosen = measure or str(result.summary["measure"].iloc[0])
    summary = result.summary[result.summary["measure"] == chosen]
    items = result.items[result.items["measure"] == chosen]
    models = list(summary["model"]) if "model" in summary.columns else [""]
    figure = Figure(figsize=(size[0] or 6.4, size[1] or 3.2 * len(models)), layout="constrained")
    panels = figure.subplots(len(models), 2, squeeze=False, width_ratios=(1, 1.2))
    for (left, right), model in zip(panels, models, strict=True):
        rows = items[items["model"] == model] if model else items
        test = (summary[summary["model"] == model] if model else summary).iloc[0]
        known = rows[np.isfinite(rows["difference"].to_numpy(dtype=float))]
        _pairs(left, known, result, _label(chosen, unit))
        _differences(right, known, test.to_dict(), unit)
        left.set_title(model, fontsize=9, loc="left", parse_math=False)
    return figure


def _pairs(axes: Axes, items: pd.DataFrame, result: ContrastResult, label: str) -> None:
    values = items[list(result.columns)].to_numpy(dtype=float)
    for both in values:
        axes.plot((0, 1), both, color="#bbbbbb", linewidth=0.8, marker=".", markersize=4)
    if len(values):
        axes.plot((0, 1), values.mean(axis=0), color=COLOURS[0], linewidth=2.2, marker="o", label="mean")
    axes.set_xticks((0, 1), result.levels, parse_math=False)
    axes.set_xlim(-0.35, 1.35)
    axes.set_ylabel(label, fontsize=8, parse_math=False)
    style_axes(axes)


def _differences(axes: Axes, items: pd.DataFrame, test: Mapping[Any, Any], unit: str) -> None:
    ordered = np.sort(items["difference"].to_numpy(dtype=float))
    axes.axhline(0.0, color="#444444", linewidth=0.8)
    axes.plot(np.arange(len(ordered)), ordered, linestyle="none", marker="o", markersize=4, color="#888888")
    if np.isfinite(test["ci_low"]):
        axes.axhspan(test["ci_low"], test["ci_high"], color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.axhline(test["difference"], color=COLOURS[0], linewidth=1.6)
    axes.set_xticks([])
    axes.set_xlabel(f"{test['n_items']} items, by difference", fontsize=8)
    axes.set_ylabel(_label(str(test["contrast"]), unit), fontsize=8, parse_math=False)
    axes.set_title(f"mean {test['difference']:.2f}, {_p_value(test['p_permutation'])}", fontsize=9)
    style_axes(axes)


def _p_value(value: float) -> str:
    if not np.isfinite(value):
        return "p not known"
    return "p < .001" if value < 0.001 else f"p = {value:.3f}".replace("0.", ".")
