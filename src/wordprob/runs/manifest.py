"""The manifest: what a run is made of, written before the first shard and compared before it is resumed."""

from __future__ import annotations

import json
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
from wordprob.errors import InputError, OptionError, WordprobError, listing
from wordprob.models.fingerprints import changed_files, reading_again
from wordprob.models.registry import commit, damage, describe, is_on_server
from wordprob.runs.repeated_ids import IdHashes, RepeatedIds, find_repeated_ids
from wordprob.runs.run_directory import MANIFEST_FORMAT
from wordprob.runs.settings import RunSettings
from wordprob.runs.shards import Shard, cut_into_shards, plan_checksum
from wordprob.sources import Record, Source

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "pyarrow", "ray", "datasets")
RECORDS_BETWEEN_CALLBACKS = 10_000
MAX_CHANGES_SHOWN = 20
NAMED_AGAIN = ("model", "trust_remote_code", "model_kwargs")
"""Options of a model that a manifest alone does not decide where they reach code, the network or a key."""


def plan_run(
    sources: Sequence[Source], settings: RunSettings, on_records_read: Callable[[int], None] | None = None
) -> tuple[list[Shard], dict[str, Any]]:
    """Cut the corpus into shards, and return them with the manifest.

    Parameters
    ----------
    sources, settings
        What the run is made of.
    on_records_read
        Called now and then with the number of records read so far.
    """
    counter = _TextCounter(settings.corpus.id_column is not None, on_records_read)
    shards = list(cut_into_shards(sources, settings, counter.add))
    if not counter.texts:
        names = ", ".join(source.path for source in sources[:3])
        reason = f" The first record: {counter.first_problem}" if counter.first_problem else ""
        raise InputError(f"there is no text in {names}.{reason}")
    repeated_ids = find_repeated_ids(counter.ids, sources, settings.read_options)
    return shards, {
        "format": MANIFEST_FORMAT,
        "wordprob": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "settings": settings.to_dict(),
        "model": {**describe(settings.model), "commit": commit(settings.model)},
        "inputs": [describe_input(source) for source in sources],
        "plan": {
            "shards": len(shards),
            "records": sum(shard.records for shard in shards),
            "characters": sum(shard.characters for shard in shards),
            "sha256": plan_checksum(shards),
        },
        "damaged_inputs": counter.damaged_inputs,
        "repeated_ids": repeated_ids._asdict(),
        "versions": package_versions(),
    }


class _TextCounter:
    """Counts the records that hold text, and keeps what the user must know about the others."""

    def __init__(self, has_own_ids: bool, on_records_read: Callable[[int], None] | None) -> None:
        self._has_own_ids = has_own_ids
        self._on_records_read = on_records_read
        self._records = 0
        self.ids = IdHashes()
        self.texts = 0
        self.first_problem = ""
        self.damaged_inputs: dict[str, str] = {}
        """Why files could not be read to their ends, by name."""

    def add(self, record: Record) -> None:
        self._records += 1
        if self._on_records_read is not None and self._records % RECORDS_BETWEEN_CALLBACKS == 0:
            self._on_records_read(self._records)
        if self._has_own_ids:  # others are made of file and number, and differ
            self.ids.add(record.id)
        if not record.problem and record.text.strip():
            self.texts += 1
        if record.problem and not self.first_problem:
            self.first_problem = f"{record.id}: {record.reason}."
        if record.problem == "file":
            self.damaged_inputs[record.source] = f"{record.reason} ({record.number - 1} records were read before)"


def damaged_inputs(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return why inputs could not be read to their ends, by name."""
    return dict(manifest["damaged_inputs"])


def repeated_ids(manifest: Mapping[str, Any]) -> RepeatedIds:
    """Return which ids several texts have."""
    return RepeatedIds(**manifest["repeated_ids"])


def notes(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the user should know about the inputs, in words."""
    found = [
        f"{name}: {reason}; what comes after is not in the run" for name, reason in damaged_inputs(manifest).items()
    ]
    ids = repeated_ids(manifest)
    if ids.texts:
        found.append(f"{ids.texts} texts share their id with another: {listing(ids.examples)}")
    return found


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run depends on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


# --- inputs ----------------------------------------------------------------------------------------------------------


def describe_input(source: Source) -> dict[str, Any]:
    """Return a source's name, path, size and hash."""
    if source.kind == "hub":
        return asdict(source)
    path = Path(source.path)
    stat = path.stat()
    return {**asdict(source), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256(path)}


def sources_in(manifest: Mapping[str, Any]) -> list[Source]:
    """Return the sources that a manifest names."""
    return [Source(entry["name"], entry["path"], entry["kind"]) for entry in manifest["inputs"]]


def _changed_inputs(manifest: Mapping[str, Any], sources: Sequence[Source]) -> Iterator[str]:
    before = {entry["name"]: entry for entry in manifest["inputs"]}
    now = {source.name: source for source in sources}
    for name in before:
        if name not in now:
            yield f"input {name}: there before, gone now"
    for name in now:
        if name not in before:
            yield f"input {name}: new"
    if list(before) != list(now) and set(before) == set(now):
        yield f"inputs: in another order, {', '.join(now)} instead of {', '.join(before)}"
    for name, source in now.items():
        change = _changed_input(before[name], source) if name in before else ""
        if change:
            yield f"input {name}: {change}"


def _changed_input(before: Mapping[str, Any], source: Source) -> str:
    """Return how a file changed, or nothing; with the same path, size and time it is taken to be the same."""
    if before["kind"] != source.kind:
        return f"read as {before['kind']} before, as {source.kind} now"
    if source.kind == "hub":
        return ""
    path = Path(source.path)
    if not path.is_file():
        return f"no such file: {path}"
    stat = path.stat()
    if stat.st_size != before["bytes"]:
        return f"{before['bytes']} bytes before, {stat.st_size} now"
    if str(path) == before["path"] and stat.st_mtime_ns == before["mtime_ns"]:
        return ""
    digest = sha256(path)
    return "" if digest == before["sha256"] else f"SHA-256 {before['sha256'][:12]}… before, {digest[:12]}… now"


# --- resuming --------------------------------------------------------------------------------------------------------


def settings_in(manifest: Mapping[str, Any], folder: str | os.PathLike[str]) -> RunSettings:
    """Return the settings that a manifest names; raise if they are not those of a run."""
    try:
        return RunSettings.from_dict(manifest["settings"])
    except OptionError as error:
        raise OptionError(
            f"the manifest of the run in {folder} cannot be used, and nothing was done: {error}"
        ) from error


def check_named_again(settings: RunSettings, named: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """Raise if settings from a folder reach code, the network or a key, and the user has not named them again.

    A folder may be someone else's, and who changes a manifest can renew its checksum too.

    Parameters
    ----------
    settings
        What the folder's manifest asks for.
    named
        What the user names now, of :data:`NAMED_AGAIN`; ``None`` where nothing is named.
    folder
        The folder of the run.
    """
    wanted = {name: getattr(settings.model, name) for name in NAMED_AGAIN}
    reasons = {
        "model": f"sends its texts to {settings.model.model}, with the key in the environment if there is one",
        "trust_remote_code": f"runs code that comes with the model {settings.model.model}",
        "model_kwargs": f"loads its model with {_shown(wanted['model_kwargs'])}",
    }
    for name, value in wanted.items():
        is_asked_for = is_on_server(value) if name == "model" else bool(value)
        if is_asked_for and named.get(name) is None:
            raise OptionError(
                f"the run in {folder} {reasons[name]}, because its manifest says so; nothing was done. If that is what "
                f"you want, set `{name}` again{'' if value is True else f', to {_shown(value)}'}."
            )
        if named.get(name) is not None and _parsed(named[name]) != _parsed(value):
            raise OptionError(
                f"`{name}` is {_shown(named[name])}, but the run in {folder} was begun with {_shown(value)}; leave it "
                "out or set it to that."
            )


def _parsed(value: Any) -> Any:
    """Return what JSON text stands for, so that two ways of writing it are equal; other values as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_unchanged(
    manifest: Mapping[str, Any], settings: RunSettings, sources: Sequence[Source], folder: str | os.PathLike[str]
) -> None:
    """Raise, with a list of what changed, unless a run can be resumed with these settings and inputs."""
    changes = [*_changed_settings(manifest, settings), *_changed_inputs(manifest, sources)]
    if not changes:
        return
    shown = "\n".join(f"  {change}" for change in changes[:MAX_CHANGES_SHOWN])
    hidden = len(changes) - MAX_CHANGES_SHOWN
    more = f"\n  … and {hidden} more" if hidden > 0 else ""
    raise InputError(
        f"{folder} holds a run of something else; nothing was done. What changed:\n{shown}{more}\n"
        "Resume that run as it was begun, or begin a new run in another folder."
    )


def _changed_settings(manifest: Mapping[str, Any], settings: RunSettings) -> Iterator[str]:
    if manifest["wordprob"] != __version__:
        yield f"wordprob: version {manifest['wordprob']} before, {__version__} now"
    before = manifest["settings"]
    now = settings.to_dict()
    for name in now:
        if before.get(name) != now[name]:
            yield f"{name}: {before.get(name)} before, {now[name]} now"
    if before["model"] == now["model"]:
        with reading_again():
            yield from _changed_model(manifest["model"], describe(settings.model))
            yield from _damage(manifest, settings)


def model_changes(manifest: Mapping[str, Any]) -> list[str]:
    """Return how the files of a run's model differ from those it began with; nothing if the model is not here."""
    try:
        settings = RunSettings.from_dict(manifest["settings"])
        with reading_again():
            now = describe(settings.model)
            damaged = list(_damage(manifest, settings))
    except (WordprobError, OSError):
        return []
    return damaged + (list(_changed_model(manifest["model"], now)) if now.get("files") else [])


def _damage(manifest: Mapping[str, Any], settings: RunSettings) -> Iterator[str]:
    """Yield which files of the model in a cache are not what they are known to be."""
    commit = manifest["model"].get("commit")
    model = settings.with_revision(commit).model if commit else settings.model
    yield from (f"the model's file {finding}" for finding in damage(model))


def _changed_model(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    changes = list(changed_files(before.get("files", {}), now.get("files", {})))
    yield from (f"the model's file {change}" for change in changes)
    for name, value in now.items():
        if value != before.get(name) and name != "files" and not (name == "fingerprint" and changes):
            yield f"the model's {name}: {str(before.get(name))[:16]} before, {str(value)[:16]} now"
