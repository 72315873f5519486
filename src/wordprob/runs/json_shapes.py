"""The shapes that JSON values must have: which keys an object has, and values of which types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number"}
MAX_SHOWN_CHARACTERS = 40


@dataclass(frozen=True)
class Every:
    """The shape of all entries of a list, or of all values of an object.

    Attributes
    ----------
    container
        ``list`` or ``dict``.
    shape
        That of each entry.
    """

    container: type
    shape: Any


def misfit(value: Any, shape: Any, name: str = "its content") -> str:
    """Return where and how a JSON value differs from a shape; nothing if it does not.

    Parameters
    ----------
    value
        The value.
    shape
        A type; an object of shapes by key; or :class:`Every`.
    name
        What the value is called.

    Examples
    --------
    >>> misfit({"words": None}, {"words": int})
    "'words' is null, and must be a whole number"
    """
    container = shape.container if isinstance(shape, Every) else dict if isinstance(shape, Mapping) else shape
    allowed: Any = (int, float) if container is float else container
    if not isinstance(value, allowed) or isinstance(value, bool):
        return f"{name} is {_shown(value)}, and must be {NAMES[container]}"
    if isinstance(shape, Mapping):
        parts = [(value[key], shape[key], f"'{key}'") for key in shape if key in value]
        missing = [f"{name} has no '{key}'" for key in shape if key not in value]
    elif isinstance(shape, Every):
        entries = value.items() if container is dict else enumerate(value)
        parts = [(entry, shape.shape, f"'{key}' in {name}") for key, entry in entries]
        missing = []
    else:
        return ""
    return next(filter(None, [*missing, *(misfit(*part) for part in parts)]), "")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return NAMES[type(value)]
    return {None: "null", True: "true", False: "false"}.get(value) or f"{value!r:.{MAX_SHOWN_CHARACTERS}}"
