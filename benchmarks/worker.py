"""A tool in a process and an environment of its own, used through a pipe; see ``peers/protocol.py``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RUNNERS = Path(__file__).parent / "peers"
WARM_UP = ["One short text."]
"""What a tool scores before its memory is measured, so that all its weights have been read."""
POLL_SECONDS = 0.01
"""Time between two readings of a process's memory."""


@dataclass
class Run:
    """One run: its seconds by the clock and on the processors, the most bytes it used beyond the loaded model, and its
    output.
    """

    seconds: float
    cpu: float
    extra: int
    words: list[list[str]] = field(default_factory=list)
    values: dict[str, list[list[float]]] = field(default_factory=dict)


class Worker:
    """A tool that has loaded its model and waits for texts; ``held`` is the memory that it uses then.

    Parameters
    ----------
    python
        The interpreter of the tool's environment.
    runner
        The script that speaks the protocol.
    model
        The directory of the model.
    foreign
        Whether the tool must not see this environment's packages.
    """

    def __init__(self, python, runner, model, foreign=False):
        hidden = {"PYTHONPATH"} if foreign else set()
        surroundings = {k: v for k, v in os.environ.items() if k not in hidden} | {"HF_HUB_OFFLINE": "1"}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed with the worker
        self._process = subprocess.Popen(
            [str(python), str(runner), str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            env=surroundings,
        )
        self._seen = psutil.Process(self._process.pid)
        self._name = Path(runner).stem
        self.versions = self._answer()
        self.held = 0
        self.run(WARM_UP)
        self.held = self.memory

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    @property
    def memory(self):
        """Bytes in memory now; none once the process has died, which then shows in its missing answer."""
        try:
            return self._seen.memory_info().rss
        except psutil.Error:
            return 0

    def run(self, texts, values=False):
        """Score texts, and record the process's memory meanwhile."""
        peak, done = [self.memory], threading.Event()

        def watch():
            while not done.wait(POLL_SECONDS):
                peak[0] = max(peak[0], self.memory)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps({"texts": texts, "values": values}) + "\n")
                self._process.stdin.flush()
            times = self._answer()
        finally:
            done.set()
            watcher.join()
        return Run(**times, extra=peak[0] - self.held, **self._answer())

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            output = self._log.read().decode(errors="replace").strip().splitlines()[-8:]
            raise RuntimeError("\n".join([f"{self._name} gave no answer; its last output:", *output]))
        return json.loads(line)
