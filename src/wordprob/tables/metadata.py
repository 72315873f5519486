"""The metadata of a scored table: inside a Parquet file, and beside a file of any other format.

Model and revision, tokenizer, word definition, unit and versions, so that a table says where its numbers come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordprob.errors import InputError
from wordprob.tables.files import sidecar, write_whole

PARQUET_KEY = b"wordprob"
"""The entry of a Parquet file's own metadata that holds ours, as JSON."""


def parquet_entry(metadata: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return metadata as an entry of a Parquet schema's metadata."""
    return {PARQUET_KEY: json.dumps(dict(metadata), ensure_ascii=False).encode("utf-8")}


def write_sidecar(path: Path, metadata: Mapping[str, Any]) -> None:
    """Write metadata beside the table at ``path``."""
    text = json.dumps(dict(metadata), indent=1, ensure_ascii=False) + "\n"
    write_whole(sidecar(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a table; empty for a table that wordprob did not write."""
    path = Path(path)
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return metadata_of_schema(pq.read_schema(path))
    return _read_sidecar(sidecar(path))


def metadata_of_schema(schema: Any) -> dict[str, Any]:
    """Return the metadata that an Arrow schema carries."""
    metadata: dict[str, Any] = json.loads((schema.metadata or {}).get(PARQUET_KEY, b"{}"))
    return metadata


def _read_sidecar(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        metadata: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}. Without that file the table can be read.") from None
    return metadata
