"""Output files: checked before any work is done, and written completely or not at all.

A result goes to a regular file, to what a link leads to, or into a stream: a pipe, a device such as ``/dev/null``, or
``-``, which is standard output.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import IO, Any

from wordprob.errors import OptionError, OutputError

FORMATS = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet", "jsonl": ".jsonl"}
"""The formats that can be written in parts, and the extensions of their files."""

FORMATS_WITH_JSON = {**FORMATS, "json": ".json"}
"""The formats of small tables, which may be one JSON list as well."""

WITHOUT_SIDECAR = ("parquet",)
"""Formats whose files hold their metadata themselves."""

STANDARD_OUTPUT = "-"
MAX_PREFIX_CHARACTERS = 40
"""How much of a file's name its temporary file repeats; names of files are limited to 255 bytes."""


def sidecar(path: Path) -> Path:
    """Return the path of the file beside a table that holds its metadata."""
    return path.with_name(path.name + ".meta.json")


def has_sidecar(path: Path, format: str) -> bool:
    """Return True if a table of this format at this path has its metadata in a file beside it."""
    return format not in WITHOUT_SIDECAR and not is_stream(path)


def is_stream(path: str | Path) -> bool:
    """Return True for what is written into rather than replaced: ``-``, a pipe, a device.

    Examples
    --------
    >>> is_stream("-"), is_stream("/dev/null"), is_stream("scored.tsv")
    (True, True, False)
    """
    if str(path) == STANDARD_OUTPUT:
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def format_of(path: Path, formats: Mapping[str, str] = FORMATS) -> str:
    """Return the format that a file's extension means."""
    for name, extension in formats.items():
        if path.suffix.lower() == extension:
            return name
    raise OptionError(
        f"cannot tell a format from '{path.name}'. Give it one of the endings {', '.join(formats.values())}, "
        "or name one with `format`."
    )


# --- checks before any work is done -----------------------------------------------------------------------------------


def check_output(
    path: str | Path,
    format: str | None = None,
    force: bool = False,
    formats: Mapping[str, str] = FORMATS,
    *,
    with_sidecar: bool = False,
) -> tuple[Path, str]:
    """Raise, before any work is done, unless a result can be written to ``path``.

    Parameters
    ----------
    path
        Where the result is to be written.
    format
        One of ``formats``; by default, the one of the extension. A stream that has no such extension gets the first.
    force
        Allow a file that exists to be replaced.
    formats
        The formats that are possible, and their extensions.
    with_sidecar
        Whether a file with the metadata is written beside it, which must not exist either.

    Returns
    -------
    The path and the format.
    """
    path = Path(path)
    if format is not None and format not in formats:
        raise OptionError(f"no format is called '{format}'; use {', '.join(formats)}.")
    if is_stream(path):
        return path, format or _format_of_stream(path, formats)
    format = format or format_of(path, formats)
    _check_file(path, force, formats[format])
    if with_sidecar and has_sidecar(path, format):
        _check_file(sidecar(path), force, "")
    return path, format


def _format_of_stream(path: Path, formats: Mapping[str, str]) -> str:
    by_extension = {extension: name for name, extension in formats.items()}
    return by_extension.get(path.suffix.lower(), next(iter(formats)))


def _check_file(path: Path, force: bool, extension: str) -> None:
    """Raise unless a file can be made at ``path``, or replaced there with ``force``."""
    target = _target(path)
    if not path.is_symlink():
        target = path  # messages then show the path as it was given
    if target.is_dir():
        raise OutputError(f"{path} is a directory; name a file in it, for example {path / 'surprisal'}{extension}")
    if os.path.lexists(path) and not force:
        raise OutputError(f"{path} exists already; nothing was done. Use `force` to replace it.")
    if not target.parent.is_dir():
        raise OutputError(f"there is no directory {target.parent}; make it first: mkdir -p '{target.parent}'")
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"{path} cannot be written: no permission. Choose another place.")
    _check_directory(path, target.parent)


def _check_directory(path: Path, directory: Path) -> None:
    """Raise unless a file can be made in a directory, by making one."""
    if not os.access(directory, os.W_OK):
        raise OutputError(f"{path} cannot be written: no permission for {directory}. Choose another place.")
    try:
        with tempfile.TemporaryFile(dir=directory, prefix=".wordprob."):
            pass
    except OSError as error:
        raise _failure(path, error) from error


def _target(path: Path) -> Path:
    """Return the file that a path leads to, through all links; it need not exist."""
    try:
        target = Path(os.path.realpath(path))
        leads_nowhere = target.is_symlink()
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL character
        raise _failure(path, error) from error
    if leads_nowhere:
        raise OutputError(f"{path} cannot be written: it is a link that leads back to itself. Choose another place.")
    return target


def check_distinct(outputs: Sequence[Path]) -> None:
    """Raise if two results would be written to the same file; streams may take several."""
    files = [path for path in outputs if not is_stream(path)]
    for first, second in combinations(files, 2):
        if is_same_file(first, second):
            raise OutputError(
                f"{first} and {second} are one file, and two results would be written to it; nothing was done. Give "
                "each a file of its own."
            )


def is_same_file(first: Path, second: Path) -> bool:
    """Return True if two paths lead to the same file, whether it exists or not."""
    if first.exists() and second.exists():
        return first.samefile(second)
    return os.path.realpath(first) == os.path.realpath(second)


# --- writing ----------------------------------------------------------------------------------------------------------


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Call ``write`` with a temporary path, then put that file at ``path``; on failure nothing is left behind.

    A file that is replaced keeps its permissions, and a link stays a link. Into a stream the finished file is copied.
    """
    try:
        if is_stream(path):
            _write_stream(path, write)
        else:
            with replacing(_target(path)) as temporary:
                write(temporary)
    except BrokenPipeError:
        raise
    except OutputError:
        raise
    except OSError as error:
        raise _failure(path, error) from error


@contextlib.contextmanager
def replacing(target: Path, temporary: Path | None = None, durable: bool = False) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; the file is moved to ``target`` if the block ends without an error.

    Otherwise ``target`` stays as it was, and nothing is left behind.

    Parameters
    ----------
    target
        The file to write. If it exists, its successor has its permissions and, as far as the system allows, its owner.
    temporary
        Where to write; by default a name that no other process chooses.
    durable
        Sync the contents to the disk before the file gets its name: a rename before that could leave an empty file
        under the final name after a crash.
    """
    if temporary is None:
        temporary = target.with_name(f".{target.name[:MAX_PREFIX_CHARACTERS]}.{secrets.token_hex(8)}")
    try:
        yield temporary
        _copy_permissions(target, temporary)
        if durable:
            sync(temporary)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the contents of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_permissions(present: Path, new: Path) -> None:
    """Give a file the permissions and the owner of the one that it replaces, if there is one."""
    try:
        status = present.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):  # only root may give files away
        os.chown(new, status.st_uid, status.st_gid)
    new.chmod(stat.S_IMODE(status.st_mode))


def _write_stream(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a whole file elsewhere, then copy it into a pipe, a device or standard output."""
    with tempfile.TemporaryDirectory(prefix="wordprob-") as directory:
        finished = Path(directory) / "result"
        write(finished)
        with finished.open("rb") as source, _open_stream(path) as stream:
            shutil.copyfileobj(source, stream)
            stream.flush()


@contextlib.contextmanager
def _open_stream(path: Path) -> Any:
    if str(path) != STANDARD_OUTPUT:
        with path.open("wb") as stream:
            yield stream
        return
    sys.stdout.flush()
    stream_of_bytes: IO[bytes] = sys.stdout.buffer
    yield stream_of_bytes


def _failure(path: Path, error: Exception) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    place = "standard output" if str(path) == STANDARD_OUTPUT else str(path)
    return OutputError(f"{place} could not be written: {reason}.")
