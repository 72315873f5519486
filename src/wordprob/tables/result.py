"""The result of scoring: a table of words, or a user's table with new columns, and where its numbers come from.

One row is one word. ``surprisal = surprisal_naive + after - before`` on every row that has a value; ``before`` and
``after`` are −log B̃, the boundary terms of the equation, in the same unit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, counted
from wordprob.tables import formats
from wordprob.tables.batch_scores import BatchScores
from wordprob.tables.files import check_output, format_of, has_sidecar, write_whole
from wordprob.tables.formats import ExtendedSheet
from wordprob.tables.formats.formulas import escape_frame
from wordprob.tables.formats.jsonlines import records
from wordprob.tables.frames import build_frames, with_whole_numbers
from wordprob.tables.metadata import metadata_of_schema, parquet_entry, read_metadata, write_sidecar
from wordprob.tables.predictors import predictor_names
from wordprob.tables.schema import EXTRA_COLUMNS, TEXT_COLUMNS, WORD_COLUMNS, unit_size

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScoredTable", "WordTable", "records"]


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
        """Make a table of scored texts, batch by batch as they come.

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

    def __len__(self) -> int:
        """Return the number of words that were scored."""
        return len(self._words)

    def __repr__(self) -> str:
        rows = "" if self._extended is None else f"{counted(len(self._extended), 'row')}, "
        size = f"{rows}{counted(len(self), 'word')} of {counted(len(self._texts), 'text')}"
        return f"<WordTable: {size}, {self.unit}, {self.metadata.get('model')}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word, or the user's rows with the new columns.

        A user's data frame keeps its index. The cells of text files become numbers where nothing is lost by it.
        """
        return self._words.copy() if self._extended is None else self._extended.frame()

    def words(self) -> pd.DataFrame:
        """Return a row for each word that was scored, whatever the rows of the user's table are."""
        return self._words.copy()

    def texts(self) -> pd.DataFrame:
        """Return a row for each text, blank ones too: sizes, log p(text), its end, bits per word and byte.

        The texts of a user's table have the columns of their group. With several models there is a row for each text
        and model.
        """
        return self._texts.copy()

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
            In CSV and TSV, put an apostrophe before cells that begin with ``=``, ``+``, ``-`` or ``@`` and are no
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
    numeric = {name: [""] for name in _numeric_columns()}
    separator = formats.SEPARATORS[format]
    return pd.read_csv(path, sep=separator, keep_default_na=False, na_values=numeric, dtype={"word": str}), {}


def _numeric_columns() -> list[str]:
    """Return the columns of numbers, which may be missing."""
    columns = [*WORD_COLUMNS, *EXTRA_COLUMNS.values()]
    measured = [column.name for column in columns if column.in_units or column.statistics]
    return ["n_tokens", "context_tokens", *measured, *predictor_names(["surprisal", "surprisal_naive"])]
