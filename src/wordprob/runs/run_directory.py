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

A file is written beside its place, synced and renamed; a shard without its mark in ``done`` counts as missing, and so
does one whose mark cannot be read. JSON files hold a checksum of themselves, the manifest that of the plan, and a mark
those of its shard's files. Files with other names are the user's, and are never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, OutputError
from wordprob.runs.atomic_io import (
    LOCK_NAME,
    PARTIAL_SUFFIX,
    SOFT_LOCK_NAME,
    explained_errors,
    is_own_lock,
    read_json,
    sync_directories,
    write_durably,
    write_json,
)
from wordprob.runs.json_shapes import Every, misfit
from wordprob.runs.shards import Shard, parse_plan

if TYPE_CHECKING:
    from wordprob.runs.shard_scoring import ShardResult

MANIFEST = "manifest.json"
PLAN = "plan.jsonl"
ERRORS = "errors.jsonl"
SCORED_WITH = "scored_with.json"
SHARD_FILES = {"words": ".parquet", "texts": ".parquet", "errors": ".jsonl"}
"""The kinds of files that a shard may have, and their endings."""
DONE = "done"
FAILED = "failed"
ENDINGS = {**SHARD_FILES, DONE: ".json", FAILED: ".json"}
"""The folders of a run, and how the names of their files end."""
MANIFEST_FORMAT = 1
MANIFEST_SHAPE = {
    "format": int,
    "wordprob": str,
    "settings": {"model": str},
    "model": dict,
    "inputs": Every(list, {"name": str, "path": str, "kind": str}),
    "plan": {"shards": int, "records": int, "characters": int, "sha256": str},
    "damaged_inputs": Every(dict, str),
    "repeated_ids": {"texts": int, "examples": Every(list, str)},
}
COUNTS = (
    "records",
    "texts",
    "words",
    "tokens",
    "without_value",
    "measured_words",
    "texts_left_out",
    "impossible_texts",
)
MARK_SHAPES: dict[str, dict[str, Any]] = {
    DONE: {
        **dict.fromkeys(("shard", *COUNTS), int),
        "log_prob_words": float,
        "key": str,
        "errors": Every(dict, int),
        "files": Every(dict, {"bytes": int, "sha256": str}),
    },
    FAILED: {"shard": int, "reason": str},
}
"""What a mark must have."""
BEGIN_ANEW = "Restore it from a copy, or begin a new run in another folder."
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
        """Return the manifest; raise if it is damaged, or that of another program."""
        path = self.path / MANIFEST
        try:
            manifest = read_json(path)
        except InputError as error:
            raise InputError(f"{error} {BEGIN_ANEW}") from error
        missing = sorted(set(MANIFEST_SHAPE) - set(manifest))
        if missing:
            raise InputError(f"{path} is not the manifest of a run: it has no '{missing[0]}'. Choose another folder.")
        if manifest["format"] != MANIFEST_FORMAT:
            raise InputError(
                f"{path} has the format {manifest['format']}; this version of wordprob knows {MANIFEST_FORMAT}. It was "
                f"written by wordprob {manifest['wordprob']}: use that version."
            )
        wrong = misfit(manifest, MANIFEST_SHAPE)
        if wrong:
            raise InputError(f"{path} is damaged: {wrong}. {BEGIN_ANEW}")
        return manifest

    @property
    def has_plan(self) -> bool:
        """Whether there is a plan."""
        return (self.path / PLAN).exists()

    def shards(self) -> list[Shard]:
        """Return the plan; raise if it is not the one that the manifest was written for."""
        path = self.path / PLAN
        advice = f"Delete it, then resume the run in {self.path}: the plan is made again from the inputs."
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}. {advice}") from error
        if sha256(data) != self.manifest()["plan"]["sha256"]:
            raise InputError(f"{path} is damaged: it does not have the SHA-256 in the manifest. {advice}")
        try:
            return parse_plan(data.decode().splitlines())
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}. {advice}") from error

    def done(self) -> dict[int, dict[str, Any]]:
        """Return the marks of the shards whose files are all there, by number; a mark that is unreadable is none."""
        count = self.manifest()["plan"]["shards"]
        return {shard: mark for shard, mark in self._marks(DONE) if shard < count and self._has_files(mark)}

    def failed(self) -> dict[int, str]:
        """Return the reasons of the shards that failed when they were last tried, by number."""
        return {shard: mark["reason"] for shard, mark in self._marks(FAILED)}

    def mark_paths(self, kind: str = DONE) -> dict[int, Path]:
        """Return the paths of marks, readable or not, by the number of the shard."""
        folder = self.path / kind
        paths = folder.iterdir() if folder.is_dir() else ()
        marks = [path for path in paths if path.suffix == ".json" and is_shard_name(path.stem)]
        return {int(path.stem): path for path in sorted(marks, key=lambda path: int(path.stem))}

    def read_mark(self, path: Path) -> dict[str, Any]:
        """Return a mark; raise if it is damaged, or that of another shard."""
        mark = read_json(path)
        wrong = misfit(mark, MARK_SHAPES[path.parent.name])
        if wrong:
            raise InputError(f"{path} is damaged: {wrong}.")
        if mark["shard"] != int(path.stem):
            raise InputError(f"{path} is damaged: it is the mark of shard {mark['shard']}.")
        return mark

    def files(self, kind: str, marks: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Path, str]]:
        """Yield the files of a kind that these marks name, in order, each with its hash."""
        for mark in marks:
            name = shard_file(kind, mark["shard"])
            if name in mark["files"]:
                yield self.path / name, mark["files"][name]["sha256"]

    def checked_bytes(self, path: Path, digest: str) -> bytes:
        """Return the content of a shard's file; raise if it is not what was written."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
        if sha256(data) != digest:
            mark = self.mark_path(path.stem)
            raise InputError(f"{path} is damaged. Delete {mark}, then resume the run in {self.path}.")
        return data

    def metadata(self) -> dict[str, str]:
        """Return what the shards were scored with; nothing before there are any."""
        path = self.path / SCORED_WITH
        if not path.exists():
            return self.metadata_of_a_shard()
        try:
            return {name: str(value) for name, value in read_json(path).items()}
        except InputError as error:
            raise InputError(f"{error} Delete it: every shard in {self.path / 'words'} holds the same.") from error

    def metadata_of_a_shard(self) -> dict[str, str]:
        """Return what the first finished shard with words was scored with."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path, digest in self.files("words", self.done().values()):
            data = self.checked_bytes(path, digest)
            try:
                schema = pq.read_schema(pa.BufferReader(data))
                written = json.loads((schema.metadata or {}).get(b"wordprob", b"{}"))
            except (ValueError, OSError) as error:
                raise InputError(f"{path} is not a table of words ({error}).") from error
            return {name: str(value) for name, value in written.items()}
        return {}

    def mark_path(self, shard_name: str) -> Path:
        """Return the path of the mark that says that a shard is done."""
        return self.path / DONE / f"{shard_name}.json"

    def _marks(self, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the marks that can be read, with the numbers of their shards."""
        for shard, path in self.mark_paths(kind).items():
            try:
                yield shard, self.read_mark(path)
            except InputError:
                continue

    def _has_files(self, mark: Mapping[str, Any]) -> bool:
        for name, description in mark["files"].items():
            path = self.path / name
            if not path.is_file() or path.stat().st_size != description["bytes"]:
                return False
        return True

    # --- writing ---

    def prepare(self) -> bool:
        """Make the folder and return True if it is new; raise if that cannot be, or if it holds something else."""
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; specify a folder for the run.")
        if not self.path.absolute().parent.is_dir():
            parent = self.path.parent
            raise OutputError(f"there is no directory {parent}; make it first: mkdir -p '{parent}'")
        is_new = not self.path.exists()
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path} cannot be made: {error.strerror}. Choose another folder.") from error
        if self.exists:
            self.manifest()  # raises if it is not that of a run
            return is_new
        foreign = self._foreign_names()
        if foreign:
            raise OutputError(f"{self.path} holds other files ({foreign[0]}, …); specify a new folder for the run.")
        return is_new

    def discard(self, is_new: bool) -> None:
        """Remove what a run that could not begin has written, and the folder itself if it is new."""
        with contextlib.suppress(OSError):  # the reason why it could not begin is the one to report
            if self.exists:
                return
            for name in (PLAN, PLAN + PARTIAL_SUFFIX, MANIFEST + PARTIAL_SUFFIX, LOCK_NAME, SOFT_LOCK_NAME):
                (self.path / name).unlink(missing_ok=True)
            if is_new:
                self.path.rmdir()

    def _foreign_names(self) -> list[str]:
        """Return the files, in a folder without a manifest, that are not those of a run that was killed early."""
        own = {name for name in (LOCK_NAME, SOFT_LOCK_NAME) if is_own_lock(self.path / name)}
        if own:
            own |= {PLAN, PLAN + PARTIAL_SUFFIX, MANIFEST + PARTIAL_SUFFIX}
        return sorted(path.name for path in self.path.iterdir() if path.name not in own)

    def begin(self, plan: Sequence[Shard], manifest: Mapping[str, Any]) -> None:
        """Write plan and manifest.

        The manifest comes last: where it is, the plan is whole. A run that is killed before is planned again.
        """
        self.write_plan(plan)
        write_json(self.path / MANIFEST, manifest)

    def write_plan(self, plan: Sequence[Shard]) -> None:
        """Write the plan."""
        write_durably(self.path / PLAN, [shard.as_line().encode() for shard in plan])

    def open(self) -> None:
        """Make the folders for shards, and remove what a killed run left half-written."""
        with explained_errors(self.path):
            for name in ENDINGS:
                (self.path / name).mkdir(exist_ok=True)
            for path in self._partial_files():
                path.unlink()
        sync_directories(self.path)

    def _partial_files(self) -> Iterator[Path]:
        """Yield the half-written files of a run; whatever has another name is not ours."""
        for name in (MANIFEST, PLAN, ERRORS, SCORED_WITH):
            partial = self.path / f"{name}{PARTIAL_SUFFIX}"
            if partial.is_file():
                yield partial
        for folder, ending in ENDINGS.items():
            for path in (self.path / folder).iterdir():
                shard, _, rest = path.name.partition(".")
                if is_shard_name(shard) and f".{rest}" == ending + PARTIAL_SUFFIX and path.is_file():
                    yield path

    def add(self, result: ShardResult) -> None:
        """Put the files of a finished shard in place, then mark it done."""
        shard = result.summary["shard"]
        self._check_metadata(result.metadata)
        files = {shard_file(kind, shard): data for kind, data in result.files.items()}
        self._remove_mark(shard)
        for name, data in files.items():
            write_durably(self.path / name, [data])
        # The mark must not outlive files it names, so their renames are on the disk before it is written.
        sync_directories(*{(self.path / name).parent for name in files})
        described = {name: {"bytes": len(data), "sha256": sha256(data)} for name, data in files.items()}
        write_json(self.mark_path(shard_name(shard)), {**result.summary, "files": described})
        # Only now: a shard that is killed in between is done and failed, and then `done` counts.
        (self.path / FAILED / f"{shard_name(shard)}.json").unlink(missing_ok=True)

    def _remove_mark(self, shard: int) -> None:
        """Remove the mark of a shard that is scored again: it must not stand beside files it does not describe."""
        path = self.mark_path(shard_name(shard))
        if path.exists():
            with explained_errors(path):
                path.unlink()
            sync_directories(path.parent)

    def add_failure(self, shard: int, reason: str) -> None:
        """Write down that a shard failed."""
        write_json(self.path / FAILED / f"{shard_name(shard)}.json", {"shard": shard, "reason": reason})

    def collect_errors(self) -> None:
        """Make one file of all errors."""
        write_durably(self.path / ERRORS, self.error_lines())

    def error_lines(self) -> Iterator[bytes]:
        """Yield the errors of each finished shard, in order."""
        for path, digest in self.files("errors", self.done().values()):
            yield self.checked_bytes(path, digest)

    def _check_metadata(self, metadata: Mapping[str, str]) -> None:
        """Raise, unless this shard is scored with the same model, device and number format as those before."""
        if not metadata:
            return
        path = self.path / SCORED_WITH
        with self._metadata_lock:  # several threads write shards; the first of them writes this file
            if not path.is_file():
                write_json(path, self.metadata() or metadata)
            before = self.metadata()
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


def is_shard_name(name: str) -> bool:
    """Return True for what :func:`shard_name` gives; ``0000001`` is none, nor are the digits of other scripts."""
    return re.fullmatch(r"[0-9]{6,}", name) is not None and shard_name(int(name)) == name


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def shard_file(kind: str, shard: int) -> str:
    """Return the path of a file of a shard, inside the run's folder."""
    return f"{kind}/{shard_name(shard)}{SHARD_FILES[kind]}"
