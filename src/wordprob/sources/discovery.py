"""Where texts come from: files, folders, globs and Hugging Face data sets, found in an order that does not change."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordprob.errors import InputError, OptionError

HUB = "hf:"
KINDS = {
    ".txt": "lines",
    ".text": "lines",
    "": "lines",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
"""The ending of a file, that of a compression aside, and how it is read."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
TEXTS = (".txt", ".text", ".md", "")
"""Endings that a folder of whole texts may have."""


@dataclass(frozen=True)
class Source:
    """One file or data set.

    Attributes
    ----------
    name
        What the ids of its records begin with; the same wherever the corpus lies.
    path
        Where it is.
    kind
        How it is read: ``lines``, ``whole``, ``jsonl``, ``csv``, ``tsv``, ``parquet`` or ``hub``.
    """

    name: str
    path: str
    kind: str

    @property
    def compression(self) -> str:
        """The ending of the compression, empty without one."""
        ending = Path(self.path).suffix.lower()
        return ending if self.kind != "hub" and ending in COMPRESSIONS else ""


def find(inputs: Iterable[str | Path], whole_file: bool = False) -> list[Source]:
    """Return the sources that files, folders, globs and ``hf:`` names stand for, each file once.

    Folders and globs are sorted; the order is otherwise that given. Names are paths below the folder that all files
    share, so that ids do not depend on where the corpus lies.
    """
    found: dict[str, str] = {}
    for given in map(str, inputs):
        for path in [given] if given.startswith(HUB) else _paths(given, whole_file):
            found.setdefault(path if path.startswith(HUB) else os.path.realpath(path), path)
    if not found:
        raise InputError("no input is given; name files, folders or hf:NAME.")
    files = [path for path in found if not path.startswith(HUB)]
    shared = os.path.commonpath([Path(path).parent for path in files]) if files else ""
    return [_source(path, shared, whole_file) for path in found]


def source_of(given: str | Path) -> Source:
    """Return the one source that a file or an ``hf:`` name is."""
    path = str(given)
    return Source(path, path, "hub") if path.startswith(HUB) else Source(path, path, kind_of(Path(path)))


def kind_of(path: Path, whole_file: bool = False) -> str:
    """Tell by a file's ending how it is read."""
    ending = _ending(path)
    if whole_file and (ending in TEXTS or ending not in KINDS):
        return "whole"
    if ending not in KINDS:
        raise OptionError(
            f"cannot read texts from '{path.name}'; use .parquet, .jsonl or .txt (a text on each line), .csv or .tsv, "
            f"compressed ({' '.join(COMPRESSIONS)}) or not; or take the whole file as one text with --whole-file."
        )
    if KINDS[ending] == "parquet" and path.suffix.lower() in COMPRESSIONS:
        raise OptionError(f"{path.name}: Parquet is compressed inside; unpack this file first.")
    return KINDS[ending]


def _ending(path: Path) -> str:
    name = path.name.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    return Path(name).suffix


def _source(path: str, shared: str, whole_file: bool) -> Source:
    if path.startswith(HUB):
        return Source(path, path, "hub")
    return Source(Path(os.path.relpath(path, shared)).as_posix(), path, kind_of(Path(path), whole_file))


def _paths(given: str, whole_file: bool) -> Sequence[str]:
    path = Path(given).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        return _checked(given, sorted(_inside(path, whole_file)), "no file whose ending says that it holds texts")
    if any(sign in given for sign in "*?["):
        matched = sorted(p for p in glob.glob(str(path), recursive=True) if Path(p).is_file())  # noqa: PTH207
        return _checked(given, matched, "nothing that matches it")
    raise InputError(f"no such file: {given}")


def _inside(folder: Path, whole_file: bool) -> Iterator[str]:
    endings = TEXTS if whole_file else tuple(KINDS)
    for home, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(home) / name for name in names if not name.startswith(".")]
        yield from (str(path) for path in paths if _ending(path) in endings)


def _checked(given: str, found: Sequence[str], problem: str) -> Sequence[str]:
    if not found:
        endings = " ".join(ending for ending in KINDS if ending)
        raise InputError(f"'{given}': there is {problem}. Texts are read from {endings}, compressed or not.")
    return found
