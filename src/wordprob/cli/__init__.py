"""The command line: thin, and quick to start."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from wordprob._version import __version__
from wordprob.errors import WordprobError, did_you_mean

COMMANDS: dict[str, tuple[str, str]] = {
    "score": ("wordprob.cli.score:score", "Surprisal of every word of a text."),
    "candidates": ("wordprob.cli.candidates:candidates", "Surprisal of each of many words, next."),
    "contrast": ("wordprob.cli.contrast:contrast", "Two conditions compared by item."),
    "plot": ("wordprob.cli.plot:plot", "Surprisal along a text, or by region and condition."),
    "run": ("wordprob.cli.run:run", "A whole corpus, killed and resumed at will."),
    "status": ("wordprob.cli.status:status", "How a run stands."),
    "merge": ("wordprob.cli.merge:merge", "One table from the shards of a run."),
    "reading-times": ("wordprob.cli.reading_times:reading_times", "Does surprisal predict reading times?"),
    "word-lengths": ("wordprob.cli.word_lengths:word_lengths", "Do word lengths follow surprisal?"),
    "report": ("wordprob.cli.report:report", "Scored words in colour, as one HTML file."),
    "serve": ("wordprob.cli.serve:serve", "A page on this machine to paste texts into."),
    "tokenizer": ("wordprob.cli.tokenizer:tokenizer", "What a tokeniser does with words."),
    "models": ("wordprob.cli.models:models", "Names that work out of the box."),
}
"""A command, where it lives, and its line in the help; the module is imported when the command is used."""


class Lazy(click.Group):
    """A group that imports a command only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in their order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"no command is called '{cmd_name}'. {did_you_mean(cmd_name, COMMANDS)}")
        module, name = COMMANDS[cmd_name][0].split(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="wordprob %(version)s")
def cli() -> None:
    """The probability of a word, from a language model that speaks in subwords.

    \b
    Examples:
      wordprob score stimuli.txt -o surprisal.tsv
      wordprob score stimuli.csv --word-column word --group-by item,condition -o scored.csv
      wordprob score --text "She saw the mark." --unit nats
      wordprob tokenizer DIRECTORY
      wordprob models
    """


def main() -> None:
    """Run the command line; expected errors end in one line and exit code 1."""
    try:
        cli(standalone_mode=True)
    except WordprobError as error:
        from wordprob.cli.messages import to_flags

        click.echo(f"wordprob: {to_flags(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
