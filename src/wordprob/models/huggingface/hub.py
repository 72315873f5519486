"""The Hugging Face hub: whether it can be reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

REACH_TIMEOUT_SECONDS = 5


@contextlib.contextmanager
def cache_alone_if_out_of_reach(source: str) -> Iterator[None]:
    """Take a model from the cache while the hub is out of reach, instead of asking for it again and again.

    Parameters
    ----------
    source
        A hub id, or a directory, for which nothing is asked.
    """
    if Path(source).exists() or in_reach():
        yield
        return
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def in_reach() -> bool:
    """Return True if the hub answers at all."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=REACH_TIMEOUT_SECONDS)
    except Exception:  # no network, no such host, a proxy that says no, or offline by the user's choice
        return False
    return True
