"""``wordprob word-lengths``: what predicts the lengths of words, and what the correction changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.errors import InputError, OptionError

if TYPE_CHECKING:
    from wordprob.analysis.word_types import TypeSums, WordFilter

TEXTS_AT_ONCE = 64


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-m", "--model", "models", multiple=True, help="Score texts with this model; may be repeated.")
@click.option("--frequencies", help="Another part of the corpus (text), or a file of words and counts or log p.")
@click.option("-w", "--words", default="whitespace", show_default=True, help="What a word is, as for wordprob score.")
@click.option("--text-column", default="text", show_default=True, help="Column of the texts in Parquet and JSON lines.")
@click.option("--max-texts", type=click.IntRange(min=1), help="Stop after so many texts.")
@click.option("--keep", default="alphabetic", show_default=True, help="Which words count: alphabetic or all.")
@click.option("--case", default="lower", show_default=True, help="lower: The and the are one word; or as-is.")
@click.option("--min-count", default=5, show_default=True, help="Leave out words seen less often.")
@click.option("--bootstrap", default=500, show_default=True, help="Bootstrap samples of word types.")
@click.option("--seed", default=42, show_default=True, help="Seed of the bootstrap.")
@click.option("--size", "sizes", multiple=True, help="NAME=MILLIONS of parameters, for the figure; may be repeated.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@click.option("--force", is_flag=True, help="Replace results that exist.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
def word_lengths(sources: tuple[str, ...], **options: Any) -> None:
    """Correlate word lengths with frequency and with surprisal in context, naive and corrected.

    With --model, SOURCES are texts: .parquet, .jsonl or .txt files (one text a line), or hf:NAME[:CONFIG][:SPLIT].
    Without, they are tables of words scored before, folders of them, or folders of wordprob run; each goes to the model
    named in it.

    \b
    Examples:
      wordprob word-lengths corpus.parquet --frequencies other_part.txt --model smollm2-135m -o results
      wordprob word-lengths scored/*.parquet --frequencies other_part.txt -o results
      wordprob run corpus -o out --model pythia-70m && wordprob word-lengths out -o results
      wordprob word-lengths hf:google/wiki40b:en:test --max-texts 1000 --model pythia-70m -o results
    """
    from wordprob.cli.reading_times import check_extra, check_models, given_options, parse_sizes

    check_extra()
    from wordprob.analysis import outputs, report
    from wordprob.analysis.word_lengths import WordLengthSettings, analyse
    from wordprob.analysis.word_types import WordFilter

    folder = outputs.check_folder(options["output"], report.WORD_LENGTHS_FILES, options["force"])
    which = WordFilter(options["keep"], options["case"], options["min_count"])
    settings = WordLengthSettings(which, options["bootstrap"], options["seed"])
    sizes = parse_sizes(options["sizes"])
    check_models(options["models"])
    costs, named = _unigrams(sources, which, options)
    sums, about = _score(sources, which, options) if options["models"] else _aggregate(sources, which)
    result = analyse(sums, settings, costs, named, sizes)
    inputs = [*(file for source in sources for file in _files(Path(source))), options["frequencies"] or ""]
    about |= {"inputs": outputs.checksums(inputs), "options": given_options()}
    result = replace(result, provenance={**result.provenance, **about, "sources": list(sources)})
    outputs.write_folder(folder, report.word_lengths_files(result))
    click.echo(report.word_lengths_markdown(result))
    if costs is None:
        click.echo("note: frequencies are those of the scored words; give another part with --frequencies", err=True)


def _unigrams(
    sources: Sequence[str], which: WordFilter, options: dict[str, Any]
) -> tuple[dict[str, float] | None, str]:
    from wordprob.analysis import texts
    from wordprob.analysis.frequencies import costs_of, read_costs
    from wordprob.analysis.word_types import count_words

    chosen = options["frequencies"]
    if chosen is None:
        return None, "the scored words themselves"
    if chosen in sources:
        raise OptionError(f"{chosen} is both scored and counted; frequencies come from another part of the corpus.")
    if Path(chosen).suffix in (".csv", ".tsv"):
        return read_costs(Path(chosen)), chosen
    counts = count_words(texts.stream(chosen, options["text_column"]), which)
    if not counts:
        raise InputError(f"{chosen} holds no words that count: {which.describe()}.")
    return costs_of(counts), f"{chosen} ({counts.total()} words)"


Sums = tuple[dict[str, "TypeSums"], dict[str, Any]]


def _aggregate(sources: Sequence[str], which: WordFilter) -> Sums:
    from wordprob.analysis.word_lengths import aggregate

    paths = [path for source in sources for path in _files(Path(source))]
    if texts := [path.name for path in paths if path.suffix in (".txt", ".gz")]:
        raise InputError(f"{', '.join(texts)}: texts need a --model to score them; without one, give scored tables.")
    return aggregate(paths, which), {}


def _files(path: Path) -> list[Path]:
    from wordprob import runs

    if not path.is_dir():
        return [path]
    if not runs.is_run(path):
        return sorted(path.glob("*.parquet"))
    found = runs.status(path)
    if not found.complete:
        click.echo(f"note: {path} is not complete: {found.done} of {found.shards} shards are there", err=True)
    return runs.finished(path, partial=True)


def _score(sources: Sequence[str], which: WordFilter, options: dict[str, Any]) -> Sums:
    from wordprob.analysis import texts
    from wordprob.analysis.word_types import TypeSums
    from wordprob.cli.reading_times import run_scorer
    from wordprob.scoring.loading import load, model_label

    for source in sources:
        texts.check(source, options["text_column"])
    found: dict[str, TypeSums] = {}
    metadata: dict[str, Any] = {}
    for name in options["models"]:
        scorer, label = load(name, device=options["device"], dtype=options["dtype"]), model_label(name)
        sums = found[label] = TypeSums(which)
        stream = (t for source in sources for t in texts.stream(source, options["text_column"], options["max_texts"]))
        done = 0
        while batch := list(islice(stream, TEXTS_AT_ONCE)):
            table = run_scorer(scorer, batch, options["words"], f"{label}, texts from {done}")
            done += len(batch)
            frame = table.to_pandas()
            sums.add(frame["word"].tolist(), frame["surprisal"].to_numpy(), frame["surprisal_naive"].to_numpy())
            metadata[label] = table.metadata
    return found, {"models": metadata}
