"""A folder of results, written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from wordprob._version import __version__
from wordprob.cache import sha256
from wordprob.errors import OutputError
from wordprob.tables.files import FORMATS_WITH_JSON, check_output, has_sidecar, replacing, write_whole
from wordprob.tables.formats import render_frame
from wordprob.tables.formats.extended import announce_infinite
from wordprob.tables.formats.jsonlines import records
from wordprob.tables.metadata import parquet_entry, write_sidecar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES: dict[str, dict[str, None]] = {
    ".pdf": {"CreationDate": None},
    ".png": {"Software": None},
    ".svg": {"Date": None},
}
"""Endings of figures, and the metadata to leave out of each, which would make equal figures differ."""

FONT_TYPES = {"pdf.fonttype": 42, "ps.fonttype": 42}
"""Fonts go into a PDF as TrueType: journals reject the Type 3 fonts that matplotlib writes by default."""

PACKAGES = ("numpy", "pandas", "pyarrow", "scipy", "formulaic", "matplotlib", "wordfreq", "torch", "transformers")


def check_folder(folder: str | Path, names: Iterable[str], force: bool = False) -> Path:
    """Raise, before any work is done, unless files of these names can be written into ``folder``."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder for the results.")
    if not folder.absolute().parent.is_dir():
        raise OutputError(f"there is no directory {folder.parent}; make it first: mkdir -p '{folder.parent}'")
    existing = [name for name in names if (folder / name).exists()]
    if existing and not force:
        raise OutputError(
            f"{folder} holds {', '.join(existing)} already; nothing was done. Use `force` to replace them."
        )
    writable = folder if folder.exists() else folder.absolute().parent
    if not os.access(writable, os.W_OK):
        raise OutputError(f"{folder} cannot be written: no permission for {writable}. Choose another place.")
    return folder


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write finished files; none gets its name before all are written, so that old and new results are not mixed."""
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        with contextlib.ExitStack() as stack:
            for name, data in files.items():
                stack.enter_context(replacing(folder / name)).write_bytes(data)
    except OSError as error:
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise OutputError(f"{folder} could not be written: {error.strerror or error}") from error


def tsv(frame: pd.DataFrame) -> bytes:
    """Return a table as TSV; numbers in full precision, missing ones empty."""
    return str(frame.to_csv(sep="\t", index=False, lineterminator="\n")).encode("utf-8")


def write_table(
    path: str | Path, frame: pd.DataFrame, about: Mapping[str, object], force: bool = False, format: str | None = None
) -> Path:
    """Write a table with its metadata, completely or not at all.

    Parameters
    ----------
    path
        Where to write; the ending determines the format unless ``format`` does.
    frame
        The table.
    about
        Where its numbers come from; inside a Parquet file, and beside any other file.
    force
        Replace a file that exists.
    format
        ``tsv``, ``csv``, ``parquet``, ``jsonl`` or ``json``.
    """
    path, format = check_output(path, format, force, FORMATS_WITH_JSON, with_sidecar=True)
    metadata = json.loads(json.dumps({**about, "wordprob": __version__}, default=str))  # paths become strings
    data = render(frame, format, metadata)
    write_whole(path, lambda temporary: temporary.write_bytes(data))
    if has_sidecar(path, format):
        write_sidecar(path, metadata)
    return path


def render(frame: pd.DataFrame, format: str, metadata: Mapping[str, object] | None = None) -> bytes:
    """Return a table as the bytes of a file; numbers in full precision, missing ones empty, and null in JSON."""
    if format == "json":
        announce_infinite(frame, format)
        return (json.dumps(list(records(frame)), indent=1, ensure_ascii=False) + "\n").encode("utf-8")
    return render_frame(frame, format, parquet_entry(metadata or {}))


def provenance(record: Mapping[str, object]) -> bytes:
    """Return the record of what was computed, with the versions of the packages, as JSON."""
    versions = {"wordprob": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    text = json.dumps({**record, "versions": versions}, indent=1, ensure_ascii=False, default=str)
    return (text + "\n").encode("utf-8")


def checksums(paths: Iterable[str | Path]) -> dict[str, str]:
    """Return the SHA-256 of those inputs that are files."""
    return {str(path): sha256(Path(path)) for path in paths if Path(path).is_file()}


def images(name: str, figure: Figure) -> dict[str, bytes]:
    """Return a figure as PDF and PNG."""
    return {f"{name}.{ending}": image(figure, ending) for ending in ("pdf", "png")}


def image(figure: Figure, ending: str, dpi: int = 150) -> bytes:
    """Return a figure as a file's bytes; the same result gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context(FONT_TYPES):
        figure.savefig(buffer, format=ending, dpi=dpi, metadata=IMAGES[f".{ending}"])
    return buffer.getvalue()


def check_image(path: str | Path, force: bool = False) -> Path:
    """Raise, before any work is done, unless a figure can be written to ``path``."""
    formats = {ending[1:]: ending for ending in IMAGES}
    return check_output(path, None, force, formats)[0]


def write_image(path: Path, figure: Figure, dpi: int = 300) -> None:
    """Write a figure, whole or not at all; the ending picks the format."""
    data = image(figure, path.suffix.lower()[1:], dpi)
    write_whole(path, lambda temporary: temporary.write_bytes(data))
