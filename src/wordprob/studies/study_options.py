"""The options of the studies, each declared once: Python functions and commands take the same.

This module imports neither pandas nor a model, so that the command line can list the options quickly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wordprob.errors import OptionError
from wordprob.options import Options, ScoringOptions, option


@dataclass(frozen=True)
class ReadingTimesOptions(Options):
    """How a reading-time study reads its tables, cleans times, and fits and tests its regressions."""

    what: ClassVar[str] = "option of a reading-time study"

    data_dir: str | Path | None = option(None, "Folder that has the corpora; nothing is fetched.")
    word_column: str = option("word", "Column that has the words.")
    time_column: str = option("time", "Column that has the reading times.")
    group_by: str | None = option(None, "Column that says which text a word is in; text_id if it exists.")
    position_column: str | None = option(
        None, "Column that counts the words of a text; word_id if it exists, else the order."
    )
    participant: str | None = option(None, "Column that has the participants; without it, times must be means.")
    texts: str | Path | None = option(None, "File of the texts as people read them, one per line, to be scored.")
    outliers: float = option(
        3.0, "Drop times whose log is more than this many SDs from the mean; 0 keeps all.", minimum=0
    )
    skipped: str = option(
        "zero",
        "Whether a time of 0 counts as zero or as missing.",
        noun="treatment of skipped words",
        choices=("zero", "missing"),
    )
    frequencies: str | None = option(None, "Unigrams: a file of words and counts or log p, or wordfreq:LANGUAGE.")
    spillover: int = option(3, "Number of earlier words whose values are predictors too.", minimum=0)
    baseline: str | None = option(None, "Formula without surprisal; the paper's by default.")
    predictors: str | None = option(None, "Terms added to the baseline; the paper's surprisals by default.")
    fold_files: Sequence[str | Path] = option(
        (), "Files with text_id, word_id and fold, named CORPUS.tsv if several; or their folder.", flags=("--folds",)
    )
    fold_column: str | None = option(None, "Column of the tables that has the folds.")
    n_folds: int = option(10, "Number of folds to draw if none are given.")
    seed: int = option(42, "Seed for drawing folds, as in R's set.seed.")
    correction: str = option("bh", "Correction for multiple tests.", noun="correction", choices=("bh", "holm", "none"))
    sizes: Sequence[str] | Mapping[str, float] = option(
        (), "NAME=MILLIONS of parameters, for the figure.", flags=("--size",)
    )


@dataclass(frozen=True)
class WordLengthsOptions(Options):
    """Which words a word-length study counts, and how it computes intervals."""

    what: ClassVar[str] = "option of a word-length study"

    frequencies: str | None = option(None, "Another part of the corpus (text), or a file of words and counts or log p.")
    text_column: str = option("text", "Column of the texts in Parquet and JSON lines.")
    max_texts: int | None = option(None, "Stop after this many texts.", minimum=1)
    keep: str = option("alphabetic", "Which words count.", noun="set of words to keep", choices=("alphabetic", "all"))
    case: str = option(
        "lower", "lower: The and the are one word; as-is: two.", noun="treatment of case", choices=("lower", "as-is")
    )
    min_count: int = option(5, "Leave out words that occur fewer times than this.", minimum=1)
    bootstrap: int = option(500, "Number of bootstrap samples of word types.", minimum=2)
    seed: int = option(42, "Seed of the bootstrap.")
    sizes: Sequence[str] | Mapping[str, float] = option(
        (), "NAME=MILLIONS of parameters, for the figure.", flags=("--size",)
    )


@dataclass(frozen=True)
class PerplexityOptions(Options):
    """How texts are read for corpus totals, and how intervals are computed."""

    what: ClassVar[str] = "option of corpus totals"

    text_column: str = option("text", "Column of the texts, in tables.")
    whole_file: bool = option(False, "Read each text file as one text, not as one text per line.")
    max_texts: int | None = option(None, "Stop after this many texts.", minimum=1)
    bootstrap: int = option(1000, "Number of bootstrap samples of texts, for the intervals.", minimum=2)
    seed: int = option(42, "Seed of the bootstrap.")


def check_scoring(scoring: ScoringOptions, *used: str) -> None:
    """Raise if an option of scoring was given that the study would ignore; ``used`` names those that it uses."""
    for name in scoring.changed():
        if name not in used:
            raise OptionError(
                f"`{name}` does not apply to this study, which writes its own output. It takes: {', '.join(used)}."
            )


def parse_sizes(sizes: Sequence[str] | Mapping[str, float]) -> dict[str, float]:
    """Return millions of parameters by model, from a mapping or from ``NAME=MILLIONS``.

    Examples
    --------
    >>> parse_sizes(["my-model=125"])
    {'my-model': 125.0}
    """
    if isinstance(sizes, Mapping):
        return {name: float(size) for name, size in sizes.items()}
    parsed = {}
    for item in sizes:
        name, _, size = item.rpartition("=")
        try:
            parsed[name] = float(size)
        except ValueError:
            raise OptionError(f"'{item}' in `sizes` gives no size; write it as my-model=125") from None
    return parsed
