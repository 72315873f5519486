"""The files of a corpus: in a folder, in the cache, or fetched and checked."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from wordprob._version import __version__
from wordprob.cache import cache_directory, sha256
from wordprob.corpora.types import Corpus, CorpusFile, DownloadProgress
from wordprob.errors import DownloadError, InputError
from wordprob.tables.files import write_whole

TIMEOUT_SECONDS = 30
BLOCK_BYTES = 1 << 16
"""Bytes that are read at a time; progress is reported after each."""


def local_files(corpus: Corpus, folder: Path) -> dict[str, Path]:
    """Return the files of a corpus that a folder holds, by their paths in the registry."""
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    roots = [folder]
    if corpus.folder:
        roots.append(folder / corpus.folder)
    paths: dict[str, Path] = {}
    for file in corpus.files:
        path = _first_existing(roots, file.path)
        if path is not None:
            paths[file.path] = path
    for pattern in corpus.patterns:
        for root in roots:
            for path in sorted(root.glob(pattern)):
                paths[str(path.relative_to(root))] = path
    return paths


def _first_existing(roots: Sequence[Path], registered: str) -> Path | None:
    """Return where a file is: at its registered path in one of the folders, or directly in the folder."""
    for root in roots:
        for path in (root / registered, root / Path(registered).name):
            if path.is_file():
                return path
    return None


def required_paths(corpus: Corpus, paths: Mapping[str, Path], *names: str) -> list[Path]:
    """Return the paths of these files of a corpus; raise with the missing ones and where to get them."""
    missing = [name for name in names if name not in paths]
    if missing:
        addresses = [file.url for file in corpus.files if file.path in missing and file.url]
        source = corpus.by_hand or f"They are at {', '.join(addresses)}"
        raise InputError(f"the folder has no {', '.join(missing)}, which {corpus.name} is read from. {source}.")
    return [paths[name] for name in names]


def fetch_all(corpus: Corpus, progress: DownloadProgress | None) -> dict[str, Path]:
    """Return all files of a corpus, fetching those that the cache does not hold."""
    return {file.path: fetch(corpus, file, progress) for file in corpus.files}


def fetch(corpus: Corpus, file: CorpusFile, progress: DownloadProgress | None = None) -> Path:
    """Return a file of a corpus from the cache; fetch and check it first if it is not there."""
    if not file.sha256:
        source = corpus.by_hand or f"Get {file.url} and put it into a folder as {file.path}"
        raise DownloadError(
            f"{corpus.name} is not fetched automatically ({corpus.licence}). {source}; then specify that folder as "
            "`data_dir`."
        )
    path = cache_directory() / "corpora" / corpus.folder / file.path
    if path.is_file() and sha256(path) == file.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: _download(corpus, file, temporary, progress))
    return path


def _download(corpus: Corpus, file: CorpusFile, path: Path, progress: DownloadProgress | None) -> None:
    try:
        request = urllib.request.Request(file.url, headers={"User-Agent": f"wordprob/{__version__}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response, path.open("wb") as out:
            size = int(response.headers.get("Content-Length") or 0)
            done = 0
            while block := response.read(BLOCK_BYTES):
                out.write(block)
                done += len(block)
                if progress is not None:
                    progress(file.path, done, size)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise DownloadError(
            f"{corpus.name} could not be fetched from {file.url}: {getattr(error, 'reason', error)}. Offline? Copy its "
            f"files into a folder ({', '.join(f.path for f in corpus.files)}) and specify it as "
            "`data_dir`."
        ) from error
    checksum = sha256(path)
    if checksum != file.sha256:
        raise DownloadError(
            f"{file.url} is not what was registered: its SHA-256 is {checksum}, not {file.sha256}. Nothing was kept. "
            "Try again; if that does not help, get the file by hand and specify its folder as `data_dir`."
        )


def notes_on_changed_files(corpus: Corpus, checksums: Mapping[str, str]) -> list[str]:
    """Return a note on each file whose SHA-256 is not the registered one."""
    registered = {file.path: file.sha256 for file in corpus.files if file.sha256}
    changed = [name for name, checksum in checksums.items() if checksum != registered.get(name, checksum)]
    return [f"{corpus.name}: {name} differs from the registered file" for name in changed]
