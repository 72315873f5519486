"""A scored table as one HTML file that needs nothing else: words in colour, and what lies behind each colour."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Protocol

from wordprob._version import __version__
from wordprob.errors import InputError
from wordprob.render import colours
from wordprob.tables.files import check_output, write_whole

if TYPE_CHECKING:
    import pandas as pd

SCORED = ("surprisal", "surprisal_naive", "before", "after", "n_tokens", "context_tokens")
"""The numbers of a word, which may be there once for each model."""

DECIMALS = 4
"""Enough for the eye; the table keeps all of them."""

MISSING = ("", "NA", "NaN", "nan")
NO_SPACE = ("", "0", "f", "false", "n", "no", "spaceafter=no")
"""What a column of spaces holds where there is none."""


class Scored(Protocol):
    """A table of scored words, such as a :class:`wordprob.WordTable`, with what is known about it."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The unit, the model, and which columns hold what where they are not called as usual."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word."""


def report(
    table: Scored,
    *,
    title: str = "",
    group_by: Sequence[str] = (),
    word_column: str | None = None,
    prefix: str | None = None,
) -> str:
    """Return a scored table as one self-contained HTML page.

    Parameters
    ----------
    table
        Scored words. Of its columns ``word`` and ``surprisal`` must be there; the others are shown where they are. A
        column ``model`` makes the page offer a choice of model.
    title
        The page's heading.
    group_by, word_column, prefix
        Columns that tell one text from another, the column of the words, and what the scored columns' names begin with:
        by default as the metadata says, or else ``text_id`` (if there), ``word`` and nothing.

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


def check_page(path: str | Path, force: bool = False) -> Path:
    """Make sure, before any work is done, that a page can be written to ``path``."""
    return check_output(path, "html", force, {"html": ".html"})[0]


def write_report(table: Scored, path: str | Path, *, force: bool = False, **options: Any) -> Path:
    """Write :func:`report` to a file, whole or not at all; ``force`` replaces one that is there."""
    path = check_page(path, force)
    page = report(table, **options)
    write_whole(path, lambda aside: aside.write_text(page, encoding="utf-8", newline=""))
    return path


def payload(
    table: Scored, *, group_by: Sequence[str] = (), word_column: str | None = None, prefix: str | None = None
) -> dict[str, Any]:
    """Return what the page's script shows: the metadata, and columns of equal length; missing numbers are ``None``."""
    about = {str(name): value for name, value in table.metadata.items()}
    own = {"word_column": word_column, "prefix": prefix}
    noted = {**about, **{name: value for name, value in own.items() if value is not None}}
    frame = _long(_named(table.to_pandas(), noted), about.get("models") or {})
    groups = _groups(frame, group_by, noted)
    _check(frame, groups)
    columns: dict[str, list[Any]] = {"text": _texts(frame, groups), "word": _strings(frame["word"])}
    columns |= {name: _numbers(frame[name]) for name in (*SCORED, "start", "end") if name in frame}
    columns |= {name: _strings(frame[name]) for name in ("note", "model") if name in frame}
    if (spaces := about.get("space_after")) in frame:
        columns["space"] = [value.lower() not in NO_SPACE for value in _strings(frame[spaces])]
    return {"unit": str(about.get("unit", "")), "metadata": about, "columns": columns}


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


def _named(frame: pd.DataFrame, noted: Mapping[str, Any]) -> pd.DataFrame:
    """Give the columns the names that the page knows them by."""
    prefix = str(noted.get("prefix") or "")
    renamed = {name: str(name).removeprefix(prefix) for name in frame if prefix and str(name).startswith(prefix)}
    word = "word" if noted.get("sum_by") else noted.get("word_column")
    if word in frame:
        renamed[word] = "word"
    clashes = [name for old, name in renamed.items() if old != name and name in frame]
    return frame.drop(columns=clashes).rename(columns=renamed)


def _long(frame: pd.DataFrame, models: Iterable[str]) -> pd.DataFrame:
    """Put the models of a wide table, whose columns end in their names, below each other."""
    import pandas as pd

    wide = [model for model in models if f"surprisal_{model}" in frame]
    if not wide:
        return frame
    names = (*SCORED, "note")
    ends = {model: {f"{name}_{model}": name for name in names if f"{name}_{model}" in frame} for model in wide}
    shared = frame.drop(columns=[name for found in ends.values() for name in found])
    parts = [shared.assign(model=m, **{ends[m][old]: frame[old] for old in ends[m]}) for m in wide]
    return pd.concat(parts, ignore_index=True)


def _groups(frame: pd.DataFrame, group_by: Sequence[str], noted: Mapping[str, Any]) -> list[str]:
    """Return the columns that tell texts apart: as asked for, as noted when they were scored, or ``text_id``."""
    if group_by:
        return list(group_by)
    before = [name for name in str(noted.get("group_by") or "").split(",") if name in frame]
    return before or [name for name in ("text_id",) if name in frame]


def _check(frame: pd.DataFrame, groups: Sequence[str]) -> None:
    there = ", ".join(map(str, frame.columns)) or "none"
    if missing := [name for name in ("word", "surprisal") if name not in frame]:
        first = "wordprob score texts.txt -o scored.tsv; for a table with a text on each row, with --per-word"
        raise InputError(
            f"this is not a table of scored words: it has no column {' and no column '.join(missing)}. Its columns: "
            f"{there}. Score it first ({first}), or say what the columns are called (--word-column, --prefix)."
        )
    if missing := [name for name in groups if name not in frame]:
        raise InputError(f"there is no column {' or '.join(missing)} to group by. The columns: {there}.")
    if not len(frame):
        raise InputError("the table has no words; there is nothing to show. Was the text that was scored empty?")


def _texts(frame: pd.DataFrame, groups: Sequence[str]) -> list[str]:
    """Return for each row the name of the text it is in."""
    if not groups:
        return [""] * len(frame)
    return [" · ".join(row) for row in zip(*(_strings(frame[name]) for name in groups), strict=True)]


def _strings(column: pd.Series[Any]) -> list[str]:
    return ["" if missing else str(value) for value, missing in zip(column, column.isna(), strict=True)]


def _numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return numbers that JSON can hold; what is infinite has its reason in the column ``note``."""
    import numpy as np
    import pandas as pd

    found = pd.to_numeric(column, errors="coerce")
    odd = found.isna() & column.notna() & ~column.astype(str).str.strip().isin(MISSING)
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"the column {column.name} should hold numbers, but row {row + 1} has '{str(column.iloc[row])[:40]}'."
        )
    rounded = found.astype(float).round(DECIMALS).replace([np.inf, -np.inf], np.nan)
    return [None if value != value else int(value) if value == int(value) else value for value in rounded.tolist()]
