"""What a model is, for a manifest: where it comes from, and what another model would not share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from wordprob.cache import sha256
from wordprob.models.registry import resolve
from wordprob.options import ModelOptions

SAMPLED_ABOVE_BYTES = 1 << 26
"""Files larger than this are told apart by their size, beginning, middle and end."""

SAMPLE_BYTES = 1 << 20


def describe(options: ModelOptions) -> dict[str, str]:
    """Return where a model comes from, and a fingerprint or revision that another model would not have."""
    backend, source = resolve(options.model)
    description = {"backend": backend, "source": source}
    if backend == "exact":
        return description
    if backend == "wheel":
        from wordprob.models import default_model

        return {**description, "revision": default_model.VERSION, "fingerprint": default_model.SHA256}
    path = Path(source).expanduser()
    if not path.exists():
        return {**description, "revision": options.revision or ""}
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {**description, "source": path.name, "fingerprint": fingerprint(files)}


def fingerprint(files: Sequence[Path]) -> str:
    """Sum up files in a short string."""
    total = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        total.update(f"{path.name}\0{size}\0".encode())
        if size <= SAMPLED_ABOVE_BYTES:
            total.update(bytes.fromhex(sha256(path)))
            continue
        with path.open("rb") as file:
            for offset in (0, size // 2, size - SAMPLE_BYTES):
                file.seek(offset)
                total.update(file.read(SAMPLE_BYTES))
    return total.hexdigest()


def commit(options: ModelOptions) -> str:
    """Return the commit of a model on the hub, so that every worker opens the same one; empty for other models."""
    backend, source = resolve(options.model)
    if backend != "hf" or Path(source).expanduser().exists():
        return ""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        return str(HfApi().model_info(source, revision=options.revision, timeout=10).sha)
    except Exception:  # the hub cannot be reached: the cache may know the commit
        cached = try_to_load_from_cache(source, "config.json", revision=options.revision)
        return Path(cached).parent.name if isinstance(cached, str) else ""
