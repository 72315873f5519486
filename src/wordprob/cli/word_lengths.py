"""``wordprob word-lengths``: what predicts the lengths of words, and what the correction changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wordprob.cli.options import models_options, options_of, scoring_options
from wordprob.cli.studies import check_study_packages, progress_bars
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.studies import WordLengthsOptions


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@click.option("--force", is_flag=True, help="Replace results that exist.")
@options_of(WordLengthsOptions, "options")
@models_options(default=())
@scoring_options("unit", "extras", "estimators")
def word_lengths(
    sources: tuple[str, ...],
    output: Path,
    force: bool,
    options: WordLengthsOptions,
    models: list[ModelOptions],
    scoring: ScoringOptions,
) -> None:
    """Correlate word lengths with frequency and with surprisal in context, naive and corrected.

    With --model, SOURCES are texts: .parquet, .jsonl or .txt files (one text a line), or hf:NAME[:CONFIG][:SPLIT].
    Without, they are tables of words scored before, folders of them, or folders of wordprob run; each goes to the model
    named in it.

    \b
    Examples:
      wordprob word-lengths corpus.parquet --frequencies other_part.txt --model smollm2-135m -o results
      wordprob word-lengths scored/*.parquet --frequencies other_part.txt -o results
      wordprob run corpus -o out --model pythia-70m && wordprob word-lengths out -o results
      wordprob word-lengths hf:google/wiki40b:en:test --max-texts 1000 --model pythia-70m -o results
    """
    check_study_packages()
    from wordprob import studies
    from wordprob.analysis import outputs
    from wordprob.analysis.word_length_results import WordLengthResult

    folder = outputs.check_folder(output, WordLengthResult.FILE_NAMES, force)
    with progress_bars() as bars:
        result = studies.word_lengths(sources, models, options, scoring=scoring, progress=bars["progress"])
    result.write(folder, force)
    click.echo(result.markdown())
    notes: Any = result.provenance.get("notes", ())
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if options.frequencies is None:
        click.echo("note: frequencies are those of the scored words; give other text with --frequencies", err=True)
