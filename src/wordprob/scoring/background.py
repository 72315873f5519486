"""A thread that works ahead, and that nobody waits for after Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BackgroundThread:
    """Runs tasks one after the other in a thread of its own.

    A ``ThreadPoolExecutor`` waits for its running task when it is closed, and once more when Python ends. Here only an
    ordinary error waits. After Ctrl-C a task that is deep inside a tokenizer runs on, and ends with the process.

    Examples
    --------
    >>> with BackgroundThread() as thread:
    ...     thread.submit(pow, 2, 10).result()
    1024
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Run a function after those before it, and return where its result will be."""
        future: Future[Result] = Future()
        self._tasks.put((future, lambda: function(*args, **kwargs)))
        return future

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function = task
            if self._closed or not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # raised again where the result is asked for
                future.set_exception(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the thread after its running task; wait for that unless the work was interrupted or given up."""
        self._closed = True
        self._tasks.put(None)
        if kind is None or issubclass(kind, Exception):
            self._thread.join()
