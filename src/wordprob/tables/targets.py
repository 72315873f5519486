"""Targets: the words of a text that are asked about, named by columns, in a text or after a context of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from wordprob.errors import InputError
from wordprob.tables.formats import Sheet
from wordprob.tables.grouping import is_blank
from wordprob.tables.layout import Layout, column_strings
from wordprob.tables.marks import TARGET, Span, find_target, whole_span


def with_targets(layout: Layout, sheet: Sheet, target_columns: Sequence[str]) -> Layout:
    """Return the layout of texts on rows of which only targets count: the words that one or more columns name.

    A row without a target stays, and has no value.
    """
    sheet.require(*target_columns)
    cells = {column: sheet.cells(column) for column in target_columns}
    spans: list[list[Span]] = []
    for row, text in enumerate(layout.texts):
        found = []
        for column in target_columns:
            target = cells[column][row]
            name = _region_name(column, target_columns)
            if not is_blank(target):
                found.append(replace(find_target(text, str(target), sheet.place(row)), name=name))
            elif len(target_columns) > 1:
                found.append(Span(name, 0, 0))
        spans.append(found)
    if not any(span.end for of_text in spans for span in of_text):
        names = " or ".join(f"'{column}'" for column in target_columns)
        raise InputError(f"{sheet.name}: column {names} names no target on any row.")
    return replace(layout, spans=spans, target_column=",".join(target_columns))


class Target(NamedTuple):
    """A target after its context.

    Attributes
    ----------
    row
        The position of its row in the table.
    column
        The column that holds it.
    context, text
        The context and the target; both empty if one of them is missing.
    missing
        Why it cannot be scored; empty if it can.
    """

    row: int
    column: str
    context: str
    text: str
    missing: str = ""


def targets_after_contexts(sheet: Sheet, context_column: str, target_columns: Sequence[str]) -> Layout:
    """Return the layout of a table with a context on each row, and one or more targets to score after it.

    The texts are the targets, those of the first row first. A row without a context or a target stays, and has no
    value.
    """
    sheet.require(context_column, *target_columns)
    contexts = column_strings(sheet, context_column, blank="")
    cells = {column: column_strings(sheet, column, blank="") for column in target_columns}
    targets = []
    for row, context in enumerate(contexts):
        for column in target_columns:
            text = cells[column][row].strip()
            if not context.strip():
                targets.append(Target(row, column, "", "", f"no context in '{context_column}'"))
            elif not text:
                targets.append(Target(row, column, "", "", f"no target in '{column}'"))
            else:
                targets.append(Target(row, column, context, text))
    if all(target.missing for target in targets):
        raise InputError(f"{sheet.place(0)}: {targets[0].missing}, and no other row has both a context and a target.")
    return Layout(
        texts=[target.text for target in targets],
        words=None,
        rows=[[target.row] for target in targets],
        spans=[[whole_span(target.text, _region_name(target.column, target_columns))] for target in targets],
        target_column=",".join(target_columns),
        contexts=[target.context for target in targets],
        context_column=context_column,
        unscored={number: target.missing for number, target in enumerate(targets) if target.missing},
    )


def _region_name(column: str, target_columns: Sequence[str]) -> str:
    """Return what the region of a target is called: the column, where there are several."""
    return column if len(target_columns) > 1 else TARGET
