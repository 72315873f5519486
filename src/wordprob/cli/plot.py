"""``wordprob plot``: surprisal along a text, or by region and condition, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wordprob.cli.output import write_figure
from wordprob.cli.studies import check_study_packages
from wordprob.errors import OptionError


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Figure: .pdf, .png or .svg.")
@click.option("--text", "texts", multiple=True, help="Text to draw: its id, or item=3,condition=a; may be repeated.")
@click.option("--naive", is_flag=True, help="Draw the naive estimate as well.")
@click.option("--condition", help="Draw means by this column, or by two (a,b), instead of single texts.")
@click.option("--item", help="Column of the items, for within-item intervals; by default item, if there is one.")
@click.option("--combine", help="With --condition: sum of a region's words, or mean for unequal lengths. Default: sum.")
@click.option(
    "--region-column",
    help="Column of the regions, with --condition; by default region, if there is one, or the words by number.",
)
@click.option("--value", help="Column to draw; surprisal by default.")
@click.option("--word-column", help="Column of the words; as it was when scored.")
@click.option("--group-by", help="Columns that tell texts apart; as they were when scored, or text_id.")
@click.option("--sheet", help="Sheet of an Excel file that has several.")
@click.option("--width", type=click.FloatRange(min=1, max=100), help="Width in inches.")
@click.option("--height", type=click.FloatRange(min=1, max=100), help="Height in inches.")
@click.option("--force", is_flag=True, help="Replace a figure that exists.")
def plot(table: Path, **options: Any) -> None:
    """Draw surprisal word by word, or the means of conditions region by region.

    TABLE is a scored table with a row for each word or region. If it has several models, each has a line. Words
    without a value are gaps, marked below.

    \b
    Examples:
      wordprob plot surprisal.tsv --text 0 --naive -o text.pdf
      wordprob plot scored.csv --text item=3 -o item3.png
      wordprob plot scored.csv --condition condition --region-column region -o regions.pdf
      wordprob plot design.csv --condition gender,number --region-column region -o design.pdf
    """
    check_study_packages()
    from wordprob.analysis import outputs, region_plots, text_plots
    from wordprob.analysis.input_tables import read_scored
    from wordprob.analysis.plot_columns import columns_of

    path = outputs.check_image(options["output"], options["force"])
    frame, metadata = read_scored(table, options["sheet"])
    shared: dict[str, Any] = {
        "columns": columns_of(frame, metadata, options["word_column"], options["value"], _names(options["group_by"])),
        "unit": str(metadata.get("unit", "")),
        "size": (options["width"], options["height"]),
        "source": str(table),
        "model": "" if "model" in frame.columns else str(metadata.get("model", "")),
    }
    if options["condition"] is not None:
        if options["texts"] or options["naive"]:
            raise OptionError("--condition draws means over texts; leave --text and --naive out.")
        region = options["region_column"] or ("region" if "region" in frame.columns else metadata.get("sum_by"))
        item = options["item"] or ("item" if "item" in frame.columns else None)
        means = {"item": item, "combine": options["combine"]}
        figure = region_plots.by_region(frame, options["condition"], region, **means, **shared)
    else:
        figure = text_plots.plot_text(frame, texts=options["texts"], naive=options["naive"], **shared)
    write_figure(path, figure)


def _names(listed: str | None) -> list[str]:
    """Return the names in a list with commas."""
    return listed.split(",") if listed else []
