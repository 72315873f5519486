"""``wordprob contrast``: two conditions of a scored table, compared by item."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.output import keep_input, write_figure
from wordprob.cli.studies import check_study_packages
from wordprob.tables.files import check_output, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.contrasts import ContrastResult, Design


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--item", default="item", show_default=True, help="Column of the items.")
@click.option("--condition", default="condition", show_default=True, help="Column of the conditions.")
@click.option("--levels", help="The two conditions, first minus second: implausible,plausible.")
@click.option("--region", help="Take this region only.")
@click.option("--region-column", default="region", show_default=True, help="Column of the regions.")
@click.option("--where", multiple=True, help="COLUMN=VALUE: take these rows only; may be repeated.")
@click.option("--value", "values", multiple=True, help="Column to compare; surprisal and surprisal_naive by default.")
@click.option("--combine", help="Rows of an item and condition without text_id: sum or mean.")
@click.option("--sheet", help="Sheet of an Excel file that has several.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a row for each item here.")
@click.option("--summary", type=click.Path(path_type=Path), help="Write the means and tests here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the contrast here (.pdf, .png or .svg).")
@click.option("--format", "format_", type=click.Choice(["tsv", "csv", "table"]), help="How the tests are shown.")
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def contrast(table: Path, **options: Any) -> None:
    """Compare two conditions by item.

    TABLE has been scored: a row for each word, region or text, with columns for item and condition. Surprisals of a
    text's rows are added up. What is shown: mean difference, its 95 % interval, a paired t-test and a permutation
    test, for each model there is.

    \b
    Examples:
      wordprob contrast scored.csv --region critical
      wordprob contrast scored.csv --condition plausibility --levels implausible,plausible \\
          --region critical -o items.tsv --summary tests.tsv --plot contrast.pdf
    """
    check_study_packages()
    from wordprob.analysis import contrasts, outputs, text_plots
    from wordprob.analysis.tables import read_scored

    keep_input(table, options["output"], options["summary"], options["plot"])
    for path in (options["output"], options["summary"]):
        if path is not None:
            check_output(path, None, options["force"], {"tsv": ".tsv", "csv": ".csv"})
    figure = None if options["plot"] is None else outputs.check_image(options["plot"], options["force"])
    frame, metadata = read_scored(table, options["sheet"])
    result = contrasts.contrast(frame, _design(options), str(table))
    unit = str(metadata.get("unit", ""))
    if figure is not None:
        write_figure(figure, text_plots.contrast(result, unit=unit))
    if options["output"] is not None:
        _write(options["output"], result.items)
    if options["summary"] is not None:
        _write(options["summary"], result.summary)
    _show(result, unit, options["format_"])


def _design(options: dict[str, Any]) -> Design:
    from wordprob.analysis.contrasts import Design
    from wordprob.analysis.tables import pair

    where = dict(map(pair, options["where"]))
    if options["region"] is not None:
        where[options["region_column"]] = options["region"]
    levels = [level.strip() for level in options["levels"].split(",")] if options["levels"] else []
    return Design(options["item"], options["condition"], levels, where, options["values"], options["combine"])


def _write(path: Path, table: pd.DataFrame) -> None:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    text = table.to_csv(sep=separator, index=False, lineterminator="\n")
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _show(result: ContrastResult, unit: str, format_: str | None) -> None:
    """Print the tests, and on standard error the items that were left out."""
    from wordprob.analysis.contrasts import caption

    if format_ == "table" or (format_ is None and sys.stdout.isatty()):
        shown = result.summary.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)).T
        click.echo(shown.to_string(header=False))
        click.echo(caption(result, unit))
    else:
        click.echo(result.summary.to_csv(sep="," if format_ == "csv" else "\t", index=False), nl=False)
    _report_items_left_out(result)


def _report_items_left_out(result: ContrastResult) -> None:
    # The same items are left out of every measure; those of the first one are enough.
    first_measure = result.items["measure"].iloc[0]
    left_out = result.items[(result.items["measure"] == first_measure) & result.items["difference"].isna()]
    for item, note in zip(left_out[result.provenance["item"]], left_out["note"], strict=True):
        click.echo(f"wordprob: item {item} left out: {note}", err=True)
