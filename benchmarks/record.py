"""Results as rows of a CSV file, with the machine and the versions they were measured with."""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

import wordprob


def surroundings() -> dict[str, str]:
    """Return the machine and the versions."""
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": str(torch.__version__),
        "wordprob": wordprob.__version__,
    }


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return the processor time that a call takes, of all threads."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


def texts_in(path: str | Path) -> list[str]:
    """Return the texts of a file, one a line."""
    return [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line.strip()]


def save(rows: Sequence[Mapping[str, object]], path: str | Path) -> None:
    """Write rows of the same columns."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
