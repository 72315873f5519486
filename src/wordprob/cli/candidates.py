"""``wordprob candidates``: the surprisal of each of many words as the next one."""

from __future__ import annotations

from pathlib import Path

import click

from wordprob.cli.options import model_options, read_lines, read_text, scoring_options, separator_option, words_for
from wordprob.cli.output import check_destination, emit, output_options, progress
from wordprob.errors import InputError
from wordprob.options import ModelOptions, ScoringOptions


@click.command()
@click.option("--context", help="The text before the candidates.")
@click.option("--context-file", type=click.Path(path_type=Path), help="A file that holds the context.")
@click.option("--words-file", type=click.Path(path_type=Path), help="The candidates, one per line.")
@click.option("--candidate", "given", multiple=True, help="A candidate, instead of a file; may be repeated.")
@separator_option
@click.option("--share", is_flag=True, help="Add the probability divided by that of all candidates together.")
@click.option("--per-word", is_flag=True, help="Return a row for each word of each candidate.")
@scoring_options()
@output_options
@model_options
def candidates(
    context: str | None,
    context_file: Path | None,
    words_file: Path | None,
    given: tuple[str, ...],
    separator: str,
    share: bool,
    per_word: bool,
    scoring: ScoringOptions,
    output: Path | None,
    format_: str | None,
    force: bool,
    escape_formulas: bool,
    model: ModelOptions,
) -> None:
    """Compute the surprisal and the probability of candidates after a context.

    A candidate is a word or more. Each is scored as if it came next; the model runs over the context only once. The
    table has a row for each candidate. With --per-word it has one for each of their words: text_id is then the number
    of the candidate, and start and end are places in the candidate.

    \b
    Examples:
      wordprob candidates --context "She saw the" --candidate mark --candidate marker --share
      wordprob candidates --context "She saw the" --words-file lexicon.txt --rank -o next.tsv

    list:FILE gives the words of each candidate: one per line, with a blank line between candidates.
    """
    if (context is None) == (context_file is None):
        raise click.UsageError("give either --context or --context-file.")
    if (words_file is None) == (not given):
        raise click.UsageError("give either --words-file or --candidate.")
    if share and per_word:
        raise click.UsageError("--share belongs to candidates, not to their words; leave --per-word out.")
    before = context if context is not None else read_text(Path(str(context_file))).rstrip("\n")
    continuations = list(given) if words_file is None else _read_candidates(words_file)
    words = words_for(str(scoring.words), continuations)
    check_destination(output, format_, force)

    from wordprob.scoring.capability_checks import check_scoring_before_loading
    from wordprob.scoring.loading import load

    check_scoring_before_loading(model, scoring, after_contexts=True)
    scorer = load(**model.to_dict()).with_options(scoring)
    with progress(len(continuations)) as advance:
        if per_word:
            table = scorer.score_continuations(before, continuations, words, separator=separator, progress=advance)
        else:
            table = scorer.score_candidates(
                before, continuations, words, share=share, separator=separator, progress=advance
            )
    emit(table, output, format_, force, escape_formulas)


def _read_candidates(path: Path) -> list[str]:
    lines = [line for line in read_lines(path) if line.strip()]
    if not lines:
        raise InputError(f"{path} has no candidates; put one on each line.")
    return lines
