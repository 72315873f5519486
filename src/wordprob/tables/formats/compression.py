"""Compressed files: known by their extension, and read as what is inside."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, cast

from wordprob.errors import InputError, OptionError

PIECE_BYTES = 1 << 20
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}

max_size_bytes = ContextVar("max_size_bytes", default=10**9)
"""How large a compressed file may be that is read whole; a few kilobytes can expand to any size."""


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


def read_whole(path: str | Path) -> bytes:
    """Return what is in a file, decompressed; raise :class:`InputError` if that is larger than the limit."""
    with open_file(path) as file:
        if not compression_of(path):
            return file.read()
        pieces: list[bytes] = []
        left = max_size_bytes.get()
        while piece := file.read(PIECE_BYTES):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                size = Path(path).stat().st_size
                raise InputError(
                    f"{path} has {size:,} bytes, but more than {max_size_bytes.get():,} when decompressed; it was "
                    "not read further. If that is what you expect, allow more: wordprob --max-size 10GB …, or "
                    "decompress it first."
                )
        return b"".join(pieces)


@contextlib.contextmanager
def size_limit(size: str) -> Iterator[None]:
    """Let compressed files be this large in here: bytes, or a number with KB, MB or GB."""
    token = max_size_bytes.set(parse_size(size))
    try:
        yield
    finally:
        max_size_bytes.reset(token)


def parse_size(size: str) -> int:
    """Return the bytes that a size stands for.

    Examples
    --------
    >>> parse_size("500MB"), parse_size("1.5 GB"), parse_size("42")
    (500000000, 1500000000, 42)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)B?", size.strip().upper(), re.ASCII)
    if match is None:
        raise OptionError(f"--max-size is '{size}'; use a number of bytes, or a number with KB, MB or GB: 10GB.")
    return int(float(match[1]) * UNITS[match[2]])
