"""The corpora themselves, and how they are found and read by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wordprob.cache import sha256
from wordprob.corpora import brown, corpus_files, dundee, meco, natural_stories, pimentel_meister, provo
from wordprob.corpora.types import Corpus, CorpusFile, DownloadProgress, ReadingTimes
from wordprob.errors import OptionError, did_you_mean

GITHUB = "https://raw.githubusercontent.com/"
PAPER_URL = f"{GITHUB}tpimentelms/probability-of-a-word-experiments/0ab86f34fd8b011e686edaecedb6e366b9545dfd/"
NATURAL_STORIES_URL = f"{GITHUB}languageMIT/naturalstories/4700daad696e942f5aba23c957a7423d0de66612/"
MECO_URL = f"{GITHUB}rycolab/context-reading-time/48687ac9a43356042eb9f573ef46bbfa8e73604f/"
PAPER_CITATION = "Pimentel & Meister (2024), How to Compute the Probability of a Word, EMNLP"

SMITH = "Smith & Levy (2013), Cognition 128"
FUTRELL = "Futrell et al. (2021), Language Resources and Evaluation 55"
LUKE = "Luke & Christianson (2018), Behavior Research Methods 50"
KENNEDY = "Kennedy, Hill & Pynte (2003), 12th European Conference on Eye Movements"
SIEGELMAN = "Siegelman et al. (2022), Behavior Research Methods 54"


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


def load(name: str, data_dir: str | Path | None = None, progress: DownloadProgress | None = None) -> ReadingTimes:
    """Read a corpus, from a folder or from its public source.

    Parameters
    ----------
    name
        One of :func:`names`, except the groups.
    data_dir
        A folder that holds its files; if it is given, nothing is fetched.
    progress
        Called while fetching.
    """
    [corpus] = find(name)
    paths = (
        corpus_files.fetch_all(corpus, progress)
        if data_dir is None
        else corpus_files.local_files(corpus, Path(data_dir))
    )
    loaded = corpus.loader(corpus, paths)
    checksums = {name: sha256(path) for name, path in paths.items()}
    notes = [*loaded.notes, *corpus_files.notes_on_changed_files(corpus, checksums)]
    if corpus.note:
        notes.append(corpus.note)
    return replace(loaded, files=checksums, notes=tuple(notes))


def describe() -> str:
    """Return a page about all corpora: what they measure, how to get them, their terms and whom to cite."""
    names_of_description: dict[str, list[str]] = {}  # corpora with the same description share it
    for corpus in CORPORA.values():
        names_of_description.setdefault(_description(corpus), []).append(corpus.name)
    lines = [f"{', '.join(names)}\n{description}" for description, names in names_of_description.items()]
    lines += [f"{name} stands for {', '.join(members)}" for name, members in GROUPS.items()]
    return "\n".join(lines)


def _description(corpus: Corpus) -> str:
    times = "a time for each participant" if corpus.participants else "means, with surprisals"
    source = "fetched" if corpus.fetched else f"your own copy, with `data_dir`. {corpus.by_hand}"
    return f"    {corpus.measure}; {times}; {source}\n    terms: {corpus.licence}\n    cite {corpus.citation}"


# --- means, as published with the paper ----------------------------------------------------------------------------


def _from_the_paper(
    name: str, title: str, terms: tuple[str, str], measure: str, checksums: Mapping[str, str], note: str = ""
) -> Corpus:
    def file(path: str, path_in_repository: str) -> CorpusFile:
        return CorpusFile(path, PAPER_URL + path_in_repository, checksums[path])

    tables = [f"{name}-{model}.tsv" for model in ("gpt2-small", "pythia-70m", "pythia-14b")]
    return Corpus(
        name=name,
        title=title,
        licence=terms[0],
        citation=f"{terms[1]}; as published with {PAPER_CITATION}",
        files=(
            file(f"texts/{name}.txt", f"checkpoints/rt/text_rt_data/{name}.txt"),
            *(file(f"merged/{table}", f"checkpoints/rt/merged_data/{table}") for table in tables),
        ),
        loader=pimentel_meister.tables,
        measure=measure,
        folder="paper_reading_times",
        patterns=(f"merged/{name}-*.tsv",),
        note=note,
    )


PUBLISHED = (
    _from_the_paper(
        "brown", "Brown", ("tables MIT, the corpus's own terms", SMITH), "self-paced reading",
        {
            "texts/brown.txt": "7a201511b29eb54b0fa1b3f982c414c10338ac1a6559ced27434d6aa2c893bda",
            "merged/brown-gpt2-small.tsv": "d08441a50b0fbae187163250daf32ba23c4f2ea1a1282c367fc8a7466261ae28",
            "merged/brown-pythia-70m.tsv": "26779bb88fce9b91f3132f05b77cef4d52624c61a1b9964c7ab9c839401f7248",
            "merged/brown-pythia-14b.tsv": "756af76e567ee14a3f79e9b8075e8db97969ce96c376818a7ba34bbe5076ea62",
        },
    ),
    _from_the_paper(
        "natural_stories", "Natural Stories", ("tables MIT, the corpus CC BY-NC-SA 4.0", FUTRELL), "self-paced reading",
        {
            "texts/natural_stories.txt": "04578a7187ec7edb779362f912df97befc74f7945c4d554902e2049041579da4",
            "merged/natural_stories-gpt2-small.tsv": "a66f7ae10a5f1b342a2d55c7acc1360d9ba119c37db2d29a4be1573f1b84ad84",
            "merged/natural_stories-pythia-70m.tsv": "ce42bd06343fafdd15b7b812545d42d08db734006b691fb1ba2336c1d3b5d6b3",
            "merged/natural_stories-pythia-14b.tsv": "db8568a7638d7edb64e2f25a6708851cfc77a10d99d4649c1d3ec41ea649b9fa",
        },
        "Natural Stories: self-paced times of the original release, which its maintainers found misaligned by one "
        "word in May 2025; kept as in the paper",
    ),
    _from_the_paper(
        "provo", "Provo", ("tables MIT, the corpus CC BY 4.0", LUKE), "gaze duration, skips count as 0",
        {
            "texts/provo.txt": "6a651f03e7b667db68a42373c9c256aa1aec5995850b61a4a93fb6939215e5e7",
            "merged/provo-gpt2-small.tsv": "1b91ac02c4f03806dda4127d70f01a56b5f12dfda9f46fd25653a473270a7099",
            "merged/provo-pythia-70m.tsv": "efdb8607e6dc3925bfe51ab7349d1b1a49901744425023c3df16a81856774e92",
            "merged/provo-pythia-14b.tsv": "cfe8e4c48448873d183a2086fab6269f2be280b8d544d31f6b447400ab04ea11",
        },
    ),
)  # fmt: skip


# --- releases, with participants -----------------------------------------------------------------------------------

RELEASES = (
    Corpus(
        name="brown-raw", title="Brown", licence="terms not stated", citation=SMITH,
        files=(CorpusFile(brown.TIMES),), loader=brown.release, measure="self-paced reading", participants=True,
        by_hand="Ask its authors for brown_spr.csv (columns word, subject, text_id, text_pos, time) and put it into a "
                "folder",
        note="brown-raw: a dash set off by a space is a comma, and 'N. Y.' one word, as in the paper",
    ),
    Corpus(
        name="natural_stories-raw", title="Natural Stories", licence="CC BY-NC-SA 4.0", citation=FUTRELL,
        files=(
            # The checksum is the one that a public rerun of the paper recorded for this commit.
            CorpusFile(natural_stories.TIMES, f"{NATURAL_STORIES_URL}{natural_stories.TIMES}",
                 "208ee6c451f3827734d5b2de32b91e2cf3bd76aa177c412cb426373fa7d50b22"),
            PUBLISHED[1].files[0],
        ),
        loader=natural_stories.release, measure="self-paced reading", participants=True, folder="natural_stories",
        patterns=(natural_stories.TOKENS, f"naturalstories_RTS/{natural_stories.TOKENS}"),
        note="natural_stories-raw: as realigned by its maintainers in May 2025; the paper used times that stood one "
             "word off",
    ),
    Corpus(
        name="provo-raw", title="Provo", licence="CC BY 4.0", citation=LUKE,
        files=(
            # Files of osf.io/sjefs; the checksums are those that several public projects recorded for them.
            CorpusFile(provo.TIMES, "https://osf.io/download/a32be/",
                 "38aedcb29bc9171009916eb2bcc2375729f104a2a1005c64a563da94b611b9e7"),
            CorpusFile(provo.NORMS, "https://osf.io/download/e4a2m/",
                 "965fb72eab55f51e08fc1b5622638b85b1085976ff513e2a7bee4adbbd4e6489"),
        ),
        loader=provo.release, measure="gaze duration, skips are 0", participants=True, folder="provo",
    ),
    Corpus(
        name="dundee", title="Dundee", licence="licensed; ask its owners", citation=KENNEDY,
        files=(CorpusFile("sa01ma2p.dat"), CorpusFile("tx01wrdp.dat")),
        loader=dundee.release, measure="first-pass gaze duration, skips are 0", participants=True,
        patterns=("**/s[a-z][0-9]*ma2p.dat", "**/s[a-z][0-9]*ma2.dat", "**/tx[0-9]*wrdp.dat"),
        by_hand="Ask its owners for it, and put the fixations (sa01ma2p.dat …) and the texts (tx01wrdp.dat …) "
                "anywhere in a folder",
        note=f"dundee: participant {dundee.EXCLUDED_PARTICIPANT} is left out, as in the paper",
    ),
)  # fmt: skip


# --- seven languages -----------------------------------------------------------------------------------------------

LANGUAGES = {
    "fi": ("Finnish", "fi"), "ge": ("German", "de"), "gr": ("Greek", "el"), "he": ("Hebrew", "he"),
    "it": ("Italian", "it"), "sp": ("Spanish", "es"), "tr": ("Turkish", "tr"),
}  # fmt: skip
"""MECO's codes, the languages' names, and their codes elsewhere."""


def _meco_means(code: str, title: str, language: str) -> Corpus:
    url = f"{MECO_URL}merged_data_no_zero/{code}.csv"
    return Corpus(
        name=f"meco-{code}",
        title=title,
        licence="no licence stated for the means; MECO is CC BY 4.0",
        citation=f"{SIEGELMAN}; means and mGPT surprisals by Opedal et al. (2024)",
        files=(CorpusFile(f"{code}.csv", url),),
        loader=meco.means,
        measure="gaze duration without skips",
        language=language,
        folder="meco",
        by_hand=f"Get {code}.csv from {MECO_URL}merged_data_no_zero/ and put it into a folder",
        note="MECO: naive surprisals only; predictors in the row of a wrong word were moved back",
    )


def _meco_release(code: str, title: str, language: str) -> Corpus:
    return Corpus(
        name=f"meco-{code}-raw",
        title=title,
        licence="CC BY 4.0",
        citation=SIEGELMAN,
        files=(CorpusFile(meco.RELEASE, "https://osf.io/3527a/"),),
        loader=meco.release,
        measure="gaze duration, skips are 0",
        language=language,
        participants=True,
        folder="meco",
        patterns=meco.PATTERNS,
        by_hand=f"Get {meco.RELEASE} (release 1.0, version 1.2) from https://osf.io/3527a/ and put it, or what R's "
        "write.csv makes of it, into a folder",
    )


CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        *PUBLISHED,
        *RELEASES,
        *(_meco_means(code, *names) for code, names in LANGUAGES.items()),
        *(_meco_release(code, *names) for code, names in LANGUAGES.items()),
    )
}
"""Every corpus, by name."""

GROUPS = {
    "paper": tuple(corpus.name for corpus in PUBLISHED),
    "meco": tuple(f"meco-{code}" for code in LANGUAGES),
    "meco-raw": tuple(f"meco-{code}-raw" for code in LANGUAGES),
}
"""Several corpora under one name."""
