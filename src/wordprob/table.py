"""Rows out: the schema of a scored text, its units, its provenance, and the files it goes to.

One row a word. ``surprisal = surprisal_naive + after - before`` on every row that has a value; ``before`` and
``after`` are −log B̃, the boundary terms of the equation, in the same unit.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordprob.errors import InputError, OptionError, OutputError
from wordprob.types import Document, Floats, Ints, offsets

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


EXTRAS: dict[str, str] = {
    "entropy": "entropy of the next token where the word begins",
    "rank": "rank of the word's first token there: 1 is the likeliest",
}
"""Further columns, on request."""

MEASURED = (*NUMBERS, "entropy")
"""Columns in the table's unit."""


@dataclass(frozen=True)
class TextScores:
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
class PageScores:
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
    extras: Mapping[str, Floats]
    notes: Mapping[int, str]
    """By word; most have none."""
    totals: TextScores
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
    def build(cls, scored: Iterable[PageScores], metadata: Mapping[str, str], unit: str) -> WordTable:
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


def _columns(scored: PageScores, size: float) -> dict[str, Any]:
    """Return a row for each word; strings go from buffer to buffer, never one by one."""
    count = len(scored.starts)
    return {
        "word_id": np.arange(count) - np.repeat(offsets(scored.counts)[:-1], scored.counts) + scored.first,
        "word": _strings(scored.data, *scored.spans),
        "start": scored.starts,
        "end": scored.ends,
        "n_tokens": scored.n_tokens,
        "context_tokens": scored.context_tokens,
        "surprisal": scored.surprisal / size,
        "surprisal_naive": scored.naive / size,
        "before": scored.before / size,
        "after": scored.after / size,
        **{name: values / size if name in MEASURED else values for name, values in scored.extras.items()},
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


def _texts(documents: Sequence[Document], totals: TextScores, note: str, size: float) -> dict[str, Any]:
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
