"""Progress as callers ask for it: a function of their own, a bar, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wordprob.errors import OptionError
from wordprob.scoring.requests import Progress


@contextmanager
def progress_callback(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Provide the function that is told about progress, if there is one.

    Parameters
    ----------
    progress
        A function that takes two numbers, texts done and in all; ``True`` for a bar, in a notebook or on standard
        error; ``None`` or ``False`` for nothing.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar() as advance:
            yield advance
    elif callable(progress):
        yield progress
    else:
        raise OptionError(
            f"`progress` is {progress!r}; use True for a progress bar, or a function that takes two numbers: texts "
            "done, and in all."
        )


@contextmanager
def _bar() -> Iterator[Progress]:
    from tqdm.auto import tqdm

    with tqdm(unit="text") as bar:

        def advance(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield advance


def progress_over(progress: Progress | None, n_left_out: int) -> Progress | None:
    """Return what counts the texts that were left out as done, too."""
    if progress is None or not n_left_out:
        return progress
    return lambda done, in_all: progress(done + n_left_out, in_all + n_left_out)


def count_on(progress: Progress | None, n_before: int, n_texts: int) -> Callable[[int], None] | None:
    """Return what reports the texts of one chunk as part of all."""
    if progress is None:
        return None
    return lambda n_done: progress(n_before + n_done, n_texts)
