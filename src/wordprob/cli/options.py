"""Options that several commands share, and reading of text files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from wordprob.errors import InputError
from wordprob.options import DEFAULT_MODEL

Function = TypeVar("Function", bound=Callable[..., Any])


def _model_options(several: bool) -> Callable[[Function], Function]:
    name = click.option(
        "-m",
        "--model",
        "models" if several else "model",
        multiple=several,
        default=(DEFAULT_MODEL,) if several else DEFAULT_MODEL,
        show_default=True,
        help=f"Short name, hub id, directory or .gguf file{'; may be repeated' if several else ''}.",
    )
    options = (
        name,
        click.option("--bos", help="Start-of-text token, or 'none'; the document-start token by default."),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps."),
        click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16."),
        click.option("--compile", is_flag=True, help="Compile the model first, a minute or so: faster on a GPU."),
        click.option("--revision", help="Branch, tag or commit of a model on the hub."),
        click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model."),
    )
    return lambda function: with_options(function, options)


def with_options(function: Function, options: Sequence[Callable[[Any], Any]]) -> Function:
    """Decorate a command with options, the first on top."""
    for option in reversed(options):
        function = option(function)
    return function


def model_options(function: Function) -> Function:
    """Add the options that choose and open a model."""
    return _model_options(several=False)(function)


def models_options(function: Function) -> Function:
    """Add the same where several models may be named; they come as ``models``."""
    return _model_options(several=True)(function)


def table_options(function: Function) -> Function:
    """Add the options that say how a table holds its texts."""
    return with_options(
        function,
        (
            click.option("--input-format", help="text, csv, tsv, jsonl, parquet or xlsx; by the ending if not given."),
            click.option("--sheet", help="Sheet of an Excel file that has several."),
            click.option("--text-column", help="Column with a text on each row."),
            click.option("--word-column", help="Column with a word on each row."),
            click.option("--group-by", help="Columns that tell which rows make a text: item,condition; or none."),
            click.option("--space-after", help="Column of true/false: a space after the word; else always one."),
            click.option("--per-word", is_flag=True, help="Texts on rows: return a row for each of their words."),
            click.option("--sum-by", help="Words on rows: add up each region, named by this column."),
            click.option("--prefix", default="", help="Put before the names of all new columns."),
            click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark in CSV; as in the file."),
        ),
    )


def read_utf8(path: Path) -> str:
    """Return a file's text, or standard input's for ``-``; or say on which line it is not UTF-8."""
    from wordprob.tables.formats.encoding import decode

    data, where = read_source(path)
    return decode(data, where)[0]


def read_source(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a file, or of standard input for ``-``, and what to call it in messages."""
    from wordprob.tables.formats.encoding import read_bytes

    if str(path) == "-":
        return sys.stdin.buffer.read(), "standard input"
    return read_bytes(path), str(path)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file: one text a line, blank ones kept; the newline at the end of the file adds none."""
    text = read_utf8(path)
    if not text:
        raise InputError(
            f"{'standard input' if str(path) == '-' else path} is empty; it should have one text on each line."
        )
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]
