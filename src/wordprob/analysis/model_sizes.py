"""The number of parameters of a model, from its name."""

from __future__ import annotations

import re

SIZE_IN_NAME = re.compile(r"(\d+(?:\.\d+)?)\s*([mb])(?![a-z])", re.IGNORECASE)
"""A number of millions or billions of parameters, as in stories15M and pythia-1.4b."""

# The authors write pythia-14b for Pythia 1.4B, and so on.
KNOWN_SIZES = {
    "gpt2": 124, "gpt2-small": 124, "gpt2-medium": 355, "gpt2-large": 774, "gpt2-xl": 1558, "mgpt": 1300,
    "pythia-70m": 70, "pythia-160m": 160, "pythia-410m": 410, "pythia-14b": 1400, "pythia-28b": 2800,
    "pythia-69b": 6900, "pythia-120b": 12000,
}  # fmt: skip
"""Millions of parameters of the models whose names do not say it, or say it wrongly."""


def size_of(model: str) -> float | None:
    """Return how many million parameters a model has, as far as its name says.

    Examples
    --------
    >>> size_of("stories15M"), size_of("pythia-14b@step1000"), size_of("my-model")
    (15.0, 1400.0, None)
    """
    name = model.partition("@")[0]  # what comes after is the revision
    if name.lower() in KNOWN_SIZES:
        return float(KNOWN_SIZES[name.lower()])
    match = SIZE_IN_NAME.search(name)
    if match is None:
        return None
    number, unit = match.groups()
    return float(number) * (1000.0 if unit.lower() == "b" else 1.0)
