"""How well three hypotheses predict the lengths of words.

Zipf: a word is as long as it is rare, −log p(w). The channel-capacity hypothesis (CCH): as long as it is surprising in
context, E[s] after Piantadosi et al. (2011), E[s²]/E[s] after Pimentel et al. (2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from wordprob.analysis.reading_times import size_of
from wordprob.analysis.tables import Mask
from wordprob.analysis.word_types import TypeSums, WordFilter, batches, open_scored
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError, WordprobError

KINDS = ("spearman", "pearson")


@dataclass(frozen=True)
class WordLengthSettings:
    """How correlations are computed.

    Attributes
    ----------
    which
        WordFilter words count.
    resamples, seed
        Bootstrap samples of word types, and where they start.
    level
        Coverage of the intervals.
    """

    which: WordFilter = field(default_factory=WordFilter)
    resamples: int = 500
    seed: int = 42
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.resamples < 2:
            raise OptionError(f"{self.resamples} bootstrap samples make no interval; use at least 2, better 500.")


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes
    ----------
    correlations
        ``model, predictor, estimate, types, spearman, spearman_low, spearman_high, pearson, …``, and for corrected
        predictors ``spearman_change, …``: by how much they differ from the naive ones.
    types
        The word types themselves, with count, length, mean surprisals and predictors, by model.
    provenance
        What was computed, and from what.
    """

    correlations: pd.DataFrame = field(repr=False)
    types: pd.DataFrame = field(repr=False)
    provenance: Mapping[str, object] = field(repr=False)

    @property
    def models(self) -> list[str]:
        """The models, in the order given."""
        return list(dict.fromkeys(self.correlations["model"]))

    @property
    def sizes(self) -> dict[str, float | None]:
        """Millions of parameters of each model, where known."""
        known = cast("Mapping[str, float | None]", self.provenance["sizes"])
        return {model: known.get(model) for model in self.models}

    @property
    def caption(self) -> str:
        """What a table or figure says about itself."""
        return (
            f"Correlation with word length in characters, over types: {self.provenance['words']}. Brackets: "
            f"{self.provenance['intervals']}. Zipf is −log p of the word from {self.provenance['unigrams']}; "
            "CCH (Piantadosi) is E[s], CCH (Pimentel) E[s²]/E[s]. Change: corrected less naive."
        )


def aggregate(paths: Sequence[Path], which: WordFilter) -> dict[str, TypeSums]:
    """Sum up scored tables by the model that scored them."""
    files = [open_scored(path) for path in paths]
    if not files:
        raise InputError("there is nothing to aggregate: give at least one scored table.")
    if "" in {file.unit for file in files} and len({file.unit for file in files}) > 1:
        nameless = next(file.path for file in files if not file.unit)
        raise InputError(f"{nameless} does not say its unit, others do; score it again, or aggregate it by itself.")
    found: dict[str, TypeSums] = {}
    for file in files:
        sums = found.setdefault(file.model, TypeSums(which))
        try:
            for words, corrected, naive in batches(file):
                sums.add(words, corrected, naive)
        except WordprobError:
            raise
        except ValueError as error:  # the readers of text files and of Parquet have their own words for it
            raise InputError(f"{file.path} cannot be read as scored words: {error}") from error
    return found


def analyse(
    sums: Mapping[str, TypeSums],
    settings: WordLengthSettings,
    costs: Mapping[str, float] | None = None,
    unigrams: str = "the scored words themselves",
    sizes: Mapping[str, float] | None = None,
) -> Result:
    """Correlate every predictor with word length, for every model.

    Parameters
    ----------
    sums
        What was kept of each word type, by model.
    settings
        WordFilter words, and how.
    costs
        Unigram surprisals, nats, by type; types without one are left out. By default, from the types' own counts.
    unigrams
        Where they come from.
    sizes
        Millions of parameters, for models whose names do not tell.
    """
    tables = {model: _predictors(part.table(), costs, model) for model, part in sums.items()}
    correlations = [row for model, table in tables.items() for row in _correlate(model, table, settings)]
    types = pd.concat([table.assign(model=model) for model, table in tables.items()], ignore_index=True)
    provenance = {
        "study": "word lengths",
        "words": settings.which.describe(),
        "unigrams": unigrams,
        "intervals": f"{settings.level:.0%} bootstrap over types, {settings.resamples} samples, seed {settings.seed}",
        "sizes": {model: (sizes or {}).get(model, size_of(model)) for model in sums},
        "scored": {model: {"words": part.rows, "without a value": part.missing} for model, part in sums.items()},
    }
    columns = ["model", *[name for name in types.columns if name != "model"]]
    return Result(pd.DataFrame(correlations), types[columns], provenance)


PREDICTORS = {
    "Zipf": ("", "zipf"),
    "CCH (Piantadosi) naive": ("naive", "expected_naive"),
    "CCH (Piantadosi) corrected": ("corrected", "expected_corrected"),
    "CCH (Pimentel) naive": ("naive", "ratio_naive"),
    "CCH (Pimentel) corrected": ("corrected", "ratio_corrected"),
}
"""Predictor and estimate, and the column that holds it."""


def _predictors(types: pd.DataFrame, costs: Mapping[str, float] | None, model: str) -> pd.DataFrame:
    table = types[["word", "length", "count"]].copy()
    total = types["count"].sum()
    own = -np.log(types["count"] / max(total, 1))
    table["zipf"] = own if costs is None else types["word"].map(costs)
    for estimate in ("naive", "corrected"):
        table[f"expected_{estimate}"] = types[estimate] / types["count"]
        with np.errstate(invalid="ignore", divide="ignore"):
            table[f"ratio_{estimate}"] = types[f"{estimate}_squared"] / types[estimate]
    known: Mask = np.isfinite(table.drop(columns="word").to_numpy(dtype=np.float64)).all(axis=1)
    table = table[known]
    _check(table, model)
    return table.sort_values("count", ascending=False, kind="stable").reset_index(drop=True)


def _check(table: pd.DataFrame, model: str) -> None:
    if len(table) < 3:
        raise InputError(
            f"{model}: {len(table)} word types are left, too few to correlate. Use more text, a smaller "
            "--min-count, or frequencies that have the words."
        )
    if table["length"].nunique() == 1:
        raise InputError(f"{model}: all {len(table)} words are {table['length'].iloc[0]} letters long.")


def _correlate(model: str, table: pd.DataFrame, settings: WordLengthSettings) -> Iterator[dict[str, object]]:
    lengths = table["length"].to_numpy(dtype=np.float64)
    values = np.stack([table[column].to_numpy(dtype=np.float64) for _, column in PREDICTORS.values()], axis=1)
    of = Correlations(values, lengths)
    point = of.weighted(np.ones(len(table)))
    # Every predictor sees the same resamples, so that their intervals can be compared.
    drawn = np.stack([of.weighted(w) for w in resamples(len(table), settings.resamples, settings.seed)])
    for n, (name, (estimate, _)) in enumerate(PREDICTORS.items()):
        row: dict[str, object] = {"model": model, "predictor": name.removesuffix(f" {estimate}"), "estimate": estimate}
        row["types"] = len(table)
        for k, kind in enumerate(KINDS):
            row |= _interval(kind, point[k, n], drawn[:, k, n], settings.level)
        for k, kind in enumerate(KINDS):
            # A corrected predictor follows its naive one; the two are compared within resamples.
            change, changes = (point[k, n] - point[k, n - 1], drawn[:, k, n] - drawn[:, k, n - 1])
            if estimate != "corrected":
                change, changes = np.nan, np.full(1, np.nan)
            row |= _interval(f"{kind}_change", change, changes, settings.level)
        yield row


def _interval(name: str, point: float, drawn: Floats, level: float) -> dict[str, object]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return {name: point, f"{name}_low": float(low), f"{name}_high": float(high)}


# --- the bootstrap -------------------------------------------------------------------------------------------------


def resamples(n: int, count: int, seed: int) -> Iterator[Floats]:
    """Yield, for each bootstrap sample of ``n`` things, how often each was drawn."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield np.bincount(random.integers(n, size=n), minlength=n).astype(np.float64)


class Correlations:
    """Spearman's and Pearson's correlations of several columns with one variable, for any weights of the rows.

    Whole weights stand for rows written out so many times. Values are sorted into groups of ties once; the ranks of a
    resample then follow from cumulated weights, and nothing is sorted a thousand times.
    """

    def __init__(self, columns: Floats, reference: Floats) -> None:
        x, y = columns - columns.mean(axis=0), (reference - reference.mean())[:, None]
        self._moments = np.ascontiguousarray(np.hstack([x, y, x * x, y * y, x * y]))
        self._groups = [_ties(column) for column in columns.T]
        self._reference = _ties(reference)

    def weighted(self, weights: Floats) -> Floats:
        """Return two rows, Spearman's and Pearson's correlations, with a column for each column."""
        return np.stack([self._spearman(weights), self._pearson(weights)])

    def _spearman(self, weights: Floats) -> Floats:
        ranks, squares = _ranks(self._reference, weights)
        expected = weights * ranks[self._reference]
        found = []
        for group in self._groups:
            own, norm = _ranks(group, weights)
            found.append(_ratio(float(expected @ own[group]), norm * squares))
        return np.array(found)

    def _pearson(self, weights: Floats) -> Floats:
        count = len(self._groups)
        sums = weights @ self._moments / weights.sum()
        x, y, xx, yy, xy = np.split(sums, np.cumsum([count, 1, count, 1]))
        spread = (xx - x * x) * (yy - y * y)
        return np.array([_ratio(float(a), float(b)) for a, b in zip(xy - x * y, spread, strict=True)])


def _ties(values: Floats) -> Ints:
    """Number the distinct values in their order."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _ranks(group: Ints, weights: Floats) -> tuple[Floats, float]:
    """Return the rank of each group (ties share theirs) less the mean rank, and the sum of their squares over rows."""
    size = np.bincount(group, weights=weights)
    ranks = np.cumsum(size) - (size - 1) / 2 - (weights.sum() + 1) / 2
    return ranks, float(size @ (ranks * ranks))


def _ratio(covariance: float, spread: float) -> float:
    return covariance / float(np.sqrt(spread)) if spread > 0 else float("nan")
