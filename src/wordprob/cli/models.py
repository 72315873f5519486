"""``wordprob models``: the models that have a short name, and a check of any model."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from wordprob.cli.options import options_of
from wordprob.models.catalogue import CATALOGUE
from wordprob.options import ModelOptions

if TYPE_CHECKING:
    from wordprob.scoring.model_report import ModelReport


@click.command()
@click.option("--check", "checked", metavar="NAME", help="Load this model, check it, and show what it is like.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options_of(ModelOptions, "model", "model")
def models(checked: str | None, as_json: bool, model: ModelOptions) -> None:
    """List the short names of models, where their weights come from, and their licences.

    With --check, load any model instead: tokeniser, start and end tokens, context, memory, precision, device and speed
    are shown, with how the model is run and whether its numbers agree with each other. If they do not, the exit code is
    1. The other options say how to load it.

    \b
    Examples:
      wordprob models
      wordprob models --check exact:bow
      wordprob score stimuli.txt --model pythia-160m -o surprisal.tsv

    Any other causal model works by its Hugging Face id (owner/name), as a directory, or as a .gguf file.
    """
    if checked is not None:
        _check(replace(model, model=checked), as_json)
        return
    rows = []
    for name, entry in CATALOGUE.items():
        facts = {"parameters": entry.parameters, "weights": entry.weights, "licence": entry.licence, "note": entry.note}
        rows.append({"name": name, **facts})
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    header = {key: key for key in rows[0]}
    widths = {key: max(len(row[key]) for row in [header, *rows]) for key in header}
    for row in [header, *rows]:
        click.echo("  ".join(row[key].ljust(widths[key]) for key in widths).rstrip())


def _check(model: ModelOptions, as_json: bool) -> None:
    """Print what a model is like; exit with 1 if a check failed."""
    from wordprob.scoring.model_report import model_report

    report = model_report(**model.to_dict())
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=1, ensure_ascii=False))
    else:
        _print(report)
    if not report.passed:
        sys.exit(1)


def _print(report: ModelReport) -> None:
    facts = report.facts
    no_start = "none: the first word of a text has no value unless --bos names a token"
    no_end = "none: the end of a text has no probability"
    context = facts["context_tokens"]
    memory = facts["memory_mib"]
    lines = {
        "model": f"{facts['model']} ({facts['class']})",
        "tokeniser": f"{facts['family']}, {facts['pieces']}, {facts['vocabulary']:,} tokens",
        "start": facts["start"] or no_start,
        "end": " ".join(facts["end"]) or no_end,
        "context": "no limit" if context is None else f"{context:,} tokens",
        "memory": "" if memory is None else f"{memory:,.1f} MiB for the weights",
        "precision": facts["dtype"],
        "device": facts["device"],
        "speed": f"{facts['tokens_per_second']:,} tokens a second, in a few short texts",
        **report.shortcuts,
    }
    width = max(map(len, lines)) + 2
    for name, value in lines.items():
        if value:
            click.echo(f"{name:{width}}{value}")
    click.echo()
    for check in report.checks:
        verdict = "yes" if check.passed else "NO "
        click.echo(f"{verdict}  {check.name} (to {check.deviation:.1e} nats)")
    if not report.passed:
        click.echo("This is a fault: probabilities of words are wrong with this model.")
