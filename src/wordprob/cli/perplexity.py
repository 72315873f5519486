"""``wordprob perplexity``: corpus totals of one model or several, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import models_options, options_of, scoring_options
from wordprob.cli.output import check_destination, keep_input, warn
from wordprob.cli.studies import progress_bars
from wordprob.errors import counted
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.studies import PerplexityOptions
from wordprob.tables.files import FORMATS_WITH_JSON, STANDARD_OUTPUT, check_output

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.perplexity import PerplexityResult

SHOWN_RATES = ("bits_per_byte", "bits_per_character", "bits_per_word", "word_perplexity")


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File to write; its ending determines the format."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice([*FORMATS_WITH_JSON, "table"]),
    help="Format, whatever the ending; table is for the screen.",
)
@click.option("--texts-output", type=click.Path(path_type=Path), help="Write the totals of each text here.")
@click.option("--force", is_flag=True, help="Replace output files that exist.")
@options_of(PerplexityOptions, "options")
@scoring_options("unit", "extras", "estimators", "spellings", "tolerance", "max_open")
@models_options()
def perplexity(
    sources: tuple[str, ...],
    output: Path | None,
    format_: str | None,
    texts_output: Path | None,
    force: bool,
    options: PerplexityOptions,
    scoring: ScoringOptions,
    models: list[ModelOptions],
) -> None:
    """Compute bits per byte, character and word, and the perplexity, of all texts together.

    SOURCES are .txt files (a text on each line), .jsonl, .parquet, .csv or .tsv files, folders of them, or
    hf:NAME[:CONFIG][:SPLIT]. There is a row for each model and each way of adding up: words (corrected),
    words_and_end (the end of the text as well), and tokens (naive, as lm-evaluation-harness does). Without -o, the
    totals are printed as a table on a terminal, and as TSV in a pipe.

    \b
    Examples:
      wordprob perplexity texts.txt
      wordprob perplexity texts.txt --model gpt2-small --model pythia-160m -o totals.csv
      wordprob perplexity corpus.parquet --model pythia-160m@step1000 --model pythia-160m@step143000 -o totals.json
      wordprob perplexity novel.txt --whole-file --format table
    """
    check_destination(output, format_, force, FORMATS_WITH_JSON)
    if texts_output is not None:
        check_output(texts_output, None, force, FORMATS_WITH_JSON, with_sidecar=True)
    for source in sources:
        keep_input(Path(source), output, texts_output)
    from wordprob import studies
    from wordprob.analysis import outputs

    with progress_bars() as bars:
        result = studies.perplexity(sources, models, options, scoring=scoring, progress=bars["progress"])
    if output is not None and str(output) != STANDARD_OUTPUT:
        result.write(output, force, format_)
    else:
        _show(result.table, format_)
    if texts_output is not None:
        outputs.write_table(texts_output, result.texts, result.metadata, force)
    _report_missing(result)


def _show(table: pd.DataFrame, format_: str | None) -> None:
    """Print the totals: for reading on a terminal, as TSV in a pipe."""
    from wordprob.analysis import outputs

    if format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(_readable(table))
    else:
        click.echo(outputs.render(table, format_ or "tsv").decode("utf-8"), nl=False)


def _readable(table: pd.DataFrame) -> str:
    """Return the totals with rounded numbers, each rate with its interval."""
    shown = table[["model", "total", "n_texts", "n_words"]].copy()
    for name in SHOWN_RATES:
        columns = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        shown[name] = [_with_interval(*values) for values in columns]
    return str(shown.to_string(index=False))


def _with_interval(value: float, low: float, high: float) -> str:
    if value != value:  # not a number
        return "—"
    interval = "" if low != low else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.4g}{interval}"


def _report_missing(result: PerplexityResult) -> None:
    """Say on standard error which texts are not in a total."""
    n_blank = result.metadata["blank_texts"]
    if n_blank:
        warn([f"{counted(n_blank, 'blank text')} left out"])
    notes = result.table[["model", "total", "note"]].itertuples(index=False)
    warn([f"{model}, {total}: {note}" for model, total, note in notes if note])
