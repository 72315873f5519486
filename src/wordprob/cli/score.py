"""``wordprob score``: texts in, a row for each word out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.options import model_options, read_lines, read_utf8
from wordprob.errors import InputError, OptionError
from wordprob.table import FORMATS, NUMBERS, UNITS, check_output, write_whole

if TYPE_CHECKING:
    from wordprob.table import WordTable


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--text", "texts", multiple=True, help="A text to score, instead of a file; may be repeated.")
@click.option("--whole-file", is_flag=True, help="Take the file as one text, not one text a line.")
@click.option(
    "-w",
    "--words",
    default="whitespace",
    show_default=True,
    help="What a word is: whitespace, punctuation, regex:PATTERN, or list:FILE.",
)
@click.option("-u", "--unit", type=click.Choice(list(UNITS)), default="bits", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write here; the ending picks the format.")
@click.option(
    "--format",
    "format_",
    type=click.Choice([*FORMATS, "table"]),
    help="Format, whatever the ending; table is for the screen.",
)
@click.option("--texts-output", type=click.Path(path_type=Path), help="Write a summary by text here (TSV).")
@click.option(
    "--min-context", type=click.IntRange(min=1), help="Tokens before each word in texts longer than the context."
)
@click.option("--force", is_flag=True, help="Replace output files that exist.")
@model_options
def score(
    file: Path | None,
    texts: tuple[str, ...],
    whole_file: bool,
    words: str,
    unit: str,
    output: Path | None,
    format_: str | None,
    texts_output: Path | None,
    min_context: int | None,
    force: bool,
    **model: Any,
) -> None:
    """Compute the surprisal of every word.

    FILE holds one text on each line. Each text is scored by itself. Without -o, a table is shown on a terminal
    and TSV goes into a pipe.

    \b
    Examples:
      wordprob score examples/abstract.txt -o surprisal.tsv
      wordprob score --text "She saw the mark." --words punctuation --unit nats
      wordprob score novel.txt --whole-file --model gpt2-small -o novel.parquet
      wordprob score stimuli.txt --words "regex:[\\w']+" | head
      wordprob score stimuli.txt --words list:words.txt -o surprisal.csv

    list:FILE gives the words themselves: one a line, a blank line between texts.
    """
    given = _texts(file, texts, whole_file)
    chosen = _words(words, given)
    for path in (output, texts_output):
        if path is not None:
            check_output(path, None if format_ == "table" else format_ if path is output else "tsv", force)
    if output is None and format_ == "parquet":
        raise OptionError("parquet cannot go to the screen or a pipe; name a file with -o.")
    if output is not None and format_ == "table":
        raise OptionError(f"the format table is for the screen; for a file use {', '.join(FORMATS)}.")

    from wordprob.loading import load

    table = _run(load(**model), given, chosen, unit, min_context)
    if output is not None:
        table.write(output, format_, force)
    elif format_ == "table" or (format_ is None and sys.stdout.isatty()):
        click.echo(pretty(table))
    else:
        click.echo(table.to_text(format_ or "tsv"), nl=False)
    if texts_output is not None:
        summary = table.texts().to_csv(sep="\t", index=False, lineterminator="\n")
        write_whole(texts_output, lambda aside: aside.write_text(summary, encoding="utf-8"))
    report(table, output)


def _texts(file: Path | None, texts: tuple[str, ...], whole_file: bool) -> list[str]:
    if (file is None) == (not texts):
        raise click.UsageError('give a FILE or --text, one of them: wordprob score --text "She saw the mark."')
    if file is None:
        return list(texts)
    return [read_utf8(file)] if whole_file else read_lines(file)


def _words(words: str, texts: list[str]) -> str | list[list[str]]:
    from wordprob.words import define

    if not words.startswith("list:"):
        define(words)
        return words
    blocks: list[list[str]] = [[]]
    for line in read_lines(Path(words.removeprefix("list:"))):
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    lists = iter(block for block in blocks if block)
    found = [next(lists, None) if text.strip() else [] for text in texts]
    if None in found or next(lists, None) is not None:
        raise InputError(
            f"{sum(bool(t.strip()) for t in texts)} texts that are not blank but {sum(map(bool, blocks))} lists of "
            f"words in {words.removeprefix('list:')}; put one word on each line and a blank line between texts."
        )
    return [block or [] for block in found]


def _run(scorer: Any, texts: list[str], words: str | list[list[str]], unit: str, min_context: int | None) -> WordTable:
    from tqdm import tqdm

    with tqdm(total=len(texts), unit="text", disable=not sys.stderr.isatty(), leave=False) as bar:
        return scorer.score(  # type: ignore[no-any-return]
            texts, words, unit=unit, min_context=min_context, progress=lambda done, _: bar.update(done - bar.n)
        )


def pretty(table: WordTable) -> str:
    """Return the table for a screen: three decimals, the unit in the header, notes only where there are some."""
    frame = table.to_pandas().drop(columns=["start", "end"])
    if not frame["note"].any():
        frame = frame.drop(columns="note")
    return str(
        frame.rename(columns={"surprisal": f"surprisal ({table.unit})"})
        .round(dict.fromkeys((*NUMBERS, f"surprisal ({table.unit})"), 3))
        .to_string(index=False, na_rep="—", col_space=4)
    )


def report(table: WordTable, output: Path | None) -> None:
    """Say on standard error what was done and what is missing; nothing in a pipe unless something is missing."""
    texts, missing = table.texts(), table.missing()
    if output is not None and sys.stderr.isatty():
        click.echo(f"{len(table)} words of {len(texts)} texts in {table.unit}: {output}", err=True)
    for note, count in sorted(missing.items(), key=lambda item: -item[1]):
        click.echo(f"wordprob: {count} of {len(table)} words have no value: {note}", err=True)
    worst = texts["conservation"].abs().max()
    if worst > 1e-3:
        click.echo(f"wordprob: words and tokens of a text differ by {worst:.2g} nats; please report this", err=True)
