"""``wordprob contrast``: two conditions of a scored table, compared by item."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wordprob.cli.output import keep_input, write_figure
from wordprob.tables.files import check_output, write_whole


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--item", default="item", show_default=True, help="Column of the items.")
@click.option("--condition", default="condition", show_default=True, help="Column of the conditions.")
@click.option("--levels", help="The two conditions, first less second: implausible,plausible.")
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
    from wordprob.cli.reading_times import check_extra

    check_extra()
    from wordprob.analysis import contrasts, outputs, text_plots
    from wordprob.analysis.tables import read_scored

    keep_input(table, options["output"], options["summary"], options["plot"])
    for path in (options["output"], options["summary"]):
        if path is not None:
            check_output(path, None, options["force"], {"tsv": ".tsv", "csv": ".csv"})
    figure = None if options["plot"] is None else outputs.check_image(options["plot"], options["force"])
    frame, about = read_scored(table, options["sheet"])
    result = contrasts.contrast(frame, _design(options), str(table))
    unit = str(about.get("unit", ""))
    if figure is not None:
        write_figure(figure, text_plots.contrast(result, unit=unit))
    for path, found in ((options["output"], result.items), (options["summary"], result.summary)):
        if path is not None:
            _write(path, found)
    _show(result, unit, options["format_"])


def _design(options: dict[str, Any]) -> Any:
    from wordprob.analysis.contrasts import Design
    from wordprob.analysis.tables import pair

    where = dict(map(pair, options["where"]))
    if options["region"] is not None:
        where[options["region_column"]] = options["region"]
    levels = [part.strip() for part in options["levels"].split(",")] if options["levels"] else []
    return Design(options["item"], options["condition"], levels, where, options["values"], options["combine"])


def _write(path: Path, found: Any) -> None:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    text = found.to_csv(sep=separator, index=False, lineterminator="\n")
    write_whole(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def _show(result: Any, unit: str, format_: str | None) -> None:
    """Print the tests, and say which items were left out."""
    from wordprob.analysis.contrasts import caption

    if format_ == "table" or (format_ is None and sys.stdout.isatty()):
        shown = result.summary.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)).T
        click.echo(shown.to_string(header=False))
        click.echo(caption(result, unit))
    else:
        click.echo(result.summary.to_csv(sep="," if format_ == "csv" else "\t", index=False), nl=False)
    first = result.items["measure"].iloc[0]
    lost = result.items[(result.items["measure"] == first) & result.items["difference"].isna()]
    _say_missing(lost.iloc[:, lost.columns.get_loc("measure") + 1].tolist(), lost["note"].tolist())


def _say_missing(items: Sequence[object], notes: Sequence[str]) -> None:
    for item, note in zip(items, notes, strict=True):
        click.echo(f"wordprob: item {item} left out: {note}", err=True)
