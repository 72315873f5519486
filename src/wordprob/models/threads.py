"""How many processor threads models use.

A backend that computes with torch calls :func:`torch_is_used` when it opens a model. Until then a thread count is only
remembered, so that a process whose models do without torch never imports it. Other backends ask
:func:`wanted_threads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _Threads:
    """The count that was asked for, whether torch is in use, and the count that torch had before."""

    wanted: int | None = None
    uses_torch: bool = False
    torch_default: int | None = None


_threads = _Threads()


def torch_is_used() -> None:
    """Record that a model computes with torch, and apply the thread count that was asked for, if any."""
    _threads.uses_torch = True
    if _threads.wanted is not None:
        _apply(_threads.wanted)


def wanted_threads() -> int | None:
    """Return the thread count that was asked for, if any."""
    return _threads.wanted


def set_threads(count: int) -> None:
    """Let models use so many processor threads, those opened already and those opened later.

    Parameters
    ----------
    count
        The number of threads, at least 1.
    """
    _threads.wanted = count
    if _threads.uses_torch:
        _apply(count)


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let models use so many processor threads within the block, and as many as before after it."""
    before = _threads.wanted
    set_threads(count)
    try:
        yield
    finally:
        _threads.wanted = before
        restored = _threads.torch_default if before is None else before
        if restored is not None and _threads.uses_torch:
            _apply(restored)
        if before is None:
            _threads.torch_default = None


def _apply(count: int) -> None:
    import torch

    if _threads.torch_default is None:
        _threads.torch_default = torch.get_num_threads()
    torch.set_num_threads(count)
