"""Whether the folder of a run is what was written into it: checksums, plan, marks and counts, all compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordprob.errors import InputError, first_line
from wordprob.runs.atomic_io import LOCK_NAME, PARTIAL_SUFFIX, SOFT_LOCK_NAME, lock_holder
from wordprob.runs.manifest import model_changes, notes
from wordprob.runs.run_directory import (
    ENDINGS,
    ERRORS,
    FAILED,
    MANIFEST,
    PLAN,
    SCORED_WITH,
    SHARD_FILES,
    VERSIONS,
    RunDirectory,
    is_shard_name,
    shard_file,
)
from wordprob.runs.shards import Shard

OWN_FILES = (MANIFEST, PLAN, ERRORS, SCORED_WITH, LOCK_NAME, SOFT_LOCK_NAME)
"""The files of a run that are not in its folders."""


@dataclass(frozen=True)
class Verification:
    """What a comparison of a run's folder with its checksums found.

    Attributes
    ----------
    folder
        Which run.
    shards, done
        Shards in all, and those that are done and intact.
    files, bytes
        Files of shards that were read, and their size.
    problems
        What is damaged or does not agree, and what to do about it.
    notes
        What else the user should know: an input that was damaged, a run that is writing now.
    """

    folder: Path
    shards: int
    done: int
    files: int
    bytes: int
    problems: Sequence[str]
    notes: Sequence[str]

    @property
    def intact(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems

    @property
    def complete(self) -> bool:
        """Whether every shard is done and intact."""
        return self.shards > 0 and self.done == self.shards


def verify(output: str | Path) -> Verification:
    """Read everything in the folder of a run, and compare it with its checksums; nothing is changed.

    Parameters
    ----------
    output
        The folder of the run.

    Examples
    --------
    >>> import tempfile
    >>> from wordprob.runs import run
    >>> with tempfile.TemporaryDirectory() as home:
    ...     _ = Path(home, "corpus.txt").write_text("She saw the mark")
    ...     _ = run(Path(home, "corpus.txt"), Path(home, "out"), model="exact:bow")
    ...     verify(Path(home, "out")).intact
    True
    """
    return _Verifier(RunDirectory(output).require()).verify()


class _Verifier:
    """Compares one folder; collects problems instead of stopping at the first."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._problems: list[str] = []
        self._listed: list[str] = []
        """What is there besides, and is no damage."""
        self._named: dict[int, set[str]] = {}
        """The files that the marks of finished shards name, by shard."""
        self._files = 0
        self._bytes = 0

    def verify(self) -> Verification:
        manifest = self._read(self._directory.manifest)
        plan = self._read(self._directory.shards) if manifest is not None else None
        count = 0 if manifest is None else manifest["plan"]["shards"]
        done = 0
        if manifest is not None and plan is not None:
            self._check_plan(manifest["plan"], plan)
            done = sum(self._is_intact(shard, path, plan) for shard, path in self._directory.mark_paths().items())
            self._check_other_files(is_complete=done == count)
            self._check_names(len(plan))
        return Verification(
            self._directory.path, count, done, self._files, self._bytes, self._problems, self._notes(manifest)
        )

    def _read(self, read: Any, *arguments: Any) -> Any:
        """Return what a function reads; None, and a problem, if it cannot."""
        try:
            return read(*arguments)
        except InputError as error:
            self._problems.append(str(error))
            return None

    def _notes(self, manifest: Mapping[str, Any] | None) -> list[str]:
        found = self._listed + ([] if manifest is None else [*notes(manifest), *_model_notes(manifest)])
        holder = lock_holder(self._directory.path)
        if holder is not None:
            found.append(f"process {holder['pid']} on {holder['host']} is writing into this folder now")
        return found

    def _check_plan(self, described: Mapping[str, Any], plan: Sequence[Shard]) -> None:
        counted = {
            "shards": len(plan),
            "records": sum(shard.records for shard in plan),
            "characters": sum(shard.characters for shard in plan),
        }
        for name, count in counted.items():
            if described[name] != count:
                self._problems.append(f"the manifest says {described[name]} {name}, the plan has {count}.")

    # --- shards ---

    def _is_intact(self, shard: int, mark_path: Path, plan: Sequence[Shard]) -> bool:
        """Compare a shard with its mark and the plan; return True if all of it agrees."""
        n_problems = len(self._problems)
        try:
            mark = self._directory.read_mark(mark_path)
        except InputError as error:
            self._problems.append(f"{error} The shard counts as not done; resume the run to score it again.")
            return False
        if shard >= len(plan):
            self._problems.append(f"{mark_path} is the mark of a shard that the plan does not have. Delete it.")
            return False
        self._named[shard] = set(mark["files"])
        for disagreement in self._disagreements(mark, plan[shard]):
            advice = f"Delete {mark_path}, then resume the run in {self._directory.path}."
            self._problems.append(f"shard {shard}: {disagreement}. {advice}")
        return len(self._problems) == n_problems

    def _disagreements(self, mark: Mapping[str, Any], planned: Shard) -> Iterator[str]:
        if (mark["key"], mark["records"]) != (planned.key, planned.records):
            yield "its mark is that of other texts than the plan has"
        names = {shard_file(kind, planned.shard) for kind in SHARD_FILES}
        for name in sorted(set(mark["files"]) - names):
            yield f"its mark names a file that is none of its own, {name}"
        counts = {"words": mark["words"], "texts": mark["texts"], "errors": sum(mark["errors"].values())}
        for kind, count in counts.items():
            yield from self._file_disagreements(mark, kind, planned.shard, count)
        if counts["texts"] + counts["errors"] != mark["records"]:
            yield f"{counts['texts']} texts and {counts['errors']} errors are not its {mark['records']} records"

    def _file_disagreements(self, mark: Mapping[str, Any], kind: str, shard: int, count: int) -> Iterator[str]:
        name = shard_file(kind, shard)
        description = mark["files"].get(name)
        if description is None:
            if count:
                yield f"its mark counts {count} {kind}, but names no file of them"
            return
        path = self._directory.path / name
        try:
            data = self._directory.checked_bytes(path, description["sha256"])
        except InputError as error:
            yield str(error).partition(" Delete")[0].rstrip(".")
            return
        self._files += 1
        self._bytes += len(data)
        if len(data) != description["bytes"]:
            yield f"{path} has {len(data)} bytes, its mark says {description['bytes']}"
        try:
            rows = data.count(b"\n") if kind == "errors" else _parquet_rows(data)
        except (ValueError, OSError) as error:
            yield f"{path} is not a table ({first_line(error)})"
            return
        if rows != count:
            yield f"{path} has {rows} rows, its mark counts {count} {kind}"

    # --- the rest ---

    def _check_other_files(self, is_complete: bool) -> None:
        self._check_metadata()
        for path in self._directory.mark_paths(FAILED).values():
            self._read(self._directory.read_mark, path)
        collected = self._directory.path / ERRORS
        if is_complete and self._problems == []:
            expected = b"".join(self._directory.error_lines())
            if not collected.is_file() or collected.read_bytes() != expected:
                self._problems.append(
                    f"{collected} is not what the shards' own files of errors give. Resume the run to write it again."
                )

    def _check_metadata(self) -> None:
        path = self._directory.path / SCORED_WITH
        told = self._read(self._directory.metadata)
        in_shard = self._read(self._directory.metadata_of_a_shard)
        if not path.exists():
            if in_shard:
                self._listed.append(f"there is no {path}; every shard holds the same")
        elif told is not None and in_shard:
            before = {name: value for name, value in in_shard.items() if name not in VERSIONS}
            if not before.items() <= told.items():
                self._problems.append(f"{path} is not what the shards were scored with. Delete it: they hold the same.")

    def _check_names(self, n_shards: int) -> None:
        """Report what no mark names: a program that reads a folder of tables as a whole would read it too."""
        for path in sorted(self._directory.path.iterdir()):
            if path.name in ENDINGS:
                self._check_folder(path, n_shards)
            elif path.name not in OWN_FILES:
                self._listed.append(f"{path} is not part of the run")

    def _check_folder(self, folder: Path, n_shards: int) -> None:
        if not folder.is_dir():
            self._problems.append(f"{folder} is not a folder. Move it elsewhere, then resume the run.")
            return
        for path in sorted(folder.iterdir()):
            name, _, rest = path.name.partition(".")
            shard = int(name) if is_shard_name(name) else n_shards
            is_own = f".{rest}".removesuffix(PARTIAL_SUFFIX) == ENDINGS[folder.name] and shard < n_shards
            is_whole = not path.name.endswith(PARTIAL_SUFFIX)
            if is_own and is_whole and (folder.name not in SHARD_FILES or self._is_named(shard, path)):
                continue
            if is_own and shard not in self._named:
                self._listed.append(f"{path} is of a shard that is not done; resume the run to write it again")
            else:
                self._problems.append(f"{path} is not part of the run, but in a folder of it. Move it elsewhere.")

    def _is_named(self, shard: int, path: Path) -> bool:
        return f"{path.parent.name}/{path.name}" in self._named.get(shard, ())


def _parquet_rows(data: bytes) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows)


def _model_notes(manifest: Mapping[str, Any]) -> list[str]:
    """Return how the run's model has changed; that its description cannot be read is a note too."""
    try:
        return list(model_changes(manifest))
    except (TypeError, ValueError, AttributeError, KeyError):
        return ["the manifest's description of the model cannot be read, so its files were not compared"]
