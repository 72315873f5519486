"""Options that several commands share, and reading of text files."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from wordprob.errors import InputError
from wordprob.options import UNSET, ModelOptions, Options, ScoringOptions, info_of

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(function: Function, options: Sequence[Callable[[Any], Any]]) -> Function:
    """Decorate a command with options, the first on top."""
    for option in reversed(options):
        function = option(function)
    return function


# --- flags from the declarations in wordprob.options ------------------------------------------------------------------


def model_options(function: Function) -> Function:
    """Add the flags that choose and open a model; the command gets them as ``model``, a :class:`ModelOptions`."""
    flags = [_flag(declared) for declared in fields(ModelOptions)]
    return with_options(_collected(function, ModelOptions, "model"), flags)


def options_of(options: type[Options], parameter: str) -> Callable[[Function], Function]:
    """Add the flags of any set of options; the command gets them as one object, under the parameter's name."""

    def decorate(function: Function) -> Function:
        flags = [_flag(declared) for declared in fields(options)]
        return with_options(_collected(function, options, parameter), flags)

    return decorate


def models_options(function: Function) -> Function:
    """Add the same where several models may be named; they come as ``models``, a list of :class:`ModelOptions`."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        shared = {name: values.pop(name) for name in ModelOptions.names() if name != "model"}
        models = [ModelOptions(model=name, **shared) for name in values.pop("model")]
        return function(models=models, **values)

    flags = [_flag(declared, several=declared.name == "model") for declared in fields(ModelOptions)]
    return with_options(cast("Function", command), flags)


def scoring_options(*left_out: str) -> Callable[[Function], Function]:
    """Add the flags that say what a word is and what comes out, but for those that mean nothing to this command.

    The command gets them as ``scoring``, a :class:`ScoringOptions`. Every further column has a flag of its own.
    """
    from wordprob.tables.schema import EXTRAS

    declared = [field for field in fields(ScoringOptions) if field.name not in left_out]
    extras = [] if "extras" in left_out else list(EXTRAS)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            named = {field.name: values.pop(field.name) for field in declared if info_of(field).flags is not None}
            chosen = [name for name in extras if values.pop(name)]
            return function(scoring=ScoringOptions(**named, extras=tuple(chosen)), **values)

        flags = [_flag(field) for field in declared if info_of(field).flags is not None]
        flags += [click.option(f"--{name}", is_flag=True, help=f"Add a column: {EXTRAS[name]}.") for name in extras]
        return with_options(cast("Function", command), flags)

    return decorate


def _collected(function: Function, options: type[Options], parameter: str) -> Function:
    """Return a command that gets the values of its flags as one set of options."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        named = {name: values.pop(name) for name in options.names()}
        return function(**{parameter: options(**named)}, **values)

    return cast("Function", command)


def _flag(declared: Field[Any], several: bool = False) -> Callable[[Any], Any]:
    """Return the click option for a declared option."""
    info = info_of(declared)
    names = info.flags or (f"--{declared.name.replace('_', '-')}",)
    default = declared.default if info.command_line_default is UNSET else info.command_line_default
    if isinstance(declared.default, bool):
        return click.option(*names, declared.name, is_flag=True, help=info.help)
    kind: Any = None
    if info.choices:
        kind = click.Choice(info.choices)
    elif info.minimum is not None:
        kind = click.IntRange(min=info.minimum)
    return click.option(
        *names,
        declared.name,
        type=kind,
        multiple=several,
        default=(default,) if several else default,
        show_default=default is not None,
        help=info.help.removesuffix(".") + ("; may be repeated." if several else "."),
    )


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
