"""``wordprob score``: texts in, a row for each word out; or a table in, the same rows out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import (
    is_word_list,
    models_options,
    options_of,
    read_lines,
    read_source,
    read_text,
    scoring_options,
    words_for,
)
from wordprob.cli.output import check_destination, emit, inform, keep_input, progress, table_output_options, warn
from wordprob.errors import OptionError, counted, did_you_mean
from wordprob.options import ModelOptions, ScoringOptions, TableLayout
from wordprob.tables.files import check_output, write_whole
from wordprob.tables.formats import FORMATS, format_of

if TYPE_CHECKING:
    from wordprob.scoring.results import ScoredTable
    from wordprob.stimuli.stimuli import Stimuli

INPUT_FORMATS = ("text", *FORMATS)

FOR_TEXTS = ("input_format", "encoding", "prefix", "marks", "region_names", "predictors", "frequencies")
"""Options of tables that mean something for plain texts as well."""


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--text", "texts", multiple=True, help="A text to score, instead of a file; may be repeated.")
@click.option(
    "--texts",
    "divided_by",
    type=click.Choice(["line", "blank-line"]),
    default="line",
    show_default=True,
    help="What divides the texts of a plain file; with blank-line they are paragraphs.",
)
@click.option("--whole-file", is_flag=True, help="Take the file as one text instead of one text per line.")
@scoring_options()
@options_of(TableLayout, "layout")
@table_output_options
@click.option("--texts-output", type=click.Path(path_type=Path), help="Write a summary of each text here (TSV).")
@models_options()
@click.option("--shape", default="long", show_default=True, help="Several models: long (a column says which) or wide.")
def score(
    file: Path | None,
    texts: tuple[str, ...],
    divided_by: str,
    whole_file: bool,
    scoring: ScoringOptions,
    output: Path | None,
    format_: str | None,
    texts_output: Path | None,
    force: bool,
    escape_formulas: bool,
    models: list[ModelOptions],
    shape: str,
    layout: TableLayout,
) -> None:
    """Compute the surprisal of every word.

    FILE is a text file with one text on each line, or a table (.csv, .tsv, .jsonl, .parquet, .xlsx); - is standard
    input. A table has a text or a word on each row, and is returned with the same rows and new columns. Without -o, the
    result is printed as a table on a terminal; in a pipe it has the format of the input, or TSV.

    \b
    Examples:
      wordprob score examples/abstract.txt -o abstract.tsv
      wordprob score --text "She saw the mark." --words punctuation --unit nats
      wordprob score story.txt --texts blank-line -o paragraphs.tsv
      wordprob score novel.txt --whole-file --model gpt2-small -o novel.parquet
      wordprob score stimuli.txt --max-context 10words -o short-context.tsv
      wordprob score --text "She saw the mark." --chat-template user
      wordprob score stimuli.txt --words "regex:[\\w']+" | head
      wordprob score stimuli.txt --words list:words.txt -o surprisal.csv
      wordprob score stimuli.csv --text-column sentence -o sentences.csv
      wordprob score stimuli.csv --text-column sentence --target-column target -o targets.csv
      wordprob score examples/cloze.csv --context-column context --target-column expected,unexpected -o cloze.csv
      wordprob score examples/spans.csv --text-column text --start-column start --end-column end -o spans-scored.csv
      wordprob score --text "The puppet *fell* from the stage." --marks stars
      wordprob score reading.xlsx --word-column word --group-by item,condition -o scored.xlsx
      wordprob score reading.csv --group-by item,condition --sum-by region -o regions.csv
      wordprob score reading.csv --group-by item,condition --predictors -o predictors.csv
      wordprob score stimuli.csv --model gpt2-small --model pythia-160m --shape wide -o wide.csv
      echo "She saw the mark." | wordprob score - --format csv

    list:FILE gives the words themselves: one per line, with a blank line between texts.
    """
    if whole_file and divided_by == "blank-line":
        raise click.UsageError("--whole-file takes the file as one text; leave --texts blank-line out.")
    division = "file" if whole_file else divided_by
    stimuli = _read(file, texts, division, str(scoring.words), layout)
    check_destination(output, format_, force, FORMATS)
    keep_input(file, output, texts_output)
    if texts_output is not None:
        check_output(texts_output, "tsv", force)

    from wordprob.scoring.loading import check_models

    stimuli.check_columns(check_models(models), shape, scoring)
    announce(stimuli)
    with progress(len(stimuli.layout.texts) * len(models)) as advance:
        scored = stimuli.score(models, shape=shape, options=scoring, progress=advance)
    emit(scored, output, format_, force, escape_formulas)
    if stimuli.options.predictors:
        warn(_missing_frequencies(scored))
    if texts_output is not None:
        summary = scored.texts().to_csv(sep="\t", index=False, lineterminator="\n")
        write_whole(texts_output, lambda path: path.write_text(summary, encoding="utf-8"))


def _missing_frequencies(scored: ScoredTable) -> list[str]:
    """Return a warning if words have no frequency."""
    unknown = scored.words()["frequency"].isna()
    if not unknown.any():
        return []
    have = "has" if unknown.sum() == 1 else "have"
    source = scored.metadata["frequencies"]
    return [f"{unknown.sum()} of {counted(len(unknown), 'word')} {have} no frequency in {source}"]


def announce(stimuli: Stimuli) -> None:
    """Print what was guessed about a table, in a pipe too, and what may not be intended."""
    guesses = stimuli.guesses()
    if guesses:
        warn([guesses])
    else:
        inform(stimuli.describe())
    warn(stimuli.warnings())


def _read(file: Path | None, texts: tuple[str, ...], division: str, words: str, layout: TableLayout) -> Stimuli:
    """Read the texts or the table, and check them as far as that is possible without a model."""
    if (file is None) == (not texts):
        raise click.UsageError('give either FILE or --text: wordprob score --text "She saw the mark."')
    format_ = _input_format(file, layout.input_format, division == "file")
    if division == "blank-line" and (file is None or format_ != "text"):
        raise click.UsageError("--texts blank-line is for a file of plain text.")
    chosen = layout.changed()
    if "separator" in chosen and "context_column" not in chosen:
        raise click.UsageError("--separator stands between a context and a target; add --context-column.")
    if format_ != "text":
        return _read_table(Path(str(file)), words, replace(layout, input_format=format_))
    for_tables = [name for name in chosen if name not in FOR_TEXTS]
    if for_tables:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in for_tables)
        raise click.UsageError(f"{flags}: for tables only; add --input-format csv if this is one.")
    return _read_texts(file, texts, division, words, layout)


def _read_texts(file: Path | None, texts: tuple[str, ...], division: str, words: str, layout: TableLayout) -> Stimuli:
    from wordprob.stimuli.stimulus_reading import stimuli_from_texts

    if file is None:
        given = list(texts)
    elif division == "file":
        given = [read_text(file, layout.encoding)]
    elif division == "blank-line":
        given = _read_paragraphs(file, layout.encoding)
    else:
        given = read_lines(file, layout.encoding)
    name = "--text" if file is None else "standard input" if str(file) == "-" else str(file)
    return stimuli_from_texts(given, words_for(words, given), layout, name=name)


def _read_paragraphs(file: Path, encoding: str | None) -> list[str]:
    """Return the paragraphs of a file; line breaks inside them are text, which is said, as it may not be meant."""
    from wordprob.sources.plain_text import paragraphs_of

    paragraphs = paragraphs_of(read_text(file, encoding), str(file))
    n_broken = sum("\n" in paragraph for paragraph in paragraphs)
    if n_broken:
        has = "1 paragraph has" if n_broken == 1 else f"{n_broken} paragraphs have"
        warn([f"{file}: {has} line breaks inside, which the model reads as they are; join the lines if unwanted"])
    return paragraphs


def _read_table(file: Path, words: str, layout: TableLayout) -> Stimuli:
    from wordprob.stimuli.stimulus_reading import read_stimuli

    if is_word_list(words):
        raise OptionError("--words list:FILE is for plain texts; a table gives its words with --word-column.")
    data, name = read_source(file)
    return read_stimuli(data, layout, words=words, name=name)


def _input_format(file: Path | None, chosen: str | None, whole_file: bool) -> str:
    """Return the format of the input: the one specified, the one of the file's ending, or plain text."""
    if chosen is not None and chosen not in INPUT_FORMATS:
        raise OptionError(f"no format is called '{chosen}'. {did_you_mean(chosen, INPUT_FORMATS)}")
    if chosen is None and whole_file:
        return "text"
    format_ = chosen
    if format_ is None and file is not None and str(file) != "-":
        format_ = format_of(file)
    if whole_file and format_ != "text":
        raise click.UsageError(f"--whole-file is for texts, not for {format_}.")
    return format_ or "text"
