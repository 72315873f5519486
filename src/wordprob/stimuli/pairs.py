"""Minimal pairs: two sentences on each row of a table, scored and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.errors import InputError, OptionError
from wordprob.options import DEFAULT_MODEL, TableLayout
from wordprob.scoring.loading import Model, check_models
from wordprob.scoring.requests import Progress
from wordprob.scoring.results import ScoredTable
from wordprob.stimuli.stimuli import Stimuli
from wordprob.stimuli.stimulus_reading import open_table, read_stimuli
from wordprob.tables import columns
from wordprob.tables.formats import ExtendedSheet, Frame, Sheet
from wordprob.tables.grouping import columns_called
from wordprob.tables.marks import different_parts

if TYPE_CHECKING:
    import pandas as pd

PAIR_COLUMN_NAMES = (("sentence_good", "sentence_bad"), ("good", "bad"), ("grammatical", "ungrammatical"))
"""Names, in any case, of the two columns, the first as in BLiMP."""

REGIONS = ("whole", "different")
"""What is compared: whole sentences, or the words in which the two differ."""


LAYOUT_OPTIONS = (*TableLayout.reading, "marks", "prefix")
"""Options of tables that mean something for pairs."""

NOTHING_DIFFERENT = "the two sentences are the same, or one only has more words: no words to compare"


@dataclass(frozen=True)
class Pairs:
    """A table with two sentences on each row, read and checked.

    Attributes
    ----------
    columns
        The columns of the two sentences; the first is the one that should be likelier.
    first, second
        The sentences of each.
    region
        What is compared.
    guessed
        True if the columns were told by their names.
    """

    columns: tuple[str, str]
    first: Stimuli
    second: Stimuli
    region: str = "whole"
    guessed: bool = False

    @property
    def sheet(self) -> Sheet:
        """The table as it came."""
        return self.first.sheet

    def guesses(self) -> str:
        """Return a line on what was guessed; empty if nothing was."""
        if not self.guessed:
            return ""
        return f"{self.sheet.name}: guessed from the names of columns: `pair` {','.join(self.columns)}"

    def added_columns(self) -> list[str]:
        """Return the columns that a model adds."""
        first, second = self.columns
        totals = [f"{measure}_{name}" for measure in ("surprisal", "surprisal_naive") for name in (first, second)]
        return [*totals, "difference", "difference_naive", "preferred", "note"]

    def check_columns(self, labels: Sequence[str], shape: str) -> None:
        """Raise, before a model is loaded, unless the new columns have names that the table does not have."""
        columns.check_new_columns(self.first, self.added_columns(), labels, shape)

    def score(
        self,
        models: Model | Sequence[Model] = DEFAULT_MODEL,
        *,
        shape: str = "long",
        progress: Progress | bool | None = None,
        **scoring: Any,
    ) -> ScoredTable:
        """Score both sentences of every pair with each model; parameters as for :meth:`Stimuli.score`."""
        listed: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
        self.check_columns(check_models(listed), shape)
        scored = self._both().score(listed, progress=progress, **scoring)
        rows = scored.to_pandas()
        names = list(dict.fromkeys(rows["model"])) if "model" in rows.columns else check_models(listed)
        frames = {}
        for name in names:
            of_model = rows[rows["model"] == name] if "model" in rows.columns else rows
            frames[name] = self._compared(of_model.reset_index(drop=True))
        return self._assembled(frames, shape, scored)

    def _assembled(self, frames: Mapping[str, pd.DataFrame], shape: str, scored: ScoredTable) -> ScoredTable:
        """Put the columns of all models behind the rows."""
        added = columns.combine(frames, shape, self.first.options.prefix)
        positions = np.arange(len(self.sheet))
        if shape == "long":
            positions = np.tile(positions, len(frames))
        about = {
            **scored.metadata,
            "text_column": "",
            "pair": ",".join(self.columns),
            "region": self.region,
            "shape": shape,
            "guessed": "pair" if self.guessed else "",
            "prefix": self.first.options.prefix,
        }
        return ScoredTable(scored.words(), scored.texts(), about, ExtendedSheet(self.sheet, positions, added))

    def reshaped(self, scored: ScoredTable, shape: str) -> ScoredTable:
        """Return scored pairs of several models, which :meth:`score` gave in the long shape, in another shape."""
        new = [self.first.options.prefix + name for name in self.added_columns()]
        frame = scored.to_pandas()
        model = self.first.options.prefix + "model"
        if model not in frame.columns:
            return scored
        frames = {}
        for name in dict.fromkeys(frame[model]):
            of_model = frame.loc[frame[model] == name, new].reset_index(drop=True)
            frames[name] = of_model.set_axis(self.added_columns(), axis=1)
        return self._assembled(frames, shape, scored)

    def _both(self) -> Stimuli:
        """Return the sentences of both columns below each other, as one table."""
        import pandas as pd

        one, two = self.first.layout, self.second.layout
        spans = None
        if one.spans is not None and two.spans is not None:
            spans = [*one.spans, *two.spans]
        n_texts = len(one.texts) + len(two.texts)
        layout = replace(one, texts=[*one.texts, *two.texts], rows=[[n] for n in range(n_texts)], spans=spans)
        no_columns = Frame(pd.DataFrame(index=range(n_texts)), self.sheet.name)
        options = replace(self.first.options, prefix="")
        return replace(self.first, sheet=no_columns, layout=layout, options=options)

    def _compared(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of a model from the rows of its scored sentences: first ones, then second ones."""
        import pandas as pd

        n_pairs = len(self.sheet)
        table = {}
        for measure in ("surprisal", "surprisal_naive"):
            values = rows[measure].to_numpy(dtype=np.float64)
            for name, part in zip(self.columns, (values[:n_pairs], values[n_pairs:]), strict=True):
                table[f"{measure}_{name}"] = part
        first, second = self.columns
        with np.errstate(invalid="ignore"):
            table["difference"] = table[f"surprisal_{second}"] - table[f"surprisal_{first}"]
            table["difference_naive"] = table[f"surprisal_naive_{second}"] - table[f"surprisal_naive_{first}"]
        preferred = np.select([table["difference"] > 0, table["difference"] < 0], [first, second], "")
        preferred = np.where(table["difference"] == 0, "neither", preferred)
        notes = rows["note"].tolist()
        both_notes = []
        for note_first, note_second in zip(notes[:n_pairs], notes[n_pairs:], strict=True):
            named = [
                f"{name}: {note}" for name, note in zip(self.columns, (note_first, note_second), strict=True) if note
            ]
            both_notes.append("; ".join(named))
        if self.region == "different":
            for row, spans in enumerate(self.first.layout.spans or ()):
                if not spans:
                    both_notes[row] = NOTHING_DIFFERENT
        return pd.DataFrame({**table, "preferred": preferred, "note": both_notes})


def read_pairs(
    table: Any,
    pair: str | Sequence[str] | None = None,
    *,
    region: str = "whole",
    target_columns: str | Sequence[str] | None = None,
    layout: TableLayout | None = None,
    words: str | None = None,
    name: str | None = None,
) -> Pairs:
    """Read a table of pairs and check all that needs no model; parameters as for :func:`score_pairs`."""
    layout = layout or TableLayout()
    for option in layout.changed():
        if option not in LAYOUT_OPTIONS:
            raise OptionError(f"`{option}` is not for pairs; {', '.join(LAYOUT_OPTIONS)} are. Leave it out.")
    if region not in REGIONS:
        raise OptionError(f"no region is called '{region}'; use {' or '.join(REGIONS)}.")
    if sum((region != "whole", target_columns is not None, layout.marks is not None)) > 1:
        raise OptionError("`region`, `target_columns` and `marks` all say what is compared; specify one of them.")
    targets = [None, None] if target_columns is None else _two(target_columns, "target_columns")
    reading = layout.how_to_read()
    chosen = _two(pair, "pair") if pair is not None else _guess(open_table(table, name=name, **reading))
    if chosen[0] == chosen[1]:
        raise OptionError(f"`pair` names the column '{chosen[0]}' twice; name two.")
    stimuli = []
    for column, target in zip(chosen, targets, strict=True):
        of_column = replace(layout, text_column=column, target_column=target)
        stimuli.append(read_stimuli(table, of_column, words=words, name=name))
    first, second = stimuli
    if region == "different":
        first, second = _different(first, second)
    for stimuli_of_column in (first, second):
        _check_one_region(stimuli_of_column)
    return Pairs((chosen[0], chosen[1]), first, second, region, pair is None)


def _guess(sheet: Sheet) -> list[str]:
    """Return the two columns whose names show that they hold the sentences of a pair."""
    for names in PAIR_COLUMN_NAMES:
        found = columns_called(sheet, names)
        if len(found) == 2:
            return found
    raise InputError(
        f"cannot tell which columns of {sheet.name} hold the two sentences of a pair. It has: "
        f"{', '.join(sheet.columns)}. Name both with `pair`, the one that should be likelier first: 'good,bad'."
    )


def _two(names: str | Sequence[str], option: str) -> list[str]:
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if len(given) != 2 or not all(given):
        raise OptionError(f"`{option}` is {names!r}; it must be two columns, for example 'sentence_good,sentence_bad'.")
    return given


def _check_one_region(stimuli: Stimuli) -> None:
    """Raise if a sentence has several regions, as only one of each is compared."""
    for row, spans in enumerate(stimuli.layout.spans or ()):
        if len(spans) > 1:
            raise InputError(
                f"{stimuli.sheet.place(row)}: '{stimuli.layout.text_column}' has {len(spans)} regions; mark one in "
                "each sentence of a pair."
            )


def _different(first: Stimuli, second: Stimuli) -> tuple[Stimuli, Stimuli]:
    """Return the same sentences, of which only the words count in which the two of a pair differ."""
    spans: tuple[list[Any], list[Any]] = ([], [])
    for one, two in zip(first.layout.texts, second.layout.texts, strict=True):
        parts = different_parts(one, two)
        for of_column, part in zip(spans, parts, strict=True):
            of_column.append([] if None in parts else [part])
    if not any(spans[0]):
        raise InputError(f"{first.sheet.name}: no two sentences differ in words that both have; compare them whole.")
    return (
        replace(first, layout=replace(first.layout, spans=spans[0])),
        replace(second, layout=replace(second.layout, spans=spans[1])),
    )


def score_pairs(
    table: Any,
    model: Model | Sequence[Model] = DEFAULT_MODEL,
    *,
    pair: str | Sequence[str] | None = None,
    region: str = "whole",
    target_columns: str | Sequence[str] | None = None,
    shape: str = "long",
    progress: Progress | bool | None = None,
    **options: Any,
) -> ScoredTable:
    """Score a table of minimal pairs: the same rows come back, with both surprisals and which sentence is preferred.

    Parameters
    ----------
    table, model, shape, progress
        As for :func:`wordprob.score_table`.
    pair
        The columns of the two sentences, the one that should be likelier first; told by their names if not given, such
        as ``sentence_good`` and ``sentence_bad`` of BLiMP.
    region
        ``whole``: all words are compared; ``different``: the words in which the two sentences differ.
    target_columns
        Instead: the columns that hold the critical words of each sentence.
    **options
        Plain keywords: ``marks`` (``stars`` or ``bars``, where the sentences mark the words that are compared),
        ``prefix``, ``input_format``, ``sheet``, ``decimal`` and ``encoding``, as for :func:`wordprob.score_table`, and
        options of scoring, for example ``unit``.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = pd.DataFrame({"good": ["She saw the mark"], "bad": ["She saw the marker"]})
    >>> scored = score_pairs(pairs, "exact:bow", pair=["good", "bad"]).to_pandas()
    >>> scored[["difference", "preferred"]].round(2).values.tolist()
    [[0.33, 'good']]
    """
    layout, scoring = TableLayout.split(None, options, ["pair", "region", "target_columns", "shape", "progress"])
    words = scoring.pop("words", None)
    pairs = read_pairs(table, pair, region=region, target_columns=target_columns, layout=layout, words=words)
    if pairs.guessed:
        warnings.warn(pairs.guesses(), stacklevel=2)
    return pairs.score(model, shape=shape, progress=progress, **scoring)
