"""The colour scales: even steps, safe for colour-blind readers, and readable text on them."""

from __future__ import annotations

import numpy as np
import pytest

from wordprob.render import colours

SCALES = [(scale, theme) for scale in (colours.sequential, colours.diverging) for theme in ("light", "dark")]

# Machado, Oliveira and Fernandes (2009), severity 1, on linear sRGB
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(scale, theme, blindness="none"):
    """Return a scale in CIELAB, which is not the space that it was made in."""
    linear = np.array([colours.linear_rgb(c) for c in scale(theme)]) @ np.array(BLINDNESS[blindness]).T
    t = (np.clip(linear, 0, 1) @ XYZ.T) / WHITE
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize(("scale", "theme"), SCALES)
def test_steps_are_even(scale, theme):
    steps = np.linalg.norm(np.diff(lab(scale, theme), axis=0), axis=1)
    assert steps.min() > 3, "each step can be seen"
    assert steps.max() / steps.min() < 2.4, "and none stands out: viridis has 2.3 here, cividis 3.1"


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lightness_alone_tells_the_order(theme, blindness):
    steps = np.diff(lab(colours.sequential, theme, blindness)[:, 0])
    assert (steps < 0).all() if theme == "light" else (steps > 0).all()


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_sides_of_the_difference_can_be_told_apart(theme, blindness):
    points = lab(colours.diverging, theme, blindness)
    middle = colours.STEPS // 2
    for k in range(4, middle + 1):
        assert np.linalg.norm(points[middle - k] - points[middle + k]) > 25
    outward = np.diff(points[:, 0]) * (-1 if theme == "light" else 1)
    assert (outward[:middle] < 0).all()
    assert (outward[middle:] > 0).all(), "the middle is next to the page, the ends stand out"


@pytest.mark.parametrize(("scale", "theme"), SCALES)
def test_words_can_be_read_on_every_step(scale, theme):
    assert len(scale(theme)) == colours.STEPS
    least = 7 if theme == "light" else 4.5
    assert all(colours.contrast(colours.ink(c), c) >= least for c in scale(theme))


def test_contrast_is_wcags():
    assert colours.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert colours.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
