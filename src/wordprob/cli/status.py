"""``wordprob status``: show the status of a run."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.messages import to_flags
from wordprob.errors import counted

if TYPE_CHECKING:
    from wordprob.runs import Status

MAX_FAILURES_SHOWN = 5
MAX_BITS_IN_FULL = 30
"""Bits for each word above which the perplexity is shown with an exponent."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(folder: Path, as_json: bool) -> None:
    """Show the status of a run: what is done, what remains, what failed, and which process works on it.

    \b
    Examples:
      wordprob status out
      wordprob status out --json
    """
    from wordprob import runs

    run_status = runs.status(folder)
    if not as_json:
        click.echo(to_flags(describe(run_status)))
        return
    derived = {"complete": run_status.complete, "perplexity": run_status.perplexity}
    values = {**dataclasses.asdict(run_status), **derived}
    values = {name: "inf" if value == math.inf else value for name, value in values.items()}  # JSON has no infinity
    click.echo(json.dumps(values, indent=1, default=str, ensure_ascii=False))


def describe(status: Status) -> str:
    """Return the status of a run in a few lines."""
    remaining = status.shards - status.done - len(status.failed)
    not_scorable = sum(status.errors.values())
    lines = [
        f"run        {status.folder}, model {status.model}: {_condition(status)}",
        f"shards     {status.done:,} of {status.shards:,} done, {remaining:,} left, {len(status.failed):,} failed",
        f"texts      {status.texts:,} of {status.records:,} scored, {not_scorable:,} not scorable",
        f"words      {status.words:,} ({status.without_value:,} without a value), {status.tokens:,} tokens",
    ]
    if status.bits_per_word is not None:
        perplexity = (
            f"{status.perplexity:.4g}" if status.bits_per_word > MAX_BITS_IN_FULL else f"{status.perplexity:.1f}"
        )
        rates = f"{status.bits_per_word:.3f} bits a word, perplexity {perplexity}"
        lines.append(f"surprise   {rates}{_left_out(status)}")
    if not_scorable:
        counts = ", ".join(f"{count:,} {problem}" for problem, count in status.errors.items())
        lines.append(f"not scored {counts}: {_errors_path(status)}")
    for name, reason in list(status.damaged_inputs.items())[:MAX_FAILURES_SHOWN]:
        lines.append(f"damaged    {name}: {reason}")
    if status.texts_with_repeated_ids:
        examples = ", ".join(status.repeated_ids)
        lines.append(f"ids        {status.texts_with_repeated_ids:,} texts share their id with another: {examples}")
    for shard, reason in list(status.failed.items())[:MAX_FAILURES_SHOWN]:
        lines.append(f"failed     shard {shard}: {reason}")
    return "\n".join(lines)


def _left_out(status: Status) -> str:
    """Return which texts the rates do not count, and which make them infinite."""
    said = ""
    if status.texts_left_out:
        counted_texts = status.texts - status.texts_left_out
        said = f", over {counted_texts:,} of {status.texts:,} texts: the others have no probability"
    if status.impossible_texts:
        said += f"; {counted(status.impossible_texts, 'text')} with probability zero"
    return said


def _errors_path(status: Status) -> Path:
    """Return where the errors are listed: in one file once a run is complete, by shard before."""
    collected = status.folder / "errors.jsonl"
    return collected if status.complete and collected.exists() else status.folder / "errors"


def _condition(status: Status) -> str:
    if status.running is not None:
        return f"running (process {status.running['pid']} on {status.running['host']} since {status.running['since']})"
    if status.complete and status.damaged_inputs:
        return "all that could be read is scored, but not every input could be read to its end"
    if status.complete:
        return "complete"
    return f"stopped; resume it with wordprob run --resume {status.folder}"
