"""Everything that can go wrong, as one tree.

::

    WordprobError
    ├── InputError            what the user gave cannot be read or used
    │   ├── EncodingError     a file is not UTF-8 (says which line)
    │   ├── AlignmentError    a given word list does not fit its text
    │   └── OptionError       an option, name or pattern has no such value
    ├── OutputError           the result cannot be written where asked
    ├── ModelError            a model or tokeniser cannot be used
    │   ├── UnknownModelError no such name, directory or file
    │   └── DownloadError     a model or a corpus could not be fetched or verified
    └── UnsupportedError      asked for something this model or tokeniser cannot give

Messages say what was wrong, what was given, what is allowed, and what to type next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WordprobError(Exception):
    """Base of every error wordprob raises on purpose; the command line prints it without a traceback."""


class InputError(WordprobError, ValueError):
    """What the user gave cannot be read or used."""


class EncodingError(InputError):
    """A file is not UTF-8."""


class AlignmentError(InputError):
    """A given word list does not fit its text."""


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


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a sentence naming the nearest known names, or all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Known: {', '.join(names)}."
