"""``wordprob score``: texts in, a row for each word out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wordprob.cli.options import model_options, read_lines, read_utf8
from wordprob.cli.output import check_destination, emit, output_options, progress
from wordprob.errors import InputError
from wordprob.table import check_output, write_whole


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
@output_options
@click.option("--texts-output", type=click.Path(path_type=Path), help="Write a summary by text here (TSV).")
@click.option(
    "--min-context", type=click.IntRange(min=1), help="Tokens before each word in texts longer than the context."
)
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
    check_destination(output, format_, force)
    if texts_output is not None:
        check_output(texts_output, "tsv", force)

    from wordprob.loading import load

    with progress(len(given)) as shown:
        table = load(**model).score(given, chosen, unit=unit, min_context=min_context, progress=shown)
    emit(table, output, format_, force)
    if texts_output is not None:
        summary = table.texts().to_csv(sep="\t", index=False, lineterminator="\n")
        write_whole(texts_output, lambda aside: aside.write_text(summary, encoding="utf-8"))


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
