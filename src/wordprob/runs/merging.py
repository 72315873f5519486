"""What the folder of a run gives without the model: one table of all words or texts, or statistics by word type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, OptionError
from wordprob.runs.run_directory import RunDirectory
from wordprob.tables.files import check_output, has_sidecar, sidecar, write_whole
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.word_types import WordFilter

TABLES = ("words", "texts", "types")
ROWS_PER_GROUP = 1 << 18
"""Rows of a row group of Parquet, and held in memory at a time."""


def is_run(path: str | Path) -> bool:
    """Return True if a folder is that of a run."""
    return RunDirectory(path).exists


def finished(output: str | Path, kind: str = "words", partial: bool = False) -> list[Path]:
    """Return the finished Parquet files of a run, in order; raise if one is not what was written.

    Parameters
    ----------
    output
        The folder of the run.
    kind
        ``words`` or ``texts``.
    partial
        Return the files of the shards that are done, though the run is not complete.
    """
    directory = RunDirectory(output)
    files = _finished_files(directory, kind, partial)
    for path, digest in files:
        directory.checked_bytes(path, digest)
    return [path for path, _ in files]


def merge(
    output: str | Path,
    path: str | Path,
    table: str = "words",
    *,
    format: str | None = None,
    partial: bool = False,
    force: bool = False,
    which: WordFilter | None = None,
) -> Path:
    """Put the shards of a run together in one file, a batch at a time.

    Parameters
    ----------
    output
        The folder of the run.
    path, format, force
        As for :meth:`wordprob.WordTable.write`.
    table
        ``words``; ``texts``, with log p and perplexity of each; or ``types``, the means of each word type.
    partial
        Merge the shards that are done, though the run is not complete.
    which
        Words that count as types; all of them, as they are, by default.
    """
    path, format = check_output(path, format, force, with_sidecar=True)
    directory = RunDirectory(output).require()
    if table not in TABLES:
        raise OptionError(f"no table of a run is called '{table}'; use {', '.join(TABLES)}.")
    if table == "types":
        batches: Iterator[Any] = iter([_to_arrow(types(output, which, partial))])
    else:
        files = _finished_files(directory, table, partial)
        batches = _in_large_batches(_read_checked(directory, file, digest) for file, digest in files)
    metadata = directory.metadata()
    write_whole(path, lambda partial_path: _write(batches, partial_path, format, metadata))
    if has_sidecar(path, format):
        text = json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
        write_whole(sidecar(path), lambda partial_path: partial_path.write_text(text, encoding="utf-8"))
    return path


def types(output: str | Path, which: WordFilter | None = None, partial: bool = False) -> pd.DataFrame:
    """Return a row for each word type: ``word, length, count``, mean and standard deviation of its surprisals.

    Parameters
    ----------
    output
        The folder of the run.
    which
        Words that count, and which of them are the same; all of them, as they are, by default.
    partial
        Use the shards that are done, though the run is not complete.
    """
    import numpy as np

    from wordprob.analysis.input_tables import ESTIMATES
    from wordprob.analysis.word_types import TypeSums, WordFilter, batches, open_scored

    sums = TypeSums(which or WordFilter("all", "as-is", 1))
    for file in finished(output, "words", partial):
        for words, surprisals in batches(open_scored(file)):
            sums.add(words, surprisals)
    totals = sums.table()
    nats_per_unit = UNITS[RunDirectory(output).metadata()["unit"]]
    table = totals[["word", "length", "count"]].copy()
    for estimate in sums.estimates:
        name = ESTIMATES[estimate]
        mean = totals[estimate] / totals["count"]
        variance = (totals[f"{estimate}_squared"] / totals["count"] - mean**2).clip(lower=0)
        table[name] = mean / nats_per_unit
        table[f"{name}_sd"] = np.sqrt(variance) / nats_per_unit
    return table.sort_values(["count", "word"], ascending=[False, True], ignore_index=True)


def _finished_files(directory: RunDirectory, kind: str, partial: bool) -> list[tuple[Path, str]]:
    """Return the finished files with their hashes; raise if the run is not complete and that matters."""
    marks = list(directory.require().done().values())
    n_shards = directory.manifest()["plan"]["shards"]
    if len(marks) < n_shards and not partial:
        raise InputError(
            f"{directory.path} is not complete: {len(marks)} of {n_shards} shards are done. Resume the run, or specify "
            "`partial` to use the shards that are done."
        )
    files = list(directory.files(kind, marks))
    if not files:
        raise InputError(f"{directory.path} has no {kind} yet.")
    return files


def _read_checked(directory: RunDirectory, path: Path, digest: str) -> Any:
    """Read a file of a shard; raise if it is not what was written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = directory.checked_bytes(path, digest)
    return pq.read_table(pa.BufferReader(data)).replace_schema_metadata(None)


def _in_large_batches(tables: Iterator[Any]) -> Iterator[Any]:
    """Put small tables together, so that row groups have a good size."""
    import pyarrow as pa

    batch: list[Any] = []
    for table in tables:
        batch.append(table)
        if sum(len(held) for held in batch) >= ROWS_PER_GROUP:
            yield pa.concat_tables(batch)
            batch = []
    if batch:
        yield pa.concat_tables(batch)


def _to_arrow(frame: pd.DataFrame) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _write(batches: Iterator[Any], path: Path, format: str, metadata: dict[str, str]) -> None:
    if format == "parquet":
        _write_parquet(batches, path, metadata)
    else:
        _write_text(batches, path, format, metadata)


def _write_text(batches: Iterator[Any], path: Path, format: str, metadata: dict[str, str]) -> None:
    from wordprob.scoring.results import WordTable

    with path.open("w", encoding="utf-8", newline="") as file:
        for index, batch in enumerate(batches):
            text = WordTable(batch.to_pandas(), batch.slice(0, 0).to_pandas(), metadata).to_text(format)
            if index > 0 and format != "jsonl":  # the header stands in the file already
                text = text[text.index("\n") + 1 :]
            file.write(text)


def _write_parquet(batches: Iterator[Any], path: Path, metadata: dict[str, str]) -> None:
    import pyarrow.parquet as pq

    first = next(batches)
    schema = first.schema.with_metadata({b"wordprob": json.dumps(metadata, ensure_ascii=False).encode()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in chain([first], batches):
            writer.write_table(batch.cast(schema), row_group_size=ROWS_PER_GROUP)
