"""``wordprob check``: whether the words that can follow a context add up to one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import model_options, some_scoring_options
from wordprob.cli.output import visible
from wordprob.options import ModelOptions, ScoringOptions

if TYPE_CHECKING:
    from wordprob.studies.check import SumCheck


OTHERS = "spellings that the tokeniser never writes"
PATTERN_OTHERS = f"{OTHERS}, and texts that end after further marks"


@click.command()
@click.argument("context")
@some_scoring_options("words", "max_open")
@click.option("--top", default=5, show_default=True, help="How many words to list.", type=click.IntRange(min=0))
@model_options
def check(context: str, scoring: ScoringOptions, top: int, model: ModelOptions) -> None:
    """Add up the probabilities of all words that can follow CONTEXT.

    Words are found by going through the model's tokens, the most probable first; each is then scored. Together with the
    end of the text they must add up to one, apart from what was not expanded. Otherwise the exit code is 1: the
    probabilities of words are wrong for this model. The words of whitespace, punctuation and one class of characters,
    such as regex:[\\w']+, can be enumerated.

    \b
    Examples:
      wordprob check "She saw the" --model exact:bow
      wordprob check "She saw the mark" --words punctuation --max-open 500
    """
    from wordprob.core.words import define
    from wordprob.scoring.capability_checks import check_search_before_loading, enumerable_definition
    from wordprob.scoring.loading import load
    from wordprob.studies.check import check_sum

    enumerable_definition(define(scoring.words))
    check_search_before_loading(model)
    found = check_sum(load(**model.to_dict()).with_options(scoring), context)
    _print(found, top)
    if found.fault:
        sys.exit(1)


def _print(found: SumCheck, top: int) -> None:
    """Print the account, and a verdict."""
    for word, p in list(found.probabilities.items())[:top]:
        click.echo(_line(p, visible(word)))
    others = len(found.probabilities) - top
    if others > 0:
        click.echo(_line(sum(list(found.probabilities.values())[top:]), f"{others} other words"))
    click.echo(_line(found.end, "the end of the text"))
    click.echo(_line(found.total, "sum"))
    click.echo(_line(found.unopened, f"at most, not expanded ({found.opened} beginnings of words were)"))
    other_label = PATTERN_OTHERS if found.words.startswith("regex:") else OTHERS
    click.echo(_line(found.other_spellings, other_label))
    click.echo(_line(found.unexplained, "remainder"))
    verdict = f"This is a fault: {found.fault}." if found.fault else "Correct: everything adds up to one."
    click.echo(verdict)


def _line(p: float, what: str) -> str:
    """Return a line of the account."""
    return f"{round(p, 6) + 0.0:10.6f}  {what}"  # + 0.0: no minus before a zero
