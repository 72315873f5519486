"""Worker processes: one way to start them, to talk to them and to end them.

A worker is a fresh Python process that runs one function with a :class:`Channel` to the process that started it. It
ends when its channel is closed, when it is told to, or when the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from select import select
from typing import Any

GRACE_SECONDS = 10
"""Seconds that a process has to end by itself before it is killed."""

START_TIMEOUT_SECONDS = 60.0
"""Time a process has to start."""

PARENT_CHECK_SECONDS = 1
SIZE = struct.Struct("!Q")


class Channel:
    """One end of a connection between two processes.

    Objects are pickled; arrays inside them travel as plain bytes beside the pickle, without a copy. Other threads run
    while one waits here.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._sending = threading.Lock()

    def send(self, message: object) -> None:
        """Send an object; several threads may do so."""
        arrays: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(pickled), *(array.raw() for array in arrays)]
        header = [len(parts), *(len(part) for part in parts)]
        with self._sending:
            self._socket.sendall(b"".join(SIZE.pack(number) for number in header))
            for part in parts:
                self._socket.sendall(part)

    def receive(self) -> Any:
        """Wait for an object; ``EOFError`` if the other end is closed."""
        (count,) = SIZE.unpack(self._read(SIZE.size))
        sizes = [size for (size,) in SIZE.iter_unpack(self._read(count * SIZE.size))]
        pickled, *arrays = [self._read(size) for size in sizes]
        return pickle.loads(pickled, buffers=arrays)

    def limit_waiting(self, timeout_seconds: float) -> None:
        """Let ``send`` and ``receive`` raise ``TimeoutError`` if the other end stops in the middle of a message."""
        self._socket.settimeout(timeout_seconds)

    def poll(self, timeout_seconds: float | None) -> bool:
        """Wait until something arrives or the other end closes; return False if neither happens in time."""
        try:
            readable, _, _ = select([self._socket], [], [], timeout_seconds)
        except ValueError:  # another thread closed this end just before: it has no descriptor any more
            raise EOFError from None
        return bool(readable)

    def fileno(self) -> int:
        """Return the descriptor, so that several channels can be waited for at once."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the channel; a thread or process that waits at either end gets ``EOFError``."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while len(rest):
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return data


class WorkerProcess:
    """A process that runs one function of the package.

    Parameters
    ----------
    target
        ``module:function``; called in the new process with its end of the channel.
    environment
        Variables to set for it, besides those of this process.
    """

    def __init__(self, target: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        self._process = subprocess.Popen(
            python_command("wordprob.processes", target, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            env={**child_environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for this process alone: a worker that is just starting would print a traceback
        )
        theirs.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def terminate(self) -> None:
        """Ask the process to end at once (SIGTERM)."""
        self.channel.close()
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once, and wait until it has ended."""
        self.channel.close()
        self._process.kill()
        self._process.wait()

    def join(self, grace_seconds: float = GRACE_SECONDS) -> str:
        """Close the channel, wait until the process has ended, kill it if it takes too long; return how it ended."""
        self.channel.close()
        try:
            code = self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code == -signal.SIGKILL:
            return "was killed (signal 9), perhaps because memory ran out"
        if code < 0:
            return f"was ended by signal {-code}"
        return f"ended with exit code {code}"


class LimitedProcess:
    """A process that answers one request at a time, each within a time limit.

    One that takes longer, or ends, is replaced for the next request. The function first sends anything to say that it
    is ready, then an answer for each request; it may call :func:`limit_memory`.

    Parameters
    ----------
    target
        As for :class:`WorkerProcess`.
    timeout_seconds
        The time for an answer.
    """

    def __init__(self, target: str, timeout_seconds: float) -> None:
        self._target = target
        self._timeout_seconds = timeout_seconds
        self._process: WorkerProcess | None = None

    def ask(self, request: object) -> Any:
        """Return the answer; raise ``TimeoutError`` if it takes too long, ``EOFError`` if the process ends instead."""
        try:
            channel = self._channel()
            channel.send(request)
            if not channel.poll(self._timeout_seconds):
                raise TimeoutError
            return channel.receive()
        except (EOFError, OSError) as error:
            self.close()
            raise (error if isinstance(error, TimeoutError) else EOFError(str(error))) from None

    def close(self) -> None:
        """End the process."""
        process = self._process
        self._process = None
        if process is not None:
            process.kill()

    def _channel(self) -> Channel:
        """Return the channel to the process; start one if none is running, and wait until it is ready."""
        if self._process is None or not self._process.running:
            self._process = WorkerProcess(self._target)
            if not self._process.channel.poll(START_TIMEOUT_SECONDS):
                raise EOFError
            self._process.channel.receive()
        return self._process.channel


# --- how every child is started ---------------------------------------------------------------------------------------

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The variable that keeps the current directory, and that of a script, off the module path of every Python below."""


def _current_directory() -> str:
    """Return the current directory; empty if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


START_DIRECTORY = _current_directory()
"""Where this process was started, as far as it is known."""


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module; no file in the current directory is imported."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment() -> dict[str, str]:
    """Return the variables of a child, which finds the modules that this process finds.

    The one exception is the directory that Python itself put first on this process's path: the current one, or that of
    a script. Files there are the user's data, even if they have the name of a module.
    """
    source = str(Path(__file__).resolve().parents[1])
    paths = [path for path in sys.path if path]
    if _first_directory() in paths:
        paths.remove(_first_directory())  # once: it may be there again because PYTHONPATH names it
    return {**os.environ, **SAFE_PATH, "PYTHONPATH": os.pathsep.join([source, *paths])}


def _first_directory() -> str:
    """Return the directory that Python put first on the module path when it started; empty if it put none there."""
    if sys.flags.safe_path:
        return ""
    main_module = sys.modules["__main__"]
    file = getattr(main_module, "__file__", None)
    if file is None or getattr(main_module, "__spec__", None) is not None:  # -c, an interactive session, or -m
        return START_DIRECTORY
    return str(Path(file).resolve().parent)


# --- in the worker ----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    """Run the function that the first argument names, on the channel whose descriptor is the second."""
    target, descriptor = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which ends it
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    channel = Channel(socket.socket(fileno=int(descriptor)))
    module, function = target.split(":")
    with contextlib.suppress(EOFError, OSError):  # the other end was closed: there is nothing left to do
        getattr(import_module(module), function)(channel)


def limit_memory(n_bytes: int) -> None:
    """Let this process have this much memory more than it has now, where the system allows to limit it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + n_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with_parent(parent: int) -> None:
    """End this process when the one that started it is gone: nobody would take the answer."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
