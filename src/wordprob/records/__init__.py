"""Texts as a stream of records, from files of every kind, from any record on.

A record is one text and the name it goes by, or the reason why there is none: what cannot be read is no reason to stop.
"""

from wordprob.records.formats import Reading, Record, read
from wordprob.records.sources import HUB, Source, find, source_of

__all__ = ["HUB", "Reading", "Record", "Source", "find", "read", "source_of"]
