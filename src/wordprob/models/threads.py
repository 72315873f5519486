"""The processor threads that a model uses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


def set_threads(count: int) -> None:
    """Let PyTorch use this many threads; does nothing in a process that has no model of PyTorch."""
    if _has_torch():
        import torch

        torch.set_num_threads(count)


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let PyTorch use this many threads inside, and as many as before afterwards."""
    if not _has_torch():
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _has_torch() -> bool:
    """Return True if a backend has imported PyTorch: an exact model must not import it for nothing."""
    return "torch" in sys.modules
