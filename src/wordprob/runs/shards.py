"""A corpus cut into shards: contiguous ranges of records, found once, while the records are streamed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice

from wordprob.errors import InputError
from wordprob.runs.json_shapes import misfit
from wordprob.runs.settings import RunSettings
from wordprob.sources import ReadOptions, Record, Source, read


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of records, which may extend over several sources.

    Attributes
    ----------
    shard
        Its number.
    source, number, offset
        Where it begins: the source, how many of its records come before, and at which byte (0 where unknown).
    records, characters
        Its size.
    key
        A hash of all its ids and texts; another text has another key.
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


class ContentKey:
    """A hash of records."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=12)

    def add(self, record: Record) -> None:
        """Add a record; the lengths keep apart records that would read the same when joined."""
        content = f"{len(record.id)}:{len(record.text)}:{record.id}{record.text}{record.problem}"
        self._hash.update(content.encode("utf-8", "surrogatepass"))

    def __str__(self) -> str:
        return self._hash.hexdigest()


# --- making shards ---------------------------------------------------------------------------------------------------


def cut_into_shards(
    sources: Sequence[Source], settings: RunSettings, on_record: Callable[[Record], None] | None = None
) -> Iterator[Shard]:
    """Yield the shards of a corpus; ``on_record`` is called with every record."""
    corpus = settings.corpus
    count = 0
    growing = _GrowingShard(0, 0, 0)
    for index, source in enumerate(sources):
        if not growing.records:  # begin in this source, not at the end of the one before
            growing = _GrowingShard(index, 0, 0)
        for record, end_offset in read(source, settings.read_options):
            if on_record is not None:
                on_record(record)
            growing.add(record)
            if growing.records >= corpus.shard_texts or growing.characters >= corpus.shard_characters:
                yield growing.finish(count)
                count += 1
                growing = _GrowingShard(index, record.number, end_offset)
    if growing.records:
        yield growing.finish(count)


class _GrowingShard:
    """A shard to which records are still added."""

    def __init__(self, source: int, number: int, offset: int) -> None:
        self._source = source
        self._number = number
        self._offset = offset
        self._key = ContentKey()
        self.records = 0
        self.characters = 0

    def add(self, record: Record) -> None:
        self.records += 1
        self.characters += len(record.text)
        self._key.add(record)

    def finish(self, shard: int) -> Shard:
        key = str(self._key)
        return Shard(shard, self._source, self._number, self._offset, self.records, self.characters, key)


def plan_checksum(shards: Iterable[Shard]) -> str:
    """Return the SHA-256 of the lines of a plan."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(shard.as_line().encode())
    return digest.hexdigest()


def parse_plan(lines: Iterable[str]) -> list[Shard]:
    """Read shards back from their lines of JSON; raise ValueError if they are something else."""
    shape = {field.name: str if field.name == "key" else int for field in fields(Shard)}
    shards = []
    for number, line in enumerate(lines):
        try:
            value = json.loads(line)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        wrong = misfit(value, shape)
        if wrong or value["shard"] != number:
            raise ValueError(f"line {number + 1} is not that of shard {number}: {wrong or value['shard']}")
        shards.append(Shard(**{name: value[name] for name in shape}))
    return shards


# --- reading shards --------------------------------------------------------------------------------------------------


class ShardReader:
    """Reads the records of shards; continues from its position when the next shard lies ahead.

    A compressed file can only be read from its beginning; a worker that gets its shards in order reads it once.
    """

    def __init__(self, sources: Sequence[Source], options: ReadOptions) -> None:
        self._sources = sources
        self._options = options
        self._source = -1
        self._number = 0
        """How many records of the source have been read."""
        self._records: Iterator[tuple[Record, int]] = iter(())

    def read(self, shard: Shard) -> list[Record]:
        """Return the records of a shard; raise if the corpus is no longer what it was when the run was planned."""
        self._seek(shard)
        records = list(islice(self._remaining_records(), shard.records))
        key = ContentKey()
        for record in records:
            key.add(record)
        if len(records) != shard.records or str(key) != shard.key:
            raise InputError(
                f"{self._sources[shard.source].path} is not what it was when the run was planned (shard {shard.shard} "
                "differs). Restore the input, or begin a new run in another folder."
            )
        return records

    def _seek(self, shard: Shard) -> None:
        """Go to the beginning of a shard, by reading on where that is possible and its byte offset is not known."""
        is_ahead = self._source == shard.source and self._number <= shard.number
        if not is_ahead or (shard.offset and self._number != shard.number):
            self._open(shard.source, shard.number, shard.offset)
            return
        while self._number < shard.number and self._next_in_source() is not None:
            pass

    def _open(self, source: int, number: int = 0, offset: int = 0) -> None:
        self._source = source
        self._number = number
        self._records = read(self._sources[source], self._options, number, offset)

    def _next_in_source(self) -> Record | None:
        record, _ = next(self._records, (None, 0))
        if record is not None:
            self._number = record.number
        return record

    def _remaining_records(self) -> Iterator[Record]:
        """Yield the records from this position to the end of the last source."""
        while True:
            record = self._next_in_source()
            if record is not None:
                yield record
            elif self._source + 1 < len(self._sources):
                self._open(self._source + 1)
            else:
                return
