"""Messages of the library, in the words of the command line.

The library names an option as Python does, in backticks: `` `group_by` ``. Whoever typed a command knows it as a flag.
"""

from __future__ import annotations

import re

import click

from wordprob.cli.commands import COMMANDS, load_command

CONTROL_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""What would move the cursor or change the screen, and other line ends than that of our own lists."""

NAME_IN_BACKTICKS = re.compile(r"`([a-z][a-z0-9_]*)`")


def to_flags(message: str, command: click.Command | None = None) -> str:
    """Return a message for the screen: names of options become flags, control characters are escaped.

    Other words in backticks stay as they are.

    Parameters
    ----------
    message
        What an exception says.
    command
        The command that was running, whose flags are meant; by default any command's.

    Examples
    --------
    >>> to_flags("specify another `text_column`; `wordprob models` lists the short names")
    'specify another --text-column; `wordprob models` lists the short names'
    """
    message = CONTROL_CHARACTER.sub(lambda match: match[0].encode("unicode_escape").decode(), message)
    if not NAME_IN_BACKTICKS.search(message):
        return message
    flags = flags_of(command) if command is not None else _flags_of_all_commands()

    def flag_or_same(match: re.Match[str]) -> str:
        return flags.get(match[1], match[0])

    return NAME_IN_BACKTICKS.sub(flag_or_same, message)


def flags_of(command: click.Command) -> dict[str, str]:
    """Return the flags of a command, by the names that Python may have for each."""
    flags = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flag = max(parameter.opts, key=len)
            flags[flag.removeprefix("--").replace("-", "_")] = flag
            flags[str(parameter.name)] = flag
    return flags


def _flags_of_all_commands() -> dict[str, str]:
    flags: dict[str, str] = {}
    for name in COMMANDS:
        flags = {**flags_of(load_command(name)), **flags}
    return flags
