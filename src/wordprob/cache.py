"""Where fetched models and corpora are kept, and the checksums that identify files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def cache_directory() -> Path:
    """Return the cache: ``$WORDPROB_CACHE``, or the user's cache directory of the system."""
    if chosen := os.environ.get("WORDPROB_CACHE"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("wordprob"))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
