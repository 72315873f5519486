"""``wordprob merge``: make one table from the shards of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from wordprob.tables.files import FORMATS


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write; its ending determines the format.",
)
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="Format, whatever the ending.")
@click.option(
    "--table",
    type=click.Choice(["words", "texts", "types"]),
    default="words",
    show_default=True,
    help="A row for each word, text (log p, perplexity) or word type (means).",
)
@click.option("--keep", default="all", show_default=True, help="For types: which words count, alphabetic or all.")
@click.option("--case", default="as-is", show_default=True, help="For types: lower makes The and the one; or as-is.")
@click.option("--min-count", default=1, show_default=True, help="For types: leave out words seen less often.")
@click.option("--partial", is_flag=True, help="Merge the shards that are done, though the run is not complete.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def merge(
    folder: Path,
    output: Path,
    format_: str | None,
    table: str,
    keep: str,
    case: str,
    min_count: int,
    partial: bool,
    force: bool,
) -> None:
    """Put the shards of a run together in one table. It needs no model, and little memory.

    \b
    Examples:
      wordprob merge out -o all.parquet
      wordprob merge out --table texts -o perplexity.tsv
      wordprob merge out --table types --case lower --min-count 5 -o types.tsv
    """
    from wordprob import runs
    from wordprob.analysis.word_types import WordFilter

    which = WordFilter(keep, case, min_count)
    runs.merge(folder, output, table, format=format_, partial=partial, force=force, which=which)
    if sys.stderr.isatty():
        click.echo(f"{table}: {output}", err=True)
