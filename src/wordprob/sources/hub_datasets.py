"""Hugging Face data sets by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from wordprob.errors import InputError, OptionError
from wordprob.sources.discovery import HUB

MARKERS = re.compile(r"\s*_(?:START_ARTICLE|START_SECTION|START_PARAGRAPH|NEWLINE)_\s*")
"""What Wiki-40B writes between the parts of an article."""


def rows(source: str, first: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of ``hf:NAME[:CONFIG][:SPLIT]`` from number ``first`` on, as they are fetched."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise OptionError("Hugging Face data sets need: pip install 'wordprob[data]'. Or give a local file.") from error
    name, config, split = parse(source)
    try:
        dataset = load_dataset(name, config, split=split, streaming=True)
        yield from dataset.skip(first) if first else dataset
    except Exception as error:  # the package raises whatever its network stack does
        raise InputError(f"the data set '{name}' cannot be opened: {error}. Offline, give a local file.") from error


def parse(source: str) -> tuple[str, str | None, str]:
    """Return the name, configuration and split of ``hf:NAME[:CONFIG][:SPLIT]``; the split is ``train`` by default.

    Examples
    --------
    >>> parse("hf:google/wiki40b:en:test")
    ('google/wiki40b', 'en', 'test')
    """
    parts = source.removeprefix(HUB).split(":")
    if len(parts) > 3 or not parts[0]:
        raise OptionError(f"'{source}' names no data set; write hf:NAME, hf:NAME:SPLIT or hf:NAME:CONFIG:SPLIT.")
    if len(parts) == 1:
        return parts[0], None, "train"
    if len(parts) == 2:
        return parts[0], None, parts[1]
    return parts[0], parts[1], parts[2]


def clean(text: str) -> str:
    r"""Remove Wiki-40B's markers from a text; other texts stay as they are.

    Examples
    --------
    >>> clean("_START_ARTICLE_\nMark_START_PARAGRAPH_\nShe saw it._NEWLINE_It was red.")
    'Mark\nShe saw it.\nIt was red.'
    """
    return MARKERS.sub("\n", text).strip() if "_START_" in text else text
