"""Clients' patterns, tried for a few seconds in a process of their own before a model is asked.

A pattern such as ``(a|aa)+$`` can take longer than anybody lives. It is stopped by ending that process, which holds no
model and is started again in a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from wordprob import errors
from wordprob.core.words import define
from wordprob.errors import InputError, WordprobError
from wordprob.processes import Channel, WorkerProcess
from wordprob.server.waiting_line import BusyError

PATTERN_TIMEOUT_SECONDS = 3.0
"""How long a pattern may take to divide the texts of a request."""

START_TIMEOUT_SECONDS = 60.0
"""How long the process may take to start."""

MAX_WAITING = 8
"""Patterns that may wait while one is tried."""


class PatternChecker:
    """Tries patterns one after another."""

    def __init__(self, timeout_seconds: float = PATTERN_TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wordprob-patterns")
        self._waiting = 0
        self._process: WorkerProcess | None = None

    async def check(self, words: str, texts: Sequence[str]) -> None:
        """Raise unless a word definition divides the texts in time.

        Raises
        ------
        InputError
            The pattern is none, or takes too long.
        BusyError
            Too many patterns are waiting.
        """
        if self._waiting >= MAX_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._check, words, tuple(texts))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()

    # --- in the checker's thread ---

    def _check(self, words: str, texts: tuple[str, ...]) -> None:
        try:
            channel = self._channel()
            channel.send((words, texts))
            if not channel.poll(self._timeout_seconds):
                self._end()
                raise InputError(
                    f"the pattern took longer than {self._timeout_seconds:g} seconds on this text and was stopped. "
                    "Repetitions inside repetitions, as in (a|aa)+ or (a+)+, are slow; write it without them."
                )
            outcome, value = channel.receive()
        except (EOFError, OSError):
            self._end()
            raise BusyError from None
        if outcome == "refused":
            class_name, message = value
            raise getattr(errors, class_name, WordprobError)(message)

    def _channel(self) -> Channel:
        """Return the channel to the process; start one if none is running, and wait until it is ready."""
        if self._process is None or not self._process.running:
            self._process = WorkerProcess("wordprob.server.patterns:run_checker")
            if not self._process.channel.poll(START_TIMEOUT_SECONDS):
                raise EOFError
            self._process.channel.receive()
        return self._process.channel

    def _end(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.kill()


# --- in the process ---------------------------------------------------------------------------------------------------


def run_checker(channel: Channel) -> None:
    """Divide the texts that arrive until the channel is closed."""
    channel.send("ready")
    while True:
        words, texts = channel.receive()
        try:
            definition = define(words)
            for text in texts:
                definition.segment(text)
            channel.send(("divided", None))
        except WordprobError as error:
            channel.send(("refused", (type(error).__name__, str(error))))
