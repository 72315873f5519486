"""Texts as a stream of records, from files of every kind, from any record on.

A record is one text and the name it goes by, or the reason why there is none: what cannot be read is no reason to stop.
"""

from wordprob.sources.discovery import HUB, Source, find, source_of
from wordprob.sources.formats import ReadOptions, Record, read

__all__ = ["HUB", "ReadOptions", "Record", "Source", "find", "read", "source_of"]
