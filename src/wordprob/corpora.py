"""Corpora by name: where they are, under which terms, whom to cite, and how to read them.

Reading times come as the tables that Pimentel & Meister (2024) published, with the texts their models saw; MECO as
means published by Opedal et al. (2024). Files are fetched from a fixed commit, checked, and kept in the cache; a folder
of one's own does as well. Nothing is fetched whose checksum is unknown.
"""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wordprob.bytelevel import byte_alphabet
from wordprob.cache import cache_directory, sha256
from wordprob.errors import AlignmentError, DownloadError, InputError, OptionError, did_you_mean
from wordprob.table import write_whole

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes fetched and the bytes in all (0 if unknown)."""

AUTHORS = "https://raw.githubusercontent.com/tpimentelms/probability-of-a-word-experiments/0ab86f3/"
MECO_AT = "https://raw.githubusercontent.com/rycolab/context-reading-time/48687ac9a43356042eb9f573ef46bbfa8e73604f/"
PREDICTORS = ["len", "freq", "surp"]
THE_PAPER = "Pimentel & Meister (2024), How to Compute the Probability of a Word, EMNLP"


@dataclass(frozen=True)
class File:
    """A file of a corpus: its place in a folder, its address, and its SHA-256 (empty: never fetched)."""

    path: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class ReadingTimes:
    """A corpus, read.

    Attributes
    ----------
    texts
        The texts as the models saw them; their words, split at white space, are the rows.
    words
        ``text_id, word_id, word, time, word_len, freq`` (unigram surprisal, nats).
    scored
        The same rows with the surprisals that were published with them, nats, by model.
    notes
        What differs from the registered files.
    """

    texts: tuple[str, ...] = field(repr=False)
    words: pd.DataFrame = field(repr=False)
    scored: Mapping[str, pd.DataFrame] = field(repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """What is known of a corpus before it is read."""

    name: str
    title: str
    licence: str
    citation: str
    files: tuple[File, ...]
    loader: Callable[[Corpus, Mapping[str, Path]], ReadingTimes] = field(repr=False)
    folder: str = ""
    note: str = ""
    patterns: tuple[str, ...] = ()
    """Further files that a folder may hold."""


def names() -> list[str]:
    """Return the names of all corpora, and of groups of them."""
    return [*CORPORA, *GROUPS]


def find(name: str) -> list[Corpus]:
    """Return the corpus of that name, or all corpora of a group."""
    if name in GROUPS:
        return [CORPORA[member] for member in GROUPS[name]]
    if name not in CORPORA:
        raise OptionError(f"no corpus is called '{name}'. {did_you_mean(name, names())}")
    return [CORPORA[name]]


def load(name: str, data_dir: str | Path | None = None, progress: Progress | None = None) -> ReadingTimes:
    """Read a corpus, from a folder or from its public source.

    Parameters
    ----------
    name
        One of :func:`names`, but no group.
    data_dir
        A folder that holds its files; nothing is fetched then.
    progress
        Called while fetching.
    """
    [corpus] = find(name)
    paths = _local(corpus, Path(data_dir)) if data_dir is not None else _fetched(corpus, progress)
    found = corpus.loader(corpus, paths)
    notes = (*_differences(corpus, paths), *((corpus.note,) if corpus.note else ()))
    return ReadingTimes(found.texts, found.words, found.scored, (*found.notes, *notes))


# --- files ---------------------------------------------------------------------------------------------------------


def _local(corpus: Corpus, folder: Path) -> dict[str, Path]:
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


def _fetched(corpus: Corpus, progress: Progress | None) -> dict[str, Path]:
    return {file.path: fetch(corpus, file, progress) for file in corpus.files}


def fetch(corpus: Corpus, file: File, progress: Progress | None = None) -> Path:
    """Return a file of a corpus from the cache, fetching and checking it first if need be."""
    if not file.sha256:
        raise DownloadError(
            f"{corpus.name} is not fetched by itself ({corpus.licence}). Get {file.url or 'it from its owners'}, "
            f"put it into a folder as {file.path}, and name the folder with --data-dir."
        )
    path = cache_directory() / "corpora" / corpus.folder / file.path
    if path.is_file() and sha256(path) == file.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda aside: _download(corpus, file, aside, progress))
    return path


def _download(corpus: Corpus, file: File, aside: Path, progress: Progress | None) -> None:
    try:
        with urllib.request.urlopen(file.url, timeout=30) as answer, aside.open("wb") as out:
            size, done = int(answer.headers.get("Content-Length") or 0), 0
            while block := answer.read(1 << 16):
                out.write(block)
                done += len(block)
                if progress is not None:
                    progress(file.path, done, size)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise DownloadError(
            f"{corpus.name} could not be fetched from {file.url}: {getattr(error, 'reason', error)}. Offline? Copy its "
            f"files into a folder ({', '.join(f.path for f in corpus.files)}) and name it with --data-dir."
        ) from error
    if (got := sha256(aside)) != file.sha256:
        raise DownloadError(
            f"{file.url} is not what was registered: its SHA-256 is {got}, not {file.sha256}. Nothing was kept. "
            "Try again; if that does not help, get the file by hand and name its folder with --data-dir."
        )


def _differences(corpus: Corpus, paths: Mapping[str, Path]) -> list[str]:
    registered = {file.path: file.sha256 for file in corpus.files if file.sha256}
    changed = [name for name, path in paths.items() if name in registered and sha256(path) != registered[name]]
    return [f"{corpus.name}: {name} differs from the registered file" for name in changed]


# --- readers -------------------------------------------------------------------------------------------------------


def _paper_tables(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read the authors' tables: the words come from the texts, everything else from the tables."""
    text_path = paths.get(f"texts/{corpus.name}.txt")
    tables = {Path(name).stem.removeprefix(f"{corpus.name}-"): path for name, path in paths.items() if "merged" in name}
    if text_path is None or not tables:
        raise InputError(
            f"the folder has no {corpus.name}: there should be texts/{corpus.name}.txt and "
            f"merged/{corpus.name}-MODEL.tsv. See 'wordprob reading-times --help'."
        )
    texts = tuple(text_path.read_text(encoding="utf-8").split("\n"))
    texts = texts[:-1] if not texts[-1].strip() else texts
    scored = {model: _merged(path, texts) for model, path in tables.items()}
    columns = ["text_id", "word_id", "word", "time", "word_len", "freq"]
    return ReadingTimes(texts, next(iter(scored.values()))[columns], scored)


def _merged(path: Path, texts: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    table = pd.read_csv(
        path, sep="\t", index_col=0, float_precision="round_trip", keep_default_na=False, na_values=[""]
    )
    words = [word for text in texts for word in text.split()]
    given = [_from_bytes(str(word)) for word in table["word"]]
    wrong = [f"{a!r} for {b!r}" for a, b in zip(given, words, strict=False) if a != b]
    if wrong or len(given) != len(words):
        raise AlignmentError(
            f"{path} does not fit its texts: {len(given)} rows for {len(words)} words. {', '.join(wrong[:5])}"
        )
    columns = ["text_id", "word_id", "time", "word_len", "freq", "surprisal", "surprisal_buggy"]
    frame = table[columns].rename(columns={"surprisal_buggy": "surprisal_naive"}).reset_index(drop=True)
    return frame.assign(word=words)


def _from_bytes(word: str) -> str:
    """Undo the byte-level spelling in which a few words of the authors' tables were left (``Ãĳ`` for ``Ñ``)."""
    alphabet = byte_alphabet()
    if word.isascii() or any(letter not in alphabet for letter in word):
        return word
    try:
        return bytes(alphabet[letter] for letter in word).decode("utf-8")
    except UnicodeDecodeError:
        return word


def _meco(corpus: Corpus, paths: Mapping[str, Path]) -> ReadingTimes:
    """Read MECO means: gaze durations, wordfreq frequencies, and mGPT's surprisals in bits, summed over tokens."""
    import pandas as pd

    path = paths.get(corpus.files[0].path)
    if path is None:
        raise InputError(f"the folder has no {Path(corpus.files[0].path).name}, which {corpus.name} is read from.")
    missing = {name: ["", "NA"] for name in ("gaze_rt", "surp", "freq")}
    table = pd.read_csv(path, keep_default_na=False, na_values=missing)
    frame = pd.concat([_realigned(part) for _, part in table.groupby("trialid", sort=False)], ignore_index=True)
    words = pd.DataFrame(
        {
            "text_id": frame["trialid"],
            "word_id": frame["ianum"] - 1,
            "word": frame["ia"],
            "time": frame["gaze_rt"],
            "word_len": frame["len"].astype(float),
            "freq": [-math.log(p) if p > 0 else math.nan for p in frame["freq"]],
        }
    )
    # A first word of 0 bits was not scored.
    bits = frame["surp"].mask((frame["ianum"] == 1) & (frame["surp"] == 0))
    texts = tuple(" ".join(part) for _, part in words.groupby("text_id", sort=False)["word"])
    return ReadingTimes(texts, words, {"mGPT": words.assign(surprisal_naive=bits * math.log(2))})


def _realigned(text: pd.DataFrame) -> pd.DataFrame:
    """Put the predictors of a text back beside their words.

    In the published tables an empty word, or a skipped number, may leave all predictors after it one row too early.
    The lengths give it away: there the predictors are moved back, and what still does not fit its word is missing.
    """
    text = text.sort_values("ianum").reset_index(drop=True)
    blank, gap = text["ia"] == "", text["ianum"].diff() > 1
    for event in text.index[blank | gap]:
        late = text.index >= event
        moved = text[PREDICTORS].shift(1)
        until = text.index < min([e for e in text.index[blank | gap] if e > event], default=len(text))
        if _fit(text["ia"], moved["len"], late & until) > _fit(text["ia"], text["len"], late & until):
            # The predictors at a blank are the next word's; before a skipped number there are none.
            text.loc[late, PREDICTORS] = moved[late]
            text.loc[event, PREDICTORS] = math.nan
            text.loc[late, "ianum"] -= 1
    text.loc[text["ia"].str.len() != text["len"], PREDICTORS] = math.nan
    return text[~blank]


def _fit(words: pd.Series, lengths: pd.Series, where: pd.Series) -> int:
    return int((words.str.len() == lengths)[where].sum())


# --- the registry --------------------------------------------------------------------------------------------------


def _from_the_paper(name: str, title: str, licence: str, citation: str, note: str, sums: Mapping[str, str]) -> Corpus:
    def file(path: str, there: str) -> File:
        return File(path, AUTHORS + there, sums[path])

    tables = [f"{name}-{model}.tsv" for model in ("gpt2-small", "pythia-70m", "pythia-14b")]
    return Corpus(
        name=name,
        title=title,
        licence=licence,
        citation=f"{citation}; as published with {THE_PAPER}",
        files=(
            file(f"texts/{name}.txt", f"checkpoints/rt/text_rt_data/{name}.txt"),
            *(file(f"merged/{table}", f"checkpoints/rt/merged_data/{table}") for table in tables),
        ),
        loader=_paper_tables,
        folder="paper_reading_times",
        note=note,
        patterns=(f"merged/{name}-*.tsv",),
    )


def _meco_language(code: str, language: str) -> Corpus:
    return Corpus(
        name=f"meco-{code}",
        title=language,
        licence="no licence stated",
        citation="Siegelman et al. (2022), MECO; means and mGPT surprisals by Opedal et al. (2024)",
        files=(File(f"{code}.csv", f"{MECO_AT}merged_data_no_zero/{code}.csv"),),
        loader=_meco,
        folder="meco",
        note="MECO: naive surprisals only; predictors that stood beside the wrong word were moved back",
    )


_LANGUAGES = {"fi": "Finnish", "ge": "German", "gr": "Greek", "he": "Hebrew", "it": "Italian", "sp": "Spanish",
              "tr": "Turkish"}  # fmt: skip

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        _from_the_paper(
            "brown", "Brown", "tables MIT, the corpus's own terms", "Smith & Levy (2013)", "",
            {
                "texts/brown.txt": "7a201511b29eb54b0fa1b3f982c414c10338ac1a6559ced27434d6aa2c893bda",
                "merged/brown-gpt2-small.tsv": "d08441a50b0fbae187163250daf32ba23c4f2ea1a1282c367fc8a7466261ae28",
                "merged/brown-pythia-70m.tsv": "26779bb88fce9b91f3132f05b77cef4d52624c61a1b9964c7ab9c839401f7248",
                "merged/brown-pythia-14b.tsv": "756af76e567ee14a3f79e9b8075e8db97969ce96c376818a7ba34bbe5076ea62",
            },
        ),
        _from_the_paper(
            "natural_stories", "Natural Stories", "tables MIT, the corpus CC BY-NC-SA 4.0", "Futrell et al. (2018)",
            "Natural Stories: self-paced times of the original release, which its maintainers found misaligned by one "
            "word in May 2025; kept as in the paper",
            {
                "texts/natural_stories.txt": "04578a7187ec7edb779362f912df97befc74f7945c4d554902e2049041579da4",
                "merged/natural_stories-gpt2-small.tsv":
                    "a66f7ae10a5f1b342a2d55c7acc1360d9ba119c37db2d29a4be1573f1b84ad84",
                "merged/natural_stories-pythia-70m.tsv":
                    "ce42bd06343fafdd15b7b812545d42d08db734006b691fb1ba2336c1d3b5d6b3",
                "merged/natural_stories-pythia-14b.tsv":
                    "db8568a7638d7edb64e2f25a6708851cfc77a10d99d4649c1d3ec41ea649b9fa",
            },
        ),
        _from_the_paper(
            "provo", "Provo", "tables MIT, the corpus's own terms", "Luke & Christianson (2018)", "",
            {
                "texts/provo.txt": "6a651f03e7b667db68a42373c9c256aa1aec5995850b61a4a93fb6939215e5e7",
                "merged/provo-gpt2-small.tsv": "1b91ac02c4f03806dda4127d70f01a56b5f12dfda9f46fd25653a473270a7099",
                "merged/provo-pythia-70m.tsv": "efdb8607e6dc3925bfe51ab7349d1b1a49901744425023c3df16a81856774e92",
                "merged/provo-pythia-14b.tsv": "cfe8e4c48448873d183a2086fab6269f2be280b8d544d31f6b447400ab04ea11",
            },
        ),
        Corpus(
            "dundee", "Dundee", "licensed; ask its owners", "Kennedy, Hill & Pynte (2003)",
            (File("texts/dundee.txt"), File("merged/dundee-MODEL.tsv")), _paper_tables,
            patterns=("merged/dundee-*.tsv",),
        ),
        *(_meco_language(code, language) for code, language in _LANGUAGES.items()),
    )
}  # fmt: skip
"""Every corpus, by name."""

GROUPS = {
    "paper": ("brown", "natural_stories", "provo"),
    "meco": tuple(f"meco-{code}" for code in _LANGUAGES),
}
"""Several corpora under one name."""
