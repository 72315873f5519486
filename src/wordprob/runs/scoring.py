"""A shard from records to finished files in memory: the work of one worker, whatever the engine.

Workers read and score; they write nothing. What they return is put into the run's folder by the one process that holds
it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, WordprobError
from wordprob.runs.settings import RunSettings
from wordprob.runs.shards import Cursor, Shard
from wordprob.sources import Record, Source

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.scoring.scorer import Scorer
    from wordprob.tables.result import WordTable

STRINGS = frozenset({"text_id", "word", "note"})
"""Columns that hold text in every shard; the others hold numbers."""

ShardProgress = Callable[[int], None]


@dataclass(frozen=True)
class RunWork:
    """What every worker of a run must know."""

    settings: RunSettings
    sources: Sequence[Source]
    strict: bool = False


@dataclass(frozen=True)
class ShardResult:
    """A finished shard: its files as bytes, and what is in them."""

    files: Mapping[str, bytes]
    """By kind: ``words``, ``texts``, ``errors``; a kind that would be empty is left out."""
    facts: Mapping[str, Any]
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """What became of a shard: a part, a failure of this shard alone, or a reason to stop the run."""

    shard: int
    part: ShardResult | None = None
    failure: str = ""
    stop: WordprobError | None = None


@dataclass
class _Scored:
    tables: list[WordTable] = field(default_factory=list)
    problems: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By the place of the record in its shard: the kind of trouble, and the reason."""
    broken: int = 0
    """Texts on which the scorer broke, rather than said no."""


class Worker:
    """Scores shards with a model that is loaded once, when the first shard is there."""

    def __init__(self, work: RunWork) -> None:
        self._work = work
        self._cursor = Cursor(work.sources, work.settings.reading)
        self._scorer: Scorer | None = None

    def attempt(self, shard: Shard, tick: ShardProgress | None = None) -> Outcome:
        """Score a shard; what goes wrong becomes part of the outcome."""
        try:
            return Outcome(shard.shard, self.score(shard, tick))
        except WordprobError as error:
            return Outcome(shard.shard, stop=error)
        except Exception as error:  # a shard may fail in any way; the others go on
            return Outcome(shard.shard, failure=_describe(error))

    def score(self, shard: Shard, tick: ShardProgress | None = None) -> ShardResult:
        """Return the shard's part."""
        begin = time.perf_counter()
        records = self._cursor.take(shard)
        wrong = {n: found for n, record in enumerate(records) if (found := self._inspect(record)) is not None}
        self._be_strict(records, wrong)
        good = [n for n in range(len(records)) if n not in wrong]
        scored = self._score(records, good, tick)
        if scored.broken > 1 and len(scored.problems) == len(good):
            raise RuntimeError(f"none of its {len(good)} texts can be scored: {scored.problems[good[0]][1]}")
        self._be_strict(records, scored.problems)
        problems = {n: (records[n], *trouble) for n, trouble in sorted({**wrong, **scored.problems}.items())}
        return _part(shard, scored.tables, problems, time.perf_counter() - begin)

    def _inspect(self, record: Record) -> tuple[str, str] | None:
        """Say what is wrong with a record before it meets the model."""
        most = self._work.settings.max_characters
        if record.problem:
            return record.problem, record.reason
        if not record.text or record.text.isspace():
            return "empty", "the text is empty"
        if "\0" in record.text:
            return "nul", f"character {record.text.index(chr(0))} is a NUL; the file is damaged, or not text"
        if len(record.text) > most:
            count = len(record.text)
            return "too long", f"{count} characters, more than {most}; raise --max-characters to take it"
        return None

    def _be_strict(self, records: Sequence[Record], problems: Mapping[int, tuple[str, str]]) -> None:
        if self._work.strict and problems:
            first = min(problems)
            raise InputError(f"{records[first].id}: {problems[first][1]}. The run is strict, so it stops here.")

    def _score(self, records: Sequence[Record], chosen: Sequence[int], tick: ShardProgress | None) -> _Scored:
        """Score the chosen records; in halves where the scorer refuses, until the texts to blame are found."""
        if not chosen:
            return _Scored()
        scorer, settings = self._open(), self._work.settings
        try:
            table = scorer.score(
                [records[n].text for n in chosen],
                settings.words,
                unit=settings.unit,
                ids=[records[n].id for n in chosen],
                min_context=settings.min_context,
                progress=None if tick is None else lambda done, _: tick(done),
            )
            return _Scored([table])
        except (MemoryError, OSError):
            raise
        except Exception as error:  # a tokeniser may raise anything
            if len(chosen) == 1:
                return _Scored([], {chosen[0]: ("scoring", _describe(error))}, not isinstance(error, WordprobError))
        middle = len(chosen) // 2
        left, right = (self._score(records, part, None) for part in (chosen[:middle], chosen[middle:]))
        return _Scored(left.tables + right.tables, left.problems | right.problems, left.broken + right.broken)

    def _open(self) -> Scorer:
        if self._scorer is None:
            from wordprob.scoring.loading import load

            self._scorer = load(**self._work.settings.model_options)
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(self._work.settings.threads)
        return self._scorer


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, WordprobError) else f"{type(error).__name__}: {text}".rstrip(": ")


# --- files -----------------------------------------------------------------------------------------------------------

Problems = Mapping[int, tuple[Record, str, str]]


def _part(shard: Shard, tables: Sequence[WordTable], problems: Problems, seconds: float) -> ShardResult:
    import pandas as pd

    metadata = {**tables[0].metadata} if tables else {}
    words = pd.concat([table.to_pandas() for table in tables], ignore_index=True) if tables else pd.DataFrame()
    texts = pd.concat([table.texts() for table in tables], ignore_index=True) if tables else pd.DataFrame()
    files = {name: to_parquet(frame, metadata) for name, frame in (("words", words), ("texts", texts)) if len(frame)}
    if problems:
        lines = [json.dumps(_error(*problem), ensure_ascii=False) + "\n" for problem in problems.values()]
        files["errors"] = "".join(lines).encode("utf-8", "replace")
    facts = {"shard": shard.shard, "key": shard.key, "records": shard.records, "characters": shard.characters}
    return ShardResult(files, {**facts, **_facts(words, texts, problems), "seconds": round(seconds, 3)}, metadata)


def _error(record: Record, problem: str, reason: str) -> dict[str, Any]:
    where = {"source": record.source, "record": record.number}
    return {"text_id": record.id, **where, "problem": problem, "reason": reason}


def _facts(words: pd.DataFrame, texts: pd.DataFrame, problems: Problems) -> dict[str, Any]:
    """Return what a summary needs, so that it need not open the files."""
    known = texts[texts["log_prob_words"].map(math.isfinite)] if len(texts) else texts
    return {
        "texts": len(texts),
        "words": len(words),
        "tokens": int(texts["n_tokens"].sum()) if len(texts) else 0,
        "without_value": int(words["surprisal"].isna().sum()) if len(words) else 0,
        "measured_words": int(known["n_words"].sum()) if len(known) else 0,
        "log_prob_words": float(known["log_prob_words"].sum()) if len(known) else 0.0,
        "errors": dict(Counter(problem for _, problem, _ in problems.values())),
    }


def to_parquet(frame: pd.DataFrame, metadata: Mapping[str, str]) -> bytes:
    """Return a table as the bytes of a Parquet file whose column types are the same in every shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [pa.field(name, _type(frame[name].dtype.kind, name)) for name in frame.columns]
    kept = {b"wordprob": json.dumps(dict(metadata), ensure_ascii=False).encode()}
    table = pa.Table.from_pandas(frame, pa.schema(fields), preserve_index=False).replace_schema_metadata(kept)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _type(kind: str, name: str) -> Any:
    import pyarrow as pa

    if name in STRINGS or kind not in "iufb":
        return pa.string()
    return {"i": pa.int64(), "u": pa.int64(), "f": pa.float64(), "b": pa.bool_()}[kind]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()
