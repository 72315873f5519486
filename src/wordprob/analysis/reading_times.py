"""How much better reading times are predicted with surprisal than without: Δ log-likelihood.

One :class:`Dataset` is a corpus read by people and scored by a model. :func:`analyse` takes several, cross-validates
the protocol's regressions on each, and returns a :class:`Result`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pandas as pd

from wordprob.analysis import folds as folding
from wordprob.analysis import permutation, regression
from wordprob.analysis.tables import Mask, check_times, numbers, require
from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError, listing

ESTIMATES = {"corrected": "surprisal", "naive": "surprisal_naive"}
"""The column of each estimate."""

CONTRASTS = ("corrected - baseline", "naive - baseline", "corrected - naive")
ALL_MODELS = "(all models)"
DIGITS = re.compile(r"(\d+(?:\.\d+)?)\s*([mb])(?![a-z])", re.IGNORECASE)

# The authors write pythia-14b for Pythia 1.4B, and so on.
SIZES = {
    "gpt2": 124, "gpt2-small": 124, "gpt2-medium": 355, "gpt2-large": 774, "gpt2-xl": 1558, "mgpt": 1300,
    "pythia-70m": 70, "pythia-160m": 160, "pythia-410m": 410, "pythia-14b": 1400, "pythia-28b": 2800,
    "pythia-69b": 6900, "pythia-120b": 12000,
}  # fmt: skip
"""Millions of parameters of the models whose names do not tell, or tell wrongly."""


def size_of(model: str) -> float | None:
    """Return how many million parameters a model has, as far as its name tells.

    Examples
    --------
    >>> size_of("stories15M"), size_of("pythia-14b"), size_of("my-model")
    (15.0, 1400.0, None)
    """
    if model.lower() in SIZES:
        return float(SIZES[model.lower()])
    found = DIGITS.search(model)
    return float(found[1]) * (1000.0 if found[2].lower() == "b" else 1.0) if found else None


@dataclass(frozen=True)
class Protocol:
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
            raise OptionError(f"{self.spillover} spill-over words cannot be; use 0 or more.")
        object.__setattr__(self, "baseline", self.baseline or regression.baseline_formula(self.spillover))
        object.__setattr__(self, "predictors", self.predictors or regression.surprisal_terms(self.spillover))
        regression.variables(self.full)

    @property
    def full(self) -> str:
        """The formula with surprisal."""
        return f"{self.baseline} + {self.predictors}"


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
    """

    corpus: str
    model: str
    frame: pd.DataFrame = field(repr=False)
    folds: Ints | None = field(default=None, repr=False)
    source: str = ""
    title: str = ""

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


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes
    ----------
    folds
        ``corpus, model, estimate, fold, n, delta_llh``: nats a word, against the baseline.
    summary
        A row for each corpus, model and contrast: mean, standard error and 95 % interval over folds, p-values.
    coefficients
        The regressions fitted to all rows.
    provenance
        What was computed, and from what.
    """

    folds: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    coefficients: pd.DataFrame = field(repr=False)
    provenance: Mapping[str, object] = field(repr=False)

    @property
    def corpora(self) -> list[str]:
        """The corpora, in the order given."""
        return list(dict.fromkeys(self.folds["corpus"]))

    @property
    def models(self) -> list[str]:
        """The models, in the order given."""
        return list(dict.fromkeys(self.folds["model"]))

    @property
    def sizes(self) -> dict[str, float | None]:
        """Millions of parameters of each model, where known."""
        known = cast("Mapping[str, float | None]", self.provenance["sizes"])
        return {model: known.get(model) for model in self.models}

    @property
    def titles(self) -> Mapping[str, str]:
        """What tables and figures call each corpus."""
        return cast("Mapping[str, str]", self.provenance["titles"])


def analyse(
    datasets: Sequence[Dataset], protocol: Protocol | None = None, sizes: Mapping[str, float] | None = None
) -> Result:
    """Cross-validate the protocol's regressions on every dataset, and compare.

    Parameters
    ----------
    datasets
        One for each corpus and model.
    protocol
        How; the paper's by default.
    sizes
        Millions of parameters, for models whose names do not tell.
    """
    protocol = protocol or Protocol()
    _check_distinct(datasets)
    parts = [_cross_validate(dataset, protocol) for dataset in datasets]
    folds = pd.concat([part[0] for part in parts], ignore_index=True)
    models = {dataset.model: (sizes or {}).get(dataset.model, size_of(dataset.model)) for dataset in datasets}
    provenance = {
        "study": "reading times",
        "baseline": protocol.baseline,
        "full": protocol.full,
        "unit": "nats per word",
        "test": "paired sign flips of fold values, two-sided, exact up to 16 folds; models aggregated within folds",
        "correction": f"{permutation.CORRECTIONS[protocol.correction]} over the tests of one contrast",
        "sizes": models,
        "titles": {dataset.corpus: dataset.title or _title(dataset.corpus) for dataset in datasets},
        "datasets": [part[2] for part in parts],
    }
    return Result(folds, summarise(folds, protocol.correction), pd.concat([p[1] for p in parts]), provenance)


def _title(corpus: str) -> str:
    return corpus.replace("_", " ").title()


def _check_distinct(datasets: Sequence[Dataset]) -> None:
    if not datasets:
        raise InputError("there is nothing to analyse: give at least one table.")
    names = [(dataset.corpus, dataset.model) for dataset in datasets]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"given twice: {', '.join(f'{c} with {m}' for c, m in sorted(twice))}. Give each once.")


Part = tuple[pd.DataFrame, pd.DataFrame, dict[str, object]]


def _cross_validate(dataset: Dataset, protocol: Protocol) -> Part:
    tables = {name: _variables(dataset, protocol, column) for name, column in _columns(dataset).items()}
    # An infinite surprisal (probability zero) is no more a predictor than a missing one.
    complete = np.all([np.isfinite(table.to_numpy()).all(axis=1) for table in tables.values()], axis=0)
    missing = _missing(tables)
    if not complete.any():
        every = (f"{name} is missing on {count} of {len(complete)} rows" for name, count in missing.items())
        raise InputError(f"{dataset.where}: no row has all of the values that are needed: {listing(every)}.")
    folds = _folds(dataset, complete, protocol)
    used = complete & (folds > 0)
    tables = {name: table[used].reset_index(drop=True) for name, table in tables.items()}
    base = regression.design(protocol.baseline, next(iter(tables.values())))
    full = {name: regression.design(protocol.full, table) for name, table in tables.items()}
    baseline = regression.fold_log_likelihoods(base, folds[used], dataset.where)
    llh = {n: regression.fold_log_likelihoods(d, folds[used], dataset.where) - baseline for n, d in full.items()}
    about = {
        "corpus": dataset.corpus,
        "model": dataset.model,
        "source": dataset.source,
        "rows": len(complete),
        "incomplete": int((~complete).sum()),
        "missing": missing,
        "without_fold": int((complete & (folds == 0)).sum()),
        "used": int(used.sum()),
        "folds": "given" if dataset.folds is not None else f"drawn, seed {protocol.seed}",
    }
    designs = {"baseline": base, **full}
    return _tidy(dataset, llh, folds[used]), _all_coefficients(dataset, designs), about


def _missing(tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Count, for every variable that is not known everywhere, the rows without it; the worst first."""
    counts = {
        _renamed(str(name), ESTIMATES[estimate]): int((~np.isfinite(values.to_numpy())).sum())
        for estimate, table in tables.items()
        for name, values in table.items()
    }
    return {name: count for name, count in sorted(counts.items(), key=lambda item: -item[1]) if count}


def _columns(dataset: Dataset) -> dict[str, str]:
    return {name: ESTIMATES[name] for name in dataset.estimates}


def _folds(dataset: Dataset, complete: Mask, protocol: Protocol) -> Ints:
    found = dataset.folds if dataset.folds is not None else folding.draw(complete, protocol.folds, protocol.seed)
    if len(np.unique(found[complete & (found > 0)])) < 2:
        raise InputError(f"{dataset.where}: fewer than two folds hold complete rows; nothing can be held out.")
    return found


def _variables(dataset: Dataset, protocol: Protocol, column: str) -> pd.DataFrame:
    """Gather what the formulas name, with ``surprisal`` standing for one estimate's column."""
    wanted = sorted(regression.variables(protocol.full))
    return pd.DataFrame({name: _variable(dataset, _renamed(name, column)) for name in wanted})


def _renamed(name: str, column: str) -> str:
    return re.sub(r"(^|^prev\d*_)surprisal$", rf"\g<1>{column}", name)


def _variable(dataset: Dataset, name: str) -> pd.Series:
    """Return a column; one of an earlier word is looked up when the table does not hold it already."""
    if name in dataset.frame.columns:
        return _numeric(dataset, name)
    if (found := re.match(r"prev(\d*)_(.+)", name)) and found[2] in dataset.frame.columns:
        return earlier(dataset.frame, _numeric(dataset, found[2]), int(found[1] or 1), dataset.where)
    require(dataset.frame, [name], dataset.where)
    raise AssertionError


def _numeric(dataset: Dataset, name: str) -> pd.Series:
    return pd.Series(numbers(dataset.frame, name, dataset.where), index=dataset.frame.index)


def earlier(frame: pd.DataFrame, values: pd.Series, distance: int, where: str) -> pd.Series:
    """Return, for every word, the value of the word ``distance`` before it in its text; NaN where there is none."""
    position = numbers(frame, "word_id", where)
    at = pd.MultiIndex.from_arrays([frame["text_id"], position])
    if at.has_duplicates:
        text, word = at[at.duplicated()][0]
        raise InputError(
            f"{where}: word {word:g} of text {text} has several rows. If they are participants, name their column "
            "with --participant; otherwise give every text a name of its own with --group-by."
        )
    before = pd.MultiIndex.from_arrays([frame["text_id"], position - distance])
    return pd.Series(pd.Series(values.to_numpy(), index=at).reindex(before).to_numpy(), index=frame.index)


def _tidy(dataset: Dataset, llh: Mapping[str, Floats], folds: Ints) -> pd.DataFrame:
    labels, counts = np.unique(folds, return_counts=True)
    name = {"corpus": dataset.corpus, "model": dataset.model}
    parts = [
        pd.DataFrame({**name, "estimate": estimate, "fold": labels, "n": counts, "delta_llh": values})
        for estimate, values in llh.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _all_coefficients(dataset: Dataset, designs: Mapping[str, regression.Design]) -> pd.DataFrame:
    parts = [
        regression.coefficients(design, dataset.where).assign(
            corpus=dataset.corpus, model=dataset.model, regression=name, n=len(design.y)
        )
        for name, design in designs.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    return table[["corpus", "model", "regression", "n", "term", "estimate", "std_error", "t", "p"]]


# --- tests ---------------------------------------------------------------------------------------------------------


def summarise(folds: pd.DataFrame, correction: str = "bh") -> pd.DataFrame:
    """Test every contrast of every corpus and model, and of all models of a corpus together."""
    rows = []
    for corpus, of_corpus in folds.groupby("corpus", sort=False):
        for model, part in of_corpus.groupby("model", sort=False):
            rows += _contrasts(str(corpus), str(model), part)
        if of_corpus["model"].nunique() > 1:
            rows += _contrasts(str(corpus), ALL_MODELS, of_corpus)
    table = pd.DataFrame(rows)
    # The tests of one contrast are a family; the aggregates, which repeat the same data, are another.
    family = [table["contrast"], table["model"] == ALL_MODELS]
    table["p_adjusted"] = table.groupby(family)["p"].transform(lambda p: permutation.adjust(p.to_numpy(), correction))
    table["correction"] = correction
    table["stars"] = [permutation.stars(p) for p in table["p_adjusted"]]
    return table


def _contrasts(corpus: str, model: str, part: pd.DataFrame) -> list[dict[str, object]]:
    # Models share the folds' words, so a fold is one observation however many models there are.
    wide = part.pivot_table(index="fold", columns="estimate", values="delta_llh", aggfunc="mean").assign(baseline=0.0)
    n = part.drop_duplicates("fold")["n"].sum()
    rows = []
    for contrast in CONTRASTS:
        first, second = contrast.split(" - ")
        if first in wide and second in wide:
            values = (wide[first] - wide[second]).to_numpy()
            row = {"corpus": corpus, "model": model, "contrast": contrast, "n": n, **_describe(values)}
            rows.append({**row, "p_pairs": _pairs(part, first, second) if model == ALL_MODELS else np.nan})
    return rows


def _pairs(part: pd.DataFrame, first: str, second: str) -> float:
    """Test as if every model's folds were observations of their own, which they are not: smaller p than is due."""
    wide = part.pivot_table(index=["model", "fold"], columns="estimate", values="delta_llh").assign(baseline=0.0)
    return permutation.sign_flip_test((wide[first] - wide[second]).dropna().to_numpy())


def _describe(values: Floats) -> dict[str, float]:
    from scipy import stats

    count, mean = len(values), float(np.mean(values))
    error = float(np.std(values, ddof=1) / np.sqrt(count))
    reach = error * float(stats.t.ppf(0.975, count - 1))
    low, high = mean - reach, mean + reach
    p, strict = permutation.sign_flip_test(values), permutation.sign_flip_test(values, ties=False)
    return {
        "folds": count, "mean": mean, "std_error": error, "ci_low": low, "ci_high": high, "p": p, "p_strict": strict,
    }  # fmt: skip
