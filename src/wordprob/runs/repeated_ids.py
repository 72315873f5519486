"""Ids that several texts of a corpus share: found while the corpus is read, in eight bytes of memory for each text."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wordprob.sources import ReadOptions, Source, read

ID_HASH_BYTES = 8
MAX_EXAMPLES = 5
"""How many of the repeated ids are named."""


class RepeatedIds(NamedTuple):
    """How many texts share their id with another, and some of these ids."""

    texts: int = 0
    examples: Sequence[str] = ()


class IdHashes:
    """The hashes of all ids of a corpus.

    Examples
    --------
    >>> ids = IdHashes()
    >>> for text_id in ("a", "b", "a"):
    ...     ids.add(text_id)
    >>> ids.count_repeated(), ids.examples(["b", "a", "a"])
    (2, ['a'])
    """

    def __init__(self) -> None:
        self._hashes = array("Q")

    def add(self, text_id: str) -> None:
        """Add the id of a text."""
        self._hashes.append(_hash(text_id))

    def count_repeated(self) -> int:
        """Return how many texts share their id with another."""
        import numpy as np

        counts = np.unique(np.frombuffer(self._hashes, np.uint64), return_counts=True)[1]
        return int(counts[counts > 1].sum())

    def examples(self, text_ids: Iterable[str]) -> list[str]:
        """Return the first few ids, of those given, that several texts have."""
        import numpy as np

        hashes, counts = np.unique(np.frombuffer(self._hashes, np.uint64), return_counts=True)
        repeated = hashes[counts > 1]
        found: dict[str, None] = {}
        for text_id in text_ids:
            value = np.uint64(_hash(text_id))
            position = int(np.searchsorted(repeated, value))
            if position < len(repeated) and repeated[position] == value:
                found[text_id] = None
            if len(found) == min(MAX_EXAMPLES, len(repeated)):
                break
        return list(found)


def find_repeated_ids(hashes: IdHashes, sources: Sequence[Source], options: ReadOptions) -> RepeatedIds:
    """Return which ids are repeated; the corpus is read again, up to a few of them, only if there are any."""
    texts = hashes.count_repeated()
    if not texts:
        return RepeatedIds()
    text_ids = (record.id for source in sources for record, _ in read(source, options))
    return RepeatedIds(texts, hashes.examples(text_ids))


def _hash(text_id: str) -> int:
    data = text_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=ID_HASH_BYTES).digest())
