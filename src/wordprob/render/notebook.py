"""What notebooks show of a table and a report: pieces of HTML that need nothing else.

A notebook may be light or dark and may strip style sheets, so every element has its colours with it, and text is never
in a colour that the notebook chooses on a background that we choose.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wordprob.errors import counted
from wordprob.render import colours
from wordprob.render.page import check_report_path, report
from wordprob.tables.files import write_whole
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    import pandas as pd

MAX_WORDS = 300
"""Words that are shown in colour; a table may have millions."""

MAX_ROWS = 10
"""Rows that are shown with their numbers."""

MAX_COLUMNS = 16
"""Columns that are shown with them."""

MAX_CELL_CHARACTERS = 60
"""Characters of a word or cell that are shown."""

STRONGEST_BITS = 20.0
"""Surprisal that gets the strongest colour; the scale is the same for all tables, so that they can be compared."""

WORD_STYLE = "border-radius:.2em;padding:.1em .18em"
REPORT_HEIGHT_PIXELS = 640


class NotebookTable(Protocol):
    """A table that can be shown, such as a :class:`wordprob.WordTable`."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The unit, among others."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def words(self) -> pd.DataFrame:
        """Return a row for each word."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows."""


class Report(str):
    """A report as the text of an HTML page; a notebook shows the page itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Report: {len(self):,} characters of HTML>"

    def _repr_html_(self) -> str:
        page = html.escape(str(self), quote=True)
        style = f"width:100%;height:{REPORT_HEIGHT_PIXELS}px;border:1px solid #888"
        # Scripts of the page may run, but it has no access to the notebook.
        return f'<iframe title="Report" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def inline_report(table: Any, path: str | Path | None, force: bool, options: Mapping[str, Any]) -> Report:
    """Return a report of a table, and write it to a file if there is a path."""
    target = None if path is None else check_report_path(path, force)
    page = Report(report(table, **options))
    if target is not None:
        write_whole(target, lambda aside: aside.write_text(str(page), encoding="utf-8", newline=""))
    return page


# --- tables -----------------------------------------------------------------------------------------------------------


def table_html(table: NotebookTable) -> str:
    """Return a table as HTML: its words in colour, or the first of many, and its first rows."""
    words = table.words()
    parts = [f"<div><p><code>{html.escape(repr(table))}</code></p>"]
    if {"word", "surprisal"} <= set(words.columns) and len(words):
        parts += _coloured(words, str(table.metadata.get("unit", "")))
    parts.append(_first_rows(table.to_pandas()))
    return "".join([*parts, "</div>"])


def _coloured(words: pd.DataFrame, unit: str) -> Iterator[str]:
    """Yield paragraphs of words in colour, one for each text, and what the colours mean."""
    shown = words.head(MAX_WORDS)
    keys = [name for name in ("model", "text_id") if name in shown.columns]
    groups = shown.groupby(keys, sort=False, dropna=False) if keys else [((), shown)]
    several = keys and len(words.drop_duplicates(keys)) > 1
    for key, rows in groups:
        label = " · ".join(
            f"text {value}" if name == "text_id" else str(value) for name, value in zip(keys, key, strict=True)
        )
        title = f'<small style="opacity:.75">{_text(label)}</small><br>' if several else ""
        yield f'<p dir="auto" style="line-height:2;max-width:46em">{title}{_paragraph(rows, unit)}</p>'
    n_more = len(words) - len(shown)
    if n_more:
        yield f"<p>… and {counted(n_more, 'more word', 'more words')}; <code>.report()</code> shows all of them.</p>"
    yield f"<p><small>{_legend(unit)}</small></p>"


class _ShownWord(NamedTuple):
    """What is needed to show a word."""

    word: str
    surprisal: float
    start: float
    end: float
    note: str


def _paragraph(rows: pd.DataFrame, unit: str) -> str:
    """Return the words of one text in colour, with the spaces between them."""
    pieces: list[str] = []
    previous: _ShownWord | None = None
    for values in rows.reindex(columns=_ShownWord._fields).itertuples(index=False, name=None):
        word = _ShownWord(*values)
        if previous is not None and word.start != previous.end:
            pieces.append(" ")
        pieces.append(_span(word, unit))
        previous = word
    return "".join(pieces)


def _span(word: _ShownWord, unit: str) -> str:
    """Return a word on the colour of its surprisal; its numbers are its tooltip."""
    value = float("nan") if word.surprisal is None else float(word.surprisal)
    if value != value:
        title = word.note if isinstance(word.note, str) and word.note else "no value"
        style = f"{WORD_STYLE};outline:1px dashed #888"
    else:
        title = f"{value:.2f} {unit}".strip()
        style = f"{WORD_STYLE};{_colour_styles()[_step(value, unit)]}"
    return f'<span style="{style}" title="{_text(title)}">{_text(str(word.word))}</span>'


def _step(value: float, unit: str) -> int:
    """Return which colour of the scale a surprisal has."""
    share = value * UNITS.get(unit, UNITS["bits"]) / UNITS["bits"] / STRONGEST_BITS
    return round(min(max(share, 0.0), 1.0) * (colours.STEPS - 1))


@cache
def _colour_styles() -> list[str]:
    """Return the background and the text colour of each step: for light pages, and for dark ones if browsers know."""
    styles = []
    for light, dark in zip(colours.sequential("light"), colours.sequential("dark"), strict=True):
        light_ink, dark_ink = colours.ink(light), colours.ink(dark)
        styles.append(
            f"background:{light};color:{light_ink};"
            f"background:light-dark({light},{dark});color:light-dark({light_ink},{dark_ink})"
        )
    return styles


def _legend(unit: str) -> str:
    """Return the colours, from no surprisal to much."""
    strongest = STRONGEST_BITS * UNITS["bits"] / UNITS.get(unit, UNITS["bits"])
    swatches = "".join(f'<span style="{style}">&nbsp;</span>' for style in _colour_styles()[::4])
    return f"0 {swatches} ≥ {strongest:.0f} {_text(unit)}"


def _first_rows(frame: pd.DataFrame) -> str:
    """Return the first rows with their numbers, under a heading that opens."""
    shown = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
    header = "".join(f"<th>{_text(str(name))}</th>" for name in shown.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_text(_cell(value))}</td>' for value in row)}</tr>"
        for row in shown.itertuples(index=False, name=None)
    )
    if len(shown) < len(frame):
        summary = f"The first {len(shown)} of {counted(len(frame), 'row')}"
    else:
        summary = counted(len(frame), "row")
    return f"<details><summary>{summary}</summary><table><tr>{header}</tr>{rows}</table></details>"


def _cell(value: Any) -> str:
    """Return a value as a cell shows it."""
    if value is None or value != value:
        return "—"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _text(value: str) -> str:
    """Return a text as HTML, cut off if it is long."""
    cut = value if len(value) <= MAX_CELL_CHARACTERS else f"{value[: MAX_CELL_CHARACTERS - 1]}…"
    return html.escape(cut, quote=True)
