"""Compressed files: known by their extension, and read as what is inside."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast


def _open_zstandard(path: Path) -> IO[bytes]:
    import pyarrow as pa

    return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")))


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda path, _mode: _open_zstandard(path),
}
"""How to open a compressed file, by its extension."""

COMPRESSIONS = tuple(OPENERS)

DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What is raised for a compressed file that is damaged or breaks off."""


def compression_of(path: str | Path) -> str:
    """Return the extension of a file's compression; empty without one.

    Examples
    --------
    >>> compression_of("stimuli.csv.gz"), compression_of("stimuli.csv")
    ('.gz', '')
    """
    extension = Path(path).suffix.lower()
    return extension if extension in OPENERS else ""


def inner_extension(path: str | Path) -> str:
    """Return the extension of what a file holds, in lower case.

    Examples
    --------
    >>> inner_extension("stimuli.CSV.gz"), inner_extension("stimuli.csv")
    ('.csv', '.csv')
    """
    path = Path(path)
    return Path(path.stem).suffix.lower() if compression_of(path) else path.suffix.lower()


def open_file(path: str | Path) -> IO[bytes]:
    """Open a file for reading; a compressed one gives what is inside."""
    path = Path(path)
    compression = compression_of(path)
    return cast("IO[bytes]", OPENERS[compression](path, "rb") if compression else path.open("rb"))
