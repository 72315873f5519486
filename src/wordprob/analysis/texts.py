"""Running text as a stream: Parquet, JSON lines, plain text, or a Hugging Face data set."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, cast

from wordprob.analysis.tables import require
from wordprob.errors import EncodingError, InputError, OptionError

HUB = "hf:"
MARKERS = re.compile(r"\s*_(?:START_ARTICLE|START_SECTION|START_PARAGRAPH|NEWLINE)_\s*")
"""What Wiki-40B writes between its parts."""


def stream(source: str, column: str = "text", limit: int | None = None) -> Iterator[str]:
    """Yield the texts of a file or data set, blank ones left out.

    Parameters
    ----------
    source
        A ``.parquet`` or ``.jsonl`` file with a column of texts, a text file with one on each line (either of the last
        two may end in ``.gz``), or ``hf:NAME[:CONFIG][:SPLIT]`` for a Hugging Face data set or a folder of its kind.
    column
        The column that holds the texts.
    limit
        Stop after so many texts.
    """
    texts = _hub(source, column) if source.startswith(HUB) else _file(Path(source), column)
    return islice((text for text in texts if text.strip()), limit)


def check(source: str, column: str = "text") -> None:
    """Raise at once what :func:`stream` would raise at its first text."""
    if next(stream(source, column), None) is None:
        raise InputError(f"{source} holds no text.")


def _file(path: Path, column: str) -> Iterator[str]:
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending == ".parquet":
        yield from _parquet(path, column)
    elif ending in (".jsonl", ".ndjson"):
        yield from _jsonl(path, column)
    elif ending in (".txt", ""):
        yield from _lines(path)
    else:
        raise OptionError(f"cannot read texts from '{path.name}'; use .parquet, .jsonl or .txt (a text on each line).")


def _parquet(path: Path, column: str) -> Iterator[str]:
    import pandas as pd
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        require(pd.DataFrame(columns=file.schema_arrow.names), [column], str(path))
        for batch in file.iter_batches(batch_size=1024, columns=[column]):
            yield from (text or "" for text in batch.column(0).to_pylist())


def _jsonl(path: Path, column: str) -> Iterator[str]:
    for number, line in enumerate(_lines(path), start=1):
        try:
            row = json.loads(line) if line.strip() else {column: ""}
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}: not JSON: {error.msg}.") from error
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            keys = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            raise InputError(f"{path}, line {number}: no text in '{column}', only {keys}. Give another --text-column.")
        yield row[column]


def _lines(path: Path) -> Iterator[str]:
    how = gzip.open if path.suffix == ".gz" else Path.open
    with cast("IO[str]", how(path, "rt", encoding="utf-8-sig")) as file:
        try:
            yield from (line.rstrip("\r\n") for line in file)
        except UnicodeDecodeError as error:
            raise EncodingError(f"{path} is not UTF-8. Save it as UTF-8 and try again.") from error


def _hub(source: str, column: str) -> Iterator[str]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise OptionError("Hugging Face data sets need: pip install datasets. Or give a local file.") from error
    name, config, split = parse_hub(source)
    try:
        rows = load_dataset(name, config, split=split, streaming=True)
    except Exception as error:  # the package raises whatever its network stack does
        raise InputError(f"the data set '{name}' cannot be opened: {error}. Offline, give a local file.") from error
    for row in rows:
        if column not in row:
            raise InputError(f"{source} has no column '{column}', only {', '.join(row)}. Give another --text-column.")
        yield clean(row[column])


def parse_hub(source: str) -> tuple[str, str | None, str]:
    """Take ``hf:NAME[:CONFIG][:SPLIT]`` apart; the split is ``train`` unless given.

    Examples
    --------
    >>> parse_hub("hf:google/wiki40b:en:test")
    ('google/wiki40b', 'en', 'test')
    """
    parts = source.removeprefix(HUB).split(":")
    if len(parts) > 3 or not parts[0]:
        raise OptionError(f"'{source}' names no data set; write hf:NAME, hf:NAME:SPLIT or hf:NAME:CONFIG:SPLIT.")
    if len(parts) == 2:
        return parts[0], None, parts[1]
    return parts[0], parts[1] if len(parts) == 3 else None, parts[2] if len(parts) == 3 else "train"


def clean(text: str) -> str:
    r"""Take Wiki-40B's markers out of a text.

    Examples
    --------
    >>> clean("_START_ARTICLE_\nMark_START_PARAGRAPH_\nShe saw it._NEWLINE_It was red.")
    'Mark\nShe saw it.\nIt was red.'
    """
    return MARKERS.sub("\n", text).strip()
