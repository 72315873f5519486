"""Output files: checked before any work is done, and written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wordprob.errors import OptionError, OutputError

FORMATS = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet", "jsonl": ".jsonl"}
"""The formats that can be written in parts, and the extensions of their files."""


def sidecar(path: Path) -> Path:
    """Return the path of the file beside a table that holds its metadata."""
    return path.with_name(path.name + ".meta.json")


def format_of(path: Path, formats: Mapping[str, str] = FORMATS) -> str:
    """Return the format that a file's extension stands for."""
    for name, extension in formats.items():
        if path.suffix.lower() == extension:
            return name
    raise OptionError(
        f"cannot tell a format from '{path.name}'. Give it one of the endings {', '.join(formats.values())}, "
        "or name one with `format`."
    )


def check_output(
    path: str | Path, format: str | None = None, force: bool = False, formats: Mapping[str, str] = FORMATS
) -> tuple[Path, str]:
    """Raise, before any work is done, unless a result can be written to ``path``.

    Parameters
    ----------
    path
        Where the result is to be written.
    format
        One of ``formats``; told from the extension if not given.
    force
        Allow a file that exists to be replaced.
    formats
        The formats that are possible, and their extensions.

    Returns
    -------
    The path and the format.
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
        raise OutputError(f"{path} exists already; nothing was done. Use `force` to replace it.")
    if not path.parent.is_dir():
        raise OutputError(f"there is no directory {path.parent}; make it first: mkdir -p '{path.parent}'")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OutputError(f"{path} cannot be written: no permission for {path.parent}. Choose another place.")
    return path, format


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Call ``write`` with a temporary path, then move that file to ``path``; on failure nothing is left behind."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files that only the owner can read
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Return the process's umask, which can be read only by setting it."""
    current = os.umask(0)
    os.umask(current)
    return current
