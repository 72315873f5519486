"""Texts as a stream of records, from files of every format, from any record on.

A record is one text and its name, or the reason why there is none: a record that cannot be read does not stop the rest.
"""

from wordprob.sources.discovery import HUB, Source, find, source_of
from wordprob.sources.readers import read
from wordprob.sources.records import ReadOptions, Record

__all__ = ["HUB", "ReadOptions", "Record", "Source", "find", "read", "source_of"]
