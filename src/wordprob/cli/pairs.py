"""``wordprob pairs``: two sentences on each row, and how often the first is the likelier one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import models_options, read_source, scoring_options, some_options_of
from wordprob.cli.output import check_destination, keep_input, progress, summarise, table_output_options, warn
from wordprob.errors import OptionError
from wordprob.options import ModelOptions, ScoringOptions, TableLayout
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.formats import FORMATS, format_of

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("table", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--pair", help="The columns of the two sentences, the likelier one first: sentence_good,sentence_bad.")
@click.option("--by", help="Column that divides the pairs, such as phenomenon: an accuracy for each value too.")
@click.option(
    "--region", default="whole", show_default=True, help="Compare whole sentences, or the different words only."
)
@click.option("--target-columns", help="Compare the words that these two columns name instead.")
@scoring_options("extras", "readers", "estimators", "spellings", "tolerance", "max_open")
@some_options_of(TableLayout, "layout", "marks", "input_format", "sheet", "decimal", "encoding", "prefix")
@table_output_options
@click.option("--summary", type=click.Path(path_type=Path), help="Write the accuracies here (.tsv or .csv).")
@models_options()
@click.option("--shape", default="long", show_default=True, help="Several models: long (a column says which) or wide.")
def pairs(
    table: Path,
    pair: str | None,
    by: str | None,
    region: str,
    target_columns: str | None,
    scoring: ScoringOptions,
    layout: TableLayout,
    output: Path | None,
    format_: str | None,
    force: bool,
    escape_formulas: bool,
    summary: Path | None,
    models: list[ModelOptions],
    shape: str,
) -> None:
    """Compare the two sentences of minimal pairs.

    TABLE has two sentences on each row, as BLiMP has (.jsonl, .csv, .tsv, .parquet or .xlsx). What is printed: the
    accuracy, the share of pairs whose first sentence is less surprising, with a 95 % interval. With -o, the rows are
    written with both surprisals, their difference, and which sentence the model prefers.

    \b
    Examples:
      wordprob pairs blimp.jsonl
      wordprob pairs pairs.csv --pair good,bad --by phenomenon -o pairs_scored.csv --summary accuracy.tsv
      wordprob pairs pairs.csv --pair good,bad --region different --model gpt2 --model pythia-160m
    """
    from wordprob.analysis import pair_accuracy
    from wordprob.scoring.loading import check_models
    from wordprob.stimuli.pairs import read_pairs

    read = read_pairs(
        read_source(table)[0],
        pair,
        region=region,
        target_columns=target_columns,
        layout=_with_format(table, layout),
        words=str(scoring.words),
        name="standard input" if str(table) == "-" else str(table),
    )
    if by is not None:
        read.sheet.require(by)
    check_destination(output, None if output is None else format_, force, FORMATS)
    keep_input(table, output, summary)
    if summary is not None:
        check_output(summary, None, force, {"tsv": ".tsv", "csv": ".csv"})
    read.check_columns(check_models(models), shape)
    warn(list(filter(None, [read.guesses()])))
    with progress(2 * len(read.sheet) * len(models)) as advance:
        scored = read.score(models, shape="long", options=scoring, progress=advance)
    frame = scored.to_pandas()
    frame = frame.rename(
        columns={f"{layout.prefix}{name}": name for name in ("difference", "difference_naive", "model")}
    )
    accuracies = pair_accuracy.accuracy(frame, by, str(table))
    if output is not None:
        wide = scored if shape == "long" else read.reshaped(scored, shape)
        wide.write(output, format_, force, escape_formulas=escape_formulas)
        summarise(scored, output)
    if summary is not None:
        text = _text(accuracies, summary.suffix.lower() == ".csv")
        write_whole(summary, lambda path: path.write_text(text, encoding="utf-8"))
    _show(accuracies, pair_accuracy.caption(read.columns, scoring.unit), format_ if output is None else None)


def _with_format(table: Path, layout: TableLayout) -> TableLayout:
    """Return how the table is read: its format as specified, or as the ending of the file has it."""
    format_ = layout.input_format or (None if str(table) == "-" else format_of(table))
    if format_ is None:
        raise OptionError(f"cannot tell the format of {table}; specify --input-format: {', '.join(FORMATS)}.")
    return replace(layout, input_format=format_)


def _text(accuracies: pd.DataFrame, comma: bool) -> str:
    return str(accuracies.to_csv(sep="," if comma else "\t", index=False, lineterminator="\n"))


def _show(accuracies: pd.DataFrame, caption: str, format_: str | None) -> None:
    """Print the accuracies: for reading on a terminal, as TSV in a pipe."""
    if format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(accuracies.round(3).to_string(index=False, na_rep="—"))
        click.echo(caption)
    else:
        click.echo(_text(accuracies, format_ == "csv"), nl=False)
