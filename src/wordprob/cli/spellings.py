"""``wordprob spellings``: every way to write a word, with its probability."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import model_options, separator_option, some_scoring_options
from wordprob.cli.output import visible, write_figure
from wordprob.cli.studies import check_study_packages
from wordprob.errors import counted
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.tables.files import check_output, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wordprob.scoring.word_spellings import WordSpellings

TABLES = {"tsv": ".tsv", "csv": ".csv"}


@click.command()
@click.argument("context")
@click.argument("word")
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=1), help="How many spellings to list.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write all of them to a table: .tsv or .csv.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw them as a tree: .png, .pdf or .svg.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@separator_option
@some_scoring_options("words", "boundary", "unit", "tolerance", "max_open")
@model_options
def spellings(
    context: str,
    word: str,
    top: int,
    output: Path | None,
    plot: Path | None,
    force: bool,
    separator: str,
    scoring: ScoringOptions,
    model: ModelOptions,
) -> None:
    """List the spellings of WORD after CONTEXT, the most probable first.

    A model can write a word in many sequences of tokens; its tokenizer uses one. What the others add is small for
    common words and several bits for some rare ones. The spellings that were not expanded are bounded.

    \b
    Examples:
      wordprob spellings "the slowly advancing" bulwarks
      wordprob spellings "They found a" blicket --tolerance 0.001 --plot blicket.pdf
      wordprob spellings "" mark --model exact:leaky -o mark.tsv
    """
    if output is not None:
        check_output(output, None, force, TABLES)
    if plot is not None:
        check_study_packages()
        from wordprob.analysis import outputs

        plot = outputs.check_image(plot, force)

    from wordprob.scoring.capability_checks import check_search_before_loading
    from wordprob.scoring.loading import load
    from wordprob.scoring.word_spellings import check_one_word

    check_one_word(context, word, scoring, separator)
    check_search_before_loading(model)
    scorer = load(**model.to_dict()).with_options(scoring)
    found = scorer.spellings(context, word, separator=separator)
    name = str(scorer.model.metadata.get("model", ""))
    if output is not None:
        text = found.to_pandas().to_csv(sep="," if output.suffix == ".csv" else "\t", index=False, lineterminator="\n")
        write_whole(output, lambda path: path.write_text(text, encoding="utf-8"))
    if plot is not None:
        write_figure(plot, _tree(found, name))
    _print(found, top, name)
    if not found.is_within:
        click.echo(_why_too_wide(found, scoring))


def _tree(found: WordSpellings, model: str) -> Figure:
    from wordprob.analysis.spelling_tree import DrawnSpelling, plot_spelling_tree

    total = found.highest_probability
    drawn = [DrawnSpelling(each.tokens, each.probability / total, each.is_own) for each in found.spellings]
    title = f"{found.word} after “{found.context}” ({model})"
    return plot_spelling_tree(drawn, title, found.rest / total)


def _print(found: WordSpellings, top: int, model: str) -> None:
    """Print the spellings, what is left, and the totals."""
    unit = found.unit
    click.echo(f"{found.word} after '{found.context}' ({model}), surprisal in {unit}")
    click.echo(f"{'surprisal':>10}  {'share':>7}  spelling")
    total = found.highest_probability
    for each in found.spellings[:top]:
        own = "  (the tokeniser's own)" if each.is_own else ""
        share = each.probability / total
        tokens = "·".join(map(visible, each.tokens))
        click.echo(f"{found.surprisal_of(each.probability):10.3f}  {share:7.2%}  {tokens}{own}")
    others = found.spellings[top:]
    if others:
        probability = sum(each.probability for each in others)
        named = counted(len(others), "other spelling")
        click.echo(f"{found.surprisal_of(probability):10.3f}  {probability / total:7.2%}  {named}")
    looked = counted(found.opened, "beginning")
    click.echo(f"{'':10}  {found.rest / total:7.2%}  at most, in spellings not expanded ({looked} opened)")
    click.echo(f"own spelling   {found.surprisal:.3f} {unit}")
    click.echo(f"all spellings  {found.surprisal_all_low:.3f} to {found.surprisal_all:.3f} {unit}")


def _why_too_wide(found: WordSpellings, scoring: ScoringOptions) -> str:
    """Return why the interval is wider than it was asked for."""
    wider = f"The interval is wider than --tolerance {scoring.tolerance:g} (bits)"
    if found.opened >= scoring.max_open:
        return f"{wider}: --max-open stopped the search after {counted(scoring.max_open, 'beginning')}."
    if found.has_too_long:
        return f"{wider}: some spellings do not fit into the model's context. A shorter context leaves room for them."
    return f"{wider}: what may follow the word leaves open whether it has ended."
