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


METADATA: dict[str, str] = {
    "model": "the model's name",
    "source": "where the model comes from: its id on the hub, the package, the name of its directory or file",
    "revision": "the commit on the hub, or the version of the package",
    "path": "where a model of your own was",
    "fingerprint": "a hash of its files, for a model that is not from the hub",
    "weights_sha256": "the SHA-256 of the file of weights; of several files, that of what `sha256sum` prints for them",
    "models": "the same of each model, where there are several",
    "tokenizer": "a fingerprint of the vocabulary",
    "words": "what a word is",
    "unit": "the unit of surprisals",
    "spellings": "with all spellings: all",
    "tolerance": "with all spellings: how wide intervals could stay, in bits",
    "max_open": "with all spellings: how many prefixes could be expanded for a word",
    "input": "the table or file that was scored",
    "guessed": "what was told by the names of columns",
    "frequencies": "with predictors: where the frequencies come from",
    "frequency_unit": "with predictors: the unit of frequencies",
    "length_unit": "with predictors: the unit of lengths",
}
"""What the metadata of a table say about where its numbers come from; there is more."""


def table_metadata(
    of_models: Mapping[str, Mapping[str, Any]], source: str, layout: Mapping[str, str]
) -> dict[str, Any]:
    """Return the metadata of a user's table: what its models have in common, each of them, and the table itself.

    Parameters
    ----------
    of_models
        The metadata of each model's scores, by the model's name.
    source
        The table that was scored.
    layout
        Which columns hold what.
    """
    first, *others = of_models.values()
    combined = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    if others:
        combined |= {"model": ", ".join(of_models), "models": {name: dict(own) for name, own in of_models.items()}}
    return {**combined, "input": source, **layout}


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
