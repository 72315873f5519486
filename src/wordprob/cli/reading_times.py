"""``wordprob reading-times``: how much surprisal helps to predict reading times, and what the correction changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.messages import to_flags
from wordprob.cli.options import models_options, options_of, scoring_options
from wordprob.cli.output import keep_input
from wordprob.cli.studies import check_study_packages, progress_bars
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.studies import ReadingTimesOptions
from wordprob.tables.columns import check_shape
from wordprob.tables.files import FORMATS_WITH_JSON, check_output, is_stream

if TYPE_CHECKING:
    from wordprob.analysis.reading_time_results import ReadingTimesResult
    from wordprob.analysis.study_table import StudyTable


def _list_corpora(context: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        from wordprob import corpora

        click.echo(to_flags(corpora.describe(), context.command))
        context.exit()


@click.command()
@click.argument("tables", nargs=-1, type=click.Path(path_type=Path))
@click.option("--corpus", "corpora", multiple=True, help="A corpus by name; may be repeated.")
@click.option(
    "--list-corpora",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_corpora,
    help="List the corpora, with terms and citations, and stop.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the results.")
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    help="Write times, surprisals, lengths and frequencies here (.csv, .tsv, .parquet, .jsonl), for lmer in R.",
)
@click.option(
    "--shape", default="long", show_default=True, help="Several models in --table: long (a column says which) or wide."
)
@click.option("--force", is_flag=True, help="Replace results that exist.")
@options_of(ReadingTimesOptions, "options")
@models_options(default=())
@scoring_options("words", "unit", "extras", "estimators")
def reading_times(
    tables: tuple[Path, ...],
    corpora: tuple[str, ...],
    output: Path | None,
    table: Path | None,
    shape: str,
    force: bool,
    options: ReadingTimesOptions,
    models: list[ModelOptions],
    scoring: ScoringOptions,
) -> None:
    """Measure how much surprisal helps to predict reading times, naive and corrected.

    TABLES have a row for each word (or participant and word). With surprisals in them (surprisal, and surprisal_naive
    or surprisal_buggy) they are analysed as they are; a file called CORPUS-MODEL.tsv names both. With --model the
    words are scored first. With --table the joined words are written as well, or alone without -o.

    \b
    Examples:
      wordprob reading-times brown-gpt2-small.tsv --folds folds.tsv -o results
      wordprob reading-times --corpus provo --model smollm2-135m --model ./stories15M -o results
      wordprob reading-times --corpus provo-raw --model gpt2-small -o results
      wordprob reading-times --corpus meco --data-dir meco -o results
      wordprob reading-times study.csv --time-column rt --group-by text --participant subject \\
          --model gpt2-small -o results
      wordprob reading-times study.csv --time-column rt --group-by text --participant subject \\
          --model gpt2-small --table words.csv
    """
    if bool(tables) == bool(corpora):
        raise click.UsageError(
            "give either TABLES or --corpus, for example: wordprob reading-times --corpus provo -o results"
        )
    if output is None and table is None:
        raise click.UsageError("name a folder for the results with -o, or a file for the joined words with --table.")
    check_study_packages()
    from wordprob import studies
    from wordprob.analysis import outputs
    from wordprob.analysis.reading_time_results import ReadingTimesResult

    check_shape(shape)
    if table is not None:
        check_output(table, None, force, FORMATS_WITH_JSON, with_sidecar=True)
        for path in tables:
            keep_input(path, table)
    if output is None:
        with progress_bars() as bars:
            words = studies.reading_time_table(tables, corpora, models, options, scoring=scoring, **bars)
        _report_cleaning(words.metadata)
        _write_table(words, table, shape, force)
        return
    folder = outputs.check_folder(output, ReadingTimesResult.FILE_NAMES, force)
    with progress_bars() as bars:
        result = studies.reading_times(tables, corpora, models, options, scoring=scoring, **bars)
    result.write(folder, force)
    click.echo(result.markdown())
    _report_words_used(result)
    _write_table(result.words, table, shape, force)


def _write_table(words: StudyTable | None, path: Path | None, shape: str, force: bool) -> None:
    """Write the joined words, and print how R reads them."""
    if words is None or path is None:
        return
    words.write(path, shape, force)
    for line in words.missing():
        click.echo(line, err=True)
    if not is_stream(path):
        click.echo(f"{path} is ready for R:\n{words.r_code(path, shape)}", err=True)


def _report_cleaning(provenance: Any) -> None:
    """Say on standard error which times were dropped."""
    for name, counts in provenance["cleaning"].items():
        zeros = f", {counts['zero']} zeros {counts['zeros_are']}" if counts["zero"] else ""
        click.echo(f"{name}: {counts['times']} times{zeros}, {counts['outliers']} outliers dropped", err=True)


def _report_words_used(result: ReadingTimesResult) -> None:
    """Say on standard error which times and words were used, and what a user should know about the corpora."""
    provenance: Any = result.provenance
    _report_cleaning(provenance)
    for counts in provenance["datasets"]:
        unused = f"{counts['incomplete']} incomplete"
        if counts["without_fold"]:
            unused += f", {counts['without_fold']} in no fold"
        used = f"{counts['used']} of {counts['rows']} words used"
        click.echo(f"{counts['corpus']}, {counts['model']}: {used}; {unused}", err=True)
    for note in provenance.get("notes", ()):
        click.echo(f"note: {note}", err=True)
