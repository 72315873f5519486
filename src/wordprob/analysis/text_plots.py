"""Figures of surprisal word by word, along a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wordprob.analysis.input_tables import numbers, pair, require
from wordprob.analysis.plot_columns import PlotColumns
from wordprob.analysis.plot_style import axis_label, line_styles, with_fonts
from wordprob.analysis.plots import STYLES, style_axes
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, listing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS_PER_LINE = 18
"""Words next to one another; longer texts continue below."""

MAX_TEXTS = 8
"""Texts in one figure, at most."""


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
    for name, rows in _rows_of_texts(frame, columns, texts, source).items():
        lines += _broken_into_lines(name, rows)
    models = list(dict.fromkeys(frame["model"])) if "model" in frame.columns else [""]
    longest = max(len(words) for _, words in lines) // len(models)
    width = size[0] or min(1.5 + 0.45 * longest, 9.0)
    height = size[1] or 0.6 + 2.0 * len(lines)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(lines), 1, squeeze=False, sharey=True)[:, 0]
    for axes, (title, words) in zip(panels, lines, strict=True):
        _draw_line(axes, words, columns, models, naive, source)
        axes.set_xlim(-0.5, longest - 0.5)
        axes.set_title(title, fontsize=9, loc="left", parse_math=False)
        axes.set_ylabel(axis_label(columns.value, unit), fontsize=8, parse_math=False)
    if models == [""]:
        panels[0].set_title(model, fontsize=7, loc="right", color="#555555", parse_math=False)
    if all(axes.dataLim.ymin >= 0 for axes in panels):
        panels[0].set_ylim(bottom=0)
    if naive or len(models) > 1:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def _rows_of_texts(
    frame: pd.DataFrame, columns: PlotColumns, texts: Sequence[str], source: str
) -> dict[str, pd.DataFrame]:
    """Return the rows of each text that is to be drawn, by its name."""
    keyed = frame.assign(**{name: frame[name].astype(str) for name in columns.texts})
    rows = keyed
    if texts:
        rows = pd.concat([keyed[_matches(keyed, columns, text, source)] for text in texts])
    chosen = {_text_name(columns, key): text_rows for key, text_rows in rows.groupby(list(columns.texts), sort=False)}
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


def _text_name(columns: PlotColumns, key: Any) -> str:
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


def _draw_line(
    axes: Axes, rows: pd.DataFrame, columns: PlotColumns, models: Sequence[str], naive: bool, source: str
) -> None:
    """Draw one line of a text: a curve for each model, and one for its naive estimate."""
    rows_of_models = [rows[rows["model"] == model] if model else rows for model in models]
    for model, model_rows, model_style in zip(models, rows_of_models, line_styles(len(models)), strict=True):
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
