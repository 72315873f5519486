"""What identifies a model that is a file or a directory."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from wordprob.cache import cache_directory, sha256

MAX_UNCACHED_BYTES = 1 << 26
"""The hash of a larger file is kept in the cache, and computed again when its path, size or time is another."""

SHA256_DIGITS = 64

WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin", "*.gguf")

MODEL_FILES = (
    # configuration
    *("config.json", "generation_config.json", "adapter_config.json", "*.index.json"),
    *WEIGHT_FILES,
    # tokenizer
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt"),
    *("*.model", "*.tiktoken", "*.spm", "*.vocab", "*.bpe"),
    # code that comes with a model
    "*.py",
    # what surrounds a message
    "*.jinja",
)
"""Files of a directory that decide what a model computes. Others may come and go: notes, logs, what a system leaves."""


_reads_again = ContextVar("reads_again", default=False)


@contextlib.contextmanager
def reading_again() -> Iterator[None]:
    """Read every file again in here: one that was damaged where it lies has the path, size and time it had before."""
    token = _reads_again.set(True)
    try:
        yield
    finally:
        _reads_again.reset(token)


def describe_path(path: Path) -> dict[str, Any]:
    """Return the name of a model that is a file or a directory, its fingerprint, and that of each of its files."""
    files = {file.name: fingerprint(file) for file in model_files(path)}
    whole = hashlib.sha256("".join(f"{name}\0{digest}\n" for name, digest in files.items()).encode())
    return {"source": path.name, "fingerprint": whole.hexdigest(), "files": files}


def weights_digest(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of a model's weights, from those of its files by name; empty if none holds weights.

    That of several files is the SHA-256 of what ``sha256sum`` prints for them, sorted by name.
    """
    weights = {name: files[name] for name in sorted(files) if any(fnmatch(name, pattern) for pattern in WEIGHT_FILES)}
    if len(weights) < 2:
        return "".join(weights.values())
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in weights.items()).encode()).hexdigest()


def model_files(path: Path) -> list[Path]:
    """Return a model's file, or the files in its directory that decide what it computes, sorted by name."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.iterdir() if file.is_file() and _matters(file.name))


def _matters(name: str) -> bool:
    return not name.startswith(".") and any(fnmatch(name, pattern) for pattern in MODEL_FILES)


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file; that of a large file is computed once for each path, size and time.

    Inside :func:`reading_again` it is computed every time.
    """
    stat = path.stat()
    if stat.st_size <= MAX_UNCACHED_BYTES:
        return sha256(path)
    key = hashlib.sha256(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()
    kept = cache_directory() / "digests" / key
    with contextlib.suppress(OSError):
        if not _reads_again.get() and len(digest := kept.read_text(encoding="ascii")) == SHA256_DIGITS:
            return digest
    digest = sha256(path)
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(digest, encoding="ascii")
    return digest


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield what happened to the files of a model, one line for each that is not the same.

    Examples
    --------
    >>> list(changed_files({"config.json": "a", "vocab.txt": "b"}, {"config.json": "c", "merges.txt": "d"}))
    ['config.json: other contents', 'merges.txt: new', 'vocab.txt: gone']
    """
    for name in sorted({*before, *now}):
        if name not in now:
            yield f"{name}: gone"
        elif name not in before:
            yield f"{name}: new"
        elif before[name] != now[name]:
            yield f"{name}: other contents"
