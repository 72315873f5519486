"""A scored table as one HTML file that needs nothing else: words in colour, and what lies behind each colour."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from wordprob._version import __version__
from wordprob.errors import InputError
from wordprob.render import colours
from wordprob.table import WordTable, check_path, write_whole

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("word", "surprisal")
"""Columns without which there is nothing to show."""

NUMBERS = ("surprisal", "surprisal_naive", "before", "after", "start", "end", "n_tokens", "context_tokens")
DECIMALS = 4
"""Enough for the eye; the table keeps all of them."""


def report(
    table: WordTable, *, title: str = "", group_by: Sequence[str] = (), word_column: str = "word", prefix: str = ""
) -> str:
    """Return a scored table as one self-contained HTML page.

    Parameters
    ----------
    table
        Scored words. Of its columns ``word`` and ``surprisal`` must be there; the others are shown where they are. A
        column ``model`` makes the page offer a choice of model.
    title
        The page's heading.
    group_by
        Columns that tell one text from another; ``text_id`` by default, or all rows are one text.
    word_column
        The column of the words.
    prefix
        What the scored columns' names begin with, if they were written with one.

    Examples
    --------
    >>> import wordprob
    >>> page = report(wordprob.load("exact:bow").score("She saw the mark"), title="A mark")
    >>> page[:15]
    '<!doctype html>'
    """
    data = payload(table, group_by=group_by, word_column=word_column, prefix=prefix)
    parts = {
        "title": html.escape(title or "Surprisal, word by word"),
        "version": html.escape(__version__),
        "style": style(),
        "script": script(),
        "data": embed(data),
    }
    policy = (
        f"default-src 'none'; script-src {_hash(parts['script'])}; style-src {_hash(parts['style'])}; base-uri 'none'"
    )
    return Template(asset("report.html")).substitute(parts, policy=f"{policy}; form-action 'none'")


def write_report(table: WordTable, path: str | Path, *, force: bool = False, **options: Any) -> Path:
    """Write :func:`report` to a file, whole or not at all; ``force`` replaces one that is there."""
    path = check_path(path, force)
    page = report(table, **options)
    write_whole(path, lambda aside: aside.write_text(page, encoding="utf-8", newline=""))
    return path


def payload(
    table: WordTable, *, group_by: Sequence[str] = (), word_column: str = "word", prefix: str = ""
) -> dict[str, Any]:
    """Return what the page's script shows: the metadata, and columns of equal length; missing numbers are ``None``."""
    frame = _named(table.to_pandas(), word_column, prefix)
    _check(frame, group_by)
    columns: dict[str, list[Any]] = {"text": _texts(frame, group_by), "word": _strings(frame["word"])}
    columns |= {name: _numbers(frame[name]) for name in NUMBERS if name in frame}
    columns |= {name: _strings(frame[name]) for name in ("note", "model") if name in frame}
    metadata = {str(name): value for name, value in table.metadata.items()}
    return {"unit": str(metadata.get("unit", "")), "metadata": metadata, "columns": columns}


def style() -> str:
    """Return the style sheet of every page."""
    return asset("style.css") + colours.stylesheet()


def script() -> str:
    """Return the script that shows a payload; ``wordprob.show(element, payload)`` calls it."""
    return "".join(asset(name) for name in ("data.js", "words.js", "sections.js", "view.js"))


def asset(name: str) -> str:
    """Return one of the files that pages are made of."""
    return (resources.files("wordprob.render") / "assets" / name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    r"""Return JSON that can stand in a script element, whatever the words are.

    >>> print(embed("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode()}'"


def _named(frame: pd.DataFrame, word_column: str, prefix: str) -> pd.DataFrame:
    """Give the columns the names that the page knows them by."""
    renamed = {f"{prefix}{name}": name for name in (*NUMBERS, "note", "model") if prefix and f"{prefix}{name}" in frame}
    if word_column in frame:
        renamed[word_column] = "word"
    clashes = [name for old, name in renamed.items() if old != name and name in frame]
    return frame.drop(columns=clashes).rename(columns=renamed)


def _check(frame: pd.DataFrame, group_by: Sequence[str]) -> None:
    there = ", ".join(map(str, frame.columns)) or "none"
    if missing := [name for name in NEEDED if name not in frame]:
        raise InputError(
            f"this is not a table of scored words: it has no column {' and no column '.join(missing)}. Its columns: "
            f"{there}. Score it first (wordprob score stimuli.csv -o scored.tsv), or say what the columns are called "
            "(--word-column, --prefix)."
        )
    if missing := [name for name in group_by if name not in frame]:
        raise InputError(f"there is no column {' or '.join(missing)} to group by. The columns: {there}.")
    if not len(frame):
        raise InputError("the table has no words; there is nothing to show. Was the text that was scored empty?")


def _texts(frame: pd.DataFrame, group_by: Sequence[str]) -> list[str]:
    """Return for each row the name of the text it is in."""
    names = list(group_by) or (["text_id"] if "text_id" in frame else [])
    if not names:
        return [""] * len(frame)
    return [" · ".join(row) for row in zip(*(_strings(frame[name]) for name in names), strict=True)]


def _strings(column: pd.Series[Any]) -> list[str]:
    return ["" if missing else str(value) for value, missing in zip(column, column.isna(), strict=True)]


def _numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return numbers that JSON can hold; what is infinite has its reason in the column ``note``."""
    import numpy as np
    import pandas as pd

    found = pd.to_numeric(column, errors="coerce")
    if (odd := column[found.isna() & column.notna() & (column.astype(str).str.strip() != "")]).size:
        raise InputError(
            f"the column {column.name} should hold numbers, but row {odd.index[0] + 1} has '{str(odd.iloc[0])[:40]}'."
        )
    rounded = found.astype(float).round(DECIMALS).replace([np.inf, -np.inf], np.nan)
    return [None if value != value else int(value) if value == int(value) else value for value in rounded.tolist()]
