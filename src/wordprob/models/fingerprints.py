"""What identifies a model that is a file or a directory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from wordprob.cache import sha256

MAX_WHOLE_FILE_BYTES = 1 << 26
"""Of larger files only the size, the beginning, the middle and the end go into a fingerprint."""

SAMPLE_BYTES = 1 << 20
"""How much of such a file is read at each of the three places."""


def describe_path(path: Path) -> dict[str, str]:
    """Return the name and the fingerprint of a model that is a file or a directory."""
    inside = [path, *path.rglob("*")]
    files = sorted(file for file in inside if file.is_file())
    return {"source": path.name, "fingerprint": fingerprint(files)}


def fingerprint(files: Sequence[Path]) -> str:
    """Return a hash of files by their names, sizes and contents."""
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        if size <= MAX_WHOLE_FILE_BYTES:
            digest.update(bytes.fromhex(sha256(path)))
            continue
        with path.open("rb") as file:
            for position in (0, size // 2, size - SAMPLE_BYTES):
                file.seek(position)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
