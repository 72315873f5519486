"""``wordprob tokenizer``: how a tokeniser writes words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.core.atoms import Atoms, atoms_of
from wordprob.core.vocabulary import Vocabulary

if TYPE_CHECKING:
    from wordprob.models.protocol import Tokenizer

EXAMPLE_TEXT = "She saw the mark. It's the marker's?"
NOT_NORMALISED = "cafe\u0301 ½ ﬁ"
"""A decomposed accent, a compatibility character and a ligature."""

EXAMPLE_TOKENS = 6
"""Tokens of each atom that are shown."""

FAMILIES = {
    "bow": "beginning-of-word: white space goes into the token after it",
    "eow": "end-of-word: white space, or a mark, goes into the token before it",
    "none": "tokens hold no white space",
}


@click.command()
@click.argument("source")
@click.option("-w", "--words", default="punctuation", show_default=True, help="Word definition whose atoms to show.")
@click.option("--bos", help="Start-of-text token, or 'none'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the tokeniser.")
def tokenizer(source: str, words: str, bos: str | None, as_json: bool, trust_remote_code: bool) -> None:
    """Show how a tokeniser marks words, and the atoms of its vocabulary.

    SOURCE is a directory, a short name, a hub id or a .gguf file. No model is loaded. An atom is a class of tokens that
    begin alike, such as those that begin with white space.

    \b
    Examples:
      wordprob tokenizer gpt2-small
      wordprob tokenizer path/to/directory --json
    """
    from wordprob.core.words import define
    from wordprob.models.registry import open_tokenizer

    opened = open_tokenizer(source, bos=bos, trust_remote_code=trust_remote_code)
    atoms = atoms_of(opened.vocabulary, define(words))
    if as_json:
        facts = {**_facts(opened.vocabulary, atoms), "differs_from_file": _difference_from_file(opened)}
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    _print_facts(source, opened)
    _print_atoms(opened.vocabulary, atoms, words)


def _facts(vocabulary: Vocabulary, atoms: Atoms) -> dict[str, Any]:
    return {
        "family": vocabulary.family,
        "convention": vocabulary.convention,
        "first_word_marked": vocabulary.first_word_marked,
        "marks_are_spaces": vocabulary.mark_is_space,
        "lossy": vocabulary.lossy,
        "vocabulary": vocabulary.size,
        "atoms": atoms.sizes(),
        "start": _start_token(vocabulary),
        "end": _end_tokens(vocabulary),
        "fingerprint": vocabulary.fingerprint,
    }


def _difference_from_file(opened: Tokenizer) -> str:
    """Return where a tokeniser of transformers writes a text otherwise than its file says; empty for others."""
    loaded = getattr(opened, "transformers_tokenizer", None)
    if loaded is None:
        return ""
    from wordprob.models.huggingface.tokenizer_file import difference_from_file

    return difference_from_file(loaded)


def _start_token(vocabulary: Vocabulary) -> str | None:
    return None if vocabulary.start is None else vocabulary.tokens[vocabulary.start]


def _end_tokens(vocabulary: Vocabulary) -> list[str]:
    return [vocabulary.tokens[i] for i in vocabulary.ends]


def _print_facts(source: str, opened: Tokenizer) -> None:
    vocabulary = opened.vocabulary
    example = [vocabulary.tokens[i] for i in opened.encode([EXAMPLE_TEXT])[0].ids.tolist()]
    no_start = "none: the first word of a text has no value unless --bos names a token"
    no_end = "none: the end of a text has no probability"
    facts = {
        "tokeniser": Path(source).name,
        "family": f"{vocabulary.family} ({FAMILIES[vocabulary.family]})",
        "pieces": vocabulary.convention,
        "first word": "marked like the others" if vocabulary.first_word_marked else "not marked",
        "text": _treatment_of_text(opened),
        "start": _start_token(vocabulary) or no_start,
        "end": " ".join(_end_tokens(vocabulary)) or no_end,
        "vocabulary": f"{vocabulary.size:,}",
        "example": " ".join(example),
    }
    difference = _difference_from_file(opened)
    if difference:
        facts["file"] = f"loaded otherwise than its file says: {difference}"
    for name, value in facts.items():
        click.echo(f"{name:12}{value}")


def _treatment_of_text(opened: Tokenizer) -> str:
    if opened.vocabulary.lossy:
        return "rewritten (lower-cased, spaces dropped or the like)"
    if not opened.encode([NOT_NORMALISED])[0].exact:
        return "kept byte by byte, except that Unicode is normalised (composed accents or compatibility characters)"
    return "kept byte by byte"


def _print_atoms(vocabulary: Vocabulary, atoms: Atoms, words: str) -> None:
    click.echo(f"\natoms for --words {words}: what a token begins with")
    rows: dict[str, list[int]] = {}
    for number, label in enumerate(atoms.labels):
        rows.setdefault("cut off" if label in atoms.possible else label, []).append(number)
    for name, numbers in rows.items():
        size = sum(int((atoms.atom_of_token == number).sum()) for number in numbers)
        if size:
            click.echo(f"  {name:14}{size:>8,}  {_example_tokens(vocabulary, atoms, numbers)}")


def _example_tokens(vocabulary: Vocabulary, atoms: Atoms, numbers: list[int]) -> str:
    """Return some tokens of atoms, the shortest first."""
    # A model's output may have more rows than the vocabulary has tokens; those rows have an atom too, but no text.
    ids = [i for i, atom in enumerate(atoms.atom_of_token[: vocabulary.size].tolist()) if atom in numbers]
    ids.sort(key=lambda i: (len(vocabulary.tokens[i]), i))
    return " ".join(repr(vocabulary.tokens[i]) for i in ids[:EXAMPLE_TOKENS])
