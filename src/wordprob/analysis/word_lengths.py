"""How well three hypotheses predict the lengths of words.

Zipf: a word is as long as it is rare, −log p(w). The channel-capacity hypothesis (CCH): as long as it is surprising in
context, E[s] after Piantadosi et al. (2011), E[s²]/E[s] after Pimentel et al. (2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from wordprob.analysis.correlations import CORRELATION_NAMES, Correlations, resamples
from wordprob.analysis.input_tables import Mask
from wordprob.analysis.model_sizes import size_of
from wordprob.analysis.word_length_results import WordLengthResult
from wordprob.analysis.word_types import ScoredFile, TypeSums, WordFilter, batches, open_scored
from wordprob.core.arrays import Floats
from wordprob.errors import InputError, OptionError, WordprobError


@dataclass(frozen=True)
class WordLengthSettings:
    """How correlations are computed.

    Attributes
    ----------
    which
        Which words count.
    resamples, seed
        The number of bootstrap samples of word types, and their seed.
    level
        Coverage of the intervals.
    """

    which: WordFilter = field(default_factory=WordFilter)
    resamples: int = 500
    seed: int = 42
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.resamples < 2:
            raise OptionError(
                f"{self.resamples} bootstrap samples are too few for an interval; use at least 2, better 500."
            )


def aggregate(paths: Sequence[Path], which: WordFilter) -> dict[str, TypeSums]:
    """Add up scored tables by the model that scored them."""
    files = [open_scored(path) for path in paths]
    if not files:
        raise InputError("there is nothing to aggregate: give at least one scored table.")
    units = {file.unit for file in files}
    if "" in units and len(units) > 1:
        unknown = next(file.path for file in files if not file.unit)
        raise InputError(f"{unknown} does not say its unit, others do; score it again, or aggregate it by itself.")
    sums: dict[str, TypeSums] = {}
    for file in files:
        _add_file(sums.setdefault(file.model, TypeSums(which)), file)
    return sums


def _add_file(sums: TypeSums, file: ScoredFile) -> None:
    try:
        for words, surprisals in batches(file):
            sums.add(words, surprisals)
    except WordprobError:
        raise
    except ValueError as error:  # pandas and pyarrow raise subclasses of it, each with messages of its own
        raise InputError(f"{file.path} cannot be read as scored words: {error}") from error


def analyse(
    sums: Mapping[str, TypeSums],
    settings: WordLengthSettings,
    costs: Mapping[str, float] | None = None,
    unigrams: str = "the scored words themselves",
    sizes: Mapping[str, float] | None = None,
) -> WordLengthResult:
    """Correlate every predictor with word length, for every model.

    Parameters
    ----------
    sums
        The sums for each word type, by model.
    settings
        Which words count, and how intervals are computed.
    costs
        Unigram surprisals, nats, by type; types without one are left out. By default, from the types' own counts.
    unigrams
        Where they come from.
    sizes
        Millions of parameters, for models whose names do not say it.
    """
    tables = {}
    for model, type_sums in sums.items():
        tables[model] = _predictors(type_sums.table(), type_sums.estimates, costs, model)
    correlations: list[dict[str, object]] = []
    for model, table in tables.items():
        correlations += _correlate(model, table, settings)
    types = pd.concat([table.assign(model=model) for model, table in tables.items()], ignore_index=True)
    provenance = {
        "study": "word lengths",
        "words": settings.which.describe(),
        "unigrams": unigrams,
        "intervals": f"{settings.level:.0%} bootstrap over types, {settings.resamples} samples, seed {settings.seed}",
        "sizes": {model: (sizes or {}).get(model, size_of(model)) for model in sums},
        "scored": {model: {"words": sums[model].rows, "without a value": sums[model].missing} for model in sums},
    }
    columns = ["model", *[name for name in types.columns if name != "model"]]
    return WordLengthResult(pd.DataFrame(correlations), types[columns], provenance)


# --- predictors ------------------------------------------------------------------------------------------------------


class Predictor(NamedTuple):
    """A hypothesis about word length, the estimate of surprisal that it uses (if any), and the column of its values."""

    name: str
    estimate: str
    column: str


PREDICTORS = (
    Predictor("Zipf", "", "zipf"),
    Predictor("CCH (Piantadosi)", "naive", "expected_naive"),
    Predictor("CCH (Piantadosi)", "corrected", "expected_corrected"),
    Predictor("CCH (Piantadosi)", "all", "expected_all"),
    Predictor("CCH (Pimentel)", "naive", "ratio_naive"),
    Predictor("CCH (Pimentel)", "corrected", "ratio_corrected"),
    Predictor("CCH (Pimentel)", "all", "ratio_all"),
)
"""The predictors in the order of the tables; one with another estimate follows the one that it is compared with."""


def _predictors(
    types: pd.DataFrame, estimates: Sequence[str], costs: Mapping[str, float] | None, model: str
) -> pd.DataFrame:
    """Return the types for which every predictor has a value, the most frequent first."""
    table = types[["word", "length", "count"]].copy()
    total = types["count"].sum()
    own_costs = -np.log(types["count"] / max(total, 1))
    table["zipf"] = own_costs if costs is None else types["word"].map(costs)
    for estimate in estimates:
        table[f"expected_{estimate}"] = types[estimate] / types["count"]
        with np.errstate(invalid="ignore", divide="ignore"):
            table[f"ratio_{estimate}"] = types[f"{estimate}_squared"] / types[estimate]
    known: Mask = np.isfinite(table.drop(columns="word").to_numpy(dtype=np.float64)).all(axis=1)
    table = table[known]
    _check_enough_types(table, model)
    return table.sort_values("count", ascending=False, kind="stable").reset_index(drop=True)


def _check_enough_types(table: pd.DataFrame, model: str) -> None:
    if len(table) < 3:
        raise InputError(
            f"{model}: {len(table)} word types are left, too few to correlate. Use more text, a smaller `min_count`, "
            "or frequencies that include these words."
        )
    if table["length"].nunique() == 1:
        raise InputError(
            f"{model}: all {len(table)} words are {table['length'].iloc[0]} letters long: nothing to correlate."
        )


def _correlate(model: str, table: pd.DataFrame, settings: WordLengthSettings) -> Iterator[dict[str, object]]:
    """Yield a row for each predictor: its correlations with length, and how a correction changes them."""
    lengths = table["length"].to_numpy(dtype=np.float64)
    predictors = [predictor for predictor in PREDICTORS if predictor.column in table.columns]
    values = np.stack([table[column].to_numpy(dtype=np.float64) for _, _, column in predictors], axis=1)
    correlations = Correlations(values, lengths)
    # Axes: which correlation, which predictor; for the resamples, which resample comes first.
    observed = correlations.weighted(np.ones(len(table)))
    # Every predictor sees the same resamples, so that their intervals can be compared.
    weights_of_resamples = resamples(len(table), settings.resamples, settings.seed)
    resampled = np.stack([correlations.weighted(weights) for weights in weights_of_resamples])
    for p, predictor in enumerate(predictors):
        row: dict[str, object] = {
            "model": model,
            "predictor": predictor.name,
            "estimate": predictor.estimate,
            "types": len(table),
        }
        for c, name in enumerate(CORRELATION_NAMES):
            row |= _interval(name, observed[c, p], resampled[:, c, p], settings.level)
        for c, name in enumerate(CORRELATION_NAMES):
            change: float = np.nan
            changes: Floats = np.full(1, np.nan)
            if predictor.estimate not in ("", "naive"):
                # The predictor before it has the simpler estimate; the two are compared within resamples.
                change = observed[c, p] - observed[c, p - 1]
                changes = resampled[:, c, p] - resampled[:, c, p - 1]
            row |= _interval(f"{name}_change", change, changes, settings.level)
        yield row


def _interval(name: str, observed: float, resampled: Floats, level: float) -> dict[str, object]:
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return {name: observed, f"{name}_low": float(low), f"{name}_high": float(high)}
