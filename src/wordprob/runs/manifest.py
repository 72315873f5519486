"""What a run is made of, written down before it begins, and compared before it goes on."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from wordprob._version import __version__
from wordprob.cache import sha256
from wordprob.errors import InputError
from wordprob.models.registry import resolve
from wordprob.runs.settings import RunSettings
from wordprob.runs.shards import Shard, cut
from wordprob.sources import Record, Source

FORMAT = 1
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "ray", "datasets")
EVERY = 10_000
"""Records between two signs of life."""
SAMPLED = 1 << 26
"""Model files larger than this are told apart by their size, beginning, middle and end."""


def plan(
    sources: Sequence[Source], settings: RunSettings, tell: Callable[[int], None] = lambda _: None
) -> tuple[list[Shard], dict[str, Any]]:
    """Cut the corpus into shards, and return them with the manifest; ``tell`` hears how many records were read."""
    tally = _Tally(tell)
    shards = list(cut(sources, settings, tally.see))
    if not tally.texts:
        why = f" The first record: {tally.trouble}" if tally.trouble else ""
        raise InputError(f"there is no text in {', '.join(s.path for s in sources[:3])}.{why}")
    lines = "".join(shard.as_line() for shard in shards)
    return shards, {
        "format": FORMAT,
        "wordprob": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "settings": settings.as_dict(),
        "model": {**describe_model(settings), "commit": commit(settings)},
        "inputs": [describe_input(source) for source in sources],
        "plan": {
            "shards": len(shards),
            "records": sum(shard.records for shard in shards),
            "characters": sum(shard.characters for shard in shards),
            "sha256": hashlib.sha256(lines.encode()).hexdigest(),
        },
        "versions": versions(),
    }


class _Tally:
    """Looks at records for whether there is any text at all."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell, self._records = tell, 0
        self.texts = 0
        self.trouble = ""

    def see(self, record: Record) -> None:
        self._records += 1
        if not self._records % EVERY:
            self._tell(self._records)
        self.texts += bool(not record.problem and record.text.strip())
        self.trouble = self.trouble or (f"{record.id}: {record.reason}." if record.problem else "")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run depends on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


# --- inputs ----------------------------------------------------------------------------------------------------------


def describe_input(source: Source) -> dict[str, Any]:
    """Return a source's name, place, size and hash."""
    if source.kind == "hub":
        return asdict(source)
    path = Path(source.path)
    state = path.stat()
    return {**asdict(source), "bytes": state.st_size, "mtime_ns": state.st_mtime_ns, "sha256": sha256(path)}


def sources_of(manifest: Mapping[str, Any]) -> list[Source]:
    """Return the sources that a manifest names."""
    return [Source(entry["name"], entry["path"], entry["kind"]) for entry in manifest["inputs"]]


def _changed_inputs(manifest: Mapping[str, Any], sources: Sequence[Source]) -> Iterator[str]:
    before = {entry["name"]: entry for entry in manifest["inputs"]}
    now = {source.name: source for source in sources}
    yield from (f"input {name}: there before, gone now" for name in before if name not in now)
    yield from (f"input {name}: new" for name in now if name not in before)
    if list(before) != list(now) and set(before) == set(now):
        yield f"inputs: in another order, {', '.join(now)} instead of {', '.join(before)}"
    for name, source in now.items():
        if name in before and (change := _changed_input(before[name], source)):
            yield f"input {name}: {change}"


def _changed_input(before: Mapping[str, Any], source: Source) -> str:
    """Say how a file changed; one of the same size and time in the same place is taken to be the same."""
    if before["kind"] != source.kind:
        return f"read as {before['kind']} before, as {source.kind} now"
    if source.kind == "hub":
        return ""
    path = Path(source.path)
    if not path.is_file():
        return f"no such file: {path}"
    state = path.stat()
    if state.st_size != before["bytes"]:
        return f"{before['bytes']} bytes before, {state.st_size} now"
    if (str(path), state.st_mtime_ns) == (before["path"], before["mtime_ns"]):
        return ""
    digest = sha256(path)
    return "" if digest == before["sha256"] else f"SHA-256 {before['sha256'][:12]}… before, {digest[:12]}… now"


# --- the model -------------------------------------------------------------------------------------------------------


def describe_model(settings: RunSettings) -> dict[str, str]:
    """Return where a model comes from, and a fingerprint or revision that another model would not have."""
    kind, source = resolve(settings.model)
    about = {"backend": kind, "source": source}
    if kind == "exact":
        return about
    if kind == "wheel":
        from wordprob.models import default_model as smollm2

        return {**about, "revision": smollm2.VERSION, "fingerprint": smollm2.SHA256}
    path = Path(source).expanduser()
    if path.exists():
        about["source"] = path.name
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        return {**about, "fingerprint": fingerprint(files)}
    return {**about, "revision": settings.revision or ""}


def fingerprint(files: Sequence[Path]) -> str:
    """Sum up files in a short string."""
    found = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        found.update(f"{path.name}\0{size}\0".encode())
        if size <= SAMPLED:
            found.update(bytes.fromhex(sha256(path)))
            continue
        with path.open("rb") as file:
            for place in (0, size // 2, size - (1 << 20)):
                file.seek(place)
                found.update(file.read(1 << 20))
    return found.hexdigest()


def commit(settings: RunSettings) -> str:
    """Return the commit of a model on the hub, so that every worker, today and tomorrow, opens the same; or nothing."""
    kind, source = resolve(settings.model)
    if kind != "hf" or Path(source).expanduser().exists():
        return ""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        return str(HfApi().model_info(source, revision=settings.revision, timeout=10).sha)
    except Exception:  # out of reach: the cache may know it
        kept = try_to_load_from_cache(source, "config.json", revision=settings.revision)
        return Path(kept).parent.name if isinstance(kept, str) else ""


# --- going on --------------------------------------------------------------------------------------------------------


def check_unchanged(
    manifest: Mapping[str, Any], settings: RunSettings, sources: Sequence[Source], folder: str | os.PathLike[str]
) -> None:
    """Raise, with a list of what changed, unless a run may go on as it was begun."""
    changes = [*_changed_settings(manifest, settings), *_changed_inputs(manifest, sources)]
    if changes:
        shown = "\n".join(f"  {change}" for change in changes[:20])
        more = f"\n  … and {len(changes) - 20} more" if len(changes) > 20 else ""
        raise InputError(
            f"{folder} holds a run of something else; nothing was done. What changed:\n{shown}{more}\n"
            f"Go on as it was begun: wordprob run --resume {folder}. Or begin a new run in another folder with -o."
        )


def _changed_settings(manifest: Mapping[str, Any], settings: RunSettings) -> Iterator[str]:
    if manifest["wordprob"] != __version__:
        yield f"wordprob: version {manifest['wordprob']} before, {__version__} now"
    before, now = manifest["settings"], settings.as_dict()
    for name in [name for name in now if before.get(name) != now[name]]:
        yield f"{name}: {before.get(name)} before, {now[name]} now"
    if before.get("model") == now["model"]:
        model = describe_model(settings)
        for name in [name for name in model if model[name] != manifest["model"].get(name)]:
            yield f"the model's {name}: {str(manifest['model'].get(name))[:16]} before, {model[name][:16]} now"
