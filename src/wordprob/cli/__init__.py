"""The command line: thin, and quick to start."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click

from wordprob._version import __version__
from wordprob.cli.commands import COMMANDS, load_command
from wordprob.cli.messages import to_flags
from wordprob.errors import InputWarning, OptionError, WordprobError, did_you_mean

INTERRUPTED_EXIT_CODE = 130
"""What shells expect after Ctrl-C."""


class Interrupted(BaseException):
    """Ctrl-C was pressed, and what was under way has been cleaned up."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is used."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C leaves it as an exception of its own, which click does not turn into exit code 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"no command is called '{cmd_name}'. {did_you_mean(cmd_name, COMMANDS)}")
        return load_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="wordprob %(version)s")
@click.option(
    "--max-size",
    default="1GB",
    show_default=True,
    help="How large a compressed table or text may be when it is decompressed.",
)
def cli(max_size: str) -> None:
    """Compute the probability of a word from a language model that works with subwords.

    \b
    Examples:
      wordprob score stimuli.txt -o surprisal.tsv
      wordprob score stimuli.csv --word-column word --group-by item,condition -o scored.csv
      wordprob score --text "She saw the mark." --unit nats
      wordprob tokenizer DIRECTORY
      wordprob models
    """
    from wordprob.tables.formats.compression import size_limit

    click.get_current_context().with_resource(_printed_warnings())
    click.get_current_context().with_resource(size_limit(max_size))


def main() -> None:
    """Run the command line; expected errors end in one line and exit code 1, or 2 for a value that is not allowed.

    Warnings are one line each.
    """
    warnings.formatwarning = _format_warning
    try:
        try:
            cli(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except WordprobError as error:
        click.echo(f"wordprob: {to_flags(str(error), _running_command())}", err=True)
        _give_up_output()
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except Interrupted:
        click.echo("wordprob: stopped.", err=True)
        sys.stderr.flush()
        # Threads that are deep inside a tokenizer run on; Python would wait for them, or trip over them, as it ends.
        os._exit(INTERRUPTED_EXIT_CODE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        where = error.filename or "standard output"
        click.echo(f"wordprob: {where} could not be written or read: {error.strerror or error}.", err=True)
        _give_up_output()
        sys.exit(1)


@contextlib.contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print each warning about an input as one line on standard error, with flags in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        show = warnings.showwarning

        def print_line(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            if not issubclass(category, InputWarning):
                show(message, category, *place, **options)
                return
            context = click.get_current_context(silent=True)
            command = None if context is None else context.command
            click.echo(f"wordprob: {to_flags(str(message), command)}", err=True)

        warnings.showwarning = print_line
        yield


def _give_up_output() -> None:
    """Drop what standard output does not take, which Python would otherwise try to write once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _format_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> str:
    kind = "" if category is UserWarning else f"{category.__name__}: "
    return f"wordprob: {kind}{to_flags(str(message), _running_command())}\n"


def _running_command() -> click.Command | None:
    """Return the command that was typed: its name is the first argument that is one."""
    for argument in sys.argv[1:]:
        if argument in COMMANDS:
            return load_command(argument)
    return None
