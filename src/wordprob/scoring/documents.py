"""Texts as the user gives them, checked and with their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import regex

from wordprob.core.text import Document
from wordprob.errors import InputError

SURROGATE = regex.compile(r"[\ud800-\udfff]")


def check_texts(texts: str | Iterable[str], what: str = "text") -> list[str]:
    """Return one text or several as a list; raise for what is not text.

    Parameters
    ----------
    texts
        The texts.
    what
        What one of them is called in messages.
    """
    if isinstance(texts, Mapping | bytes) or hasattr(texts, "columns"):
        raise InputError(
            f"{what}s are a string or a list of strings, not a {type(texts).__name__}. For a table use "
            "wordprob.score_table(table, scorer); for one of its columns, scorer.score(table['text'])."
        )
    strings = [texts] if isinstance(texts, str) else list(texts)
    for n, text in enumerate(strings):
        if not isinstance(text, str):
            raise InputError(f"{what} {n} is not a string but {type(text).__name__}: {text!r:.60}")
        if not text.isascii() and SURROGATE.search(text):
            raise InputError(
                f"{what} {n} has a lone surrogate, which is not a character; was it decoded with surrogateescape?"
            )
    return strings


def documents_of(texts: str | Iterable[str], ids: Sequence[int | str] | None) -> list[Document]:
    """Check texts and their ids, and put them together."""
    return with_ids(check_texts(texts), ids)


def with_ids(strings: Sequence[str], ids: Sequence[int | str] | None) -> list[Document]:
    """Put texts that have been checked together with their ids; by default they are counted."""
    names = range(len(strings)) if ids is None else list(ids)
    if len(names) != len(strings):
        raise InputError(f"{len(strings)} texts but {len(names)} ids; give one for each.")
    return list(map(Document, names, strings))
