"""``wordprob next``: the words that could come next, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.options import models_options, read_source, some_options_of, some_scoring_options
from wordprob.cli.output import check_destination, keep_input, progress, table_output_options, visible, warn
from wordprob.errors import counted
from wordprob.options import ModelOptions, ScoringOptions, TableLayout
from wordprob.tables.files import STANDARD_OUTPUT, check_output, has_sidecar, write_whole
from wordprob.tables.formats import FORMATS
from wordprob.tables.metadata import parquet_entry, table_metadata, write_sidecar

if TYPE_CHECKING:
    from wordprob.scoring.next_words import NextWords
    from wordprob.stimuli.next_word_table import Contexts
    from wordprob.tables.formats import ExtendedSheet


@click.command()
@click.argument("table", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--context", "given", multiple=True, help="A text so far, instead of a table; may be repeated.")
@click.option("--context-column", help="Column of the table that holds the texts so far.")
@click.option("--top", type=click.IntRange(min=1), help="How many words for each context. Default: 20.")
@click.option("--mass", type=float, help="List words until they and the end have this much, such as 0.9.")
@some_scoring_options("words", "unit", "spellings", "max_open")
@some_options_of(TableLayout, "layout", "input_format", "encoding", "sheet", "prefix")
@table_output_options
@models_options()
def next(
    table: Path | None,
    given: tuple[str, ...],
    context_column: str | None,
    top: int | None,
    mass: float | None,
    scoring: ScoringOptions,
    layout: TableLayout,
    output: Path | None,
    format_: str | None,
    force: bool,
    escape_formulas: bool,
    models: list[ModelOptions],
) -> None:
    """List the words that could come after a context, the most probable first.

    Beginnings of words are expanded, the most probable first. The words, the end of the text and everything that is not
    listed add up to one. A word is certain if none that is not listed can be more probable. The words of whitespace,
    punctuation and one class of characters, such as regex:[\\w']+, can be listed.

    TABLE has a context on each row (.csv, .tsv, .jsonl, .parquet, .xlsx); - is standard input. Its columns come back on
    the rows of each context's words. With several models, the column model says which.

    \b
    Examples:
      wordprob next --context "She saw the" --top 5
      wordprob next --context "She saw the" --mass 0.5 -o next.csv
      wordprob next --context "The otorhino" --spellings all --top 5
      wordprob next items.csv --context-column sentence_start --top 10 -o next.csv
      wordprob next - --input-format csv --context-column sentence_start --format jsonl < items.csv
    """
    contexts = _contexts(table, given, context_column, layout)
    check_destination(output, format_, force, FORMATS)
    keep_input(table, output)

    from wordprob.scoring.capability_checks import check_search_before_loading
    from wordprob.scoring.loading import check_models, open_scorer
    from wordprob.scoring.next_words import check_next_word_options

    check_next_word_options(scoring.words, top, mass)
    for model in models:
        check_search_before_loading(model)
    labels = check_models(models)
    contexts.check_columns(labels, scoring)
    found: dict[str, list[NextWords]] = {}
    metadata: dict[str, Mapping[str, Any]] = {}
    used = {name: getattr(scoring, name) for name in ("words", "max_open", "unit", "spellings")}
    for label, model in zip(labels, models, strict=True):
        scorer = open_scorer(model).with_options(scoring)
        with progress(len(contexts.texts), label if len(labels) > 1 else "") as advance:
            found[label] = scorer.next_words(contexts.texts, top=top, mass=mass, progress=advance)
        metadata[label] = {**scorer.model.metadata, "top": top, "mass": mass, **used}
    if output is None and format_ in (None, "table"):
        _print(found)
    else:
        source = "--context" if contexts.sheet is None else contexts.sheet.name
        about = table_metadata(metadata, source, {"context_column": contexts.column} if contexts.column else {})
        _write(contexts.table(found), about, output, format_, force, escape_formulas)
    _warn_of_limit([each for of_model in found.values() for each in of_model], scoring)


def _contexts(table: Path | None, given: tuple[str, ...], context_column: str | None, layout: TableLayout) -> Contexts:
    """Return the contexts, from the table or as they were given."""
    from wordprob.stimuli.next_word_table import Contexts, read_contexts

    if (table is None) == (not given):
        raise click.UsageError('give either TABLE or --context: wordprob next --context "She saw the"')
    if table is None:
        if chosen := [name for name in layout.changed() if name in TableLayout.reading]:
            raise click.UsageError(f"--{chosen[0].replace('_', '-')} is for a table; leave it out with --context.")
        return Contexts(list(given), prefix=layout.prefix)
    if context_column is None and str(table) != STANDARD_OUTPUT and not table.exists():
        raise click.UsageError(f"there is no file '{table}'. If this is a text so far, use --context \"{table}\".")
    if context_column is None:
        raise click.UsageError("specify --context-column, the column of the table that holds the texts so far.")
    if str(table) != STANDARD_OUTPUT:
        return read_contexts(table, context_column, layout)
    data, name = read_source(table)
    return read_contexts(data, context_column, layout, name=name)


def _write(
    table: ExtendedSheet,
    metadata: Mapping[str, Any],
    output: Path | None,
    format_: str | None,
    force: bool,
    escape_formulas: bool,
) -> None:
    """Write the table to a file with its metadata beside it, or to standard output."""
    path, chosen = check_output(output or STANDARD_OUTPUT, format_, force, FORMATS, with_sidecar=True)
    if escape_formulas and chosen in ("csv", "tsv"):
        table = table.escape_formulas(chosen)
    data = table.render(chosen, parquet_entry(metadata))
    write_whole(path, lambda temporary: temporary.write_bytes(data))
    if has_sidecar(path, chosen):
        write_sidecar(path, metadata)


def _print(found: Mapping[str, Sequence[NextWords]]) -> None:
    """Print the words, the end and the rest, context by context."""
    for label, of_model in found.items():
        for each in of_model:
            of = f" ({label})" if len(found) > 1 else ""
            click.echo(f"after '{each.context}'{of}")
            _print_words(each)


def _print_words(found: NextWords) -> None:
    click.echo(f"{'probability':>12}  {found.unit:>7}")
    for row in found.to_pandas().itertuples():
        named = {"end": "the end of the text", "rest": "everything else"}.get(str(row.kind), visible(str(row.word)))
        if row.kind == "word" and found.context.strip():
            named += _unusual_separator(str(row.separator))
        unsure = "" if row.certain else "  (a more probable word may have been missed)"
        click.echo(f"{row.probability:12.6f}  {row.surprisal:7.3f}  {named}{unsure}")


def _unusual_separator(separator: str) -> str:
    """Return a remark about what stands before a word, unless it is one space."""
    if separator == " ":
        return ""
    return f"  (after {visible(separator)})" if separator else "  (no space before)"


def _warn_of_limit(found: Sequence[NextWords], scoring: ScoringOptions) -> None:
    """Say so if the limit stopped searches."""
    n_stopped = sum(each.limit_reached for each in found)
    if n_stopped:
        where = "" if len(found) == 1 else f" after {n_stopped} of {counted(len(found), 'context')}"
        beginnings = counted(scoring.max_open, "beginning")
        warn(
            [
                f"the search stopped{where} when it had expanded {beginnings} of words, so words may be missing or "
                f"not certain; to expand more, use `max_open` {10 * scoring.max_open}"
            ]
        )
