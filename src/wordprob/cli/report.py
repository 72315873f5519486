"""``wordprob report``: scored words in colour, as one HTML file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write; by default FILE with the ending .html."
)
@click.option("--title", help="Heading of the report; by default the name of the file that was scored.")
@click.option(
    "--group-by",
    help="Columns that tell texts apart: item,condition; by default those used for scoring, or text_id.",
)
@click.option("--word-column", help="Column of the words; by default the one used for scoring.")
@click.option("--prefix", help="Prefix of the scored columns' names; by default the one used for scoring.")
@click.option("--outline", help="Words to outline, by a column and its value: region=critical.")
@click.option("--sheet", help="Sheet of an Excel file that has several.")
@click.option("--force", is_flag=True, help="Replace a report that exists.")
@click.option("--open", "open_", is_flag=True, help="Open the report in the browser.")
def report(
    file: Path,
    output: Path | None,
    title: str | None,
    group_by: str | None,
    word_column: str | None,
    prefix: str | None,
    outline: str | None,
    sheet: str | None,
    force: bool,
    open_: bool,
) -> None:
    """Show scored words in colour: one HTML file that needs no network.

    FILE is a table that wordprob score wrote (TSV, CSV, Parquet, JSON lines or Excel). If it has a column model,
    the report offers a choice of model.

    \b
    Examples:
      wordprob score stimuli.txt -o scored.tsv
      wordprob report scored.tsv -o report.html
      wordprob report scored.tsv -o experiment.html --group-by text_id --title "Experiment 1"
      wordprob report scored.csv -o regions.html --outline region=critical
    """
    import pandas as pd

    from wordprob.analysis.input_tables import pair, read_scored
    from wordprob.render.page import check_report_path, write_report
    from wordprob.scoring.results import WordTable

    target = check_report_path(output or file.with_suffix(".html"), force)
    groups = [name.strip() for name in (group_by or "").split(",") if name.strip()]
    frame, metadata = read_scored(file, sheet)
    table = WordTable(frame, pd.DataFrame(), {"unit": "", **metadata})
    write_report(
        table,
        target,
        force=force,
        title=title or _title(file, metadata),
        group_by=groups,
        word_column=word_column,
        prefix=prefix,
        outline=pair(outline) if outline else None,
    )
    if sys.stderr.isatty():
        click.echo(f"report: {target}", err=True)
    if open_:
        click.launch(str(target))


def _title(file: Path, metadata: Mapping[str, Any]) -> str:
    """Return the name of the file that was scored, where the metadata has it, or that of the scored file."""
    for key in ("input", "source"):
        name = Path(str(metadata.get(key) or ""))
        if name.suffix:
            return name.stem
    return file.stem
