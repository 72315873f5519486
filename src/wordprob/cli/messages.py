"""Messages of the library, for someone who types commands: options are called by their flags."""

from __future__ import annotations

import functools
import re
from importlib import import_module

import click

OPTION_NAME = re.compile(r"`([a-z][a-z0-9_]*)`")
"""How the library names an option in a message: by its Python name, in backticks."""


def to_flags(message: str) -> str:
    """Replace the Python names of options in a message by the flags of the command line.

    Examples
    --------
    >>> to_flags("specify `group_by`")
    'specify --group-by'
    >>> to_flags("no such word: `something_else`")
    'no such word: `something_else`'
    """
    if not OPTION_NAME.search(message):
        return message
    flags = known_flags()
    return OPTION_NAME.sub(lambda match: flags.get(match[1], match[0]), message)


@functools.cache
def known_flags() -> dict[str, str]:
    """Return the long flag of every option of every command, by the option's Python name."""
    from wordprob.cli import COMMANDS

    flags: dict[str, str] = {}
    for location, _ in COMMANDS.values():
        module, name = location.split(":")
        command: click.Command = getattr(import_module(module), name)
        for parameter in command.params:
            for flag in parameter.opts:
                if flag.startswith("--"):
                    flags[flag.removeprefix("--").replace("-", "_")] = flag
    return flags
