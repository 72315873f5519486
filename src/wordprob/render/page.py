"""A scored table as one HTML file that needs nothing else: words in colour, and the numbers behind each colour."""

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
from wordprob.errors import InputError, listing
from wordprob.render import colours
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.formats.base import require_columns

if TYPE_CHECKING:
    import pandas as pd

SCORE_COLUMNS = (
    "surprisal",
    "surprisal_naive",
    "surprisal_all",
    "surprisal_all_low",
    "before",
    "after",
    "n_tokens",
    "context_tokens",
)
"""The numbers of a word. A wide table has them once for each model."""

DECIMALS = 4
"""Precision of the numbers in the page; the table itself keeps all digits."""

MISSING_VALUES = ("", "NA", "NaN", "nan")
NO_SPACE_VALUES = ("", "0", "f", "false", "n", "no", "spaceafter=no")
"""What a column of spaces holds where no space follows the word."""

SCRIPTS = ("data.js", "words.js", "sections.js", "view.js")
"""The script of a page, in parts; each uses those before it."""

MAX_SHOWN_CHARACTERS = 40
"""How much of a wrong value an error message repeats."""


class ScoredWords(Protocol):
    """A table of scored words, such as a :class:`wordprob.WordTable`, with its metadata."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The unit, the model, and which columns hold what if they do not have their usual names."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word."""


def report(
    table: ScoredWords,
    *,
    title: str = "",
    group_by: Sequence[str] = (),
    word_column: str | None = None,
    prefix: str | None = None,
    outline: tuple[str, str] | None = None,
) -> str:
    """Return a scored table as one self-contained HTML page.

    Parameters
    ----------
    table
        Scored words. It must have the columns ``word`` and ``surprisal``; the others are shown if they exist. A
        column ``model`` makes the page offer a choice of model.
    title
        The heading of the page.
    group_by, word_column, prefix
        The columns that tell one text from another, the column of the words, and the prefix of the scored columns'
        names: by default what the metadata says, or else ``text_id`` (if it exists), ``word`` and no prefix.
    outline
        A column and a value: words with this value in the column, such as those of a critical region, are outlined.

    Examples
    --------
    >>> import wordprob
    >>> page = report(wordprob.load("exact:bow").score("She saw the mark"), title="A mark")
    >>> page[:15]
    '<!doctype html>'
    """
    data = payload(table, group_by=group_by, word_column=word_column, prefix=prefix, outline=outline)
    page_style = style()
    page_script = script()
    return Template(asset("report.html")).substitute(
        policy=_content_security_policy(page_script, page_style),
        title=html.escape(title or "Surprisal, word by word"),
        version=html.escape(__version__),
        style=page_style,
        script=page_script,
        data=embed(data),
    )


def check_report_path(path: str | Path, force: bool = False) -> Path:
    """Raise, before any work is done, unless a report can be written to ``path``."""
    return check_output(path, "html", force, {"html": ".html"})[0]


def write_report(table: ScoredWords, path: str | Path, *, force: bool = False, **options: Any) -> Path:
    """Write :func:`report` to a file, whole or not at all; ``force`` replaces a file that exists."""
    path = check_report_path(path, force)
    page = report(table, **options)
    write_whole(path, lambda aside: aside.write_text(page, encoding="utf-8", newline=""))
    return path


# --- the files of a page ----------------------------------------------------------------------------------------------


def style() -> str:
    """Return the style sheet of every page."""
    return asset("style.css") + colours.stylesheet()


def script() -> str:
    """Return the script that shows a payload; ``wordprob.show(element, payload)`` calls it."""
    return "".join(asset(name) for name in SCRIPTS)


def asset(name: str) -> str:
    """Return one of the files that pages are made of."""
    return (resources.files("wordprob.render") / "assets" / name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    r"""Return JSON that is safe inside a script element, for any words.

    >>> print(embed("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _content_security_policy(page_script: str, page_style: str) -> str:
    """Return a policy that allows this script and this style, and nothing from elsewhere."""
    return (
        f"default-src 'none'; script-src {_source_hash(page_script)}; style-src {_source_hash(page_style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# --- the data of a page -----------------------------------------------------------------------------------------------


def payload(
    table: ScoredWords,
    *,
    group_by: Sequence[str] = (),
    word_column: str | None = None,
    prefix: str | None = None,
    outline: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return what the page's script shows: the metadata, and columns of equal length; missing numbers are ``None``."""
    metadata = {str(name): value for name, value in table.metadata.items()}
    named = dict(metadata)
    if word_column is not None:
        named["word_column"] = word_column
    if prefix is not None:
        named["prefix"] = prefix
    frame = _one_row_per_model(_with_usual_names(table.to_pandas(), named), metadata.get("models") or {})
    groups = _group_columns(frame, group_by, named)
    _check_frame(frame, groups)
    columns = _columns(frame, groups, metadata.get("space_after"))
    if outline is not None:
        columns["outlined"] = _outlined(frame, *outline)
    names = [] if list(groups) == ["text_id"] else list(groups)
    return {"unit": str(metadata.get("unit", "")), "metadata": metadata, "columns": columns, "groups": names}


def _with_usual_names(frame: pd.DataFrame, metadata: Mapping[str, Any]) -> pd.DataFrame:
    """Rename the columns to the names that the page knows; columns that have these names already are dropped."""
    new_names: dict[Any, str] = {}
    prefix = str(metadata.get("prefix") or "")
    for column in frame:
        if prefix and str(column).startswith(prefix):
            new_names[column] = str(column).removeprefix(prefix)
    # Where words were added up to regions, the table has a new column for them, called "word".
    word_column = "word" if metadata.get("sum_by") else metadata.get("word_column")
    if word_column in frame:
        new_names[word_column] = "word"
    in_the_way = [new for old, new in new_names.items() if old != new and new in frame]
    return frame.drop(columns=in_the_way).rename(columns=new_names)


def _one_row_per_model(frame: pd.DataFrame, models: Iterable[str]) -> pd.DataFrame:
    """Make a wide table long: its columns end in the models' names; return the rows of each model one below another."""
    import pandas as pd

    columns_by_model: dict[str, dict[str, str]] = {}
    for model in models:
        if f"surprisal_{model}" in frame:
            columns_by_model[model] = _columns_of_model(frame, model)
    if not columns_by_model:
        return frame
    all_models_columns = [column for columns in columns_by_model.values() for column in columns]
    shared = frame.drop(columns=all_models_columns)
    frames = []
    for model, columns in columns_by_model.items():
        own = {name: frame[column] for column, name in columns.items()}
        frames.append(shared.assign(model=model, **own))
    return pd.concat(frames, ignore_index=True)


def _columns_of_model(frame: pd.DataFrame, model: str) -> dict[str, str]:
    """Return the columns that end in a model's name, and what they are called without it."""
    names = {f"{name}_{model}": name for name in (*SCORE_COLUMNS, "note")}
    return {column: name for column, name in names.items() if column in frame}


def _group_columns(frame: pd.DataFrame, group_by: Sequence[str], metadata: Mapping[str, Any]) -> list[str]:
    """Return the columns that tell texts apart: those given, those used for scoring, or ``text_id``."""
    if group_by:
        return list(group_by)
    used_for_scoring = [name for name in str(metadata.get("group_by") or "").split(",") if name in frame]
    if used_for_scoring:
        return used_for_scoring
    return ["text_id"] if "text_id" in frame else []


def _check_frame(frame: pd.DataFrame, groups: Sequence[str]) -> None:
    """Raise :class:`InputError` unless the page can show this table."""
    column_names = ", ".join(map(str, frame.columns)) or "none"
    missing = [name for name in ("word", "surprisal") if name not in frame]
    if missing:
        raise InputError(
            f"this is not a table of scored words: it has no column {' and no column '.join(missing)}. Its columns: "
            f"{column_names}. Score it first (wordprob score texts.txt -o scored.tsv; for a table with a text on each "
            "row, with `per_word`), or specify what the columns are called (`word_column`, `prefix`)."
        )
    missing = [name for name in groups if name not in frame]
    if missing:
        raise InputError(f"there is no column {' or '.join(missing)} to group by. The columns: {column_names}.")
    if not len(frame):
        raise InputError("the table has no words; there is nothing to show. Was the text that was scored empty?")


def _columns(frame: pd.DataFrame, groups: Sequence[str], space_column: Any) -> dict[str, list[Any]]:
    """Return the columns that the page's script knows, as lists that JSON can hold."""
    columns: dict[str, list[Any]] = {"text": _text_names(frame, groups), "word": _strings(frame["word"])}
    for name in (*SCORE_COLUMNS, "start", "end"):
        if name in frame:
            columns[name] = _numbers(frame[name])
    for name in ("note", "model"):
        if name in frame:
            columns[name] = _strings(frame[name])
    if space_column in frame:
        columns["space"] = [value.lower() not in NO_SPACE_VALUES for value in _strings(frame[space_column])]
    return columns


def _outlined(frame: pd.DataFrame, column: str, value: str) -> list[bool]:
    """Return for each row whether it has the value in the column; raise if no row has."""
    require_columns("the table", [column], frame.columns)
    found = [cell == value for cell in _strings(frame[column])]
    if not any(found):
        values = listing(dict.fromkeys(_strings(frame[column])))
        raise InputError(f"no row has '{value}' in the column '{column}'. It has: {values}.")
    return found


def _text_names(frame: pd.DataFrame, groups: Sequence[str]) -> list[str]:
    """Return for each row the name of the text it is in."""
    if not groups:
        return [""] * len(frame)
    columns = [_strings(frame[name]) for name in groups]
    return [" · ".join(values) for values in zip(*columns, strict=True)]


def _strings(column: pd.Series[Any]) -> list[str]:
    return ["" if is_missing else str(value) for value, is_missing in zip(column, column.isna(), strict=True)]


def _numbers(column: pd.Series[Any]) -> list[float | None]:
    """Return numbers that JSON can hold. An infinite one becomes ``None``: the column ``note`` says why."""
    import numpy as np
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    is_missing = column.isna() | column.astype(str).str.strip().isin(MISSING_VALUES)
    not_a_number = numbers.isna() & ~is_missing
    if not_a_number.any():
        row = int(not_a_number.argmax())
        value = str(column.iloc[row])[:MAX_SHOWN_CHARACTERS]
        raise InputError(f"the column {column.name} should hold numbers, but row {row + 1} has '{value}'.")
    rounded = numbers.astype(float).round(DECIMALS).replace([np.inf, -np.inf], np.nan)
    return [_json_number(value) for value in rounded.tolist()]


def _json_number(value: float) -> float | None:
    """Return a number as the page holds it: a whole number without its ".0", NaN as ``None``."""
    if value != value:
        return None
    return int(value) if value == int(value) else value
