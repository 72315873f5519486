"""Corpora by name: where they are, their licences and citations, and how to read them.

Reading times come as the tables that Pimentel & Meister (2024) published, with the texts their models saw, and as the
corpora's own releases, with a time for each participant and word (``provo-raw`` and so on). Files are fetched from a
fixed place, checked, and kept in the cache; a folder of the user's can be given instead. Nothing is fetched whose
checksum is unknown.
"""

from wordprob.corpora.corpus_files import fetch
from wordprob.corpora.releases import CORPORA, GROUPS, describe, find, load, names
from wordprob.corpora.types import Corpus, CorpusFile, DownloadProgress, ReadingTimes

__all__ = [
    "CORPORA",
    "GROUPS",
    "Corpus",
    "CorpusFile",
    "DownloadProgress",
    "ReadingTimes",
    "describe",
    "fetch",
    "find",
    "load",
    "names",
]
