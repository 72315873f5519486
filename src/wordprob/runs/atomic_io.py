"""Files that are there whole or not at all, after any crash; and a folder that only one run writes into."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from wordprob.errors import InputError, OutputError
from wordprob.tables.files import replacing, sync

PARTIAL_SUFFIX = ".part"
LOCK_NAME = ".lock"
SOFT_LOCK_NAME = ".lock.soft"
"""The lock on a file system without locks: it is held as long as this file exists."""
LOCK_RECORD = re.compile(rb"(?P<pid>\d+)\n(?P<host>.+)\n(\d+\n)?")
"""What a lock file holds: the process that has the lock. A third line, where filelock writes one, is when it began."""
LOCK_SECONDS = 0.5
"""How long to wait for the lock: :func:`lock_holder` holds it for a moment to see whether it can."""
CHECKSUM = "sha256"
"""The key of a JSON file under which it has the checksum of everything else in it."""
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
NO_LOCKS_ERRORS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file whole or not at all, and sync it; :func:`sync_directories` then makes its name last."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with explained_errors(path), replacing(path, partial, durable=True), partial.open("wb") as file:
        file.writelines(chunks)


@contextlib.contextmanager
def explained_errors(path: Path) -> Iterator[None]:
    """Turn an error of the system into one that says what it means for a run."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        is_full = error.errno in DISK_FULL_ERRORS
        advice = " What is finished is safe; make room, then resume the run." if is_full else ""
        raise OutputError(f"{path} could not be written: {error.strerror or error}.{advice}") from error


def sync_directories(*directories: Path) -> None:
    """Make the renames inside directories last through a crash."""
    for directory in directories:
        with explained_errors(directory):
            try:
                sync(directory)
            except OSError as error:
                if error.errno != errno.EINVAL:  # this file system cannot sync directories
                    raise


# --- JSON with a checksum --------------------------------------------------------------------------------------------


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object durably, with a checksum of its content: file and directory are synced."""
    text = json.dumps({**value, CHECKSUM: _checksum(value)}, indent=1, ensure_ascii=False) + "\n"
    write_durably(path, [text.encode()])
    sync_directories(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, without its checksum; raise :class:`InputError` if it is not what was written."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it holds no JSON object.")
    if CHECKSUM not in value:
        raise InputError(f"{path} is damaged or belongs to another program: it has no checksum under '{CHECKSUM}'.")
    if value.pop(CHECKSUM) != _checksum(value):
        raise InputError(f"{path} is damaged: its content does not have the checksum it was written with.")
    return value


def _checksum(value: Mapping[str, Any]) -> str:
    """Return a hash of a JSON object that does not depend on how it is laid out."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# --- the lock --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, so that no other run writes into it.

    The system releases the lock when the process ends, however it ends. On a file system without locks, a file is the
    lock; it is stale when its process no longer runs on this host.
    """
    path = directory / LOCK_NAME
    try:
        lock = _acquire(directory, LOCK_SECONDS)
    except Timeout:
        holder = _recorded_holder(directory)
        raise OutputError(
            f"another run writes into this folder: process {holder['pid']} on {holder['host']}, since "
            f"{holder['since']}. Wait for it, stop it, or choose another folder."
        ) from None
    except OSError as error:
        raise OutputError(f"{directory} cannot be written: {error.strerror}. Choose another folder.") from error
    try:
        with explained_errors(path):
            path.write_text(f"{os.getpid()}\n{socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):  # a run that could not begin has removed the file
            os.truncate(path, 0)
        lock.release()


def _acquire(directory: Path, seconds: float) -> BaseFileLock:
    try:
        return _acquired(FileLock(directory / LOCK_NAME), seconds)
    except OSError as error:
        if error.errno not in NO_LOCKS_ERRORS:
            raise
    return _acquired(SoftFileLock(directory / SOFT_LOCK_NAME), seconds)


def _acquired(lock: BaseFileLock, seconds: float) -> BaseFileLock:
    lock.acquire(timeout=seconds, poll_interval=0.1)
    return lock


def lock_holder(directory: Path) -> dict[str, Any] | None:
    """Return the process that writes into a directory (``pid``, ``host``, ``since``), or None.

    Whoever may not write into the directory cannot try the lock, and is told what the lock file says.
    """
    path = directory / LOCK_NAME
    if not path.is_file():
        return None
    try:
        _acquire(directory, 0).release()
    except Timeout:
        return _recorded_holder(directory)
    except PermissionError:
        return _recorded_holder(directory) if path.stat().st_size else None
    return None


def _recorded_holder(directory: Path) -> dict[str, Any]:
    """Return the process that the lock file names, each part ``?`` where it is unknown."""
    for path in (directory / SOFT_LOCK_NAME, directory / LOCK_NAME):
        with contextlib.suppress(OSError):
            if record := LOCK_RECORD.fullmatch(path.read_bytes()):
                since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
                return {"pid": int(record["pid"]), "host": record["host"].decode("utf-8", "replace"), "since": since}
    return {"pid": "?", "host": "?", "since": "?"}


def is_own_lock(path: Path) -> bool:
    """Return True for a lock file that a run made; it is empty unless a run is under way or was killed."""
    try:
        data = path.read_bytes() if path.is_file() else b"?"
    except OSError:
        return False
    return not data or LOCK_RECORD.fullmatch(data) is not None
