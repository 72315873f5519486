"""The commands by name."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "score": ("wordprob.cli.score:score", "Compute the surprisal of every word of a text."),
    "candidates": ("wordprob.cli.candidates:candidates", "Compute the surprisal of many possible next words."),
    "next": ("wordprob.cli.next:next", "List the words that could come next, with their probabilities."),
    "pairs": ("wordprob.cli.pairs:pairs", "Compare the two sentences of minimal pairs."),
    "contrast": ("wordprob.cli.contrast:contrast", "Compare two conditions, or two factors, by item."),
    "plot": ("wordprob.cli.plot:plot", "Plot surprisal along a text, or by region and condition."),
    "run": ("wordprob.cli.run:run", "Score a whole corpus; an interrupted run can be resumed."),
    "status": ("wordprob.cli.status:status", "Show how far a run is."),
    "verify": ("wordprob.cli.verify:verify", "Check that a run's folder is what was written into it."),
    "merge": ("wordprob.cli.merge:merge", "Merge the shards of a run into one table."),
    "reading-times": ("wordprob.cli.reading_times:reading_times", "Test whether surprisal predicts reading times."),
    "word-lengths": ("wordprob.cli.word_lengths:word_lengths", "Test whether surprisal predicts word lengths."),
    "perplexity": ("wordprob.cli.perplexity:perplexity", "Compute bits per byte and word, and perplexity, of texts."),
    "report": ("wordprob.cli.report:report", "Make one HTML file with the scored words in colour."),
    "serve": ("wordprob.cli.serve:serve", "Start a local web page that scores texts."),
    "tokenizer": ("wordprob.cli.tokenizer:tokenizer", "Show how a tokeniser writes words."),
    "spellings": ("wordprob.cli.spellings:spellings", "List every spelling of a word, with its probability."),
    "check": ("wordprob.cli.check:check", "Check that the words after a context add up to one."),
    "models": ("wordprob.cli.models:models", "List the models that have a short name."),
}
"""A command, where it is implemented, and its line in the help. The module is imported when the command is used."""


def load_command(name: str) -> click.Command:
    """Import a command and return it."""
    module, function = COMMANDS[name][0].split(":")
    command: click.Command = getattr(import_module(module), function)
    return command
