"""Two colour scales: a sequential one for surprisal and a diverging one for differences.

Both are curves in OKLab, a colour space in which equal distances look equally different, cut into steps of equal
length. Lightness alone shows the order, so the scales work with every kind of colour blindness and on a black-and-white
printer; the hues (yellow to blue, blue to orange) are ones that colour-blind readers can tell apart. Low surprisal is
close to the colour of the page, which may be light or dark. On a light page all colours are light, so that black text
stands out from each of them by 7 to 1; on a dark page it is black or white, whichever is easier to read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats

STEPS = 33
"""Number of colours of a scale; odd, so that the diverging one has a middle."""

CURVE_POINTS = 2001
"""Points of a curve before it is cut into steps: many, so that the straight lines between them do not matter."""

LUMINANCE_WEIGHTS = (0.2126, 0.7152, 0.0722)
"""Shares of red, green and blue in the relative luminance of WCAG 2."""


class Knot(NamedTuple):
    """A point that a scale passes through: lightness, chroma and hue (degrees) in OKLCh."""

    lightness: float
    chroma: float
    hue: float


SEQUENTIAL = {
    "light": (Knot(0.975, 0.03, 100), Knot(0.90, 0.12, 145), Knot(0.80, 0.11, 210), Knot(0.685, 0.14, 275)),
    "dark": (Knot(0.27, 0.03, 270), Knot(0.45, 0.09, 255), Knot(0.68, 0.11, 180), Knot(0.93, 0.12, 105)),
}
"""From low to high."""

DIVERGING_HALVES = {
    "light": (
        (Knot(0.975, 0.0, 245), Knot(0.86, 0.07, 246), Knot(0.69, 0.14, 252)),
        (Knot(0.975, 0.0, 70), Knot(0.86, 0.085, 66), Knot(0.69, 0.15, 52)),
    ),
    "dark": (
        (Knot(0.27, 0.0, 250), Knot(0.55, 0.09, 246), Knot(0.82, 0.09, 240)),
        (Knot(0.27, 0.0, 60), Knot(0.55, 0.105, 62), Knot(0.82, 0.13, 70)),
    ),
}
"""From the middle to the lowest, and from the middle to the highest."""


def sequential(theme: str, steps: int = STEPS) -> list[str]:
    """Return the colours from low to high, as ``#rrggbb``, for a ``light`` or a ``dark`` page."""
    return _hex_colours(_evenly_spaced(_curve(SEQUENTIAL[theme]), steps))


def diverging(theme: str, steps: int = STEPS) -> list[str]:
    """Return the colours from far below zero to far above it, for a ``light`` or a ``dark`` page."""
    lower, upper = (_evenly_spaced(_curve(knots), steps // 2 + 1) for knots in DIVERGING_HALVES[theme])
    # Both halves begin in the middle, which is counted once.
    return _hex_colours(np.concatenate([lower[::-1], upper[1:]]))


def ink(background: str) -> str:
    """Return black or white, whichever has more contrast with ``background`` (by WCAG at least 4.5 to 1).

    >>> ink("#fffde0"), ink("#10204a")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, background))


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours by WCAG 2, from 1 to 21."""
    darker, lighter = sorted(float(linear_rgb(colour) @ LUMINANCE_WEIGHTS) for colour in (first, second))
    return (lighter + 0.05) / (darker + 0.05)


def linear_rgb(colour: str) -> Floats:
    """Return red, green and blue of ``#rrggbb`` in proportion to light: from 0 to 1, without sRGB's gamma curve."""
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def stylesheet() -> str:
    """Return CSS that gives the classes ``s0`` … and ``d0`` … their colours, for light and dark pages."""
    return _rules("s", sequential("light"), sequential("dark")) + _rules("d", diverging("light"), diverging("dark"))


def _rules(letter: str, light_colours: list[str], dark_colours: list[str]) -> str:
    """Return a rule for each step of a scale: its colour, and that of the text on it."""
    rules = []
    for step, (light, dark) in enumerate(zip(light_colours, dark_colours, strict=True)):
        fill = f"--fill:light-dark({light},{dark})"
        text = f"--ink:light-dark({ink(light)},{ink(dark)})"
        rules.append(f".{letter}{step}{{{fill};{text}}}\n")
    return "".join(rules)


def _curve(knots: tuple[Knot, ...]) -> Floats:
    """Return many OKLab points along the knots; lightness, chroma and hue change linearly between two knots."""
    knot_positions = np.linspace(0, 1, len(knots))
    positions = np.linspace(0, 1, CURVE_POINTS)
    lightness, chroma, hue = (np.interp(positions, knot_positions, values) for values in np.array(knots).T)
    return np.stack([lightness, chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))], axis=1)


def _evenly_spaced(curve: Floats, steps: int) -> Floats:
    """Return points that lie equally far apart along the curve."""
    distances = np.linalg.norm(np.diff(curve, axis=0), axis=1)
    lengths = np.concatenate([[0.0], np.cumsum(distances)])
    wanted = np.linspace(0, lengths[-1], steps)
    return np.stack([np.interp(wanted, lengths, coordinate) for coordinate in curve.T], axis=1)


_OKLAB_TO_CONES = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
)
_CONES_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)
"""Ottosson's matrices: OKLab to the cube roots of cone responses, and cone responses to linear sRGB."""


def _hex_colours(oklab: Floats) -> list[str]:
    """Return OKLab colours as ``#rrggbb``, clipped to what sRGB can show."""
    linear = np.clip((oklab @ _OKLAB_TO_CONES.T) ** 3 @ _CONES_TO_RGB.T, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return ["#" + "".join(f"{round(255 * channel):02x}" for channel in colour) for colour in encoded.tolist()]
