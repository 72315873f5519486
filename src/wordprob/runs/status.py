"""The status of a run, read from its folder alone."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wordprob.runs.atomic_io import lock_holder
from wordprob.runs.manifest import damaged_inputs, repeated_ids
from wordprob.runs.run_directory import COUNTS, RunDirectory
from wordprob.tables.schema import UNITS


@dataclass(frozen=True)
class Status:
    """The status of a run.

    Attributes
    ----------
    folder, model
        Which run.
    shards, done, failed
        Shards in all and done, and the reasons of those that failed, by number.
    records, texts, errors
        Texts in all, scored, and not scorable (by kind of problem).
    words, without_value, tokens
        What was scored.
    bits_per_word, perplexity
        Of all words of texts that have a probability; ``None`` before there are any. Infinite if a text is impossible.
    texts_left_out
        Texts that do not count there: without a word that has a value.
    impossible_texts
        Texts with probability zero.
    running
        The process that writes into the folder, if there is one: ``pid``, ``host``, ``since``.
    damaged_inputs
        Inputs that could not be read to their ends, with the reason, by name: what comes after is not in the run.
    texts_with_repeated_ids, repeated_ids
        How many texts share their id with another, and some of these ids.
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
    damaged_inputs: dict[str, str] = field(default_factory=dict)
    texts_with_repeated_ids: int = 0
    repeated_ids: Sequence[str] = ()
    texts_left_out: int = 0
    impossible_texts: int = 0

    @property
    def complete(self) -> bool:
        """Whether every shard is done."""
        return self.done == self.shards

    @property
    def perplexity(self) -> float | None:
        """2 to the power of ``bits_per_word``; infinite if that is too large for a number."""
        if self.bits_per_word is None:
            return None
        return 2.0**self.bits_per_word if self.bits_per_word < sys.float_info.max_exp else math.inf


def status(output: str | Path) -> Status:
    """Return the status of a run: what is done, what remains and what failed.

    Parameters
    ----------
    output
        The folder of the run.
    """
    directory = RunDirectory(output).require()
    manifest = directory.manifest()
    done = directory.done()
    errors: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    log_prob = 0.0
    for mark in done.values():
        errors.update(mark["errors"])
        totals.update({name: mark[name] for name in COUNTS})
        log_prob += mark["log_prob_words"]
    bits_per_word = -log_prob / totals["measured_words"] / UNITS["bits"] if totals["measured_words"] else None
    ids = repeated_ids(manifest)
    return Status(
        folder=directory.path,
        model=manifest["settings"]["model"],
        shards=manifest["plan"]["shards"],
        done=len(done),
        failed={shard: reason for shard, reason in directory.failed().items() if shard not in done},
        records=manifest["plan"]["records"],
        texts=totals["texts"],
        errors=dict(errors.most_common()),
        words=totals["words"],
        without_value=totals["without_value"],
        tokens=totals["tokens"],
        bits_per_word=math.inf if totals["impossible_texts"] else bits_per_word,
        running=lock_holder(directory.path),
        damaged_inputs=damaged_inputs(manifest),
        texts_with_repeated_ids=ids.texts,
        repeated_ids=ids.examples,
        texts_left_out=totals["texts_left_out"],
        impossible_texts=totals["impossible_texts"],
    )
