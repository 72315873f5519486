"""Figures of scored texts: surprisal along a text, by region and condition, and contrasts by item."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from scipy import stats

from wordprob.analysis.contrasts import COMBINE, ContrastResult, text_value
from wordprob.analysis.factorial import FactorialResult, within_intervals
from wordprob.analysis.plots import STYLES, style_axes
from wordprob.analysis.tables import numbers, pair, require
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError, listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wordprob.tables.result import ScoredTable

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "^", "s", "D", "v", "P")
LINES = ("-", "--", "-.", ":")
"""A palette that survives colour blindness; markers and lines that differ in greyscale too."""

WORDS_PER_LINE = 18
"""Words next to one another; longer texts continue below."""

MAX_TEXTS = 8
"""Texts in one figure, at most."""

MORE_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR", "Source Han Sans SC",
    "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans", "Malgun Gothic", "AppleGothic",
    "Noto Sans Thai", "Noto Sans Devanagari", "Noto Sans Arabic", "Arial Unicode MS", "Noto Sans",
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
    """Return styles that differ in colour, marker and line, every second one with an open marker."""
    looks = zip(range(count), cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": line, "markerfacecolor": "white" if number % 2 else colour}
        for number, colour, marker, line in looks
    ]


Drawing = TypeVar("Drawing", bound=Callable[..., Figure])


def with_fonts(draw: Drawing) -> Drawing:
    """Let a function draw in fonts that have the letters of other scripts, where such fonts are installed."""

    @functools.wraps(draw)
    def drawing(*arguments: Any, **options: Any) -> Figure:
        with rc_context({"font.family": _fonts()}):
            return draw(*arguments, **options)

    return cast("Drawing", drawing)


def _note(figure: Figure, text: str) -> None:
    """Write a line on intervals and tests below a figure."""
    figure.supxlabel(text, fontsize=7, color="#555555", x=0.01, ha="left")


def _minus(text: str) -> str:
    """Return a text with minus signs where ASCII has hyphens between spaces, and before a number."""
    return text.replace(" - ", " − ").replace(" x ", " × ")


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


# --- along a text --------------------------------------------------------------------------------------------------


@with_fonts
def plot_text(
    frame: pd.DataFrame,
    columns: PlotColumns | None = None,
    texts: Sequence[str] = (),
    naive: bool = False,
    unit: str = "",
    size: tuple[float | None, float | None] = (None, None),
    source: str = "the table",
    model: str = "",
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
    model
        The name of the model, written on the figure where the table has one model.
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
    for axes, (title, words) in zip(panels, lines, strict=True):
        _line(axes, words, columns, models, naive, source)
        axes.set_xlim(-0.5, longest - 0.5)
        axes.set_title(title, fontsize=9, loc="left", parse_math=False)
        axes.set_ylabel(_label(columns.value, unit), fontsize=8, parse_math=False)
    if models == [""]:
        panels[0].set_title(model, fontsize=7, loc="right", color="#555555", parse_math=False)
    if all(axes.dataLim.ymin >= 0 for axes in panels):
        panels[0].set_ylim(bottom=0)
    if naive or len(models) > 1:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def plot_table(table: ScoredTable, texts: Sequence[str] = (), naive: bool = False, value: str = "surprisal") -> Figure:
    """Draw a scored table; parameters as for :meth:`wordprob.WordTable.plot`."""
    import matplotlib.pyplot  # noqa: F401  so that a notebook knows how to show the figure

    frame, metadata = table.to_pandas(), table.metadata
    columns = columns_of(frame, metadata, value=value)
    if columns.word not in frame.columns:  # a text on each row: its words are drawn
        frame, columns = table.words(), PlotColumns(value=value)
    return plot_text(
        frame,
        columns,
        texts,
        naive,
        unit=str(metadata.get("unit", "")),
        model="" if "model" in frame.columns else str(metadata.get("model", "")),
    )


def columns_of(
    frame: pd.DataFrame,
    metadata: Mapping[str, Any],
    word: str | None = None,
    value: str | None = None,
    texts: Sequence[str] = (),
) -> PlotColumns:
    """Return which columns hold what: as specified, as recorded when the table was scored, or by their usual names."""
    recorded_word = "word" if metadata.get("sum_by") else metadata.get("word_column")
    recorded_texts = [name for name in str(metadata.get("group_by", "")).split(",") if name in frame.columns]
    prefix = str(metadata.get("prefix") or "")
    return PlotColumns(
        word=word or recorded_word or f"{prefix}word",
        value=value or "surprisal",
        texts=list(texts) or recorded_texts or ["text_id"],
    )


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
            style = {**model_style, "label": model}
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
        As for :func:`plot_text`.
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
    figure = Figure(figsize=(width, size[1] or 3.4 + 0.2 * (len(conditions) > legend_columns)), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for axes, name in zip(panels, models, strict=True):
        _draw_regions(axes, means[means["model"] == name], regions, rotated=region is not None)
        axes.set_xlabel(region or "word", fontsize=8, parse_math=False)
        axes.set_title(name or model, fontsize=8, loc="right", color="#555555", parse_math=False)
    each_word = " per word" if combine == "mean" else ""
    panels[0].set_ylabel(_label(columns.value + each_word, unit), fontsize=9, parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    title = ", ".join(factors)
    look = {"frameon": False, "fontsize": 8, "title_fontsize": 9}
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns, title=title, **look)
    _note(figure, _interval_note(means))
    return figure


def _draw_regions(axes: Axes, means: pd.DataFrame, regions: Sequence[str], rotated: bool) -> None:
    """Draw a line for each condition."""
    conditions = list(dict.fromkeys(means["condition"]))
    for k, (level, style) in enumerate(zip(conditions, _styles(len(conditions)), strict=True)):
        rows = means[means["condition"] == level]
        # Conditions are a small step apart, so that error bars do not hide one another.
        x = np.array([regions.index(name) for name in rows["region"]]) + 0.08 * (k - (len(conditions) - 1) / 2)
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
        As for :func:`by_region`.
    factors
        The columns whose values together are the conditions.
    """
    rows = pd.DataFrame(
        {
            "text": list(zip(*(frame[name].astype(str) for name in columns.texts), strict=True)),
            "model": frame["model"].astype(str).tolist() if "model" in frame.columns else "",
            "condition": [
                ", ".join(levels) for levels in zip(*(frame[name].astype(str) for name in factors), strict=True)
            ],
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
    rows = rows[~rows["region"].isin(NO_REGION)]
    order = _order_of_regions(rows)
    keys = ["text", "item", "model", "condition", "region"]
    values = [(*key, text_value(group, combine, source)) for key, group in rows.groupby(keys, sort=False)]
    of_texts = pd.DataFrame(values, columns=[*keys, "value"])
    parts = [_means_of_region(part, item) for _, part in of_texts.groupby(["model", "region"], sort=False)]
    return pd.concat(parts, ignore_index=True).sort_values("region", key=lambda names: names.map(order), kind="stable")


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
        half_width = np.nan
        if n >= MIN_TEXTS_FOR_INTERVAL:
            half_width = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        means.append((condition, values.mean() if n else np.nan, half_width, n))
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


# --- contrasts -----------------------------------------------------------------------------------------------------


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
        As for :func:`plot_text`.
    """
    parts = _by_model(result, measure)
    figure = Figure(figsize=(size[0] or 6.4, size[1] or 3.2 * len(parts)), layout="constrained")
    panels = figure.subplots(len(parts), 2, squeeze=False, width_ratios=(1, 1.2))
    for (left, right), part in zip(panels, parts, strict=True):
        known = part.items[np.isfinite(part.items["difference"].to_numpy(dtype=float))]
        _pairs(left, known, result, _label(part.measure, unit))
        _differences(right, known, part.tests.iloc[0].to_dict(), unit)
        left.set_title(part.model or model, fontsize=8, loc="left", color="#555555", parse_math=False)
    _note(figure, "band: 95 % interval of the mean (Student's t)")
    return figure


class ModelPart(NamedTuple):
    """What a result has of one model and measure; the model's name is empty where there is only one."""

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
    axes.set_ylabel(_minus(_label(str(test["contrast"]), unit)), fontsize=8, parse_math=False)
    axes.set_title(
        f"mean {_signed(test['difference'])}; permutation test: {_p_value(test['p_permutation'])}", fontsize=8
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
        As for :func:`plot_text`.
    """
    parts = _by_model(result, measure)
    figure = Figure(figsize=(size[0] or 7.2, size[1] or 0.3 + 3.0 * len(parts)), layout="constrained")
    panels = figure.subplots(len(parts), 2, squeeze=False, width_ratios=(1, 1.3))
    for (left, right), part in zip(panels, parts, strict=True):
        cells = part.items[result.cells].to_numpy(dtype=float)
        _interaction(left, cells[np.isfinite(cells).all(axis=1)], result, _label(part.measure, unit))
        _effects(right, part.tests, unit)
        left.set_title(part.model or model, fontsize=8, loc="left", color="#555555", parse_math=False)
    left_bars = "left: 95 % within-item intervals (Morey 2008)"
    _note(figure, f"{left_bars}; right: 95 % intervals (Student's t), p by permutation test")
    return figure


def _interaction(axes: Axes, cells: Floats, result: FactorialResult, label: str) -> None:
    """Draw the means of the four conditions: a line for each level of the first factor."""
    if len(cells):
        means = cells.mean(axis=0).reshape(2, 2)
        enough = len(cells) >= MIN_TEXTS_FOR_INTERVAL
        half_widths = (within_intervals(cells) if enough else np.full(4, np.nan)).reshape(2, 2)
        for k, style in enumerate(_styles(2)):
            x = np.arange(2) + 0.06 * (k - 0.5)
            name = result.levels[0][k]
            axes.errorbar(x, means[k], yerr=half_widths[k], capsize=3, linewidth=1.4, markersize=6, label=name, **style)
        axes.legend(title=result.factors[0], fontsize=8, title_fontsize=8, frameon=False)
    axes.set_xticks((0, 1), result.levels[1], parse_math=False)
    axes.set_xlim(-0.4, 1.4)
    axes.set_xlabel(result.factors[1], fontsize=8, parse_math=False)
    axes.set_ylabel(label, fontsize=8, parse_math=False)
    style_axes(axes)


def _effects(axes: Axes, tests: pd.DataFrame, unit: str) -> None:
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
        result = f"{_signed(test['difference'])}, {_p_value(test['p_permutation'])}"
        labels.append(_minus(f"{test['contrast']}\n{result}"))
    axes.axvline(0.0, color="#444444", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8, parse_math=False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(_label("effect", unit), fontsize=8, parse_math=False)
    axes.set_title(f"{tests['n_items'].iloc[0]} items; permutation test", fontsize=8)
    style_axes(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", linewidth=0.4, color="#cccccc")
