"""The folder of a run: its files, and which shards are done.

::

    manifest.json           settings, inputs, model and versions; written before the first shard
    plan.jsonl              a line for each shard: where it begins, its size and key
    words/000000.parquet    a row for each word
    texts/000000.parquet    a row for each text
    errors/000000.jsonl     a line for each text that could not be scored
    done/000000.json        written last: counts, and sizes and hashes of the files above
    failed/000000.json      why a shard failed; removed once it is done
    scored_with.json        model, device and number format that scored the shards
    errors.jsonl            all errors, in order; written anew whenever a run ends

A file is written beside its place, synced and renamed; a shard without its mark in ``done`` counts as missing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, OutputError
from wordprob.runs.atomic_io import (
    LOCK_NAME,
    PARTIAL_SUFFIX,
    read_json,
    remove_partial_files,
    sync_directories,
    write_durably,
    write_json,
)
from wordprob.runs.shards import Shard, parse_plan

if TYPE_CHECKING:
    from wordprob.runs.scoring import ShardResult

MANIFEST = "manifest.json"
PLAN = "plan.jsonl"
ERRORS = "errors.jsonl"
SCORED_WITH = "scored_with.json"
SHARD_FILES = {"words": ".parquet", "texts": ".parquet", "errors": ".jsonl"}
"""The kinds of files that a shard may have, and their endings."""
DONE = "done"
FAILED = "failed"
VERSIONS = ("path", "torch", "transformers")
"""Metadata that may change while a run is under way."""


class RunDirectory:
    """The folder of a run.

    Parameters
    ----------
    path
        Where it is, or will be.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._metadata_lock = threading.Lock()

    # --- reading ---

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / MANIFEST).is_file()

    def require(self) -> RunDirectory:
        """Raise, unless a run was begun here."""
        if not self.exists:
            raise InputError(
                f"{self.path} is not the folder of a run: it has no {MANIFEST}. `wordprob run`, or runs.run from "
                "Python, makes one."
            )
        return self

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        return dict(read_json(self.path / MANIFEST))

    def shards(self) -> list[Shard]:
        """Return the plan."""
        with (self.path / PLAN).open(encoding="utf-8") as lines:
            return parse_plan(lines)

    def done(self) -> dict[int, dict[str, Any]]:
        """Return the marks of the shards whose files are all there, by number."""
        return {mark["shard"]: mark for mark in self._marks(DONE) if self._has_files(mark)}

    def failed(self) -> dict[int, str]:
        """Return the reasons of the shards that failed when they were last tried, by number."""
        return {mark["shard"]: mark["reason"] for mark in self._marks(FAILED)}

    def files(self, kind: str, marks: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Path, str]]:
        """Yield the files of a kind that these marks name, in order, each with its hash."""
        for mark in marks:
            name = _file_name(kind, mark["shard"])
            if name in mark["files"]:
                yield self.path / name, mark["files"][name]["sha256"]

    def metadata(self) -> dict[str, str]:
        """Return what the shards were scored with; nothing before there are any."""
        path = self.path / SCORED_WITH
        if not path.is_file():
            return {}
        return {name: str(value) for name, value in read_json(path).items()}

    def mark_path(self, shard_name: str) -> Path:
        """Return the path of the mark that says that a shard is done."""
        return self.path / DONE / f"{shard_name}.json"

    def _marks(self, kind: str) -> Iterator[dict[str, Any]]:
        for path in sorted((self.path / kind).glob("*.json")):
            yield read_json(path)

    def _has_files(self, mark: Mapping[str, Any]) -> bool:
        for name, description in mark["files"].items():
            path = self.path / name
            if not path.is_file() or path.stat().st_size != description["bytes"]:
                return False
        return True

    # --- writing ---

    def prepare(self) -> None:
        """Make the folder; raise if that cannot be, or if it holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; specify a folder for the run.")
        if not self.path.absolute().parent.is_dir():
            parent = self.path.parent
            raise OutputError(f"there is no directory {parent}; make it first: mkdir -p '{parent}'")
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path} cannot be made: {error.strerror}. Choose another folder.") from error
        foreign = [path.name for path in self.path.iterdir() if not _may_precede_manifest(path.name)]
        if foreign and not self.exists:
            raise OutputError(f"{self.path} holds other files ({foreign[0]}, …); specify a new folder for the run.")

    def begin(self, plan: Sequence[Shard], manifest: Mapping[str, Any]) -> None:
        """Write plan and manifest.

        The manifest comes last: where it is, the plan is whole. A run that is killed before is planned again.
        """
        write_durably(self.path / PLAN, "".join(shard.as_line() for shard in plan).encode())
        write_json(self.path / MANIFEST, manifest)

    def open(self) -> None:
        """Make the folders for shards, and remove what a killed run left half-written."""
        remove_partial_files(self.path)
        for name in (*SHARD_FILES, DONE, FAILED):
            (self.path / name).mkdir(exist_ok=True)
        sync_directories(self.path)

    def add(self, result: ShardResult) -> None:
        """Put the files of a finished shard in place, then mark it done."""
        shard = result.summary["shard"]
        self._check_metadata(result.metadata)
        files = {_file_name(kind, shard): data for kind, data in result.files.items()}
        for name, data in files.items():
            write_durably(self.path / name, data)
        # The mark must not outlive files it names, so their renames are on the disk before it is written.
        sync_directories(*{(self.path / name).parent for name in files})
        described = {name: {"bytes": len(data), "sha256": sha256(data)} for name, data in files.items()}
        write_json(self.mark_path(shard_name(shard)), {**result.summary, "files": described})
        # Only now: a shard that is killed in between is done and failed, and then `done` counts.
        (self.path / FAILED / f"{shard_name(shard)}.json").unlink(missing_ok=True)

    def add_failure(self, shard: int, reason: str) -> None:
        """Write down that a shard failed."""
        write_json(self.path / FAILED / f"{shard_name(shard)}.json", {"shard": shard, "reason": reason})

    def collect_errors(self) -> None:
        """Make one file of all errors."""
        from wordprob.tables.files import write_whole

        def write(partial: Path) -> None:
            with partial.open("wb") as file:
                for path, _ in self.files("errors", self._marks(DONE)):
                    file.write(path.read_bytes())

        write_whole(self.path / ERRORS, write)

    def _check_metadata(self, metadata: Mapping[str, str]) -> None:
        """Raise, unless this shard is scored with the same model, device and number format as those before."""
        if not metadata:
            return
        path = self.path / SCORED_WITH
        with self._metadata_lock:  # several threads write shards; the first of them writes this file
            if not path.is_file():
                write_json(path, dict(metadata))
        before = read_json(path)
        changes = [
            f"{name}: {before.get(name)} before, {metadata.get(name)} now"
            for name in sorted({*before, *metadata} - set(VERSIONS))
            if before.get(name) != metadata.get(name)
        ]
        if changes:
            raise OutputError(
                f"shards of this run were scored differently before ({'; '.join(changes)}); nothing was changed. "
                "Continue as it was begun, for example on the same device and with the same dtype, or begin a new run "
                "in another folder."
            )


def shard_name(shard: int) -> str:
    """Return the name of a shard's files, without their ending."""
    return f"{shard:06d}"


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def _file_name(kind: str, shard: int) -> str:
    return f"{kind}/{shard_name(shard)}{SHARD_FILES[kind]}"


def _may_precede_manifest(name: str) -> bool:
    """Return True for the files of a run that was killed before its manifest was written."""
    return name == PLAN or name.startswith(LOCK_NAME) or name.endswith(PARTIAL_SUFFIX)
