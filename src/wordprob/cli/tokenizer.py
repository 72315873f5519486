"""``wordprob tokenizer``: what a tokeniser does with words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from wordprob.core.atoms import Atoms, atoms_of
from wordprob.core.vocabulary import Vocabulary


@click.command()
@click.argument("source")
@click.option("-w", "--words", default="punctuation", show_default=True, help="Word definition whose atoms to show.")
@click.option("--bos", help="Start-of-text token, or 'none'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the tokeniser.")
def tokenizer(source: str, words: str, bos: str | None, as_json: bool, trust_remote_code: bool) -> None:
    """Show how a tokeniser marks words, and how its vocabulary falls into atoms.

    SOURCE is a directory, a short name, a hub id or a .gguf file. No model is loaded.

    \b
    Examples:
      wordprob tokenizer gpt2-small
      wordprob tokenizer path/to/directory --json
    """
    from wordprob.core.words import define
    from wordprob.models.registry import open_tokenizer

    opened = open_tokenizer(source, bos=bos, trust_remote_code=trust_remote_code)
    found = opened.vocabulary
    atoms = atoms_of(found, define(words))
    if as_json:
        click.echo(json.dumps(_facts(found, atoms), indent=1, ensure_ascii=False))
    else:
        _show(source, found, atoms, words, opened)


def _facts(found: Vocabulary, atoms: Atoms) -> dict[str, Any]:
    return {
        "family": found.family,
        "convention": found.convention,
        "first_word_marked": found.first_word_marked,
        "marks_are_spaces": found.mark_is_space,
        "lossy": found.lossy,
        "vocabulary": found.size,
        "atoms": atoms.sizes(),
        "start": None if found.start is None else found.tokens[found.start],
        "end": [found.tokens[i] for i in found.ends],
        "fingerprint": found.fingerprint,
    }


FAMILIES = {
    "bow": "beginning-of-word: white space goes into the token after it",
    "eow": "end-of-word: white space, or a mark, goes into the token before it",
    "none": "tokens hold no white space",
}


def _show(source: str, found: Vocabulary, atoms: Atoms, words: str, opened: Any) -> None:
    facts = _facts(found, atoms)
    lines = {
        "tokeniser": Path(source).name,
        "family": f"{found.family} ({FAMILIES[found.family]})",
        "pieces": found.convention,
        "first word": "marked like the others" if found.first_word_marked else "not marked",
        "text": "rewritten (lower-cased, spaces dropped or the like)" if found.lossy else "kept byte by byte",
        "start": facts["start"] or "none: the first word of a text has no value unless --bos names a token",
        "end": " ".join(facts["end"]) or "none: the end of a text has no probability",
        "vocabulary": f"{found.size:,}",
    }
    for key, value in lines.items():
        click.echo(f"{key:12}{value}")
    example = "She saw the mark. It's the marker's?"
    ids = opened.encode([example])[0].ids.tolist()
    click.echo(f"{'example':12}{' '.join(found.tokens[i] for i in ids)}")
    click.echo(f"\natoms for --words {words}: what a token begins with")
    for k, (label, size) in enumerate(atoms.sizes().items()):
        if size:
            click.echo(f"  {label:14}{size:>8,}  {_examples(found, atoms, k)}")


def _examples(found: Vocabulary, atoms: Atoms, k: int, count: int = 6) -> str:
    """Return some tokens of an atom, the shortest first."""
    members = [i for i in (atoms.atom_of_token == k).nonzero()[0].tolist() if i < found.size]
    chosen = sorted(members, key=lambda i: (len(found.tokens[i]), i))[:count]
    return " ".join(repr(found.tokens[i]) for i in chosen)
