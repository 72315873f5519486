"""``wordprob models``: names that work out of the box."""

from __future__ import annotations

import json

import click

from wordprob.models.catalogue import CATALOGUE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(as_json: bool) -> None:
    """List the short names, where their weights come from, and their licences.

    \b
    Examples:
      wordprob models
      wordprob score stimuli.txt --model pythia-160m -o surprisal.tsv

    Any other causal model works by its Hugging Face id (owner/name), as a directory, or as a .gguf file.
    """
    rows = [
        {"name": n, "parameters": e.parameters, "weights": e.weights, "licence": e.licence, "note": e.note}
        for n, e in CATALOGUE.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    widths = {key: max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        click.echo("  ".join(row[key].ljust(widths[key]) for key in widths).rstrip())
