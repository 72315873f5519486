"""``wordprob score``: texts in, a row for each word out; or a table in, the same rows out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.options import models_options, read_lines, read_source, read_utf8, scoring_options, table_options
from wordprob.cli.output import check_destination, emit, keep_input, progress, say, sheet_output_options
from wordprob.errors import InputError, OptionError, did_you_mean
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.formats import FORMATS, format_of

if TYPE_CHECKING:
    from wordprob.scoring.stimuli import Stimuli

INPUTS = ("text", *FORMATS)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--text", "texts", multiple=True, help="A text to score, instead of a file; may be repeated.")
@click.option("--whole-file", is_flag=True, help="Take the file as one text, not one text a line.")
@scoring_options("unit")
@table_options
@sheet_output_options
@click.option("--texts-output", type=click.Path(path_type=Path), help="Write a summary by text here (TSV).")
@models_options
@click.option("--shape", default="long", show_default=True, help="Several models: long (a column says which) or wide.")
def score(
    file: Path | None,
    texts: tuple[str, ...],
    whole_file: bool,
    scoring: ScoringOptions,
    unit: str,
    output: Path | None,
    format_: str | None,
    texts_output: Path | None,
    force: bool,
    models: list[ModelOptions],
    shape: str,
    **options: Any,
) -> None:
    """Compute the surprisal of every word.

    FILE is a text file with one text on each line, or a table (.csv, .tsv, .jsonl, .parquet, .xlsx); - is standard
    input. A table has a text on each row or a word on each row, and comes back with the same rows and new columns.
    Without -o, a table is shown on a terminal; into a pipe goes the format that came in, or TSV.

    \b
    Examples:
      wordprob score examples/abstract.txt -o surprisal.tsv
      wordprob score --text "She saw the mark." --words punctuation --unit nats
      wordprob score novel.txt --whole-file --model gpt2-small -o novel.parquet
      wordprob score stimuli.txt --words "regex:[\\w']+" | head
      wordprob score stimuli.txt --words list:words.txt -o surprisal.csv
      wordprob score stimuli.csv --text-column sentence -o sentences.csv
      wordprob score reading.xlsx --word-column word --group-by item,condition -o scored.xlsx
      wordprob score reading.csv --group-by item,condition --sum-by region -o regions.csv
      wordprob score stimuli.csv --model gpt2-small --model pythia-160m --shape wide -o wide.csv
      echo "She saw the mark." | wordprob score - --format csv

    list:FILE gives the words themselves: one a line, a blank line between texts.
    """
    stimuli = _stimuli(file, texts, whole_file, str(scoring.words), options)
    check_destination(output, format_, force, FORMATS)
    keep_input(file, output, texts_output)
    if texts_output is not None:
        check_output(texts_output, "tsv", force)

    from wordprob.scoring.stimuli import check_models

    names = [model.model for model in models]
    stimuli.check_columns(check_models(names), shape, extras=scoring.extras)
    say(stimuli.describe(), stimuli.warnings())
    with progress(len(stimuli.layout.texts) * len(models)) as shown:
        opening = {name: value for name, value in models[0].to_dict().items() if name != "model"}
        scored = stimuli.score(
            names,
            shape=shape,
            unit=unit,
            load_options=opening,
            extras=scoring.extras,
            min_context=scoring.min_context,
            readers=scoring.readers,
            progress=shown,
        )
    emit(scored, output, format_, force)
    if texts_output is not None:
        summary = scored.texts().to_csv(sep="\t", index=False, lineterminator="\n")
        write_whole(texts_output, lambda aside: aside.write_text(summary, encoding="utf-8"))


def _stimuli(
    file: Path | None, texts: tuple[str, ...], whole_file: bool, words: str, options: dict[str, Any]
) -> Stimuli:
    """Read what is to be scored, and check it as far as that goes without a model."""
    from wordprob.scoring.stimuli import read_stimuli, stimuli_from_texts

    if (file is None) == (not texts):
        raise click.UsageError('give a FILE or --text, one of them: wordprob score --text "She saw the mark."')
    format_ = _input_format(file, options["input_format"], whole_file)
    asked = {
        name: options[name]
        for name in ("sheet", "decimal", "text_column", "word_column", "group_by", "space_after", "per_word", "sum_by")
        if options[name]
    }
    if format_ == "text":
        if asked:
            given = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
            raise click.UsageError(f"{given}: for tables only; say --input-format csv if this is one.")
        found = list(texts) if file is None else [read_utf8(file)] if whole_file else read_lines(file)
        return stimuli_from_texts(found, _words(words, found), options["prefix"])
    if words.startswith("list:"):
        raise OptionError("--words list:FILE is for plain texts; a table gives its words with --word-column.")
    data, name = read_source(Path(str(file)))
    return read_stimuli(data, input_format=format_, name=name, words=words, prefix=options["prefix"], **asked)


def _input_format(file: Path | None, chosen: str | None, whole_file: bool) -> str:
    if chosen is not None and chosen not in INPUTS:
        raise OptionError(f"no format is called '{chosen}'. {did_you_mean(chosen, INPUTS)}")
    found = chosen or (format_of(file) if file is not None and str(file) != "-" else None) or "text"
    if whole_file and found != "text":
        if chosen is None:
            return "text"
        raise click.UsageError(f"--whole-file is for texts, not for {found}.")
    return found


def _words(words: str, texts: list[str]) -> str | list[list[str]]:
    from wordprob.core.words import define

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
