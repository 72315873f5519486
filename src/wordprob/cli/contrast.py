"""``wordprob contrast``: conditions of a scored table, compared by item: two, or two factors with two levels each."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.output import keep_input, write_figure
from wordprob.cli.studies import check_study_packages
from wordprob.errors import OptionError
from wordprob.tables.files import check_output, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.contrasts import ContrastResult, Design
    from wordprob.analysis.factorial import FactorialDesign, FactorialResult


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--item", default="item", show_default=True, help="Column of the items.")
@click.option(
    "--condition", default="condition", show_default=True, help="Column of the conditions; two for a 2×2 design: a,b."
)
@click.option("--levels", help="The two conditions, first minus second: implausible,plausible. For 2×2: a1,a2;b1,b2.")
@click.option("--region", help="Take this region only.")
@click.option("--region-column", default="region", show_default=True, help="Column of the regions.")
@click.option("--where", multiple=True, help="COLUMN=VALUE: take these rows only; may be repeated.")
@click.option("--value", "values", multiple=True, help="Column to compare; surprisal and surprisal_naive by default.")
@click.option("--combine", help="Words of a region: sum, or mean for unequal lengths. Default: sum.")
@click.option("--sheet", help="Sheet of an Excel file that has several.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a row for each item here.")
@click.option("--summary", type=click.Path(path_type=Path), help="Write the means and tests here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the contrast here (.pdf, .png or .svg).")
@click.option("--format", "format_", type=click.Choice(["tsv", "csv", "table"]), help="How the tests are shown.")
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def contrast(table: Path, **options: Any) -> None:
    """Compare two conditions by item, or two factors.

    TABLE has been scored: a row for each word, region or text, with columns for item and condition. Surprisals of a
    text's rows are added up. What is shown: mean difference, its 95 % interval, a paired t-test and a permutation
    test, for each model there is. With two columns as --condition: both main effects and the interaction.

    \b
    Examples:
      wordprob contrast scored.csv --region critical
      wordprob contrast design.csv --condition gender,number --region critical --plot design.pdf
      wordprob contrast scored.csv --condition plausibility --levels implausible,plausible \\
          --region critical -o items.tsv --summary tests.tsv --plot contrast.pdf
    """
    check_study_packages()
    from wordprob.analysis import contrast_plots, contrasts, factorial, outputs
    from wordprob.analysis.input_tables import read_scored

    keep_input(table, options["output"], options["summary"], options["plot"])
    for path in (options["output"], options["summary"]):
        if path is not None:
            check_output(path, None, options["force"], {"tsv": ".tsv", "csv": ".csv"})
    figure = None if options["plot"] is None else outputs.check_image(options["plot"], options["force"])
    frame, metadata = read_scored(table, options["sheet"])
    unit = str(metadata.get("unit", ""))
    labels: dict[str, Any] = {"unit": unit, "model": "" if "model" in frame.columns else str(metadata.get("model", ""))}
    factors = _factors(options["condition"], list(frame.columns))
    result: ContrastResult | FactorialResult
    if factors is None:
        result = contrasts.contrast(frame, _design(options), str(table))
        drawing, caption = partial(contrast_plots.contrast, result), contrasts.caption(result, unit)
    else:
        result = factorial.factorial(frame, _factorial_design(options, factors), str(table))
        drawing, caption = partial(contrast_plots.factorial, result), factorial.caption(result, unit)
    if figure is not None:
        write_figure(figure, drawing(**labels))
    if options["output"] is not None:
        _write(options["output"], result.items)
    if options["summary"] is not None:
        _write(options["summary"], result.summary)
    _show(result, caption, options["format_"])


def _factors(condition: str, columns: list[str]) -> tuple[str, str] | None:
    """Return the columns of the two factors of a 2×2 design, or None for one column of conditions."""
    names = [name.strip() for name in condition.split(",")]
    if condition in columns or len(names) == 1:
        return None
    if len(names) != 2:
        raise OptionError(f"--condition names {len(names)} columns; one or two can be compared.")
    return names[0], names[1]


def _factorial_design(options: dict[str, Any], factors: tuple[str, str]) -> FactorialDesign:
    from wordprob.analysis.factorial import FactorialDesign

    one = _design({**options, "levels": None})
    levels = [part.split(",") for part in options["levels"].split(";")] if options["levels"] else [[], []]
    if len(levels) != 2:
        raise OptionError("--levels of two factors have a semicolon between them: 'match,mismatch;sg,pl'.")
    first, second = ([level.strip() for level in of_factor if level.strip()] for of_factor in levels)
    return FactorialDesign(factors, (first, second), one.item, one.where, one.measures, one.combine)


def _design(options: dict[str, Any]) -> Design:
    from wordprob.analysis.contrasts import Design
    from wordprob.analysis.input_tables import pair

    where = dict(map(pair, options["where"]))
    if options["region"] is not None:
        where[options["region_column"]] = options["region"]
    levels = [level.strip() for level in options["levels"].split(",")] if options["levels"] else []
    return Design(options["item"], options["condition"], levels, where, options["values"], options["combine"])


def _write(path: Path, table: pd.DataFrame) -> None:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    text = table.to_csv(sep=separator, index=False, lineterminator="\n")
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _show(result: ContrastResult | FactorialResult, caption: str, format_: str | None) -> None:
    """Print the tests, and on standard error the items that were left out."""
    if format_ == "table" or (format_ is None and sys.stdout.isatty()):
        shown = result.summary.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)).T
        click.echo(shown.to_string(header=False))
        click.echo(caption)
    else:
        click.echo(result.summary.to_csv(sep="," if format_ == "csv" else "\t", index=False), nl=False)
    _report_items_left_out(result)


def _report_items_left_out(result: ContrastResult | FactorialResult) -> None:
    # The same items are left out of every measure; those of the first one are enough.
    first_measure = result.items["measure"].iloc[0]
    left_out = result.items[(result.items["measure"] == first_measure) & (result.items["note"] != "")]
    for item, note in zip(left_out[result.provenance["item"]], left_out["note"], strict=True):
        click.echo(f"wordprob: item {item} left out: {note}", err=True)
