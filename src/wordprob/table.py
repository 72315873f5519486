"""Rows out: the schema of a scored text, its units, its provenance, and the files it goes to.

One row a word. ``surprisal = surprisal_naive + after - before`` on every row that has a value; ``before`` and
``after`` are −log B̃, the boundary terms of the equation, in the same unit.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.errors import InputError, OptionError, OutputError
from wordprob.types import Document, Floats, Word

if TYPE_CHECKING:
    import pandas as pd

UNITS = {"bits": math.log(2.0), "nats": 1.0}
"""Size of a unit in nats."""

COLUMNS: dict[str, str] = {
    "text_id": "which text, by its number (from 0) or the id given",
    "word_id": "which word of the text, from 0",
    "word": "the word as it stands in the text",
    "start": "where it begins, in characters from 0",
    "end": "where it ends, exclusive: text[start:end] is the word",
    "n_tokens": "tokens that write the word, the separators before it included",
    "context_tokens": "tokens of the text the model had seen before it",
    "surprisal": "the word's surprisal, corrected",
    "surprisal_naive": "the sum of its tokens' surprisals, as usually published",
    "before": "−log of the boundary mass before the word",
    "after": "−log of the boundary mass after the word",
    "note": "why a value is missing, or what to know about it",
}
"""The columns of a scored text, and what each says."""

TEXT_COLUMNS: dict[str, str] = {
    "text_id": "which text",
    "n_words": "its words",
    "n_scored": "words that have a surprisal",
    "n_tokens": "its tokens",
    "n_characters": "its characters",
    "n_bytes": "its bytes in UTF-8",
    "log_prob": "log p(text), its words and its end, natural logarithm",
    "log_prob_words": "log p of the words alone: that a text begins so",
    "end": "surprisal of the text ending where it does, given its words",
    "bits_per_word": "−log2 p of the words, for each word",
    "bits_per_character": "the same for each character",
    "bits_per_byte": "the same for each byte of UTF-8",
    "perplexity": "2 to the power of bits_per_word",
    "conservation": "words and end less the tokens, in nats: near 0, or something is wrong",
    "note": "why a value is missing",
}
"""The columns of the summary by text."""

NUMBERS = ("surprisal", "surprisal_naive", "before", "after")
FORMATS = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet", "jsonl": ".jsonl"}


@dataclass(frozen=True)
class TextScores:
    """One scored text, in nats: what a table is made of."""

    document: Document
    words: Sequence[Word]
    n_tokens: Sequence[int]
    context_tokens: Sequence[int]
    surprisal: Floats
    naive: Floats
    before: Floats
    after: Floats
    notes: Sequence[str]
    tokens: int
    token_log_prob: float
    """log p(tokens, end), all of them."""
    words_log_prob: float
    """log p of the words, from the tokens: Σ log p(token) + log B̃(last) − log B̃(start)."""
    end: float
    note: str = ""


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
    def build(cls, scored: Sequence[TextScores], metadata: Mapping[str, str], unit: str) -> WordTable:
        """Put scored texts into one table."""
        import pandas as pd

        size = unit_size(unit)
        parts = [pd.DataFrame(_word_columns(s, size)) for s in scored if len(s.words)]
        empty = pd.DataFrame({name: [] for name in COLUMNS})
        frame = pd.concat(parts, ignore_index=True) if parts else empty
        texts = pd.DataFrame([_text_row(s, size) for s in scored], columns=list(TEXT_COLUMNS))
        return cls(frame, texts, {**metadata, "unit": unit})

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


def unit_size(unit: str) -> float:
    """Return the size of a unit in nats."""
    if unit not in UNITS:
        raise OptionError(f"no unit is called '{unit}'; use {' or '.join(UNITS)}.")
    return UNITS[unit]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON can hold them: what is missing or infinite is ``None``."""
    finite = frame.replace([np.inf, -np.inf], np.nan)
    rows: list[dict[str, Any]] = finite.astype(object).where(finite.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows


def _word_columns(scored: TextScores, size: float) -> dict[str, Any]:
    count = len(scored.words)
    return {
        "text_id": [scored.document.id] * count,
        "word_id": range(count),
        "word": [w.text for w in scored.words],
        "start": [w.start for w in scored.words],
        "end": [w.end for w in scored.words],
        "n_tokens": scored.n_tokens,
        "context_tokens": scored.context_tokens,
        "surprisal": scored.surprisal / size,
        "surprisal_naive": scored.naive / size,
        "before": scored.before / size,
        "after": scored.after / size,
        "note": list(scored.notes),
    }


def _text_row(scored: TextScores, size: float) -> dict[str, Any]:
    text = scored.document.text
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    words, bits = len(scored.words), -scored.words_log_prob / UNITS["bits"]
    added = -float(np.sum(scored.surprisal)) - scored.end
    return {
        "text_id": scored.document.id,
        "n_words": words,
        "n_scored": int(np.isfinite(scored.surprisal).sum()),
        "n_tokens": scored.tokens,
        "n_characters": len(text),
        "n_bytes": n_bytes,
        "log_prob": scored.words_log_prob - scored.end,
        "log_prob_words": scored.words_log_prob,
        "end": scored.end / size,
        "bits_per_word": bits / words if words else math.nan,
        "bits_per_character": bits / len(text) if words else math.nan,
        "bits_per_byte": bits / n_bytes if words else math.nan,
        "perplexity": 2.0 ** min(bits / words, 1000.0) if words else math.nan,
        "conservation": added - scored.token_log_prob,
        "note": scored.note,
    }


# --- files -------------------------------------------------------------------------------------------------------


def sidecar(path: Path) -> Path:
    """Return where the metadata of a text file goes."""
    return path.with_name(path.name + ".meta.json")


def format_of(path: Path, formats: Mapping[str, str] = FORMATS) -> str:
    """Tell the format by the file's ending."""
    for name, ending in formats.items():
        if path.suffix.lower() == ending:
            return name
    raise OptionError(
        f"cannot tell a format from '{path.name}'. Give it one of the endings {', '.join(formats.values())}, "
        "or name one with --format."
    )


def check_output(
    path: str | Path, format: str | None = None, force: bool = False, formats: Mapping[str, str] = FORMATS
) -> tuple[Path, str]:
    """Make sure, before any work is done, that a result can be written to ``path``.

    Returns the path and the format.
    """
    path = Path(path)
    if format is not None and format not in formats:
        raise OptionError(f"no format is called '{format}'; use {', '.join(formats)}.")
    format = format or format_of(path, formats)
    if path.is_dir():
        raise OutputError(
            f"{path} is a directory; name a file in it, for example {path / 'surprisal'}{formats[format]}"
        )
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; nothing was done. Use --force to replace it.")
    if not path.parent.is_dir():
        raise OutputError(f"there is no directory {path.parent}; make it first: mkdir -p '{path.parent}'")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OutputError(f"{path} cannot be written: no permission for {path.parent}. Choose another place with -o.")
    return path, format


def write_whole(path: Path, write: Any) -> None:
    """Call ``write`` with a file aside, then put that in ``path``'s place; on failure nothing is left behind."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    aside = Path(name)
    try:
        write(aside)
        aside.chmod(0o666 & ~_umask())
        aside.replace(path)
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _beside(path: Path) -> dict[str, str]:
    """Return the metadata that lies beside a text file, if any."""
    beside = sidecar(path)
    try:
        found: dict[str, str] = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    except ValueError as error:
        raise InputError(f"{beside} is not JSON: {error}. Without that file the table can be read.") from None
    return found


def _write_parquet(frame: pd.DataFrame, metadata: Mapping[str, str], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = pa.Table.from_pandas(frame, preserve_index=False)
    kept = {**(stored.schema.metadata or {}), b"wordprob": json.dumps(dict(metadata), ensure_ascii=False).encode()}
    pq.write_table(stored.replace_schema_metadata(kept), path)
