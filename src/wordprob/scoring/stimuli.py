"""From a table to the same rows with surprisals: checked first, then scored, one model after the other."""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Ints
from wordprob.core.words import define
from wordprob.errors import InputError, OptionError
from wordprob.models import resolve
from wordprob.options import DEFAULT_MODEL
from wordprob.scoring.loading import load, model_label
from wordprob.scoring.requests import Progress
from wordprob.scoring.scorer import Scorer
from wordprob.tables import columns, regions
from wordprob.tables import formats as sheets
from wordprob.tables.formats import Sheet
from wordprob.tables.layout import Layout, lay_out
from wordprob.tables.result import WordTable
from wordprob.tables.scored import ScoredTable

if TYPE_CHECKING:
    import pandas as pd

Model = str | Path | Scorer


@dataclass(frozen=True)
class Stimuli:
    """A table that has been read and checked, and what is wanted of it."""

    sheet: Sheet
    layout: Layout
    words: str = "whitespace"
    per_word: bool = False
    sum_by: str | None = None
    prefix: str = ""

    def check_columns(
        self, labels: Sequence[str], shape: str, names: Sequence[str] | None = None, extras: Collection[str] = ()
    ) -> None:
        """Raise, unless the new columns have names of their own."""
        if shape not in columns.SHAPES:
            raise OptionError(f"no shape is called '{shape}'; use {' or '.join(columns.SHAPES)}.")
        wanted = columns.expected(self, extras) if names is None else names
        there = columns.remaining(self)
        clash = [name for name in columns.final(wanted, labels, shape, self.prefix) if name in there]
        if clash:
            example = self.prefix + "wp_"
            raise InputError(
                f"{self.sheet.name} has columns called {', '.join(clash)} already. Name the new ones differently: "
                f"--prefix {example} makes {example}{clash[0].removeprefix(self.prefix)}."
            )

    def describe(self) -> str:
        """Say in a line what was found in the table; nothing of plain texts."""
        layout, count = self.layout, len(self.layout.texts)
        if layout.by_word:
            spaced = f"spaces by '{layout.space_after}'" if layout.space_after else "joined by spaces"
            text = f"as written in '{layout.text_column}'" if layout.text_column else spaced
            groups = f"by {', '.join(layout.group_by)}" if layout.group_by else "in all"
            return (
                f"{self.sheet.name}: {len(self.sheet)} words in '{layout.word_column}', {count} texts {groups}, {text}"
            )
        return f"{self.sheet.name}: {count} texts in '{layout.text_column}'" if layout.text_column else ""

    def warnings(self) -> list[str]:
        """Say what may not be meant: punctuation on rows of its own, with spaces before it."""
        layout = self.layout
        if not layout.by_word or layout.space_after or layout.text_column:
            return []
        cells = zip(layout.rows, layout.words or (), strict=True)
        later = [pair for rows, words in cells for pair in zip(rows[1:], words[1:], strict=True)]
        alone = [row for row, word in later if not any(map(str.isalnum, word))]
        if not alone:
            return []
        return [
            f"{len(alone)} rows hold punctuation alone (the first: {self.sheet.place(alone[0])}) and are scored with a "
            "space before them. If people read it without one, say so in a column and name it with --space-after."
        ]

    def score(
        self,
        models: Model | Sequence[Model] = DEFAULT_MODEL,
        *,
        shape: str = "long",
        unit: str = "bits",
        load_options: Mapping[str, Any] | None = None,
        extras: Collection[str] = (),
        progress: Progress | None = None,
        **scoring: Any,
    ) -> ScoredTable:
        """Score the texts with each model in turn, and put the surprisals behind the rows."""
        chosen = [models] if isinstance(models, str | Path | Scorer) else list(models)
        labels = check_models(chosen)
        self.check_columns(labels, shape, extras=extras)
        unique, which = self._unique()
        parts: dict[str, columns.ModelColumns] = {}
        about: dict[str, dict[str, str]] = {}
        for n, (label, model) in enumerate(zip(labels, chosen, strict=True)):
            shown = _shifted(progress, n * len(unique), len(chosen) * len(unique))
            table = self._run(model, unique, load_options or {}, unit=unit, extras=extras, progress=shown, **scoring)
            parts[label], about[label] = self._part(table, which), table.metadata
            self.check_columns(labels, shape, list(parts[label].added.columns))
            gc.collect()  # a model that was opened here goes before the next one comes
        return self._put_together(parts, about, shape)

    def _run(self, model: Model, unique: Sequence[int], options: Mapping[str, Any], **scoring: Any) -> WordTable:
        scorer = model if isinstance(model, Scorer) else load(model, **options)
        lists = self.layout.words
        words = self.words if lists is None else [lists[n] for n in unique]
        return scorer.score([self.layout.texts[n] for n in unique], words, **scoring)

    def _unique(self) -> tuple[list[int], list[int]]:
        """Return the texts to score, each once, and for every text which of them it is."""
        lists = self.layout.words or [[]] * len(self.layout.texts)
        keys = [(text, tuple(words)) for text, words in zip(self.layout.texts, lists, strict=True)]
        firsts = {key: n for n, key in reversed(list(enumerate(keys)))}
        number = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        return [firsts[key] for key in number], [number[key] for key in keys]

    def _part(self, table: WordTable, which: Sequence[int]) -> columns.ModelColumns:
        words, texts = expand(table, which)
        if self.layout.by_word:
            words["note"] = _several_words(words)
        if self.sum_by is not None:
            found = regions.add_up(words, self.layout.texts, self._regions())
        elif self.layout.by_word or self.per_word:
            found = words
        else:
            found = columns.by_text(words, texts, table.unit)
        return columns.ModelColumns(found[columns.chosen(self, list(found.columns))], words, texts)

    def _regions(self) -> list[list[int]]:
        return regions.runs(self.sheet, self.layout, str(self.sum_by))

    def _put_together(self, parts: Mapping[str, columns.ModelColumns], about: Any, shape: str) -> ScoredTable:
        labels, first = list(parts), next(iter(parts.values()))
        sheet, rows = self._rows(first)
        added = columns.combined({label: part.added for label, part in parts.items()}, shape, self.prefix)
        many = len(parts) > 1
        words, texts = (
            columns.stacked({k: getattr(p, which) for k, p in parts.items()}) for which in ("words", "texts")
        )
        shared = {
            key: value for key, value in about[labels[0]].items() if all(m.get(key) == value for m in about.values())
        }
        metadata = {
            **shared,
            **({"model": ", ".join(labels), "models": about} if many else {}),
            "source": self.sheet.name,
            **self.layout.about(),
            "sum_by": self.sum_by or "",
            "prefix": self.prefix,
        }
        rows = np.tile(rows, len(parts)) if many and shape == "long" else rows
        return ScoredTable(sheet, rows, added, words, self._with_groups(texts, len(parts)), metadata)

    def _rows(self, part: columns.ModelColumns) -> tuple[Sheet, Ints]:
        """Return the sheet that the new columns go behind, and which of its rows come in which order."""
        if self.sum_by is not None:
            found = self._regions()
            firsts = np.array([rows[0] for rows in found], dtype=np.int64)
            sheet = self.sheet.select(firsts, regions.kept_columns(self.sheet, self.layout, found))
            return sheet, np.arange(len(found))
        rows = np.arange(len(self.sheet))
        if self.per_word and not self.layout.by_word:
            rows = np.repeat(rows, part.texts["n_words"].to_numpy(dtype=np.int64))
        return self.sheet, rows

    def _with_groups(self, texts: pd.DataFrame, count: int) -> pd.DataFrame:
        """Name the texts by their groups."""
        for name in reversed(self.layout.group_by):
            cells = self.sheet.cells(name)
            texts = texts.drop(columns=name, errors="ignore")
            texts.insert(0, name, [cells[rows[0]] for rows in self.layout.rows] * count)
        return texts


def read_stimuli(
    table: Any,
    *,
    input_format: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    text_column: str | None = None,
    word_column: str | None = None,
    group_by: str | Sequence[str] | None = None,
    space_after: str | None = None,
    words: str = "whitespace",
    per_word: bool = False,
    sum_by: str | None = None,
    prefix: str = "",
    name: str | None = None,
) -> Stimuli:
    """Read a table and check all that can be checked without a model; parameters as for :func:`score_table`."""
    opened = sheets.read(table, input_format, sheet=sheet, decimal=decimal, name=name)
    layout = lay_out(opened, text_column, word_column, group_by, space_after)
    if layout.by_word and words != "whitespace":
        raise OptionError(f"the rows of {opened.name} are the words; --words is for a text on each row.")
    if layout.by_word and per_word:
        raise OptionError(f"{opened.name} has a row for each word already; --per-word is for a text on each row.")
    if sum_by is not None:
        if not layout.by_word:
            raise OptionError("--sum-by is for a word on each row; name that column with --word-column.")
        opened.require(sum_by)
        if not regions.runs(opened, layout, sum_by):
            raise InputError(f"{opened.name}: column '{sum_by}' names no region on any row.")
    define(words)
    return Stimuli(opened, layout, words, per_word, sum_by, prefix)


def of_texts(texts: Sequence[str], words: str | Sequence[Sequence[str]] = "whitespace", prefix: str = "") -> Stimuli:
    """Take plain texts as a table without columns: what comes out is a row for each word."""
    import pandas as pd

    given = None if isinstance(words, str) else [list(part) for part in words]
    layout = Layout(list(texts), given, [[n] for n in range(len(texts))])
    bare = sheets.Frame(pd.DataFrame(index=range(len(texts))), "the texts")
    return Stimuli(bare, layout, words if isinstance(words, str) else "whitespace", per_word=True, prefix=prefix)


def score_table(
    table: Any,
    model: Model | Sequence[Model] = DEFAULT_MODEL,
    *,
    text_column: str | None = None,
    word_column: str | None = None,
    group_by: str | Sequence[str] | None = None,
    space_after: str | None = None,
    words: str = "whitespace",
    per_word: bool = False,
    sum_by: str | None = None,
    shape: str = "long",
    prefix: str = "",
    unit: str = "bits",
    input_format: str | None = None,
    sheet: str | None = None,
    decimal: str | None = None,
    load_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **scoring: Any,
) -> ScoredTable:
    """Score a table of stimuli: the same rows come back, with new columns behind the old ones.

    Parameters
    ----------
    table
        A data frame, or a CSV, TSV, JSON-lines, Parquet or Excel file.
    model
        A name as for :func:`wordprob.load`, a scorer, or several of them, which are loaded one after the other.
    text_column
        The column that holds a text on each row; the new columns are about whole texts.
    word_column
        The column that holds a word on each row; the new columns are about words. With ``text_column`` as well, the
        text is as that column has it, on every row, and the words are looked up in it.
    group_by
        The columns that tell which rows make a text. Rows of a text stand together, in the order of its words.
    space_after
        A column of true and false: whether a space comes after the word. By default one always does.
    words
        What a word is, for a text on each row: ``whitespace``, ``punctuation`` or ``regex:PATTERN``.
    per_word
        For a text on each row: return a row for each word, with the columns of its text.
    sum_by
        For a word on each row: return a row for each region, consecutive words with the same value in this column.
    shape
        For several models: ``long`` (a column says which) or ``wide`` (columns end in the model's name).
    prefix
        Put before the names of all new columns.
    unit
        ``bits`` or ``nats``.
    input_format, sheet, decimal
        The format of a file without the usual ending, the sheet of a workbook, and the decimal mark of what is added to
        a CSV file, where they cannot be told.
    load_options
        For models given by name: ``device``, ``dtype`` and so on, as for :func:`wordprob.load`.
    progress
        Called with the numbers of texts done and in all.
    **scoring
        Further arguments of :meth:`wordprob.Scorer.score`, for example ``min_context``.

    Examples
    --------
    >>> import pandas as pd
    >>> stimuli = pd.DataFrame({"item": [1, 1, 1], "word": ["She", "saw", "the"], "rt": [310, 287, 255]})
    >>> scored = score_table(stimuli, "exact:bow", group_by="item").to_pandas()
    >>> scored[["word", "rt", "surprisal"]].round(2).values.tolist()
    [['She', 310, 1.25], ['saw', 287, 0.61], ['the', 255, 0.74]]
    """
    stimuli = read_stimuli(
        table,
        input_format=input_format,
        sheet=sheet,
        decimal=decimal,
        text_column=text_column,
        word_column=word_column,
        group_by=group_by,
        space_after=space_after,
        words=words,
        per_word=per_word,
        sum_by=sum_by,
        prefix=prefix,
    )
    return stimuli.score(model, shape=shape, unit=unit, load_options=load_options, progress=progress, **scoring)


def check_models(models: Sequence[Model]) -> list[str]:
    """Return what tables call the models; all of them must be there before the first is loaded."""
    labels = []
    for model in models:
        if isinstance(model, Scorer):
            labels.append(model_label(model.model.metadata.get("model", "model")))
        else:
            resolve(model)
            labels.append(model_label(model))
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise OptionError(f"two models are called {', '.join(sorted(twice))}; name each once, or rename a directory.")
    if not labels:
        raise OptionError("no model was named.")
    return labels


def _shifted(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Count on where the models before left off."""
    return None if progress is None else lambda n, _: progress(done + n, total)


def expand(table: WordTable, which: Sequence[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scored words and texts for texts that were scored once though they occur several times."""
    frame, texts = table.to_pandas(), table.texts()
    counts = texts["n_words"].to_numpy(dtype=np.int64)
    ends = np.cumsum(counts)
    index = [np.arange(ends[k] - counts[k], ends[k]) for k in which]
    words = frame.iloc[np.concatenate(index) if index else []].reset_index(drop=True)
    words["text_id"] = np.repeat(np.arange(len(which)), counts[list(which)])
    by_text = texts.iloc[list(which)].reset_index(drop=True)
    by_text["text_id"] = range(len(which))
    return words, by_text


def _several_words(words: pd.DataFrame) -> list[str]:
    """Say of cells that hold several words that their surprisals are added."""
    found = zip(words["word"].tolist(), words["note"].tolist(), strict=True)
    return [
        "; ".join(filter(None, [note, f"{count} words in one cell, taken together" if count > 1 else ""]))
        for note, count in ((note, len(word.split())) for word, note in found)
    ]
