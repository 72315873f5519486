"""Devices and precisions by the names that options have for them, and numbers on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from wordprob.errors import OptionError

if TYPE_CHECKING:
    import torch


def pick_device(device: str) -> str:
    """Return the torch device for a name; ``auto`` is the fastest kind that this machine has."""
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if available[name])
    if not available[device]:
        raise OptionError(f"this machine has no {device} device that torch can use; use cpu as the device.")
    return device


def pick_dtype(dtype: str, device: str) -> Any:
    """Return the torch dtype for a name; ``auto`` is the checkpoint's own on a GPU and float32 elsewhere."""
    import torch

    if dtype == "auto":
        return "auto" if device == "cuda" else torch.float32
    return getattr(torch, dtype)


def count_gpus() -> int:
    """Return how many GPUs torch can use on this machine."""
    import torch

    return torch.cuda.device_count()


def on_device(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return numbers on a device; a GPU copies them by itself from pinned memory, so that nothing waits."""
    import torch

    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
