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

from wordprob.errors import InputError, OutputError

PARTIAL_SUFFIX = ".part"
LOCK_NAME = ".lock"
LOCK_FILE_NAME = re.compile(re.escape(LOCK_NAME) + r"\.(?P<host>.+)\.(?P<pid>\d+)")
"""The name of a lock file on a file system without locks."""
LOCK_PROGRAM = "wordprob"
"""What the lock file names as the program that made it, so that another program's file is told apart."""
CHECKSUM = "sha256"
"""The key of a JSON file under which it has the checksum of everything else in it."""
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
NO_LOCKS_ERRORS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
LOCK_ATTEMPTS = 5
LOCK_RETRY_SECONDS = 0.1
LOCK_MAX_BYTES = 4096


def write_durably(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside its place, sync it and rename it; :func:`sync_directories` then makes the rename last."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with explained_errors(path):
        try:
            # The order matters: a rename before the sync could leave an empty file under the final name after a crash.
            with partial.open("wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


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
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # this file system cannot sync directories
                    raise
            finally:
                os.close(descriptor)


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

    The system releases the lock when the process ends, however it ends. On a file system without locks, a file with
    the number of the process is used instead; it is stale when that process no longer runs on this host.
    """
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"{directory} cannot be written: {error.strerror}. Choose another folder.") from error
    try:
        with explained_errors(directory / LOCK_NAME):
            if not _acquire_with_retries(descriptor):
                _acquire_by_file(directory)
            # Never empty in between: by its content the lock file is recognised as ours.
            written = os.pwrite(descriptor, json.dumps(_this_process()).encode(), 0)
            os.ftruncate(descriptor, written)
        yield
    finally:
        os.close(descriptor)
        _own_lock_file(directory).unlink(missing_ok=True)


def _acquire_with_retries(descriptor: int) -> bool:
    """Acquire the lock; try several times, because :func:`lock_holder` holds it for a moment to see whether it can."""
    for _ in range(LOCK_ATTEMPTS - 1):
        with contextlib.suppress(OutputError):
            return _acquire(descriptor)
        time.sleep(LOCK_RETRY_SECONDS)
    return _acquire(descriptor)


def _acquire(descriptor: int) -> bool:
    """Acquire the system's lock; return False where the system has none, and raise if another process holds it."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return False
    except BlockingIOError:
        raise _held_error(_parse_holder(os.pread(descriptor, LOCK_MAX_BYTES, 0))) from None
    except OSError as error:
        if error.errno not in NO_LOCKS_ERRORS:
            raise
        return False
    return True


def lock_holder(directory: Path) -> dict[str, Any] | None:
    """Return the process that writes into a directory (``pid``, ``host``, ``since``), or None."""
    path = directory / LOCK_NAME
    if not path.is_file():
        return None
    descriptor = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    try:
        _acquire(descriptor)
    except OutputError:
        return _parse_holder(os.pread(descriptor, LOCK_MAX_BYTES, 0))
    finally:
        os.close(descriptor)  # which also releases the lock, if it was free
    return None


def is_own_lock(path: Path) -> bool:
    """Return True for a lock file that a run made; one that is empty was made by a run that was killed at once."""
    try:
        data = path.read_bytes() if path.is_file() else b"?"
    except OSError:
        return False
    return not data or _parse_holder(data)["program"] == LOCK_PROGRAM


def _this_process() -> dict[str, Any]:
    return {
        "program": LOCK_PROGRAM,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _parse_holder(data: bytes) -> dict[str, Any]:
    unknown = {"program": "?", "pid": "?", "host": "?", "since": "?"}
    try:
        holder = json.loads(data)
    except ValueError:  # its process has the lock, but has not written its name yet
        return unknown
    return {**unknown, **holder} if isinstance(holder, dict) else unknown


def _held_error(holder: dict[str, Any]) -> OutputError:
    return OutputError(
        f"another run writes into this folder: process {holder['pid']} on {holder['host']}, since {holder['since']}. "
        "Wait for it, stop it, or choose another folder."
    )


def _own_lock_file(directory: Path) -> Path:
    return directory / f"{LOCK_NAME}.{socket.gethostname()}.{os.getpid()}"


def _acquire_by_file(directory: Path) -> None:
    """Create this process's lock file; raise if there is one of another process that may still run."""
    own = _own_lock_file(directory)
    own.touch()  # before looking for others, so that of two processes at least one sees the other
    for path in directory.iterdir():
        name = LOCK_FILE_NAME.fullmatch(path.name)
        if path == own or name is None:
            continue
        host, pid = name["host"], name["pid"]
        if host == socket.gethostname() and not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)
            continue
        own.unlink()
        raise _held_error({"pid": pid, "host": host, "since": "?"})
