"""A corpus cut into shards: contiguous ranges of records, found once, while the records stream by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from wordprob.errors import InputError
from wordprob.runs.settings import RunSettings
from wordprob.sources import ReadOptions, Record, Source, read


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of records, which may reach over several sources.

    Attributes
    ----------
    shard
        Its number.
    source, number, offset
        Where it begins: the source, how many of its records come before, and at which byte (0 where unknown).
    records, characters
        Its size.
    key
        Told from all its ids and texts; another text has another key.
    """

    shard: int
    source: int
    number: int
    offset: int
    records: int
    characters: int
    key: str

    def as_line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self)) + "\n"


class Key:
    """Sums up records in a short string."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=12)

    def add(self, record: Record) -> None:
        """Take a record in."""
        told = f"{len(record.id)}:{len(record.text)}:{record.id}{record.text}{record.problem}"
        self._hash.update(told.encode("utf-8", "surrogatepass"))

    def __str__(self) -> str:
        return self._hash.hexdigest()


def cut(
    sources: Sequence[Source], settings: RunSettings, seen: Callable[[Record], None] = lambda _: None
) -> Iterator[Shard]:
    """Yield the shards of a corpus; ``seen`` is shown every record."""
    count, shard = 0, _Open(0, 0, 0)
    for n, source in enumerate(sources):
        shard = shard if shard.records else _Open(n, 0, 0)
        for record, offset in read(source, settings.reading):
            seen(record)
            shard.add(record)
            if shard.records >= settings.shard_texts or shard.characters >= settings.shard_characters:
                yield shard.close(count)
                count, shard = count + 1, _Open(n, record.number, offset)
    if shard.records:
        yield shard.close(count)


class _Open:
    """A shard that still grows."""

    def __init__(self, source: int, number: int, offset: int) -> None:
        self._begin = (source, number, offset)
        self.records = self.characters = 0
        self._key = Key()

    def add(self, record: Record) -> None:
        self.records += 1
        self.characters += len(record.text)
        self._key.add(record)

    def close(self, shard: int) -> Shard:
        return Shard(shard, *self._begin, self.records, self.characters, str(self._key))


class Cursor:
    """Reads the records of shards, and reads on from where it stands when the next shard lies ahead.

    What is compressed can only be read from its beginning; a worker that is given shards in order reads it once.
    """

    def __init__(self, sources: Sequence[Source], how: ReadOptions) -> None:
        self._sources, self._how = sources, how
        self._source, self._number = -1, 0
        self._records: Iterator[tuple[Record, int]] = iter(())

    def take(self, shard: Shard) -> list[Record]:
        """Return the records of a shard, or say that the corpus is no longer what it was."""
        self._go(shard)
        found = [record for _, record in zip(range(shard.records), self._onwards(), strict=False)]
        key = Key()
        for record in found:
            key.add(record)
        if len(found) != shard.records or str(key) != shard.key:
            name = self._sources[shard.source].path
            raise InputError(
                f"{name} is not what it was when the run was planned (shard {shard.shard} differs). Put the old input "
                "back, or begin a new run in another folder."
            )
        return found

    def _go(self, shard: Shard) -> None:
        ahead = self._source == shard.source and self._number <= shard.number
        if ahead and (self._number == shard.number or not shard.offset):
            while self._number < shard.number and self._next() is not None:
                pass
        else:
            self._open(shard.source, shard.number, shard.offset)

    def _open(self, source: int, number: int = 0, offset: int = 0) -> None:
        self._source, self._number = source, number
        self._records = read(self._sources[source], self._how, number, offset)

    def _next(self) -> Record | None:
        place = next(self._records, None)
        if place is not None:
            self._number = place[0].number
        return None if place is None else place[0]

    def _onwards(self) -> Iterator[Record]:
        while True:
            if (record := self._next()) is not None:
                yield record
            elif self._source + 1 < len(self._sources):
                self._open(self._source + 1)
            else:
                return


def read_plan(lines: Iterable[str]) -> list[Shard]:
    """Read shards back from their lines."""
    return [Shard(**json.loads(line)) for line in lines]
