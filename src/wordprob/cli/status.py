"""``wordprob status``: how a run stands."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wordprob.runs import Status

SHOWN = 5


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(folder: Path, as_json: bool) -> None:
    """Say how a run stands: what is done, left and failed, and who works on it.

    \b
    Examples:
      wordprob status out
      wordprob status out --json
    """
    from wordprob.runs import status as ask

    found = ask(folder)
    if as_json:
        facts = {**dataclasses.asdict(found), "complete": found.complete, "perplexity": found.perplexity}
        click.echo(json.dumps(facts, indent=1, default=str, ensure_ascii=False))
    else:
        click.echo(describe(found))


def describe(found: Status) -> str:
    """Return how a run stands, in a few lines."""
    left = found.shards - found.done - len(found.failed)
    bad = sum(found.errors.values())
    lines = [
        f"run        {found.folder}, model {found.model}: {_condition(found)}",
        f"shards     {found.done:,} of {found.shards:,} done, {left:,} left, {len(found.failed):,} failed",
        f"texts      {found.texts:,} of {found.records:,} scored, {bad:,} not scorable",
        f"words      {found.words:,} ({found.without_value:,} without a value), {found.tokens:,} tokens",
    ]
    if found.bits_per_word is not None:
        lines.append(f"surprise   {found.bits_per_word:.3f} bits a word, perplexity {found.perplexity:.1f}")
    if bad:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.errors.items())
        listed = found.folder / "errors.jsonl"
        lines.append(f"not scored {kinds}: {listed if found.complete and listed.exists() else found.folder / 'errors'}")
    for shard, reason in list(found.failed.items())[:SHOWN]:
        lines.append(f"failed     shard {shard}: {reason}")
    return "\n".join(lines)


def _condition(found: Status) -> str:
    if found.running is not None:
        return f"running (process {found.running['pid']} on {found.running['host']} since {found.running['since']})"
    if found.complete:
        return "complete"
    return f"stopped; go on with wordprob run --resume {found.folder}"
