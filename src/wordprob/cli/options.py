"""Flags of the commands, which follow from the declared options, and reading of text files and word lists.

An option is declared once, in :mod:`wordprob.options`. :func:`options_of` makes the flags of a command from a set of
such options, and passes their values to the command as one object:

    @click.command()
    @scoring_options("readers")
    @model_options
    def command(scoring: ScoringOptions, model: ModelOptions) -> None: ...
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from wordprob.errors import InputError
from wordprob.options import DEFAULT_MODEL, UNSET, ModelOptions, Options, ScoringOptions, info_of

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(function: Function, options: Sequence[Callable[[Any], Any]]) -> Function:
    """Decorate a command with click options; the first one is listed first in its help."""
    for option in reversed(options):
        function = option(function)
    return function


# --- flags from the declarations in wordprob.options ------------------------------------------------------------------


def options_of(options: type[Options], parameter: str, *left_out: str) -> Callable[[Function], Function]:
    """Give a command the flags of a set of options.

    Parameters
    ----------
    options
        A subclass of :class:`wordprob.options.Options`. Every field that has a flag becomes one.
    parameter
        The parameter of the command that gets the values, as one object of this class.
    left_out
        Names of options that mean nothing to this command; they keep their defaults.
    """
    declared = [field for field in fields(options) if field.name not in left_out]

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            chosen: dict[str, Any] = {}
            for field in declared:
                chosen.update(_take_value(field, values))
            return function(**{parameter: options(**chosen)}, **values)

        flags = [flag for field in declared for flag in _flags(field)]
        return with_options(cast("Function", command), flags)

    return decorate


def model_options(function: Function) -> Function:
    """Add the flags that choose and open one model; the command gets ``model``, a :class:`ModelOptions`."""
    return options_of(ModelOptions, "model")(function)


def scoring_options(*left_out: str) -> Callable[[Function], Function]:
    """Add the flags that say what a word is and what comes out.

    The command gets ``scoring``, a :class:`ScoringOptions`. Options that mean nothing to it are left out by name.
    """
    return options_of(ScoringOptions, "scoring", *left_out)


def some_options_of(options: type[Options], parameter: str, *names: str) -> Callable[[Function], Function]:
    """Give a command the flags of those options of a set that have these names, as :func:`options_of` does."""
    return options_of(options, parameter, *(name for name in options.names() if name not in names))


def some_scoring_options(*names: str) -> Callable[[Function], Function]:
    """Add the flags of the options of scoring that have these names; the command gets ``scoring``."""
    return some_options_of(ScoringOptions, "scoring", *names)


def models_options(default: Sequence[str] = (DEFAULT_MODEL,)) -> Callable[[Function], Function]:
    """Add the flags of :func:`model_options` where several models may be named.

    The command gets ``models``, a list of :class:`ModelOptions` that differ only in the model. With ``default=()`` the
    list is empty unless a model is named.
    """
    shared = [name for name in ModelOptions.names() if name != "model"]

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            how_to_open = {name: values.pop(name) for name in shared}
            models = [ModelOptions(model=model, **how_to_open) for model in values.pop("model")]
            return function(models=models, **values)

        flags = []
        for field in fields(ModelOptions):
            flags.append(_repeatable_flag(field, default) if field.name == "model" else _flag(field))
        return with_options(cast("Function", command), flags)

    return decorate


def _flags(declared: Field[Any]) -> list[Callable[[Any], Any]]:
    """Return the click options for a declared option: one, one for each further column, or none."""
    if declared.name == "extras":
        return [_column_flag(name, description) for name, description in _further_columns().items()] + [_order_flag()]
    if info_of(declared).flags is None:
        return []
    return [_flag(declared)]


def _take_value(declared: Field[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Remove the value of a declared option from the values of the flags; return it by name, if it has a flag."""
    if declared.name == "extras":
        orders = values.pop("entropy_order")
        chosen = {name: values.pop(name) for name in _further_columns()}
        return {"extras": tuple(extra for name, value in chosen.items() for extra in _extras_of(name, value, orders))}
    if info_of(declared).flags is None:
        return {}
    return {declared.name: values.pop(declared.name)}


LEVELS = ("token", "word")
"""What an entropy or a rank can be about."""
WITH_LEVELS = {"entropy": "entropy of the next token or word where the word begins", "rank": "rank of it there"}
"""Flags for columns that there are for both: ``token_entropy`` and ``word_entropy``, and so on."""


def _column_flag(name: str, description: str) -> Callable[[Any], Any]:
    """Return the click option for a further column."""
    flag = f"--{name.replace('_', '-')}"
    if name not in WITH_LEVELS:
        return click.option(flag, name, is_flag=True, help=f"Add a column: {description}.")
    return click.option(
        flag,
        name,
        is_flag=False,
        flag_value="token",
        default="",
        metavar="[token|word]",
        callback=_check_levels,
        help=f"Add columns: {WITH_LEVELS[name]}; token by default, or token,word.",
    )


def _order_flag() -> Callable[[Any], Any]:
    return click.option(
        "--entropy-order", help="With --entropy word: orders of Rényi's entropy, such as 0.5,1,2. Default: 1."
    )


def _check_levels(_context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return what an entropy or a rank is wanted of."""
    levels = tuple(part.strip() for part in value.split(",")) if value else ()
    wrong = [level for level in levels if level not in LEVELS]
    if wrong:
        flag = f"--{parameter.name}"
        raise click.BadParameter(f"{flag} is of token or word, not of '{wrong[0]}'; write {flag} token before a file.")
    return levels


def _extras_of(name: str, value: Any, orders: str | None) -> tuple[str, ...]:
    """Return the names of the columns that a flag asks for."""
    if name not in WITH_LEVELS:
        return (name,) if value else ()
    if name == "entropy" and orders is not None and "word" not in value:
        raise click.UsageError("--entropy-order is for --entropy word; specify both.")
    of_tokens = (f"token_{name}",) if "token" in value else ()
    if "word" not in value:
        return of_tokens
    from wordprob.tables.word_level_columns import RANK, entropy_names

    return of_tokens + (entropy_names(orders or "1") if name == "entropy" else (RANK,))


def _further_columns() -> Mapping[str, str]:
    """Return the columns that are made on request, by the name of the flag, and what each holds.

    One flag serves for both levels: ``--entropy token`` for ``token_entropy``, ``--entropy word`` for ``word_entropy``.
    """
    from wordprob.tables.schema import EXTRAS

    return {name if (flag := name.removeprefix("token_")) not in WITH_LEVELS else flag: EXTRAS[name] for name in EXTRAS}


def _flag(declared: Field[Any]) -> Callable[[Any], Any]:
    """Return the click option for a declared option."""
    info = info_of(declared)
    if isinstance(declared.default, bool):
        return click.option(*_flag_names(declared), is_flag=True, help=info.help)
    if isinstance(declared.default, tuple):
        return _repeatable_flag(declared, declared.default)
    if declared.name == "model":
        return _model_flag(declared)
    default = declared.default if info.command_line_default is UNSET else info.command_line_default
    return click.option(
        *_flag_names(declared),
        type=_value_type(declared),
        default=default,
        show_default=default is not None and not str(default).isspace() and default != "",
        help=info.help,
    )


def _repeatable_flag(declared: Field[Any], default: Sequence[str]) -> Callable[[Any], Any]:
    """Return the click option for a declared option that may be given several times."""
    info = info_of(declared)
    return click.option(
        *_flag_names(declared),
        type=_value_type(declared),
        multiple=True,
        default=tuple(default),
        show_default=bool(default),
        help=f"{info.help.removesuffix('.')}; may be repeated.",
    )


def _model_flag(declared: Field[Any]) -> Callable[[Any], Any]:
    """Return the click option for the one model of a command; another one is refused instead of replacing the first."""
    return click.option(
        *_flag_names(declared),
        multiple=True,
        default=(declared.default,),
        show_default=True,
        callback=_only_model,
        help=info_of(declared).help,
    )


def _only_model(_context: click.Context, _parameter: click.Parameter, models: tuple[str, ...]) -> str:
    """Return the one model."""
    if len(models) > 1:
        named = ", ".join(models)
        raise click.UsageError(f"--model names {len(models)} models ({named}); this command takes one at a time.")
    return models[0]


def _flag_names(declared: Field[Any]) -> tuple[str, ...]:
    """Return the flags of an option, and the parameter that its value goes to."""
    flags = info_of(declared).flags or (f"--{declared.name.replace('_', '-')}",)
    return (*flags, declared.name)


def _value_type(declared: Field[Any]) -> Any:
    """Return the click type that checks the values of an option; ``None`` for plain text."""
    info = info_of(declared)
    if info.choices:
        return click.Choice(info.choices)
    if info.minimum is not None:
        return (
            click.FloatRange(min=info.minimum) if isinstance(declared.default, float) else click.IntRange(info.minimum)
        )
    if "Path" in str(declared.type):
        return click.Path(path_type=Path)
    return None


# --- flags that only commands have ------------------------------------------------------------------------------------


def separator_option(function: Function) -> Function:
    """Add the flag that says what stands between a context and what follows it."""
    return click.option(
        "--separator",
        default=" ",
        help="What stands between the context and what follows, unless one has white space there. Default: a space.",
    )(function)


# --- text files -------------------------------------------------------------------------------------------------------


def read_source(path: Path) -> tuple[bytes, str]:
    """Return the bytes of a file, or of standard input for ``-``, and the name of the source for messages."""
    from wordprob.tables.formats.encoding import read_bytes

    if str(path) == "-":
        return sys.stdin.buffer.read(), "standard input"
    return read_bytes(path), str(path)


def read_text(path: Path, encoding: str | None = None) -> str:
    """Return the text of a file, or of standard input for ``-``, in the encoding given or the one that it has."""
    from wordprob.tables.formats.encoding import decode

    data, source = read_source(path)
    return decode(data, source, encoding)[0]


def read_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Return the lines of a file, one text each. Blank lines are kept; the last line break starts no further line."""
    from wordprob.sources.plain_text import lines_of

    return lines_of(read_text(path, encoding), "standard input" if str(path) == "-" else str(path))


# --- words in a file ------------------------------------------------------------------------------------------------

WORD_LIST_PREFIX = "list:"
"""What ``--words list:FILE`` begins with: the words are given in a file."""


def is_word_list(words: str) -> bool:
    """Return True if the value of ``--words`` names a file of words rather than a definition."""
    return words.startswith(WORD_LIST_PREFIX)


def words_for(words: str, texts: Sequence[str]) -> str | list[list[str]]:
    """Return a word definition as it was given, or for ``list:FILE`` the list of words of each text."""
    from wordprob.sources.plain_text import blocks_of

    if not is_word_list(words):
        return words
    path = Path(words.removeprefix(WORD_LIST_PREFIX))
    return match_texts(blocks_of(read_lines(path)), texts, str(path))


def match_texts(blocks: Sequence[list[str]], texts: Sequence[str], source: str) -> list[list[str]]:
    """Return a list of words for each text: the next block, or no words for a blank text.

    >>> match_texts([["She", "saw"]], ["She saw", ""], "words.txt")
    [['She', 'saw'], []]
    """
    n_texts = sum(bool(text.strip()) for text in texts)
    if n_texts != len(blocks):
        raise InputError(
            f"{n_texts} texts that are not blank but {len(blocks)} lists of words in {source}; put one word on each "
            "line and a blank line between texts."
        )
    remaining = iter(blocks)
    return [next(remaining) if text.strip() else [] for text in texts]
