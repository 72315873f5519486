"""Everything that can go wrong, as one tree.

::

    WordprobError
    ├── InputError            what the user gave cannot be read or used
    │   ├── EncodingError     the encoding of a file is not known (says which line)
    │   ├── AlignmentError    a given word list does not fit its text
    │   ├── UnknownColumnError a table has no such column
    │   └── OptionError       an option, name or pattern has no such value
    ├── OutputError           the result cannot be written where asked
    ├── ModelError            a model or tokeniser cannot be used
    │   ├── UnknownModelError no such name, directory or file
    │   └── DownloadError     a model or a corpus could not be fetched or verified
    └── UnsupportedError      asked for something this model or tokeniser cannot give

Messages say what was wrong, what was given, what is allowed, and what to type next. What was guessed, and may not be
what the user meant, is an :class:`InputWarning`; the command line prints it as one line on standard error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class WordprobError(Exception):
    """Base of every error wordprob raises on purpose; the command line prints it without a traceback."""


class InputError(WordprobError, ValueError):
    """What the user gave cannot be read or used."""


class EncodingError(InputError):
    """The encoding of a file is not known."""


class AlignmentError(InputError):
    """A given word list does not fit its text."""


class UnknownColumnError(InputError, KeyError):
    """A table has no such column."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError alone would put the sentence in quotation marks


class OptionError(InputError):
    """An option, name or pattern has no such value."""


class OutputError(WordprobError, OSError):
    """The result cannot be written where asked."""


class ModelError(WordprobError):
    """A model or tokeniser cannot be used."""


class UnknownModelError(ModelError, LookupError):
    """No such model name, directory or file."""


class DownloadError(ModelError):
    """A model or a corpus could not be fetched or verified."""


class UnsupportedError(WordprobError):
    """Asked for something that the model or tokeniser cannot give."""


class InputWarning(UserWarning):
    """Something was guessed about an input, or part of it is not in the result."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a sentence naming the nearest known names, or all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Known: {', '.join(names)}."


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def missing_columns(where: str, wanted: Iterable[str], there: Iterable[object]) -> str:
    """Return a sentence naming the columns that are not there and those that are; empty if none is missing.

    Examples
    --------
    >>> missing_columns("study.csv", ["word", "time"], ["word", "times"])
    "study.csv has no column 'time'. Did you mean times? It has: word, times."
    """
    names = [str(name) for name in there]
    missing = [name for name in wanted if name not in names]
    if not missing:
        return ""
    hint = did_you_mean(missing[0], names)
    near = "" if hint.startswith("Known") else f" {hint}"
    return f"{where} has no column {', '.join(repr(name) for name in missing)}.{near} It has: {', '.join(names)}."


def listing(items: Iterable[str], shown: int = 5) -> str:
    """Join the first few items, and count the rest.

    Examples
    --------
    >>> listing("abc", shown=2)
    'a; b; and 1 more'
    """
    found: Sequence[str] = list(items)
    rest = len(found) - shown
    return "; ".join(found[:shown]) + (f"; and {rest} more" if rest > 0 else "")


def first_line(error: BaseException) -> str:
    r"""Return what an exception of another package says, on one line; the name of its class if it says nothing.

    Examples
    --------
    >>> first_line(ValueError("bad value\nmore about it")), first_line(KeyError())
    ('bad value', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
