"""How a run stands, told from its folder alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordprob.runs.atomic_io import holder
from wordprob.runs.run_directory import RunDirectory
from wordprob.tables.schema import UNITS


@dataclass(frozen=True)
class Status:
    """How a run stands.

    Attributes
    ----------
    folder, model
        Which run.
    shards, done, failed
        Shards in all and done, and the reasons of those that failed, by number.
    records, texts, errors
        Texts in all, scored, and not scorable (by kind of trouble).
    words, without_value, tokens
        What was scored.
    bits_per_word, perplexity
        Of all words of texts that have a probability; ``None`` before there are any.
    running
        Who is writing into the folder, if anybody: ``pid``, ``host``, ``since``.
    """

    folder: Path
    model: str
    shards: int
    done: int
    failed: dict[int, str]
    records: int
    texts: int
    errors: dict[str, int]
    words: int
    without_value: int
    tokens: int
    bits_per_word: float | None
    running: dict[str, Any] | None

    @property
    def complete(self) -> bool:
        """Whether every shard is done."""
        return self.done == self.shards

    @property
    def perplexity(self) -> float | None:
        """2 to the power of ``bits_per_word``."""
        return None if self.bits_per_word is None else float(2.0 ** min(self.bits_per_word, 1000.0))


def status(output: str | Path) -> Status:
    """Say how a run stands: what is done, left and failed."""
    folder = RunDirectory(output).require()
    manifest, done = folder.manifest(), folder.done()
    errors: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    measured, log_prob = 0, 0.0
    for mark in done.values():
        errors.update(mark["errors"])
        sums.update({name: mark[name] for name in ("texts", "words", "without_value", "tokens")})
        measured, log_prob = measured + mark["measured_words"], log_prob + mark["log_prob_words"]
    return Status(
        folder=folder.path,
        model=manifest["settings"]["model"],
        shards=manifest["plan"]["shards"],
        done=len(done),
        failed={mark["shard"]: mark["reason"] for mark in folder.marks("failed") if mark["shard"] not in done},
        records=manifest["plan"]["records"],
        texts=sums["texts"],
        errors=dict(errors.most_common()),
        words=sums["words"],
        without_value=sums["without_value"],
        tokens=sums["tokens"],
        bits_per_word=-log_prob / measured / UNITS["bits"] if measured else None,
        running=holder(folder.path),
    )
