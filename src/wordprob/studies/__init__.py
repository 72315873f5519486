"""Whole studies, from texts or tables to results: what ``reading-times``, ``word-lengths`` and ``perplexity`` do.

Each study is one function. It reads what it is given, scores it if models are named, hands tables to
:mod:`wordprob.analysis`, and returns a result that knows its provenance and writes itself to a folder::

    from wordprob import studies

    result = studies.reading_times("study.csv", models="gpt2-small", time_column="rt", participant="subject")
    result.write("results")

The names are imported when they are first used, because the options must be known to the command line before pandas is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wordprob.studies.perplexity_study import perplexity
    from wordprob.studies.reading_time_study import reading_time_table, reading_times
    from wordprob.studies.study_options import PerplexityOptions, ReadingTimesOptions, WordLengthsOptions
    from wordprob.studies.word_length_study import word_lengths

__all__ = [
    "PerplexityOptions",
    "ReadingTimesOptions",
    "WordLengthsOptions",
    "perplexity",
    "reading_time_table",
    "reading_times",
    "word_lengths",
]

_LAZY_IMPORTS = {
    "PerplexityOptions": "wordprob.studies.study_options",
    "ReadingTimesOptions": "wordprob.studies.study_options",
    "WordLengthsOptions": "wordprob.studies.study_options",
    "perplexity": "wordprob.studies.perplexity_study",
    "reading_time_table": "wordprob.studies.reading_time_study",
    "reading_times": "wordprob.studies.reading_time_study",
    "word_lengths": "wordprob.studies.word_length_study",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    from importlib import import_module

    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module 'wordprob.studies' has no attribute '{name}'")
    return getattr(import_module(_LAZY_IMPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
