"""What the commands of studies and figures share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wordprob.cli.extras import check_installed


def check_study_packages() -> None:
    """Raise, with what to type, unless the packages of the studies and figures are installed."""
    check_installed("studies and figures need", ("formulaic", "matplotlib", "scipy"), "study")


class ProgressBars:
    """Shows a bar on a terminal for each thing that is scored or fetched, one after another."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._name: str | None = None
        self._bar: Any = None

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show how much of ``name`` is done; a new name begins a new bar."""
        from tqdm import tqdm

        if name != self._name:
            self.close()
            silent = not sys.stderr.isatty()
            self._bar = tqdm(desc=name, total=total or None, disable=silent, **self._settings)
            self._name = name
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the bar that is shown."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bars() -> Iterator[dict[str, ProgressBars]]:
    """Yield the progress callbacks of a study: ``progress`` counts texts, ``download_progress`` bytes."""
    bars = {
        "progress": ProgressBars(unit="text", leave=False),
        "download_progress": ProgressBars(unit="B", unit_scale=True),
    }
    try:
        yield bars
    finally:
        for bar in bars.values():
            bar.close()
