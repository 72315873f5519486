"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, OptionError, OutputError

if TYPE_CHECKING:
    import pandas as pd


FORMATS = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet", "jsonl": ".jsonl"}


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
