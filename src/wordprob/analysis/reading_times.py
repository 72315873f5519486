"""How much better reading times are predicted with surprisal than without: Δ log-likelihood.

:func:`analyse` takes several datasets, cross-validates the protocol's regressions on each, and returns a
:class:`~wordprob.analysis.reading_time_results.ReadingTimesResult`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from wordprob.analysis import folds as folding
from wordprob.analysis import permutation, regression
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.input_tables import ESTIMATES, Mask, numbers, require
from wordprob.analysis.intervals import half_width
from wordprob.analysis.model_sizes import size_of
from wordprob.analysis.reading_time_results import ALL_MODELS, ReadingTimesResult
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError, listing
from wordprob.tables.predictors import rows_of_earlier_words

CONTRASTS = ("corrected - baseline", "naive - baseline", "all - baseline", "corrected - naive", "all - corrected")


@dataclass(frozen=True)
class ReadingTimesProtocol:
    """How the regressions are made and judged; the defaults are the paper's.

    Attributes
    ----------
    baseline
        The formula without surprisal; empty for the paper's.
    predictors
        What is added to it; ``surprisal`` stands for each estimate in turn. Empty for the paper's.
    spillover
        Words before the current one whose length, unigram surprisal and surprisal count.
    folds, seed
        How many folds are drawn where none are given, and the seed of R's ``sample()``.
    correction
        ``bh``, ``holm`` or ``none``.
    """

    baseline: str = ""
    predictors: str = ""
    spillover: int = 3
    folds: int = 10
    seed: int = 42
    correction: str = "bh"

    def __post_init__(self) -> None:
        permutation.check_correction(self.correction)
        if self.spillover < 0:
            raise OptionError(f"`spillover` is {self.spillover}; it must be at least 0.")
        object.__setattr__(self, "baseline", self.baseline or regression.baseline_formula(self.spillover))
        object.__setattr__(self, "predictors", self.predictors or regression.surprisal_terms(self.spillover))
        regression.variables(self.full)

    @property
    def full(self) -> str:
        """The formula with surprisal."""
        return f"{self.baseline} + {self.predictors}"


def analyse(
    datasets: Sequence[Dataset], protocol: ReadingTimesProtocol | None = None, sizes: Mapping[str, float] | None = None
) -> ReadingTimesResult:
    """Cross-validate the protocol's regressions on every dataset, and compare.

    Parameters
    ----------
    datasets
        One for each corpus and model.
    protocol
        How; the paper's by default.
    sizes
        Millions of parameters, for models whose names do not say it.
    """
    protocol = protocol or ReadingTimesProtocol()
    _check_distinct(datasets)
    validated = [_cross_validate(dataset, protocol) for dataset in datasets]
    folds = pd.concat([each.folds for each in validated], ignore_index=True)
    coefficients = pd.concat([each.coefficients for each in validated])
    provenance = {
        "study": "reading times",
        "baseline": protocol.baseline,
        "full": protocol.full,
        "unit": "nats per word",
        "test": "paired sign flips of fold values, two-sided, exact up to 16 folds; models aggregated within folds",
        "correction": f"{permutation.CORRECTIONS[protocol.correction]} over the tests of one contrast",
        "sizes": _sizes(datasets, sizes or {}),
        "titles": {dataset.corpus: dataset.title or _title(dataset.corpus) for dataset in datasets},
        "datasets": [each.description for each in validated],
    }
    return ReadingTimesResult(folds, summarise(folds, protocol.correction), coefficients, provenance)


def _sizes(datasets: Sequence[Dataset], given: Mapping[str, float]) -> dict[str, float | None]:
    return {dataset.model: given.get(dataset.model, size_of(dataset.model)) for dataset in datasets}


def _title(corpus: str) -> str:
    return corpus.replace("_", " ").title()


def _check_distinct(datasets: Sequence[Dataset]) -> None:
    if not datasets:
        raise InputError("there is nothing to analyse: give at least one table.")
    names = [(dataset.corpus, dataset.model) for dataset in datasets]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        pairs = ", ".join(f"{corpus} with {model}" for corpus, model in sorted(repeated))
        raise InputError(f"given twice: {pairs}. Give each once.")


# --- cross-validation ------------------------------------------------------------------------------------------------


class CrossValidation(NamedTuple):
    """What the regressions on one dataset gave.

    Attributes
    ----------
    folds
        Δ log-likelihood of each fold and estimate.
    coefficients
        The regressions fitted to all rows.
    description
        Which rows were used, for the provenance.
    """

    folds: pd.DataFrame
    coefficients: pd.DataFrame
    description: dict[str, object]


def _cross_validate(dataset: Dataset, protocol: ReadingTimesProtocol) -> CrossValidation:
    # The same table of variables for every estimate, except that `surprisal` is the estimate's own column.
    variables = {name: _variables(dataset, protocol, ESTIMATES[name]) for name in dataset.estimates}
    complete = _complete_rows(dataset, variables)
    folds = _folds(dataset, complete, protocol)
    used = complete & (folds > 0)
    tables = {name: table[used].reset_index(drop=True) for name, table in variables.items()}
    # The baseline has no surprisal, so any estimate's table will do.
    baseline = regression.design(protocol.baseline, next(iter(tables.values())))
    full = {name: regression.design(protocol.full, table) for name, table in tables.items()}
    delta_llh = _delta_llh(baseline, full, folds[used], dataset.where)
    description = {
        "corpus": dataset.corpus,
        "model": dataset.model,
        "source": dataset.source,
        "rows": len(complete),
        "incomplete": int((~complete).sum()),
        "missing": _missing(variables),
        "without_fold": int((complete & (folds == 0)).sum()),
        "used": int(used.sum()),
        "folds": "given" if dataset.folds is not None else f"drawn, seed {protocol.seed}",
    }
    return CrossValidation(
        _fold_table(dataset, delta_llh, folds[used]),
        _coefficient_table(dataset, {"baseline": baseline, **full}),
        description,
    )


def _complete_rows(dataset: Dataset, variables: Mapping[str, pd.DataFrame]) -> Mask:
    """Mark the rows that have every variable of every estimate, so that all regressions see the same rows."""
    # An infinite surprisal (probability zero) can be a predictor no more than a missing one.
    complete: Mask = np.all([np.isfinite(table.to_numpy()).all(axis=1) for table in variables.values()], axis=0)
    if not complete.any():
        counts = [
            f"{name} is missing on {count} of {len(complete)} rows" for name, count in _missing(variables).items()
        ]
        raise InputError(f"{dataset.where}: no row has all of the values that are needed: {listing(counts)}.")
    return complete


def _missing(variables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Return how many rows have no value, for every variable that is not known everywhere; the most first."""
    counts = {}
    for estimate, table in variables.items():
        for name, values in table.items():
            column = _estimate_column(str(name), ESTIMATES[estimate])
            counts[column] = int((~np.isfinite(values.to_numpy())).sum())
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return {name: count for name, count in ordered if count}


def _folds(dataset: Dataset, complete: Mask, protocol: ReadingTimesProtocol) -> Ints:
    """Return the fold of every row: the dataset's own, or folds drawn from the complete rows."""
    folds = dataset.folds
    if folds is None:
        folds = folding.draw(complete, protocol.folds, protocol.seed)
    if len(np.unique(folds[complete & (folds > 0)])) < 2:
        raise InputError(f"{dataset.where}: fewer than two folds hold complete rows; nothing can be held out.")
    return folds


def _delta_llh(
    baseline: regression.DesignMatrix, full: Mapping[str, regression.DesignMatrix], folds: Ints, where: str
) -> dict[str, Floats]:
    """Return, for each estimate, the gain in log-likelihood of every fold over the baseline."""
    without_surprisal = regression.fold_log_likelihoods(baseline, folds, where)
    return {
        name: regression.fold_log_likelihoods(design, folds, where) - without_surprisal for name, design in full.items()
    }


# --- variables -------------------------------------------------------------------------------------------------------


def _variables(dataset: Dataset, protocol: ReadingTimesProtocol, column: str) -> pd.DataFrame:
    """Return the columns that the formulas name, with ``surprisal`` standing for one estimate's column."""
    names = sorted(regression.variables(protocol.full))
    return pd.DataFrame({name: _variable(dataset, _estimate_column(name, column)) for name in names})


def _estimate_column(name: str, column: str) -> str:
    """Return the column that a variable is read from: ``prev2_surprisal`` may be ``prev2_surprisal_naive``."""
    return re.sub(r"(^|^prev\d*_)surprisal$", rf"\g<1>{column}", name)


def _variable(dataset: Dataset, name: str) -> pd.Series:
    """Return a column; one of an earlier word is looked up when the table does not hold it already."""
    if name in dataset.frame.columns:
        return _numeric(dataset, name)
    earlier = re.match(r"prev(\d*)_(.+)", name)
    if earlier and earlier[2] in dataset.frame.columns:
        distance = int(earlier[1] or 1)
        return values_of_earlier_words(dataset.frame, _numeric(dataset, earlier[2]), distance, dataset.where)
    require(dataset.frame, [name], dataset.where)
    raise AssertionError  # the line above has raised: there is no such column


def _numeric(dataset: Dataset, name: str) -> pd.Series:
    return pd.Series(numbers(dataset.frame, name, dataset.where), index=dataset.frame.index)


def values_of_earlier_words(frame: pd.DataFrame, values: pd.Series, distance: int, where: str) -> pd.Series:
    """Return, for every word, the value of the word ``distance`` before it in its text; NaN where there is none."""
    words = frame.assign(word_id=numbers(frame, "word_id", where))
    rows = rows_of_earlier_words(words, distance, where)
    earlier_values = np.where(rows < 0, np.nan, values.to_numpy(dtype=np.float64)[rows])
    return pd.Series(earlier_values, index=frame.index)


# --- tables ----------------------------------------------------------------------------------------------------------


def _fold_table(dataset: Dataset, delta_llh: Mapping[str, Floats], folds: Ints) -> pd.DataFrame:
    labels, counts = np.unique(folds, return_counts=True)
    names = {"corpus": dataset.corpus, "model": dataset.model}
    tables = [
        pd.DataFrame({**names, "estimate": estimate, "fold": labels, "n": counts, "delta_llh": values})
        for estimate, values in delta_llh.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _coefficient_table(dataset: Dataset, designs: Mapping[str, regression.DesignMatrix]) -> pd.DataFrame:
    tables = []
    for name, design in designs.items():
        coefficients = regression.coefficients(design, dataset.where)
        tables.append(coefficients.assign(corpus=dataset.corpus, model=dataset.model, regression=name, n=len(design.y)))
    table = pd.concat(tables, ignore_index=True)
    return table[["corpus", "model", "regression", "n", "term", "estimate", "std_error", "t", "p"]]


# --- tests -----------------------------------------------------------------------------------------------------------


def summarise(folds: pd.DataFrame, correction: str = "bh") -> pd.DataFrame:
    """Test every contrast of every corpus and model, and of all models of a corpus together."""
    rows: list[dict[str, object]] = []
    for corpus, corpus_folds in folds.groupby("corpus", sort=False):
        for model, model_folds in corpus_folds.groupby("model", sort=False):
            rows += _contrasts(str(corpus), str(model), model_folds)
        if corpus_folds["model"].nunique() > 1:
            rows += _contrasts(str(corpus), ALL_MODELS, corpus_folds)
    table = pd.DataFrame(rows)
    # The tests of one contrast are a family; the aggregates, which repeat the same data, are another.
    family = [table["contrast"], table["model"] == ALL_MODELS]
    table["p_adjusted"] = table.groupby(family)["p"].transform(lambda p: permutation.adjust(p.to_numpy(), correction))
    table["correction"] = correction
    table["stars"] = [permutation.stars(p) for p in table["p_adjusted"]]
    return table


def _contrasts(corpus: str, model: str, folds: pd.DataFrame) -> list[dict[str, object]]:
    # Models share the folds' words, so a fold is one observation however many models there are.
    wide = folds.pivot_table(index="fold", columns="estimate", values="delta_llh", aggfunc="mean").assign(baseline=0.0)
    n_words = folds.drop_duplicates("fold")["n"].sum()
    rows = []
    for contrast in CONTRASTS:
        first, second = contrast.split(" - ")
        if first in wide and second in wide:
            values = (wide[first] - wide[second]).to_numpy()
            row = {"corpus": corpus, "model": model, "contrast": contrast, "n": n_words, **_describe(values)}
            row["p_pairs"] = _p_of_model_fold_pairs(folds, first, second) if model == ALL_MODELS else np.nan
            rows.append(row)
    return rows


def _p_of_model_fold_pairs(folds: pd.DataFrame, first: str, second: str) -> float:
    """Test as if every model's folds were observations of their own, which they are not: p is too small."""
    wide = folds.pivot_table(index=["model", "fold"], columns="estimate", values="delta_llh").assign(baseline=0.0)
    return permutation.sign_flip_test((wide[first] - wide[second]).dropna().to_numpy())


def _describe(values: Floats) -> dict[str, float]:
    """Return mean, standard error, 95 % interval (Student's t) and p-values of the values of folds."""
    count = len(values)
    mean = float(np.mean(values))
    return {
        "folds": count,
        "mean": mean,
        "std_error": float(np.std(values, ddof=1) / np.sqrt(count)),
        "ci_low": mean - half_width(values),
        "ci_high": mean + half_width(values),
        "p": permutation.sign_flip_test(values),
        "p_strict": permutation.sign_flip_test(values, ties=False),
    }
