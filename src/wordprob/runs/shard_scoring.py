"""One shard, from records to finished files in memory: the work of one worker, whatever the engine.

Workers read and score; they write nothing. What they return is put into the run's folder by the one process that holds
its lock.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wordprob.errors import InputError, UnsupportedError, WordprobError
from wordprob.models.threads import limited_threads
from wordprob.runs.run_progress import ShardCallback
from wordprob.runs.settings import Execution, RunSettings
from wordprob.runs.shards import Shard, ShardReader
from wordprob.sources import Record, Source

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.scoring.results import WordTable
    from wordprob.scoring.scorer import Scorer

STRING_COLUMNS = frozenset({"text_id", "word", "note"})
"""Columns that hold text in every shard; the others hold numbers."""

REASON_CHARACTERS = 300
"""The longest reason that is kept of an error."""

DEVICE_FAULT = re.compile(
    r"\b(?:CUDA|HIP|cuDNN|NCCL|MPS|Triton)\b.*\b(?:error|out of memory)|CUBLAS_STATUS|CUDNN_STATUS|"
    r"out of memory|device-side assert",
    re.IGNORECASE | re.DOTALL,
)
"""How the message of an error reads that a device raised, and not a text."""

PROBE_TEXT = "the"
"""A text that every model can score; where it cannot be scored either, no other text is at fault."""


@dataclass(frozen=True)
class RunWork:
    """What every worker of a run must know.

    Attributes
    ----------
    settings, sources, execution
        What is scored, and how.
    model_name
        The name of the model as the user gave it, where the settings have the commit that it stands for.
    """

    settings: RunSettings
    sources: Sequence[Source]
    execution: Execution = field(default_factory=Execution)
    model_name: str = ""


@dataclass(frozen=True)
class ShardResult:
    """A finished shard: its files as bytes, and what is in them.

    Attributes
    ----------
    files
        The bytes of ``words``, ``texts`` and ``errors``; one that would be empty is left out.
    summary
        The shard's number, size and key, and counts of what came out; it goes into the shard's mark.
    metadata
        What the words were scored with.
    """

    files: Mapping[str, bytes]
    summary: Mapping[str, Any]
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class ShardOutcome:
    """What became of a shard: a result, a failure of this shard alone, or an error that stops the run."""

    shard: int
    result: ShardResult | None = None
    failure: str = ""
    fatal_error: WordprobError | None = None


@dataclass(frozen=True)
class RecordProblem:
    """Why a text has no scores: the kind of problem, as ``errors.jsonl`` names it, and the reason."""

    kind: str
    reason: str


class MachineFaultError(Exception):
    """A shard cannot be scored because of the machine, not of its texts; it may be tried again."""


ProblemsByIndex = dict[int, RecordProblem]
"""The problems of a shard, by the index of the record."""


class ShardScorer:
    """Scores shards with a model that is loaded once, for the first shard that has texts."""

    def __init__(self, work: RunWork) -> None:
        self._work = work
        self._reader = ShardReader(work.sources, work.settings.read_options)
        self._scorer: Scorer | None = None

    def attempt(self, shard: Shard, on_texts_done: ShardCallback | None = None) -> ShardOutcome:
        """Score a shard; errors become part of the outcome."""
        try:
            return ShardOutcome(shard.shard, self.score(shard, on_texts_done))
        except WordprobError as error:
            return ShardOutcome(shard.shard, fatal_error=error)
        except Exception as error:  # a shard may fail in any way; the others go on
            self._scorer = None  # whatever broke, the next attempt begins with a model that is loaded anew
            return ShardOutcome(shard.shard, failure=_describe(error))

    def score(self, shard: Shard, on_texts_done: ShardCallback | None = None) -> ShardResult:
        """Return the shard's files and summary."""
        start = time.perf_counter()
        records = self._reader.read(shard)
        unreadable = self._inspect_all(records)
        self._stop_if_strict(records, unreadable)
        readable = [index for index in range(len(records)) if index not in unreadable]
        tables, unscorable = self._score_records(records, readable, on_texts_done)
        self._stop_if_strict(records, unscorable)
        errors = [_error_line(records[index], problem) for index, problem in sorted((unreadable | unscorable).items())]
        return make_result(shard, tables, errors, time.perf_counter() - start)

    # --- before the model ---

    def _inspect_all(self, records: Sequence[Record]) -> ProblemsByIndex:
        problems = {}
        for index, record in enumerate(records):
            problem = self._inspect(record)
            if problem is not None:
                problems[index] = problem
        return problems

    def _inspect(self, record: Record) -> RecordProblem | None:
        """Return what is wrong with a record before the model sees it."""
        max_characters = self._work.settings.corpus.max_characters
        if record.problem:
            return RecordProblem(record.problem, record.reason)
        if not record.text or record.text.isspace():
            return RecordProblem("empty", "the text is empty")
        if "\0" in record.text:
            index = record.text.index("\0")
            return RecordProblem("nul", f"character {index} is a NUL; the file is damaged, or not text")
        if len(record.text) > max_characters:
            length = len(record.text)
            reason = f"{length} characters, more than {max_characters}; raise max_characters to score it"
            return RecordProblem("too long", reason)
        return None

    def _stop_if_strict(self, records: Sequence[Record], problems: ProblemsByIndex) -> None:
        if self._work.execution.strict and problems:
            first = min(problems)
            raise InputError(f"{records[first].id}: {problems[first].reason}. The run is strict, so it stops here.")

    # --- scoring ---

    def _score_records(
        self, records: Sequence[Record], chosen: Sequence[int], on_texts_done: ShardCallback | None
    ) -> tuple[list[WordTable], ProblemsByIndex]:
        """Score the chosen records; where the scorer raises, try halves, until the texts at fault are found."""
        if not chosen:
            return [], {}
        scorer = self._open_scorer()
        try:
            return [self._score_together(scorer, [records[index] for index in chosen], on_texts_done)], {}
        except Exception as error:  # a tokeniser may raise anything
            if is_machine_fault(error):
                raise
            if len(chosen) == 1:
                self._check_machine(scorer, error)
                return [], {chosen[0]: RecordProblem("scoring", _describe(error))}
        middle = len(chosen) // 2
        first_tables, first_problems = self._score_records(records, chosen[:middle], None)
        second_tables, second_problems = self._score_records(records, chosen[middle:], None)
        return first_tables + second_tables, first_problems | second_problems

    def _check_machine(self, scorer: Scorer, error: Exception) -> None:
        """Raise if an error was not the fault of the text: a text that anything can score fails as well."""
        if isinstance(error, InputError | UnsupportedError):  # the scorer refused this text
            return
        try:
            self._score_together(scorer, [Record("probe", PROBE_TEXT, 1)], None)
        except Exception as other:
            raise MachineFaultError(
                f"{_describe(error)}; another text ('{PROBE_TEXT}') cannot be scored either"
            ) from other

    def _score_together(
        self, scorer: Scorer, records: Sequence[Record], on_texts_done: ShardCallback | None
    ) -> WordTable:
        scorer = scorer.with_options(self._work.settings.scoring, readers=self._work.execution.readers)
        scorer.forget_starts()  # a shard has the same values whichever process scores it, and after which others
        with limited_threads(self._work.settings.threads):
            return scorer.score(
                [record.text for record in records],
                ids=[record.id for record in records],
                progress=None if on_texts_done is None else lambda done, _: on_texts_done(done),
            )

    def _open_scorer(self) -> Scorer:
        if self._scorer is None:
            from wordprob.models.registry import model_label
            from wordprob.scoring.loading import load

            self._scorer = load(**self._work.settings.model.to_dict())
            if self._work.model_name:
                model = self._scorer.model
                model.metadata = {**model.metadata, "model": model_label(self._work.model_name)}
        return self._scorer


def is_machine_fault(error: BaseException) -> bool:
    """Return True for an error of memory, files or a device: the text is not at fault, and another attempt may succeed.

    Examples
    --------
    >>> is_machine_fault(RuntimeError("CUDA error: an illegal memory access was encountered"))
    True
    >>> is_machine_fault(RuntimeError("cannot tokenise this"))
    False
    """
    if isinstance(error, MemoryError | OSError):
        return True
    return isinstance(error, RuntimeError) and DEVICE_FAULT.search(str(error)) is not None


def _describe(error: BaseException) -> str:
    """Return an error in one line; with its type, unless it is one of ours, which speak for themselves."""
    text = " ".join(str(error).split())[:REASON_CHARACTERS]
    return (
        text if isinstance(error, WordprobError | MachineFaultError) else f"{type(error).__name__}: {text}".rstrip(": ")
    )


def _error_line(record: Record, problem: RecordProblem) -> dict[str, Any]:
    return {
        "text_id": record.id,
        "source": record.source,
        "record": record.number,
        "problem": problem.kind,
        "reason": problem.reason,
    }


# --- files -----------------------------------------------------------------------------------------------------------


def make_result(
    shard: Shard, tables: Sequence[WordTable], errors: Sequence[Mapping[str, Any]], seconds: float
) -> ShardResult:
    """Return the files of a shard and its summary.

    Parameters
    ----------
    shard
        The shard.
    tables
        Its scored words, in the order of its texts.
    errors
        A line of ``errors.jsonl`` for each text that could not be scored.
    seconds
        How long it took.
    """
    import pandas as pd

    words = texts = pd.DataFrame()
    metadata: dict[str, str] = {}
    if tables:
        words = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
        texts = pd.concat([table.texts() for table in tables], ignore_index=True)
        metadata = dict(tables[0].metadata)
    files = {name: to_parquet(frame, metadata) for name, frame in (("words", words), ("texts", texts)) if len(frame)}
    if errors:
        lines = [json.dumps(error, ensure_ascii=False) + "\n" for error in errors]
        files["errors"] = "".join(lines).encode("utf-8", "replace")
    size = {"shard": shard.shard, "key": shard.key, "records": shard.records, "characters": shard.characters}
    counts = _count(words, texts, [error["problem"] for error in errors])
    return ShardResult(files, {**size, **counts, "seconds": round(seconds, 3)}, metadata)


def _count(words: pd.DataFrame, texts: pd.DataFrame, problems: Sequence[str]) -> dict[str, Any]:
    """Return what the status of a run needs, so that it need not open the files."""
    measured = texts[texts["log_prob_words"].map(math.isfinite)] if len(texts) else texts
    return {
        "texts": len(texts),
        "words": len(words),
        "tokens": int(texts["n_tokens"].sum()) if len(texts) else 0,
        "without_value": int(words["surprisal"].isna().sum()) if len(words) else 0,
        "texts_left_out": int(texts["log_prob_words"].isna().sum()) if len(texts) else 0,
        "impossible_texts": int((texts["log_prob_words"] == -math.inf).sum()) if len(texts) else 0,
        "measured_words": int(measured["n_words"].sum()) if len(measured) else 0,
        "log_prob_words": float(measured["log_prob_words"].sum()) if len(measured) else 0.0,
        "errors": dict(Counter(problems)),
    }


def to_parquet(frame: pd.DataFrame, metadata: Mapping[str, str]) -> bytes:
    """Return a table as the bytes of a Parquet file whose column types are the same in every shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [pa.field(name, _column_type(frame[name].dtype.kind, name)) for name in frame.columns]
    table_metadata = {b"wordprob": json.dumps(dict(metadata), ensure_ascii=False).encode()}
    table = pa.Table.from_pandas(frame, pa.schema(fields), preserve_index=False).replace_schema_metadata(table_metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _column_type(dtype_kind: str, name: str) -> Any:
    import pyarrow as pa

    if name in STRING_COLUMNS:
        return pa.string()
    types = {"i": pa.int64(), "u": pa.int64(), "f": pa.float64(), "b": pa.bool_()}
    return types.get(dtype_kind, pa.string())
