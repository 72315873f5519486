"""What comes out: the rows that went in, with new columns; in any format, with its provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.core.arrays import Ints
from wordprob.tables import formats as sheets
from wordprob.tables.files import check_output, sidecar, write_whole
from wordprob.tables.formats import Sheet

if TYPE_CHECKING:
    import pandas as pd


class ScoredTable:
    """A table with new columns behind its own.

    Attributes
    ----------
    metadata
        Model, tokeniser, word definition, unit and versions as for a :class:`wordprob.WordTable`, and which columns
        held what. With several models, ``models`` has the metadata of each.
    unit
        ``bits`` or ``nats``.
    """

    def __init__(
        self, sheet: Sheet, rows: Ints, added: pd.DataFrame, words: pd.DataFrame, texts: pd.DataFrame, metadata: Any
    ) -> None:
        self._sheet, self._rows, self._added = sheet, rows, added
        self._words, self._texts = words, texts
        self.metadata: Mapping[str, Any] = metadata

    @property
    def unit(self) -> str:
        """The unit of every surprisal in the table."""
        return str(self.metadata["unit"])

    def __len__(self) -> int:
        return len(self._words)

    def __repr__(self) -> str:
        return f"<ScoredTable: {len(self._rows)} rows, {len(self)} words, {self.unit}, {self.metadata.get('model')}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows with the new columns.

        A data frame keeps its index; the cells of text files are numbers where nothing is lost by it.
        """
        return sheets.joined(self._sheet, self._rows, self._added)

    def words(self) -> pd.DataFrame:
        """Return a row for each word that was scored, whatever the rows of the table are."""
        return self._words.copy()

    def texts(self) -> pd.DataFrame:
        """Return a row for each text (and model): its group, sizes, log p, bits per word."""
        return self._texts.copy()

    def missing(self) -> dict[str, int]:
        """Count the words without a surprisal, by reason."""
        notes = self._words.loc[self._words["surprisal"].isna(), "note"]
        return {str(note): int(count) for note, count in notes.value_counts().items()}

    def render(self, format: str) -> bytes:
        """Return the table as a file's bytes; in the format it came in, its own lines come back as they were."""
        about = {b"wordprob": json.dumps(self.metadata, ensure_ascii=False).encode("utf-8")}
        return sheets.render(self._sheet, self._rows, self._added, format, about)

    def to_text(self, format: str | None = None) -> str:
        """Return the table as TSV, CSV or JSON lines: by default the format it came in, if that is one of them."""
        own = self._sheet.format if self._sheet.format in ("csv", "tsv", "jsonl") else "tsv"
        return sheets.decode(self.render(format or own), "")[0]

    def write(self, path: str | Path, format: str | None = None, force: bool = False) -> Path:
        """Write the table, whole or not at all; the metadata goes into a Parquet file or beside any other.

        Parameters
        ----------
        path
            Where to; the ending picks the format unless ``format`` does.
        format
            ``tsv``, ``csv``, ``parquet``, ``jsonl`` or ``xlsx``.
        force
            Replace a file that is already there.
        """
        path, format = check_output(path, format, force, sheets.FORMATS)
        data = self.render(format)
        write_whole(path, lambda aside: aside.write_bytes(data))
        if format != "parquet":
            about = json.dumps(self.metadata, indent=1, ensure_ascii=False) + "\n"
            write_whole(sidecar(path), lambda aside: aside.write_text(about, encoding="utf-8"))
        return path
