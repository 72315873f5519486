"""``wordprob verify``: compare the folder of a run with its checksums."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.messages import to_flags
from wordprob.cli.run import INCOMPLETE_EXIT_CODE

if TYPE_CHECKING:
    from wordprob.runs import Verification

MAX_PROBLEMS_SHOWN = 20


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all problems.")
def verify(folder: Path, as_json: bool) -> None:
    """Check that the folder of a run is what was written into it.

    Reads every file of every finished shard and compares checksums, plan, marks and counts. Nothing is changed, and
    no model is needed. The exit code is 0 if the run is complete and intact, 1 if something is damaged, and 3 if
    nothing is damaged but not all is there: shards that remain, or an input that could not be read to its end.

    \b
    Examples:
      wordprob verify out
      wordprob verify out --json
    """
    from wordprob import runs

    result = runs.verify(folder)
    if as_json:
        derived = {"intact": result.intact, "complete": result.complete}
        click.echo(json.dumps({**dataclasses.asdict(result), **derived}, indent=1, default=str, ensure_ascii=False))
    else:
        click.echo(to_flags(describe(result)))
    if not result.intact:
        sys.exit(1)
    if not result.complete or runs.status(folder).damaged_inputs:
        sys.exit(INCOMPLETE_EXIT_CODE)


def describe(result: Verification) -> str:
    """Return the result in a few lines."""
    lines = [
        f"run        {result.folder}: {_condition(result)}",
        f"shards     {result.done:,} of {result.shards:,} done and intact",
        f"files      {result.files:,} read, {result.bytes:,} bytes",
    ]
    lines += [f"note       {note}" for note in result.notes]
    lines += [f"problem    {problem}" for problem in result.problems[:MAX_PROBLEMS_SHOWN]]
    n_hidden = len(result.problems) - MAX_PROBLEMS_SHOWN
    if n_hidden > 0:
        lines.append(f"           … and {n_hidden:,} more; --json has them all")
    return "\n".join(lines)


def _condition(result: Verification) -> str:
    if not result.intact:
        return "damaged"
    return "intact and complete" if result.complete else "intact, but not complete"
