"""Rows out: the schema of a scored text, its units, its provenance, and the files it goes to.

One row a word. ``surprisal = surprisal_naive + after - before`` on every row that has a value; ``before`` and
``after`` are −log B̃, the boundary terms of the equation, in the same unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.core.arrays import Floats, Ints, cumulative_offsets
from wordprob.core.text import Document
from wordprob.errors import InputError
from wordprob.tables.files import _beside, _write_parquet, check_output, format_of, sidecar, write_whole
from wordprob.tables.schema import COLUMNS, MEASURED, NUMBERS, TEXT_COLUMNS, UNITS, unit_size

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TextTotals:
    """What each of some texts comes to, in nats."""

    words: Ints
    """How many."""
    scored: Ints
    """How many have a surprisal."""
    surprisal: Floats
    """The sum of them all."""
    tokens: Ints
    token_log_prob: Floats
    """log p(tokens, end), all of them."""
    words_log_prob: Floats
    """log p of the words, from the tokens: Σ log p(token) + log B̃(last) − log B̃(start)."""
    end: Floats


@dataclass(frozen=True)
class BatchScores:
    """Scored texts, in nats, their words one after another: what a table is made of."""

    documents: Sequence[Document]
    counts: Ints
    """Words of each text."""
    data: bytes
    spans: tuple[Ints, Ints]
    """Where each word starts and ends in ``data``, which is UTF-8."""
    starts: Ints
    ends: Ints
    n_tokens: Ints
    context_tokens: Ints
    surprisal: Floats
    naive: Floats
    before: Floats
    after: Floats
    statistics: Mapping[str, Floats]
    estimates: Mapping[str, Floats]
    notes: Mapping[int, str]
    """By word; most have none."""
    totals: TextTotals
    note: str = ""
    first: int = 0
    """The number of the first word: more than 0 where the only text began on an earlier page."""
    goes_on: bool = False
    """Whether the only text goes on on the next page, and what it comes to is said there."""


class WordTable:
    """Scored words as a tidy table.

    Attributes
    ----------
    metadata
        Model and revision, tokeniser fingerprint, word definition, estimator, unit, start token, dtype, versions.
    unit
        ``bits`` or ``nats``.
    """

    def __init__(self, frame: pd.DataFrame, texts: pd.DataFrame, metadata: Mapping[str, str]) -> None:
        self._frame = frame
        self._texts = texts
        self.metadata = dict(metadata)

    @property
    def unit(self) -> str:
        """The unit of every surprisal in the table."""
        return self.metadata["unit"]

    @classmethod
    def build(cls, scored: Iterable[BatchScores], metadata: Mapping[str, str], unit: str) -> WordTable:
        """Put scored texts into one table, page by page as they come."""
        import pandas as pd
        import pyarrow as pa

        size = unit_size(unit)
        words, texts, counts, ids = [], [], [], []
        for page in scored:
            words.append(pa.table(_columns(page, size)))
            counts.append(page.counts)
            ids += [document.id for document in page.documents]
            if not page.goes_on:
                texts.append(pd.DataFrame(_texts(page.documents, page.totals, page.note, size)))
        if not sum(map(len, words)):
            frame = pd.DataFrame({name: [] for name in COLUMNS})
        else:
            frame = pa.concat_tables(words).to_pandas()
            frame.insert(0, "text_id", np.repeat(_ids(ids), np.concatenate(counts)))
        summary = pd.concat(texts, ignore_index=True) if texts else pd.DataFrame({name: [] for name in TEXT_COLUMNS})
        return cls(frame, summary, {**metadata, "unit": unit})

    def __len__(self) -> int:
        return len(self._frame)

    def __repr__(self) -> str:
        return f"<WordTable: {len(self)} words of {len(self._texts)} texts, {self.unit}, {self.metadata.get('model')}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each word, as a pandas data frame."""
        return self._frame.copy()

    def texts(self) -> pd.DataFrame:
        """Return a row for each text, blank ones too: sizes, log p(text), its end, bits per word and byte."""
        return self._texts.copy()

    def missing(self) -> dict[str, int]:
        """Count the words without a surprisal, by reason."""
        notes = self._frame.loc[self._frame["surprisal"].isna(), "note"]
        return {str(note): int(count) for note, count in notes.value_counts().items()}

    def write(self, path: str | Path, format: str | None = None, force: bool = False) -> Path:
        """Write the words to a file, whole or not at all.

        The run's metadata goes into a Parquet file itself, and beside a text file as ``<name>.meta.json``.

        Parameters
        ----------
        path
            Where to; the ending picks the format unless ``format`` does.
        format
            ``tsv``, ``csv``, ``parquet`` or ``jsonl``.
        force
            Replace a file that is already there.
        """
        path, format = check_output(path, format, force)
        if format == "parquet":
            write_whole(path, lambda aside: _write_parquet(self._frame, self.metadata, aside))
        else:
            write_whole(path, lambda aside: aside.write_text(self.to_text(format), encoding="utf-8", newline=""))
            text = json.dumps(self.metadata, indent=1, ensure_ascii=False) + "\n"
            write_whole(sidecar(path), lambda aside: aside.write_text(text, encoding="utf-8"))
        return path

    def to_text(self, format: str = "tsv") -> str:
        """Return the words as TSV, CSV or JSON lines; numbers in full precision, missing ones empty (null in JSON)."""
        if format == "jsonl":
            return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in records(self._frame))
        separator = {"tsv": "\t", "csv": ","}[format]
        return str(self._frame.to_csv(sep=separator, index=False, lineterminator="\n"))

    @classmethod
    def read(cls, path: str | Path) -> WordTable:
        """Read a table that :meth:`write` wrote; the summary by text is not kept in files."""
        path = Path(path)
        format = format_of(path)
        if not path.is_file():
            raise InputError(f"no such file: {path}")
        metadata = _beside(path)
        try:
            return cls._read(path, format, metadata)
        except (ValueError, OSError) as error:  # what pandas, pyarrow and json say of a file they cannot read
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"{path} cannot be read as {format.upper()}: {reason}") from error

    @classmethod
    def _read(cls, path: Path, format: str, metadata: Mapping[str, str]) -> WordTable:
        import pandas as pd

        if format == "parquet":
            import pyarrow.parquet as pq

            stored = pq.read_table(path)
            metadata = json.loads((stored.schema.metadata or {}).get(b"wordprob", b"{}"))
            return cls(stored.to_pandas(), pd.DataFrame(columns=list(TEXT_COLUMNS)), metadata)
        if format == "jsonl":
            frame = pd.read_json(path, lines=True, dtype={"word": str, "note": str}, convert_dates=False)
        else:
            separator = {"tsv": "\t", "csv": ","}[format]
            numbers = {name: [""] for name in (*NUMBERS, "n_tokens", "context_tokens")}
            frame = pd.read_csv(path, sep=separator, keep_default_na=False, na_values=numbers, dtype={"word": str})
        return cls(frame, pd.DataFrame(columns=list(TEXT_COLUMNS)), {"unit": "", **metadata})


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON can hold them: what is missing or infinite is ``None``."""
    finite = frame.replace([np.inf, -np.inf], np.nan)
    rows: list[dict[str, Any]] = finite.astype(object).where(finite.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows


def _columns(scored: BatchScores, size: float) -> dict[str, Any]:
    """Return a row for each word; strings go from buffer to buffer, never one by one."""
    count = len(scored.starts)
    return {
        "word_id": np.arange(count) - np.repeat(cumulative_offsets(scored.counts)[:-1], scored.counts) + scored.first,
        "word": _strings(scored.data, *scored.spans),
        "start": scored.starts,
        "end": scored.ends,
        "n_tokens": scored.n_tokens,
        "context_tokens": scored.context_tokens,
        "surprisal": scored.surprisal / size,
        "surprisal_naive": scored.naive / size,
        "before": scored.before / size,
        "after": scored.after / size,
        **{name: values / size if name in MEASURED else values for name, values in scored.statistics.items()},
        "note": _notes(scored.notes, count),
    }


def _ids(ids: Sequence[int | str]) -> Any:
    """Return the texts' ids: numbers if all are, else as they came."""
    return np.array(ids, dtype=np.int64 if all(type(i) is int for i in ids) else object)


def _strings(data: bytes, starts: Ints, ends: Ints) -> Any:
    """Return stretches of a UTF-8 text as strings: the text is cut into them and what lies between."""
    import pyarrow as pa

    edges = np.append(np.stack([starts, ends], axis=1).ravel(), len(data)).astype(np.int64)
    whole = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(data))
    return whole.take(pa.array(np.arange(0, len(edges) - 1, 2))).cast(pa.string())


def _notes(notes: Mapping[int, str], count: int) -> Any:
    import pyarrow as pa

    different = ["", *dict.fromkeys(notes.values())]
    place = {note: n for n, note in enumerate(different)}
    which = np.zeros(count, dtype=np.int64)
    for word, note in notes.items():
        which[word] = place[note]
    return pa.array(different).take(pa.array(which))


def _texts(documents: Sequence[Document], totals: TextTotals, note: str, size: float) -> dict[str, Any]:
    """Return a row for each text."""
    characters = np.array([len(d.text) for d in documents], dtype=np.int64)
    n_bytes = np.array([len(d.text.encode("utf-8", "surrogatepass")) for d in documents], dtype=np.int64)
    blank, bits = totals.words == 0, -totals.words_log_prob / UNITS["bits"]
    added = -totals.surprisal - totals.end
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rates = {
            name: np.where(blank, np.nan, bits / length)
            for name, length in (("word", totals.words), ("character", characters), ("byte", n_bytes))
        }
        perplexity = 2.0 ** np.minimum(rates["word"], 1000.0)
        conservation = added - totals.token_log_prob
    return {
        "text_id": _ids([document.id for document in documents]),
        "n_words": totals.words,
        "n_scored": totals.scored,
        "n_tokens": totals.tokens,
        "n_characters": characters,
        "n_bytes": n_bytes,
        "log_prob": totals.words_log_prob - totals.end,
        "log_prob_words": totals.words_log_prob,
        "end": totals.end / size,
        **{f"bits_per_{name}": rate for name, rate in rates.items()},
        "perplexity": perplexity,
        "conservation": conservation,
        "note": [note] * len(documents),
    }
