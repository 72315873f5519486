"""The folder of a run: what lies where, and which shards are done.

::

    manifest.json           what was asked, of which inputs, with which versions; written first
    plan.jsonl              a line for each shard: where it begins, its size and key
    words/000000.parquet    a row for each word
    texts/000000.parquet    a row for each text
    errors/000000.jsonl     a line for each text that could not be scored
    done/000000.json        written last: counts, and sizes and hashes of the files above
    failed/000000.json      why a shard failed; gone once it is done
    errors.jsonl            all errors, in order; made anew whenever a run ends

A file is written aside, synced and renamed; a shard without its mark in ``done`` counts as not there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wordprob.errors import InputError, OutputError
from wordprob.runs.atomic_io import LOCK, read_json, sweep, sync, write_durably, write_json
from wordprob.runs.scoring import ShardResult, sha256
from wordprob.runs.shards import Shard, read_plan

MANIFEST, PLAN, ERRORS, SCORED = "manifest.json", "plan.jsonl", "errors.jsonl", "scored_with.json"
ENDINGS = {"words": ".parquet", "texts": ".parquet", "errors": ".jsonl"}
MARKS = ("done", "failed")
VERSIONS = ("torch", "transformers")
"""Versions that may change while a run is under way."""


class RunDirectory:
    """A run's folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._agreeing = threading.Lock()

    # --- what is there ---

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / MANIFEST).is_file()

    def require(self) -> RunDirectory:
        """Raise, unless a run was begun here."""
        if not self.exists:
            raise InputError(f"{self.path} is no folder of a run: it has no {MANIFEST}. wordprob run … -o makes one.")
        return self

    def manifest(self) -> dict[str, Any]:
        """Return what the run was asked to do."""
        return dict(read_json(self.path / MANIFEST))

    def shards(self) -> list[Shard]:
        """Return the plan."""
        with (self.path / PLAN).open(encoding="utf-8") as lines:
            return read_plan(lines)

    def marks(self, kind: str = "done") -> Iterator[dict[str, Any]]:
        """Yield the marks of the shards that are done, or failed, in order."""
        for path in sorted((self.path / kind).glob("*.json")):
            yield read_json(path)

    def done(self) -> dict[int, dict[str, Any]]:
        """Return the marks of shards whose files are all there, by number."""
        return {mark["shard"]: mark for mark in self.marks() if self._whole(mark)}

    def files(self, kind: str, marks: Sequence[Mapping[str, Any]] | None = None) -> Iterator[Path]:
        """Yield the finished files of a kind, in order."""
        for mark in self.marks() if marks is None else marks:
            name = f"{kind}/{number(mark['shard'])}{ENDINGS[kind]}"
            if name in mark["files"]:
                yield self.path / name

    def _whole(self, mark: Mapping[str, Any]) -> bool:
        sizes = {self.path / name: about["bytes"] for name, about in mark["files"].items()}
        return all(path.is_file() and path.stat().st_size == size for path, size in sizes.items())

    # --- writing ---

    def prepare(self) -> None:
        """Make the folder, or see that it can be used."""
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; name a folder for the run with -o.")
        if not self.path.absolute().parent.is_dir():
            parent = self.path.parent
            raise OutputError(f"there is no directory {parent}; make it first: mkdir -p '{parent}'")
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path} cannot be made: {error.strerror}. Choose another place with -o.") from error
        others = [p.name for p in self.path.iterdir() if p.name not in (PLAN,) and not p.name.startswith(LOCK)]
        if not self.exists and (others := [name for name in others if not name.endswith(".part")]):
            raise OutputError(f"{self.path} holds other files ({others[0]}, …); name a new folder for the run with -o.")

    def begin(self, plan: Sequence[Shard], manifest: Mapping[str, Any]) -> None:
        """Write down what is to be done; the manifest comes last, so a run is there once its plan is."""
        write_durably(self.path / PLAN, "".join(shard.as_line() for shard in plan).encode())
        write_json(self.path / MANIFEST, manifest)

    def open(self) -> None:
        """Make ready for shards: folders there, left-overs of a killed run gone."""
        sweep(self.path)
        for name in (*ENDINGS, *MARKS):
            (self.path / name).mkdir(exist_ok=True)
        sync(self.path)

    def keep(self, part: ShardResult) -> None:
        """Put a finished shard in its place, then mark it done."""
        name = number(part.facts["shard"])
        self._agree(part.metadata)
        files = {f"{kind}/{name}{ENDINGS[kind]}": data for kind, data in part.files.items()}
        for path, data in files.items():
            write_durably(self.path / path, data)
        sync(*{(self.path / path).parent for path in files})
        about = {path: {"bytes": len(data), "sha256": sha256(data)} for path, data in files.items()}
        write_json(self.path / "done" / f"{name}.json", {**part.facts, "files": about})
        (self.path / "failed" / f"{name}.json").unlink(missing_ok=True)

    def fail(self, shard: int, reason: str) -> None:
        """Note that a shard failed."""
        write_json(self.path / "failed" / f"{number(shard)}.json", {"shard": shard, "reason": reason})

    def collect_errors(self) -> None:
        """Make one file of all errors."""
        from wordprob.tables.files import write_whole

        def write(aside: Path) -> None:
            with aside.open("wb") as file:
                for path in self.files("errors"):
                    file.write(path.read_bytes())

        write_whole(self.path / ERRORS, write)

    def _agree(self, metadata: Mapping[str, str]) -> None:
        """See that every shard is scored with the same model, device and number format."""
        if not metadata:
            return
        path = self.path / SCORED
        with self._agreeing:
            if not path.is_file():
                write_json(path, dict(metadata))
        before = read_json(path)
        changed = [
            f"{name}: {before.get(name)} before, {metadata.get(name)} now"
            for name in sorted({*before, *metadata} - set(VERSIONS))
            if before.get(name) != metadata.get(name)
        ]
        if changed:
            raise OutputError(
                f"shards of this run were scored otherwise before ({'; '.join(changed)}); nothing was changed. Go on "
                "as it began, for example with the same --device and --dtype, or begin a new run in another folder."
            )


def number(shard: int) -> str:
    """Return a shard's name."""
    return f"{shard:06d}"
