"""One corpus read by people and scored by a model: what the reading-time study is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from wordprob.analysis.input_tables import ESTIMATES, check_times, numbers, require
from wordprob.core.arrays import Ints
from wordprob.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """One corpus scored by one model: a row for each word, in order.

    Attributes
    ----------
    frame
        ``text_id``, ``word_id``, ``word``, ``time``, ``word_len``, ``freq`` (unigram surprisal, nats), ``surprisal``
        and ``surprisal_naive`` (at least one of them), and anything else a formula names.
    folds
        The fold of every row, 0 for none; ``None`` to draw them.
    source
        Where the table came from, for errors and provenance.
    title
        What tables and figures call the corpus.
    readings
        ``participant``, ``text_id``, ``word_id``, ``time`` and ``time_used``, a row for each participant and word,
        where the times in ``frame`` are means of them.
    """

    corpus: str
    model: str
    frame: pd.DataFrame = field(repr=False)
    folds: Ints | None = field(default=None, repr=False)
    source: str = ""
    title: str = ""
    readings: pd.DataFrame | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require(self.frame, ["text_id", "word_id", "time"], self.where)
        if not self.estimates:
            raise InputError(f"{self.where} has no surprisals: neither {' nor '.join(ESTIMATES.values())} is a column.")
        check_times(numbers(self.frame, "time", self.where), "time", self.where)

    @property
    def where(self) -> str:
        """What errors call it."""
        return self.source or f"{self.corpus}, {self.model}"

    @property
    def estimates(self) -> tuple[str, ...]:
        """The estimates it has."""
        return tuple(name for name, column in ESTIMATES.items() if column in self.frame.columns)
