"""The result of scoring: a table of words, or a user's table with new columns, and where its numbers come from.

One row is one word. ``surprisal = surprisal_naive + after - before`` on every row that has a value; ``before`` and
``after`` are −log B̃, the boundary terms of the equation, in the same unit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, UnknownColumnError, UnsupportedError, counted, missing_columns
from wordprob.tables import formats
from wordprob.tables.files import check_output, format_of, has_sidecar, write_whole
from wordprob.tables.formats import ExtendedSheet
from wordprob.tables.formats.formulas import escape_frame
from wordprob.tables.formats.jsonlines import records
from wordprob.tables.formats.parquet import arrow_table
from wordprob.tables.frames import build_frames, pick_texts, with_whole_numbers
from wordprob.tables.metadata import metadata_of_schema, parquet_entry, read_metadata, write_sidecar
from wordprob.tables.predictors import predictor_names
from wordprob.tables.schema import EXTRA_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS, BatchScores, unit_size
from wordprob.tables.word_level_columns import is_word_level_column

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from wordprob.render.notebook import Report

__all__ = ["ScoredTable", "WordTable", "records"]

ROWS_AT_ONCE = 1024
"""Rows that are made into Python objects at a time when a table is iterated over."""


class WordTable:
    """Scored words as a tidy table, or as new columns of a user's table.

    Texts are scored to a row for each word. A user's table, as :func:`wordprob.score_table` takes it, comes back with
    its own rows and the new columns behind its own.

    Parameters
    ----------
    words
        A row for each word that was scored.
    texts
        A row for each text.
    metadata
        Where the numbers come from; ``unit`` among it.
    extended
        The user's rows with the new columns, where there is a user's table.

    Attributes
    ----------
    metadata
        Model and revision, tokenizer fingerprint, word definition, estimator, unit, start token, dtype, versions; for
        a user's table also which columns held what. With several models, ``models`` has the metadata of each.
    unit
        ``bits`` or ``nats``.
    """

    def __init__(
        self,
        words: pd.DataFrame,
        texts: pd.DataFrame,
        metadata: Mapping[str, Any],
        extended: ExtendedSheet | None = None,
    ) -> None:
        self._words = with_whole_numbers(words)
        self._texts = texts
        self._extended = extended
        self.metadata = dict(metadata)

    @classmethod
    def build(
        cls, batches: Iterable[BatchScores], metadata: Mapping[str, Any], unit: str, extras: Collection[str] = ()
    ) -> WordTable:
        """Make a table from a stream of scored batches.

        Parameters
        ----------
        batches
            The scored texts.
        metadata
            Where the numbers come from; the unit is added.
        unit
            ``bits`` or ``nats``.
        extras
            Names of further columns.
        """
        unit_size(unit)
        words, texts = build_frames(batches, unit, extras)
        return cls(words, texts, {**metadata, "unit": unit})

    @property
    def unit(self) -> str:
        """The unit of every surprisal in the table."""
        return str(self.metadata["unit"])

    @property
    def format(self) -> str:
        """The format of the user's file, or ``frame`` for what did not come from a file."""
        return "frame" if self._extended is None else self._extended.sheet.format

    @property
    def text_format(self) -> str:
        """The format that the table is printed in: that of the user's file if it is plain text, otherwise TSV."""
        return self.format if self.format in formats.TEXT_FORMATS else "tsv"

    @property
    def n_words(self) -> int:
        """The number of words that were scored."""
        return len(self._words)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        frame = self._words if self._extended is None else self._extended.frame()
        return [str(name) for name in frame.columns]

    def __len__(self) -> int:
        """Return the number of rows: of words, or of a user's table."""
        return self.n_words if self._extended is None else len(self._extended)

    def __getitem__(self, name: str | Sequence[str]) -> Any:
        """Return a column as a pandas Series, or several as a data frame.

        Parameters
        ----------
        name
            The name of a column, or a list of names.
        """
        frame = self.to_pandas()
        wanted = name if isinstance(name, list | tuple) else [name]
        missing = missing_columns("the table", [str(column) for column in wanted], frame.columns)
        if missing:
            raise UnknownColumnError(missing)
        return frame[list(wanted) if isinstance(name, tuple) else name]

    def __contains__(self, name: object) -> bool:
        """Return True if there is a column with this name."""
        return name in self.columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, each as a dict of column names and values; a missing number is ``None``."""
        frame = self.to_pandas()
        for start in range(0, len(frame), ROWS_AT_ONCE):
            yield from records(frame.iloc[start : start + ROWS_AT_ONCE])

    def __repr__(self) -> str:
        rows = "" if self._extended is None else f"{counted(len(self._extended), 'row')}, "
        texts = f" of {counted(len(self._texts), 'text')}" if len(self._texts) else ""
        model = self.metadata.get("model") or ", ".join(map(str, self.metadata.get("models") or ()))
        facts = [f"{rows}{counted(self.n_words, 'word')}{texts}", self.unit, model]
        return f"<WordTable: {', '.join(filter(None, facts))}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the words in colour, or the first of many, and their numbers."""
        from wordprob.render.notebook import table_html

        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word, or the user's rows with the new columns.

        A user's data frame keeps its index. The cells of text files become numbers where nothing is lost by it.
        """
        return self._words.copy() if self._extended is None else self._extended.frame()

    def to_arrow(self) -> Any:
        """Return the rows as a pyarrow Table, with the metadata that a Parquet file has."""
        table = arrow_table(self.to_pandas())
        return table.replace_schema_metadata({**(table.schema.metadata or {}), **parquet_entry(self.metadata)})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows by the Arrow PyCapsule protocol, so that polars, DuckDB and others take the table itself."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> Any:
        """Return the rows as a polars data frame; polars must be installed."""
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise UnsupportedError("to_polars() needs polars: pip install polars") from error
        return polars.from_arrow(self.to_arrow())

    def plot(
        self, texts: str | int | Sequence[str | int] = (), *, naive: bool = False, value: str = "surprisal"
    ) -> Figure:
        """Draw surprisal word by word, a panel for each text; the extra ``study`` must be installed.

        Parameters
        ----------
        texts
            Which texts: an id, or ``"item=3"`` or ``"item=3,condition=a"``, or a list of them. All of a few by default.
        naive
            Draw the naive estimate as well.
        value
            The column that is drawn.

        Returns
        -------
        Figure
            A matplotlib figure, which a notebook shows; ``figure.savefig("text.pdf")`` writes it.
        """
        chosen = [texts] if isinstance(texts, str | int) else texts
        try:
            import matplotlib.pyplot  # noqa: F401  so that a notebook knows how to show the figure

            from wordprob.analysis.plot_columns import PlotColumns, columns_of
            from wordprob.analysis.text_plots import plot_text
        except ImportError as error:
            raise UnsupportedError(f"plot() needs {error.name}: pip install 'wordprob[study]'") from error
        frame = self.to_pandas()
        columns = columns_of(frame, self.metadata, value=value)
        if columns.word not in frame.columns:  # a text on each row: its words are drawn
            frame = self.words()
            columns = PlotColumns(value=value)
        return plot_text(
            frame,
            columns,
            [str(text) for text in chosen],
            naive,
            unit=str(self.metadata.get("unit", "")),
            model="" if "model" in frame.columns else str(self.metadata.get("model", "")),
        )

    def report(self, path: str | Path | None = None, *, force: bool = False, **options: Any) -> Report:
        """Return the report of :func:`wordprob.render.report`: an HTML page, as a string that a notebook shows.

        Parameters
        ----------
        path
            Also write it to this file.
        force
            Replace a file that exists.
        **options
            ``title``, ``group_by``, ``outline`` and others, as for :func:`wordprob.render.report`.
        """
        from wordprob.render.notebook import inline_report

        shown = self if self._has_a_row_for_each_word else WordTable(self._words, self._texts, self._metadata_of_words)
        return inline_report(shown, path, force, options)

    @property
    def _has_a_row_for_each_word(self) -> bool:
        """Whether the rows are words or regions, and not whole texts."""
        if self._extended is None:
            return True
        prefix = str(self.metadata.get("prefix") or "")
        words = (self.metadata.get("word_column"), f"{prefix}word")
        return f"{prefix}surprisal" in self.columns and any(name in self.columns for name in words)

    @property
    def _metadata_of_words(self) -> dict[str, Any]:
        """The metadata without what says how the user's rows are laid out."""
        layout = ("prefix", "group_by", "word_column", "text_column", "space_after", "sum_by")
        return {name: value for name, value in self.metadata.items() if name not in layout}

    def words(self) -> pd.DataFrame:
        """Return a row for each word that was scored, even if the rows of the user's table are texts or regions."""
        return self._words.copy()

    def texts(self) -> pd.DataFrame:
        """Return a row for each text, blank ones too: sizes, log p(text), its end, bits per word and byte.

        The texts of a user's table have the columns of their group. With several models there is a row for each text
        and model.
        """
        return self._texts.copy()

    def in_order(self, order: Sequence[int]) -> WordTable:
        """Return a table of texts with the texts in the order that they had before they were put into ``order``."""
        numbers = [0] * len(order)
        for number, position in enumerate(order):
            numbers[position] = number
        return WordTable(*pick_texts(self._words, self._texts, numbers), self.metadata)

    def missing(self) -> dict[str, int]:
        """Count the words without a surprisal, by reason."""
        notes = self._words.loc[self._words["surprisal"].isna(), "note"]
        return {str(note): int(count) for note, count in notes.value_counts().items()}

    def render(self, format: str, escape_formulas: bool = False) -> bytes:
        """Return the table as the bytes of a file.

        In the format that a user's table came in, its own lines come back as they were.

        Parameters
        ----------
        format
            ``tsv``, ``csv``, ``parquet``, ``jsonl`` or ``xlsx``.
        escape_formulas
            In CSV and TSV, put an apostrophe before cells that begin with ``=``, ``+``, ``-`` or ``@`` and are not
            numbers, so that a spreadsheet program does not take them for formulas.
        """
        entry = parquet_entry(self.metadata)
        escape_formulas = escape_formulas and format in formats.SEPARATORS
        if self._extended is None:
            words = escape_frame(self._words) if escape_formulas else self._words
            return formats.render_frame(words, format, entry)
        extended = self._extended.escape_formulas(format) if escape_formulas else self._extended
        return extended.render(format, entry)

    def to_text(self, format: str | None = None) -> str:
        """Return the table as text; numbers in full precision, missing ones empty (null in JSON).

        Parameters
        ----------
        format
            ``tsv``, ``csv`` or ``jsonl``; by default the format that the user's table came in, and otherwise ``tsv``.
        """
        format = format or self.text_format
        data = self.render(format)
        if self._extended is None or format != self.format:
            return data.decode("utf-8")
        encoding = self._extended.sheet.encoding  # a user's file keeps its own
        return data.removeprefix(encoding.mark).decode(encoding.codec)

    def write(
        self, path: str | Path, format: str | None = None, force: bool = False, *, escape_formulas: bool = False
    ) -> Path:
        """Write the table to a file, completely or not at all.

        The metadata goes into a Parquet file itself, and beside any other file as ``<name>.meta.json``.

        Parameters
        ----------
        path
            Where to write; the extension determines the format unless ``format`` does. A pipe, a device or ``-``
            (standard output) is written into, without metadata.
        format
            ``tsv``, ``csv``, ``parquet``, ``jsonl`` or ``xlsx``.
        force
            Replace a file that exists.
        escape_formulas
            As for :meth:`render`.
        """
        path, format = check_output(path, format, force, formats.FORMATS, with_sidecar=True)
        data = self.render(format, escape_formulas)
        write_whole(path, lambda temporary: temporary.write_bytes(data))
        if has_sidecar(path, format):
            write_sidecar(path, self.metadata)
        return path

    @classmethod
    def read(cls, path: str | Path) -> WordTable:
        """Read a table that :meth:`write` wrote; the summary by text is not kept in files."""
        import pandas as pd

        path = Path(path)
        format = format_of(path)
        if not path.is_file():
            raise InputError(f"no such file: {path}")
        metadata = {} if format == "parquet" else {"unit": "", **read_metadata(path)}
        try:
            words, stored = _read_words(path, format)
        except (ValueError, OSError) as error:  # what pandas, pyarrow and json raise for a file they cannot read
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{path} cannot be read as {format.upper()}: {reason}") from error
        return cls(words, pd.DataFrame(columns=list(TEXT_COLUMNS)), metadata | stored)


ScoredTable = WordTable
"""The same class; the name for a user's table with new columns."""


def _read_words(path: Path, format: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a table that wordprob wrote, and the metadata that is stored inside the file."""
    import pandas as pd

    if format == "parquet":
        import pyarrow.parquet as pq

        stored = pq.read_table(path)
        return stored.to_pandas(), metadata_of_schema(stored.schema)
    if format == "jsonl":
        return pd.read_json(path, lines=True, dtype={"word": str, "note": str}, convert_dates=False), {}
    # A word may be spelled NA or null, so only an empty cell in a column of numbers is a missing value.
    separator = formats.SEPARATORS[format]
    header = pd.read_csv(path, sep=separator, keep_default_na=False, nrows=0).columns
    numeric = {name: [""] for name in [*_numeric_columns(), *filter(is_word_level_column, map(str, header))]}
    return pd.read_csv(path, sep=separator, keep_default_na=False, na_values=numeric, dtype={"word": str}), {}


def _numeric_columns() -> list[str]:
    """Return the columns of numbers, which may be missing."""
    columns = [*WORD_COLUMNS, *EXTRA_COLUMNS.values()]
    measured = [column.name for column in columns if column.in_units or column.statistics]
    return ["n_tokens", "context_tokens", *measured, *predictor_names(["surprisal", "surprisal_naive"])]
