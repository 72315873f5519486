"""The files of a corpus: in a folder, in the cache, or fetched and checked."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from wordprob._version import __version__
from wordprob.cache import cache_directory, sha256
from wordprob.corpora.types import Corpus, File, Progress
from wordprob.errors import DownloadError, InputError
from wordprob.tables.files import write_whole


def local(corpus: Corpus, folder: Path) -> dict[str, Path]:
    """Return the files of a corpus that a folder holds, by what the registry calls them."""
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    roots = [folder, *((folder / corpus.folder,) if corpus.folder else ())]
    paths: dict[str, Path] = {}
    for file in corpus.files:
        places = [root / place for root in roots for place in (file.path, Path(file.path).name)]
        there = next((place for place in places if place.is_file()), None)
        if there is not None:
            paths[file.path] = there
    for pattern in corpus.patterns:
        paths |= {str(path.relative_to(root)): path for root in roots for path in sorted(root.glob(pattern))}
    return paths


def needed(corpus: Corpus, paths: Mapping[str, Path], *names: str) -> list[Path]:
    """Return the paths of these files of a corpus, or say which are not there and where to get them."""
    if missing := [name for name in names if name not in paths]:
        addresses = [file.url for file in corpus.files if file.path in missing and file.url]
        source = corpus.by_hand or f"They are at {', '.join(addresses)}"
        raise InputError(f"the folder has no {', '.join(missing)}, which {corpus.name} is read from. {source}.")
    return [paths[name] for name in names]


def fetched(corpus: Corpus, progress: Progress | None) -> dict[str, Path]:
    """Return all files of a corpus, fetching those that the cache does not hold."""
    return {file.path: fetch(corpus, file, progress) for file in corpus.files}


def fetch(corpus: Corpus, file: File, progress: Progress | None = None) -> Path:
    """Return a file of a corpus from the cache, fetching and checking it first if need be."""
    if not file.sha256:
        source = corpus.by_hand or f"Get {file.url} and put it into a folder as {file.path}"
        raise DownloadError(
            f"{corpus.name} is not fetched by itself ({corpus.licence}). {source}; then name that folder: --data-dir."
        )
    path = cache_directory() / "corpora" / corpus.folder / file.path
    if path.is_file() and sha256(path) == file.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda aside: _download(corpus, file, aside, progress))
    return path


def _download(corpus: Corpus, file: File, aside: Path, progress: Progress | None) -> None:
    try:
        asked = urllib.request.Request(file.url, headers={"User-Agent": f"wordprob/{__version__}"})
        with urllib.request.urlopen(asked, timeout=30) as answer, aside.open("wb") as out:
            size, done = int(answer.headers.get("Content-Length") or 0), 0
            while block := answer.read(1 << 16):
                out.write(block)
                done += len(block)
                if progress is not None:
                    progress(file.path, done, size)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise DownloadError(
            f"{corpus.name} could not be fetched from {file.url}: {getattr(error, 'reason', error)}. Offline? Copy its "
            f"files into a folder ({', '.join(f.path for f in corpus.files)}) and name it with --data-dir."
        ) from error
    if (got := sha256(aside)) != file.sha256:
        raise DownloadError(
            f"{file.url} is not what was registered: its SHA-256 is {got}, not {file.sha256}. Nothing was kept. "
            "Try again; if that does not help, get the file by hand and name its folder with --data-dir."
        )


def differences(corpus: Corpus, found: Mapping[str, str]) -> list[str]:
    """Say which files, given by their SHA-256, are not the registered ones."""
    registered = {file.path: file.sha256 for file in corpus.files if file.sha256}
    changed = [name for name, got in found.items() if got != registered.get(name, got)]
    return [f"{corpus.name}: {name} differs from the registered file" for name in changed]
