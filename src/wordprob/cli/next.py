"""``wordprob next``: the words that could come next, with their probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import model_options
from wordprob.cli.output import progress, visible
from wordprob.errors import InputError
from wordprob.options import SPELLINGS, UNITS, ModelOptions
from wordprob.tables.files import check_output, write_whole

if TYPE_CHECKING:
    from wordprob.scoring.next_words import NextWords

TABLES = {"tsv": ".tsv", "csv": ".csv", "parquet": ".parquet"}


@click.command()
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--context", "given", multiple=True, help="A text so far, instead of a table; may be repeated.")
@click.option("--context-column", help="Column of the table that holds the texts so far.")
@click.option("--top", type=click.IntRange(min=1), help="How many words for each context. Default: 20.")
@click.option("--mass", type=float, help="List words until they and the end have this much, such as 0.9.")
@click.option(
    "-w", "--words", default="whitespace", show_default=True, help="What a word is: whitespace or punctuation."
)
@click.option("-u", "--unit", type=click.Choice(UNITS), default="bits", show_default=True, help="Unit of surprisal.")
@click.option(
    "--spellings",
    type=click.Choice(SPELLINGS),
    default="own",
    show_default=True,
    help="Spellings of a word that count: the tokenizer's own, or all.",
)
@click.option(
    "--max-open", default=1000, show_default=True, type=click.IntRange(min=1), help="Beginnings to look into, at most."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a table: .tsv, .csv or .parquet.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@model_options
def next(
    table: Path | None,
    given: tuple[str, ...],
    context_column: str | None,
    top: int | None,
    mass: float | None,
    words: str,
    unit: str,
    spellings: str,
    max_open: int,
    output: Path | None,
    force: bool,
    model: ModelOptions,
) -> None:
    """List the words that could come after a context, the most probable first.

    Beginnings of words are looked into, the most probable first. The words, the end of the text and everything that is
    not listed add up to one. A word is certain if none that was not found can be more probable.

    \b
    Examples:
      wordprob next --context "She saw the" --top 5
      wordprob next --context "She saw the" --mass 0.5 -o next.csv
      wordprob next --context "The otorhino" --spellings all --top 5
      wordprob next items.csv --context-column sentence_start --top 10 -o next.csv
    """
    contexts = _contexts(table, given, context_column)
    if output is not None:
        check_output(output, None, force, TABLES)

    from wordprob.scoring.capability_checks import check_search_before_loading
    from wordprob.scoring.loading import load
    from wordprob.scoring.next_words import check_next_word_options, next_words

    check_next_word_options(words, top, mass)
    check_search_before_loading(model)
    scorer = load(**model.to_dict())
    with progress(len(contexts)) as advance:
        found = next_words(
            scorer,
            contexts,
            words,
            top=top,
            mass=mass,
            max_open=max_open,
            unit=unit,
            spellings=spellings,
            progress=advance,
        )
    if output is None:
        for each in found:
            _print(each)
    else:
        _write(found, output)


def _contexts(table: Path | None, given: tuple[str, ...], context_column: str | None) -> list[str]:
    """Return the contexts, from the table or as they were given."""
    if (table is None) == (not given):
        raise click.UsageError('give either TABLE or --context: wordprob next --context "She saw the"')
    if table is None:
        return list(given)
    if context_column is None:
        raise click.UsageError("specify --context-column, the column of the table that holds the texts so far.")

    from wordprob.scoring.stimulus_reading import open_table

    sheet = open_table(table)
    sheet.require(context_column)
    contexts = []
    for row, cell in enumerate(sheet.cells(context_column)):
        if not isinstance(cell, str):
            raise InputError(f"{sheet.place(row)}: '{context_column}' holds no text but {cell!r}.")
        contexts.append(cell)
    return contexts


def _write(found: list[NextWords], output: Path) -> None:
    import pandas as pd

    frame = pd.concat([each.to_pandas().assign(context_id=n) for n, each in enumerate(found)], ignore_index=True)
    frame.insert(0, "context_id", frame.pop("context_id"))
    if output.suffix == ".parquet":
        write_whole(output, lambda path: frame.to_parquet(path, index=False))
        return
    text = frame.to_csv(sep="," if output.suffix == ".csv" else "\t", index=False, lineterminator="\n")
    write_whole(output, lambda path: path.write_text(text, encoding="utf-8"))


def _print(found: NextWords) -> None:
    """Print the words, the end and the rest."""
    click.echo(f"after '{found.context}'")
    click.echo(f"{'probability':>12}  {found.unit:>7}")
    for row in found.to_pandas().itertuples():
        named = {"end": "the end of the text", "rest": "everything else"}.get(str(row.kind), visible(str(row.word)))
        unsure = "" if row.certain else "  (a more probable word may have been missed)"
        click.echo(f"{row.probability:12.6f}  {row.surprisal:7.3f}  {named}{unsure}")
