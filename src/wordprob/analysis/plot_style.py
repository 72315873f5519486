"""The look of figures of scored texts: colours, markers and lines, fonts, and how labels are written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import cycle
from typing import Any, TypeVar, cast

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "^", "s", "D", "v", "P")
LINES = ("-", "--", "-.", ":")
"""A palette that people with colour blindness can tell apart; markers and lines that differ in greyscale too."""

MORE_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR", "Source Han Sans SC",
    "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans", "Malgun Gothic", "AppleGothic",
    "Noto Sans Thai", "Noto Sans Devanagari", "Noto Sans Arabic", "Arial Unicode MS", "Noto Sans",
)  # fmt: skip
"""Fonts for the scripts that the usual font lacks."""


# --- lines and fonts --------------------------------------------------------------------------------------------------


def line_styles(count: int) -> list[dict[str, Any]]:
    """Return styles that differ in colour, marker and line, every second one with an open marker."""
    looks = zip(range(count), cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": line, "markerfacecolor": "white" if number % 2 else colour}
        for number, colour, marker, line in looks
    ]


Drawing = TypeVar("Drawing", bound=Callable[..., Figure])


def with_fonts(draw: Drawing) -> Drawing:
    """Make a function draw in fonts that have the letters of other scripts, where such fonts are installed."""

    @functools.wraps(draw)
    def drawing(*arguments: Any, **options: Any) -> Figure:
        with rc_context({"font.family": installed_fonts()}):
            return draw(*arguments, **options)

    return cast("Drawing", drawing)


def installed_fonts() -> list[str]:
    """Return the usual font, and those of the fonts for other scripts that are installed."""
    installed = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in MORE_FONTS if name in installed)]


# --- labels -----------------------------------------------------------------------------------------------------------


def axis_label(value: str, unit: str) -> str:
    """Return the label of an axis: what it shows, and the unit, if there is one."""
    return f"{value} ({unit})" if unit else value


def with_math_signs(text: str) -> str:
    """Return a text with a minus or a multiplication sign where ASCII has a hyphen or an x between spaces."""
    return text.replace(" - ", " − ").replace(" x ", " × ")


def two_decimals(value: float) -> str:
    """Return a number with two decimals, and with a real minus sign if it is negative."""
    return f"{value:.2f}".replace("-", "−")


def add_footnote(figure: Figure, text: str) -> None:
    """Write a line on intervals and tests below a figure."""
    figure.supxlabel(text, fontsize=7, color="#555555", x=0.01, ha="left")
