"""Files that are there whole or not at all, after any crash; and a folder that one run has to itself."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wordprob.errors import OutputError

ASIDE = ".part"
LOCK = ".lock"
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file aside, sync it and rename it; the folder still has to be synced by :func:`sync`."""
    aside = path.with_name(path.name + ASIDE)
    with _explained(path):
        try:
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say of a system's error what it means for a run."""
    try:
        yield
    except OSError as error:
        advice = " What is finished is safe; make room, then resume the run." if error.errno in FULL else ""
        raise OutputError(f"{path} could not be written: {error.strerror or error}.{advice}") from error


def sync(*folders: Path) -> None:
    """Make renames in folders last."""
    for folder in folders:
        with _explained(folder):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a file system that has no such thing for folders
                    raise
            finally:
                os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write JSON to stay: file and folder are synced."""
    write_durably(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
    sync(path.parent)


def read_json(path: Path) -> Any:
    """Read JSON."""
    return json.loads(path.read_text(encoding="utf-8"))


def sweep(folder: Path) -> None:
    """Remove what a killed run left half-written."""
    for path in folder.rglob(f"*{ASIDE}"):
        path.unlink()


# --- the lock --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have a folder to oneself.

    The system lets go of the lock when the process ends, however it ends. Where a file system has no locks, a
    file with the process's number stands for one; it is stale when that process is gone from this host.
    """
    path = folder / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}. Choose another place with -o.") from error
    try:
        if not _patiently(descriptor):
            _claim(folder)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(_me()).encode())
        yield
    finally:
        os.close(descriptor)
        _claimed(folder).unlink(missing_ok=True)


def _patiently(descriptor: int) -> bool:
    """Take the lock, a few times over: somebody may just be looking who has it."""
    for _ in range(4):
        with contextlib.suppress(OutputError):
            return _flock(descriptor)
        time.sleep(0.1)
    return _flock(descriptor)


def _flock(descriptor: int) -> bool:
    """Take the system's lock; ``False`` where there is none to take."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return False
    except BlockingIOError:
        raise _taken(os.pread(descriptor, 4096, 0)) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def holder(folder: Path) -> dict[str, Any] | None:
    """Return who is writing into a folder, or ``None``."""
    path = folder / LOCK
    if not path.is_file():
        return None
    descriptor = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    try:
        _flock(descriptor)
    except OutputError:
        return dict(_told(os.pread(descriptor, 4096, 0)))
    finally:
        os.close(descriptor)
    return None


def _me() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def _told(data: bytes) -> dict[str, Any]:
    try:
        return {"pid": "?", "host": "?", "since": "?", **json.loads(data)}
    except ValueError:
        return {"pid": "?", "host": "?", "since": "?"}


def _taken(data: bytes) -> OutputError:
    who = _told(data)
    return OutputError(
        f"another run writes into this folder: process {who['pid']} on {who['host']}, since {who['since']}. "
        "Wait for it, stop it, or choose another folder with -o."
    )


def _claimed(folder: Path) -> Path:
    return folder / f"{LOCK}.{socket.gethostname()}.{os.getpid()}"


def _claim(folder: Path) -> None:
    """Stand in for a lock by a file of one's own; others' files count unless their process is gone from this host."""
    _claimed(folder).touch()
    for path in folder.glob(f"{LOCK}.*"):
        host, _, pid = path.name.removeprefix(f"{LOCK}.").rpartition(".")
        if path == _claimed(folder):
            continue
        if host == socket.gethostname() and not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)
            continue
        _claimed(folder).unlink()
        raise _taken(json.dumps({"pid": pid, "host": host}).encode())
