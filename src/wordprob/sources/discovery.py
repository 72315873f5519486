"""Where texts come from: files, folders, globs and Hugging Face data sets, in an order that does not change."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wordprob.errors import InputError, OptionError
from wordprob.tables.formats.compression import COMPRESSIONS
from wordprob.tables.formats.extensions import EXTENSIONS

HUB = "hf:"
"""What the name of a Hugging Face data set begins with."""

LINE_EXTENSIONS = (".txt", ".text", "")
TABLE_EXTENSIONS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
"""Extensions, apart from that of a compression, of files with a text on each line, and of tables."""

KINDS = {
    **dict.fromkeys(LINE_EXTENSIONS, "lines"),
    **{extension: EXTENSIONS[extension] for extension in TABLE_EXTENSIONS},
}
"""How a file is read, by its extension."""

WHOLE_TEXT_EXTENSIONS = (".txt", ".text", ".md", "")
"""Extensions of the files of a folder that are taken as whole texts."""


@dataclass(frozen=True)
class Source:
    """One file or data set.

    Attributes
    ----------
    name
        What the ids of its records begin with; the same wherever the corpus is stored.
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
        """The extension of the compression; empty without one."""
        extension = Path(self.path).suffix.lower()
        return extension if self.kind != "hub" and extension in COMPRESSIONS else ""


def find(inputs: Iterable[str | Path], whole_file: bool = False) -> list[Source]:
    """Return the sources that files, folders, globs and ``hf:`` names stand for, each file once.

    Folders and globs are sorted; otherwise the order is that of the inputs. Names are paths below the folder that all
    files share, so that ids do not depend on where the corpus is stored.

    Parameters
    ----------
    inputs
        Files, folders, globs, or ``hf:NAME[:CONFIG][:SPLIT]``.
    whole_file
        Take each text file as one text.
    """
    paths: list[str] = []
    for given in map(str, inputs):
        if given.startswith(HUB):
            paths.append(given)
        else:
            paths += [os.path.realpath(path) for path in _matching_files(given, whole_file)]
    if not paths:
        raise InputError("no input is given; name files, folders or hf:NAME.")
    distinct_paths = list(dict.fromkeys(paths))
    folders = [Path(path).parent for path in distinct_paths if not path.startswith(HUB)]
    shared_folder = os.path.commonpath(folders) if folders else ""
    return [_source_below(path, shared_folder, whole_file) for path in distinct_paths]


def source_of(given: str | Path) -> Source:
    """Return the one source that a file or an ``hf:`` name is."""
    path = str(given)
    return Source(path, path, "hub" if path.startswith(HUB) else kind_of(Path(path)))


def kind_of(path: Path, whole_file: bool = False) -> str:
    """Return how a file is read, which its extension determines."""
    extension = _uncompressed_extension(path)
    if whole_file and (extension in WHOLE_TEXT_EXTENSIONS or extension not in KINDS):
        return "whole"
    if extension not in KINDS:
        raise OptionError(
            f"cannot read texts from '{path.name}'; use .parquet, .jsonl or .txt (a text on each line), .csv or .tsv, "
            f"compressed ({' '.join(COMPRESSIONS)}) or not; or take the whole file as one text with `whole_file`."
        )
    if KINDS[extension] == "parquet" and path.suffix.lower() in COMPRESSIONS:
        raise OptionError(f"{path.name}: Parquet is compressed inside; unpack this file first.")
    return KINDS[extension]


def _uncompressed_extension(path: Path) -> str:
    name = path.name.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    return Path(name).suffix


def _source_below(path: str, folder: str, whole_file: bool) -> Source:
    """Return the source at a path, named by where it is below a folder."""
    if path.startswith(HUB):
        return Source(path, path, "hub")
    name = Path(os.path.relpath(path, folder)).as_posix()
    if not name.isprintable() and any("\udc80" <= character <= "\udcff" for character in name):
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise InputError(f"the name of '{shown}' is not UTF-8, so no text can be named after it. Rename the file.")
    return Source(name, path, kind_of(Path(path), whole_file))


def _matching_files(given: str, whole_file: bool) -> Sequence[str]:
    """Return the files that a path, a folder or a glob stands for."""
    path = Path(given).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        files = sorted(_files_inside(path, whole_file))
        return _require_some(given, files, "no file whose ending says that it holds texts")
    if any(sign in given for sign in "*?["):
        matches = glob.glob(str(path), recursive=True)  # noqa: PTH207
        files = sorted(match for match in matches if Path(match).is_file())
        return _require_some(given, files, "nothing that matches it")
    raise InputError(f"no such file: {given}")


def _files_inside(folder: Path, whole_file: bool) -> Iterator[str]:
    """Yield the files of texts below a folder, hidden ones left out."""
    extensions = WHOLE_TEXT_EXTENSIONS if whole_file else tuple(KINDS)
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]  # os.walk does not enter the others
        for name in names:
            path = Path(parent) / name
            if not name.startswith(".") and _uncompressed_extension(path) in extensions:
                yield str(path)


def _require_some(given: str, files: Sequence[str], problem: str) -> Sequence[str]:
    if not files:
        extensions = " ".join(extension for extension in KINDS if extension)
        raise InputError(f"'{given}': there is {problem}. Texts are read from {extensions}, compressed or not.")
    return files
