"""``wordprob candidates``: how likely each of many words is, next."""

from __future__ import annotations

from pathlib import Path

import click

from wordprob.cli.options import model_options, read_lines, read_utf8, scoring_options
from wordprob.cli.output import check_destination, emit, output_options, progress
from wordprob.errors import InputError
from wordprob.options import ModelOptions, ScoringOptions


@click.command()
@click.option("--context", help="What comes before the candidates.")
@click.option("--context-file", type=click.Path(path_type=Path), help="A file that holds the context.")
@click.option("--words-file", type=click.Path(path_type=Path), help="The candidates, one a line.")
@click.option("--candidate", "given", multiple=True, help="A candidate, instead of a file; may be repeated.")
@scoring_options("readers", "unit", "extras", "min_context")
@output_options
@model_options
def candidates(
    context: str | None,
    context_file: Path | None,
    words_file: Path | None,
    given: tuple[str, ...],
    scoring: ScoringOptions,
    unit: str,
    output: Path | None,
    format_: str | None,
    force: bool,
    model: ModelOptions,
) -> None:
    """Compute the surprisal of candidates after a context.

    Each candidate, a word or more, is scored as if it came next; the context is computed once for all. In the table,
    text_id is the candidate's number, and offsets are into the candidate.

    \b
    Examples:
      wordprob candidates --context "She saw the" --candidate mark --candidate marker
      wordprob candidates --context "She saw the" --words-file lexicon.txt -o next.tsv
    """
    if (context is None) == (context_file is None) or (words_file is None) == (not given):
        raise click.UsageError("give one of --context and --context-file, and one of --words-file and --candidate.")
    before = context if context is not None else read_utf8(Path(str(context_file))).rstrip("\n")
    found = list(given) if words_file is None else [line for line in read_lines(words_file) if line.strip()]
    if not found:
        raise InputError(f"{words_file} has no candidates; put one on each line.")
    check_destination(output, format_, force)

    from wordprob.scoring.loading import load

    with progress(len(found)) as shown:
        table = load(**model.to_dict()).score_continuations(
            before, found, str(scoring.words), unit=unit, progress=shown
        )
    emit(table, output, format_, force)
