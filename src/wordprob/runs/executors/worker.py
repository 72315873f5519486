"""The other end of the pipe: a process that scores the shards it is sent, until nobody sends any more."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

from wordprob.runs.scoring import Worker


def _end_with_parent() -> None:
    """End when the run's own process is gone: nobody would take the answer."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Serve the connection whose descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's own process is told, and lets its workers go
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    try:
        worker = Worker(connection.recv())
        while True:
            connection.send(worker.attempt(connection.recv()))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main()
