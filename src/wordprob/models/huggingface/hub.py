"""The Hugging Face hub: whether it can be reached, and the configuration of a model on it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wordprob.models.fingerprints import fingerprint, model_files

REACH_TIMEOUT_SECONDS = 5
CONFIG = "config.json"
SHA256 = re.compile("[0-9a-f]{64}")


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


def cached_files(source: str, revision: str | None) -> dict[str, Path]:
    """Return the files of a model on the hub that are in its cache and decide what the model computes, by name."""
    from huggingface_hub import try_to_load_from_cache

    config = None if Path(source).expanduser().exists() else try_to_load_from_cache(source, CONFIG, revision=revision)
    return {file.name: file for file in model_files(Path(config).parent)} if isinstance(config, str) else {}


def damaged_files(files: Mapping[str, Path]) -> list[str]:
    """Return the files of the cache whose content is not what the hub says it is, one line for each.

    The cache keeps large files under their SHA-256, which the hub told when they were fetched.
    """
    blobs = {name: file.resolve() for name, file in files.items()}
    digests = digests_of({name: blob for name, blob in blobs.items() if SHA256.fullmatch(blob.name)})
    return [
        f"{name}: SHA-256 {digest[:12]}…, on the hub {blobs[name].name[:12]}… ({blobs[name]})"
        for name, digest in digests.items()
        if digest != blobs[name].name
    ]


def digests_of(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name."""
    return {name: fingerprint(file) for name, file in files.items()}


def read_config(source: str, revision: str | None) -> dict[str, Any] | None:
    """Return what is in a model's ``config.json``; ``None`` if there is none that can be read.

    Of a model on the hub that is not in the cache, only this file is fetched.

    Parameters
    ----------
    source
        A hub id, or a directory.
    revision
        The revision of a model on the hub.
    """
    path = _config_path(source, revision)
    try:
        config = None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def _config_path(source: str, revision: str | None) -> Path | None:
    """Return where a model's ``config.json`` is on this machine, to which it is fetched if it must be."""
    directory = Path(source).expanduser()
    if directory.exists():
        return directory / CONFIG
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(source, CONFIG, revision=revision)
    if isinstance(cached, str):
        return Path(cached)
    try:
        return Path(hf_hub_download(source, CONFIG, revision=revision)) if in_reach() else None
    except Exception:  # there is no such model or file, or it may not be read: loading the model says so
        return None
