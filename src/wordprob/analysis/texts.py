"""Running text as a stream: Parquet, JSON lines, CSV, plain text, or a Hugging Face data set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from wordprob.errors import EncodingError, InputError
from wordprob.sources import ReadOptions, Record, Source, read, source_of


def stream(
    source: str | Source, column: str = "text", limit: int | None = None, *, keep_blank: bool = False
) -> Iterator[str]:
    """Yield the texts of a file or data set, blank ones left out.

    Parameters
    ----------
    source
        A ``.parquet``, ``.jsonl``, ``.csv`` or ``.tsv`` file with a column of texts, a text file with one on each line
        (all except Parquet may be compressed), or ``hf:NAME[:CONFIG][:SPLIT]`` for a Hugging Face data set or a folder
        of its kind.
    column
        The column that holds the texts.
    limit
        Stop after this many texts.
    keep_blank
        Yield blank texts too.
    """
    texts = _texts(source if isinstance(source, Source) else source_of(source), column)
    return islice((text for text in texts if keep_blank or text.strip()), limit)


def _texts(source: Source, column: str) -> Iterator[str]:
    for record, _ in read(source, ReadOptions(column)):
        yield _text(source, record)


def check(source: str, column: str = "text") -> None:
    """Raise at once what :func:`stream` would raise at its first text."""
    if next(stream(source, column), None) is None:
        raise InputError(f"{source} holds no text.")


def _text(source: Source, record: Record) -> str:
    """Return the text of a record; raise if it has none, because a study must not lose texts silently."""
    if record.problem and record.problem != "empty":
        error = EncodingError if record.problem == "encoding" else InputError
        unit = "line" if source.kind in ("lines", "jsonl") else "row"
        raise error(f"{source.path}, {unit} {record.number}: {record.reason}.")
    return record.text
