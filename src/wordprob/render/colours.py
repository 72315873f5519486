"""Two colour scales: from nothing to much, and from less to more.

Both are curves in OKLab, a space in which equal distances look equally different, cut into steps of equal length.
Lightness carries the order, so they survive every kind of colour blindness and a black-and-white printer; the hues
(yellow to blue, blue to orange) are those that colour-blind readers keep apart. Little surprisal fades into the page, a
light one and a dark one. Text on a step is black or white, whichever can be read better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats

STEPS = 33
"""Colours of a scale; odd, so that the diverging one has a middle."""

_FINE = 2001


class Knot(NamedTuple):
    """A point that a scale passes through: lightness, chroma and hue (degrees) in OKLCh."""

    lightness: float
    chroma: float
    hue: float


SEQUENTIAL = {
    "light": (Knot(0.975, 0.03, 100), Knot(0.80, 0.105, 165), Knot(0.56, 0.10, 225), Knot(0.33, 0.11, 270)),
    "dark": (Knot(0.27, 0.03, 270), Knot(0.45, 0.09, 255), Knot(0.68, 0.11, 180), Knot(0.93, 0.12, 105)),
}
"""Little to much."""

ARMS = {
    "light": (
        (Knot(0.975, 0.0, 245), Knot(0.74, 0.10, 248), Knot(0.45, 0.13, 255)),
        (Knot(0.975, 0.0, 70), Knot(0.74, 0.125, 62), Knot(0.45, 0.12, 48)),
    ),
    "dark": (
        (Knot(0.27, 0.0, 250), Knot(0.55, 0.09, 246), Knot(0.82, 0.09, 240)),
        (Knot(0.27, 0.0, 60), Knot(0.55, 0.105, 62), Knot(0.82, 0.13, 70)),
    ),
}
"""From the middle to less, and from the middle to more."""


def sequential(theme: str, steps: int = STEPS) -> list[str]:
    """Return the colours from little to much, as ``#rrggbb``, for a ``light`` or a ``dark`` page."""
    return _hexes(_even(_curve(SEQUENTIAL[theme]), steps))


def diverging(theme: str, steps: int = STEPS) -> list[str]:
    """Return the colours from much less through none to much more."""
    less, more = (_even(_curve(arm), steps // 2 + 1) for arm in ARMS[theme])
    return _hexes(np.concatenate([less[::-1], more[1:]]))


def ink(background: str) -> str:
    """Return black or white, whichever stands out more on ``background`` (by WCAG at least 4.5 to 1).

    >>> ink("#fffde0"), ink("#10204a")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, background))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2, from 1 to 21."""
    low, high = sorted(float(_linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def stylesheet() -> str:
    """Return CSS that gives the classes ``s0`` … and ``d0`` … their colours, for light and dark pages."""
    rules = []
    for letter, scale in (("s", sequential), ("d", diverging)):
        for n, (light, dark) in enumerate(zip(scale("light"), scale("dark"), strict=True)):
            rules.append(
                f".{letter}{n}{{--fill:light-dark({light},{dark});--ink:light-dark({ink(light)},{ink(dark)})}}\n"
            )
    return "".join(rules)


def _curve(knots: tuple[Knot, ...]) -> Floats:
    """Return many OKLab points along the knots; hue and chroma change evenly with the place between them."""
    at, fine = np.linspace(0, 1, len(knots)), np.linspace(0, 1, _FINE)
    light, chroma, hue = (np.interp(fine, at, column) for column in np.array(knots).T)
    return np.stack([light, chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))], axis=1)


def _even(curve: Floats, steps: int) -> Floats:
    """Pick points that lie equally far apart along the curve."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    wanted = np.linspace(0, along[-1], steps)
    return np.stack([np.interp(wanted, along, column) for column in curve.T], axis=1)


_TO_LMS = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)
"""Ottosson's matrices: OKLab to cone responses, and those to linear sRGB."""


def _hexes(oklab: Floats) -> list[str]:
    linear = np.clip((oklab @ _TO_LMS.T) ** 3 @ _TO_RGB.T, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return ["#" + "".join(f"{round(255 * c):02x}" for c in colour) for colour in encoded.tolist()]


def _linear(colour: str) -> Floats:
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
