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
from wordprob.processes import Channel, LimitedProcess, limit_memory
from wordprob.server.waiting_line import BusyError

PATTERN_TIMEOUT_SECONDS = 3.0
"""How long a pattern may take to divide the texts of a request."""

MAX_MEMORY_BYTES = 1 << 30
"""How much memory a pattern may take."""

MAX_WAITING = 8
"""Patterns that may wait while one is tried."""


class PatternChecker:
    """Tries patterns one after another."""

    def __init__(self, timeout_seconds: float = PATTERN_TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wordprob-patterns")
        self._waiting = 0
        self._process = LimitedProcess("wordprob.server.patterns:run_checker", timeout_seconds)

    async def check(self, words: str, texts: Sequence[str]) -> None:
        """Raise unless a word definition divides the texts in time.

        Raises
        ------
        InputError
            The pattern is none, or takes too long or too much memory.
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
        self._process.close()

    def _check(self, words: str, texts: tuple[str, ...]) -> None:
        """Try a pattern, in the checker's thread."""
        try:
            refusal = self._process.ask((words, texts))
        except TimeoutError:
            raise InputError(
                f"the pattern took longer than {self._timeout_seconds:g} seconds on this text and was stopped. "
                "Repetitions inside repetitions, as in (a|aa)+ or (a+)+, are slow; write it without them."
            ) from None
        except EOFError:
            raise BusyError from None
        if refusal is not None:
            class_name, message = refusal
            raise getattr(errors, class_name, WordprobError)(message)


# --- in the process ---------------------------------------------------------------------------------------------------


def run_checker(channel: Channel) -> None:
    """Divide the texts that arrive until the channel is closed; answer with what speaks against a pattern, if any."""
    limit_memory(MAX_MEMORY_BYTES)
    channel.send("ready")
    while True:
        channel.send(_refusal(*channel.receive()))


def _refusal(words: str, texts: Sequence[str]) -> tuple[str, str] | None:
    try:
        definition = define(words)
        for text in texts:
            definition.segment(text)
    except WordprobError as error:
        return type(error).__name__, str(error)
    except MemoryError:
        return "InputError", "the pattern takes too much memory on this text. Write it without recursion or repetition."
    return None
