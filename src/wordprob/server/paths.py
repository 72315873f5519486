"""Answers without paths: where things lie on the machine of the server is nobody else's business."""

from __future__ import annotations

import re
from typing import Any

ABSOLUTE_PATH = re.compile(r"(?<![\w.:/~-])(?:~|/)?/(?:[^\s/'\"<>|:;,()]+/)+([^\s/'\"<>|:;,()]*)")


def without_paths(value: Any) -> Any:
    """Return a text, or the texts inside lists and dictionaries, with absolute paths cut to their last part.

    Examples
    --------
    >>> without_paths("no such file: /home/jo/models/small/config.json.")
    'no such file: config.json.'
    >>> without_paths({"model": "/srv/models/small", "and": "a and/or b"})
    {'model': 'small', 'and': 'a and/or b'}
    """
    if isinstance(value, str):
        return ABSOLUTE_PATH.sub(_last_part, value)
    if isinstance(value, dict):
        return {key: without_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(inner) for inner in value]
    return value


def _last_part(path: re.Match[str]) -> str:
    return path[1] or path[0].rstrip("/").rpartition("/")[2]
