"""What a run's folder gives without the model: one table of all words or texts, or statistics by word type."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, OptionError
from wordprob.runs.atomic_io import read_json
from wordprob.runs.run_directory import SCORED, RunDirectory
from wordprob.tables.files import check_output, sidecar, write_whole
from wordprob.tables.result import WordTable
from wordprob.tables.schema import UNITS

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.word_types import WordFilter

TABLES = ("words", "texts", "types")
ROWS = 1 << 18
"""Rows of a row group, and in hand at a time."""


def is_run(path: str | Path) -> bool:
    """Say whether a folder is that of a run."""
    return RunDirectory(path).exists


def finished(output: str | Path, kind: str = "words", partial: bool = False) -> list[Path]:
    """Return the finished Parquet files of a run, in order.

    Parameters
    ----------
    output
        The folder of the run.
    kind
        ``words`` or ``texts``.
    partial
        Take what there is, though the run is not complete.
    """
    return [path for path, _ in _checked(RunDirectory(output), kind, partial)]


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
        Take what there is, though the run is not complete.
    which
        WordFilter words count as types; all of them, as they are, by default.
    """
    path, format = check_output(path, format, force)
    folder = RunDirectory(output).require()
    if table not in TABLES:
        raise OptionError(f"no table of a run is called '{table}'; use {', '.join(TABLES)}.")
    if table == "types":
        batches: Iterator[Any] = iter([_arrow(types(output, which, partial))])
    else:
        files = _checked(folder, table, partial)
        batches = _grouped(_read(file, digest) for file, digest in files)
    metadata = _metadata(folder)
    write_whole(path, lambda aside: _write(batches, aside, format, metadata))
    if format != "parquet":
        about = json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
        write_whole(sidecar(path), lambda aside: aside.write_text(about, encoding="utf-8"))
    return path


def types(output: str | Path, which: WordFilter | None = None, partial: bool = False) -> pd.DataFrame:
    """Return a row for each word type: ``word, length, count``, mean and standard deviation of its surprisals.

    Parameters
    ----------
    output
        The folder of the run.
    which
        WordFilter words count, and which are the same; all of them, as they are, by default.
    partial
        Take what there is, though the run is not complete.
    """
    import numpy as np

    from wordprob.analysis.word_types import TypeSums, WordFilter, batches, open_scored

    files = finished(output, "words", partial)
    sums = TypeSums(which or WordFilter("all", "as-is", 1))
    for file in files:
        for words, corrected, naive in batches(open_scored(file)):
            sums.add(words, corrected, naive)
    found, size = sums.table(), UNITS[_metadata(RunDirectory(output))["unit"]]
    table = found[["word", "length", "count"]].copy()
    for name, column in (("surprisal", "corrected"), ("surprisal_naive", "naive")):
        mean = found[column] / found["count"]
        variance = (found[f"{column}_squared"] / found["count"] - mean**2).clip(lower=0)
        table[name], table[f"{name}_sd"] = mean / size, np.sqrt(variance) / size
    return table.sort_values(["count", "word"], ascending=[False, True], ignore_index=True)


def _metadata(folder: RunDirectory) -> dict[str, str]:
    path = folder.path / SCORED
    return {name: str(value) for name, value in read_json(path).items()} if path.is_file() else {}


def _checked(folder: RunDirectory, kind: str, partial: bool) -> list[tuple[Path, str]]:
    """Return the finished files with their hashes, unless the run is not complete and that matters."""
    marks = list(folder.require().done().values())
    of = folder.manifest()["plan"]["shards"]
    if len(marks) < of and not partial:
        raise InputError(
            f"{folder.path} is not complete: {len(marks)} of {of} shards are done. Go on with wordprob run --resume "
            f"{folder.path}, or take what there is with --partial."
        )
    digests = {folder.path / name: about["sha256"] for mark in marks for name, about in mark["files"].items()}
    found = [(path, digests[path]) for path in folder.files(kind, marks)]
    if not found:
        raise InputError(f"{folder.path} has no {kind} yet.")
    return found


def _read(path: Path, digest: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        mark = path.parents[1] / "done" / f"{path.stem}.json"
        raise InputError(f"{path} is damaged. Delete {mark}, then: wordprob run --resume {path.parents[1]}")
    return pq.read_table(pa.BufferReader(data)).replace_schema_metadata(None)


def _grouped(tables: Iterator[Any]) -> Iterator[Any]:
    """Put small tables together, so that row groups have a good size."""
    import pyarrow as pa

    held: list[Any] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _arrow(frame: pd.DataFrame) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _write(batches: Iterator[Any], path: Path, format: str, metadata: dict[str, str]) -> None:
    if format == "parquet":
        _write_parquet(batches, path, metadata)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        for n, batch in enumerate(batches):
            text = WordTable(batch.to_pandas(), batch.slice(0, 0).to_pandas(), metadata).to_text(format)
            file.write(text if n == 0 or format == "jsonl" else text[text.index("\n") + 1 :])


def _write_parquet(batches: Iterator[Any], path: Path, metadata: dict[str, str]) -> None:
    import pyarrow.parquet as pq

    first = next(batches)
    schema = first.schema.with_metadata({b"wordprob": json.dumps(metadata, ensure_ascii=False).encode()})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in chain([first], batches):
            writer.write_table(batch.cast(schema), row_group_size=ROWS)
