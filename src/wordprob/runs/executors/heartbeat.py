"""Signs of work: how a worker that hangs is told from one that has a lot to do.

A worker that works finishes texts or uses its processor. One that waits for something that never comes does neither; a
process that the system has stopped cannot even say so. Either is replaced after a while, and its shard tried again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from wordprob.processes import Channel

MAX_INTERVAL_SECONDS = 5.0
"""How often a worker looks for signs of work, at least."""

INTERVALS_PER_TIMEOUT = 4
MIN_PROCESSOR_SHARE = 0.01
"""A worker that uses less of one core only waits."""

START_SECONDS = 120
"""How long a worker may take to start, at least, before it can give any sign."""

HUNG_EXIT_CODE = 75
"""With what a worker ends that notices by itself that it hangs."""


class SignOfWork:
    """A message of a worker to the process that started it: I am working."""


class WorkMeter:
    """Measures whether this process has worked since the last time it was asked."""

    def __init__(self) -> None:
        self._texts = 0
        self._texts_before = 0
        self._processor_before = time.process_time()
        self._clock_before = time.monotonic()

    def texts_done(self, _count: int = 0) -> None:
        """Take note of finished texts."""
        self._texts += 1

    def has_worked(self) -> bool:
        """Return True if texts were finished, or the processor was used, since the last call."""
        texts, processor, clock = self._texts, time.process_time(), time.monotonic()
        share = (processor - self._processor_before) / max(clock - self._clock_before, 1e-9)
        worked = texts != self._texts_before or share >= MIN_PROCESSOR_SHARE
        self._texts_before, self._processor_before, self._clock_before = texts, processor, clock
        return worked


def interval_seconds(timeout_seconds: float) -> float:
    """Return how often to look for signs of work, if a worker may be silent for so long."""
    return min(MAX_INTERVAL_SECONDS, timeout_seconds / INTERVALS_PER_TIMEOUT)


def send_signs(channel: Channel, meter: WorkMeter, timeout_seconds: float) -> None:
    """Tell the process at the other end, from a thread, that this one has started, and whenever it has worked."""

    def send() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            channel.send(SignOfWork())
            while True:
                time.sleep(interval_seconds(timeout_seconds))
                if meter.has_worked():
                    channel.send(SignOfWork())

    threading.Thread(target=send, daemon=True).start()


class Watchdog:
    """Ends this process if it hangs while it is busy; for workers that nobody watches from outside.

    Parameters
    ----------
    timeout_seconds
        How long it may be busy without a sign of work.
    end
        What ends the process.
    """

    def __init__(self, timeout_seconds: float, end: Callable[[int], object] = os._exit) -> None:
        self.meter = WorkMeter()
        self._timeout_seconds = timeout_seconds
        self._end = end
        self._busy = False
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Watch the process while something is done."""
        self.meter.texts_done()
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _watch(self) -> None:
        interval = interval_seconds(self._timeout_seconds)
        silent = 0.0
        while silent < self._timeout_seconds:
            time.sleep(interval)
            silent = 0.0 if self.meter.has_worked() or not self._busy else silent + interval
        self._end(HUNG_EXIT_CODE)
