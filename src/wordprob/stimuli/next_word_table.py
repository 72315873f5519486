"""Next words as a table: a row for each word after each context, behind the columns of the user's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.errors import InputError
from wordprob.options import ScoringOptions, TableLayout
from wordprob.scoring.next_words import NextWords
from wordprob.stimuli.stimulus_reading import open_table
from wordprob.tables.columns import stack
from wordprob.tables.formats import ExtendedSheet, Frame, Sheet

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("context_id", "context", "kind", "rank", "separator", "word", "probability", "surprisal", "certain")
"""The columns of a table of next words; :data:`HIGHEST` comes before ``surprisal`` if all spellings count."""
HIGHEST = "probability_high"


@dataclass(frozen=True)
class Contexts:
    """Contexts, and the table that they come from.

    Attributes
    ----------
    texts
        The contexts.
    sheet
        The table, with a context on each row; ``None`` for contexts that come from none.
    column
        Its column with the contexts.
    prefix
        What the names of all new columns begin with.
    """

    texts: list[str]
    sheet: Sheet | None = None
    column: str = ""
    prefix: str = ""

    def check_columns(self, labels: Sequence[str], options: ScoringOptions) -> None:
        """Raise if the table has columns with the names of new ones already.

        Parameters
        ----------
        labels
            The names of the models.
        options
            How the words are found.
        """
        if self.sheet is None:
            return
        names = [*(["model"] if len(labels) > 1 else []), *COLUMNS, *([HIGHEST] if options.spellings == "all" else [])]
        new = [self.prefix + name for name in names if not self._has_already(name)]
        if clashes := [name for name in new if name in self.sheet.columns]:
            example = f"{self.prefix}wp_"
            raise InputError(
                f"{self.sheet.name} has columns called {', '.join(clashes)} already. Name the new ones differently: "
                f"`prefix` {example} makes {example}{clashes[0].removeprefix(self.prefix)}."
            )

    def _has_already(self, name: str) -> bool:
        """Return True for the column of contexts, if the table's own has the same name."""
        return self.sheet is not None and name == "context" and self.prefix + name == self.column

    def table(self, found: Mapping[str, Sequence[NextWords]]) -> ExtendedSheet:
        """Return a row for each word: the columns of the table that its context comes from, then the new ones.

        Parameters
        ----------
        found
            What each model found after the contexts, by the model's name.
        """
        frames = {label: _frame(of_model) for label, of_model in found.items()}
        added = stack(frames)
        numbers: Ints = added["context_id"].to_numpy(dtype=np.int64)
        added = added[[name for name in added.columns if not self._has_already(name)]].add_prefix(self.prefix)
        if self.sheet is None:
            return ExtendedSheet(Frame(added.iloc[:, :0], "the contexts"), np.arange(len(added)), added)
        return ExtendedSheet(self.sheet, numbers, added)


def read_contexts(table: Any, column: str, layout: TableLayout | None = None, name: str | None = None) -> Contexts:
    """Return the contexts in a column of a table, which is read as :func:`wordprob.score_table` reads one.

    ``name`` is what messages call the table.
    """
    layout = layout or TableLayout()
    sheet = open_table(table, name=name, **layout.how_to_read())
    sheet.require(column)
    contexts = []
    for row, cell in enumerate(sheet.cells(column)):
        if not isinstance(cell, str):
            raise InputError(f"{sheet.place(row)}: '{column}' holds no text but {cell!r}.")
        contexts.append(cell)
    return Contexts(contexts, sheet, column, layout.prefix)


def _frame(found: Sequence[NextWords]) -> pd.DataFrame:
    """Return the tables of several contexts as one, in which the contexts are numbered."""
    import pandas as pd

    frames = [each.to_pandas() for each in found]
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "context_id", np.repeat(np.arange(len(frames)), [len(each) for each in frames]))
    return frame
