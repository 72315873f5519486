"""``wordprob models``: the models that have a short name."""

from __future__ import annotations

import json

import click

from wordprob.models.catalogue import CATALOGUE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(as_json: bool) -> None:
    """List the short names of models, where their weights come from, and their licences.

    \b
    Examples:
      wordprob models
      wordprob score stimuli.txt --model pythia-160m -o surprisal.tsv

    Any other causal model works by its Hugging Face id (owner/name), as a directory, or as a .gguf file.
    """
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
