"""Linear regression by formula, and how likely it makes words it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wordprob.core.arrays import Floats, Ints
from wordprob.errors import InputError, OptionError


def positions(spillover: int) -> tuple[str, ...]:
    """Return the prefixes of a word and its ``spillover`` predecessors."""
    return ("", *(f"prev{n if n > 1 else ''}_" for n in range(1, spillover + 1)))


def baseline_formula(spillover: int = 3) -> str:
    """Return the paper's baseline: length, unigram surprisal and their product, here and at the words before."""
    return "time ~ " + " + ".join(f"{at}word_len * {at}freq" for at in positions(spillover))


def surprisal_terms(spillover: int = 3) -> str:
    """Return the terms that the paper adds to its baseline: the surprisals at the same positions."""
    return " + ".join(f"{at}surprisal" for at in positions(spillover))


@dataclass(frozen=True)
class DesignMatrix:
    """A formula evaluated on a table: ``y`` is predicted from the columns of ``x``, which ``terms`` names."""

    formula: str
    terms: tuple[str, ...]
    y: Floats
    x: Floats


def variables(formula: str) -> set[str]:
    """Return the columns that a formula needs."""
    return {str(name) for name in _parse(formula).required_variables}


def design(formula: str, frame: pd.DataFrame) -> DesignMatrix:
    """Evaluate a formula on a table without missing values."""
    parsed = _parse(formula)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # values that are not finite are reported below
            matrices = parsed.get_model_matrix(frame, na_action="raise")
    except Exception as error:  # formulaic wraps whatever the formula's own functions raise
        raise InputError(f"the formula '{formula}' cannot be evaluated on this table: {error}") from error
    y = np.asarray(matrices.lhs, dtype=np.float64)
    x = np.asarray(matrices.rhs, dtype=np.float64)
    terms = tuple(str(name) for name in matrices.rhs.columns)
    _check_finite(formula, ("what is predicted", *terms), np.column_stack([y[:, 0], x]))
    return DesignMatrix(formula, terms, y[:, 0], x)


def _check_finite(formula: str, names: Sequence[str], columns: Floats) -> None:
    not_finite = [name for name, column in zip(names, columns.T, strict=True) if not np.isfinite(column).all()]
    if not_finite:
        raise InputError(
            f"in '{formula}', {', '.join(not_finite)} is not finite on some rows; is it the logarithm of 0?"
        )


def _parse(formula: str) -> Any:
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    try:
        parsed = Formula(formula)
    except FormulaicError as error:
        raise OptionError(f"'{formula}' is not a formula: {error}. Write it as: time ~ word_len * freq") from error
    if not hasattr(parsed, "lhs"):
        raise OptionError(f"'{formula}' does not say what to predict; write it as: time ~ word_len * freq")
    return parsed


def fold_log_likelihoods(design: DesignMatrix, folds: Ints, where: str) -> Floats:
    """Return, for each fold in order, the mean log-likelihood (nats a word) of its rows after training on the others.

    The likelihood is Gaussian, with the training rows' mean squared residual for a variance.
    """
    rows = np.column_stack([design.x, design.y])  # what is predicted is the last column
    labels = np.unique(folds)
    rows_of_folds = [rows[folds == fold] for fold in labels]
    # For least squares, the triangle R of a fold's QR decomposition is as good as its rows, and much smaller.
    triangles = [_triangle(fold_rows) for fold_rows in rows_of_folds]
    means = []
    for k, held_out in enumerate(rows_of_folds):
        training = np.vstack(triangles[:k] + triangles[k + 1 :])
        fit = solve(training, len(rows) - len(held_out), design.terms, f"{where}, fold {labels[k]}")
        variance = fit.squares / fit.rows
        squared_errors = (held_out[:, -1] - held_out[:, :-1] @ fit.weights) ** 2
        means.append(float(np.mean(-0.5 * np.log(2 * np.pi * variance) - squared_errors / (2 * variance))))
    return np.array(means)


class LeastSquaresFit(NamedTuple):
    """A least-squares solution.

    Attributes
    ----------
    rows
        The number of rows that were fitted.
    weights
        The coefficients.
    squares
        The residual sum of squares.
    triangle
        R of the QR decomposition of the predictors.
    """

    rows: int
    weights: Floats
    squares: float
    triangle: Floats


def _triangle(block: Floats) -> Floats:
    return np.asarray(np.linalg.qr(block, mode="r"), dtype=np.float64)


def solve(block: Floats, rows: int, terms: Sequence[str], where: str) -> LeastSquaresFit:
    """Regress the last column of ``block`` on the others; raise if there is no solution or more than one.

    ``block`` holds ``rows`` rows of data, or the triangles of their QR decompositions.
    """
    count = len(terms)
    if rows <= count:
        raise InputError(
            f"{where}: {rows} rows to train on are too few for {count} parameters. "
            "Use fewer folds, fewer spill-over words or more data."
        )
    triangle = _triangle(block)
    # The share of a column's length that the columns before it do not explain; it does not depend on units.
    share = np.abs(np.diag(triangle)) / np.maximum(np.linalg.norm(triangle, axis=0), 1e-300)
    redundant = [term for term, own_share in zip(terms, share, strict=False) if own_share < 1e-10]
    if redundant:
        raise InputError(
            f"{where}: some terms repeat what the terms before them say: {', '.join(redundant)}. "
            "Leave them out of the formula, or check whether a column is constant."
        )
    if share[count] < 1e-10:
        raise InputError(
            f"{where}: the regression fits its training rows exactly, so there is no variance for the likelihood."
        )
    weights: Floats = np.linalg.solve(triangle[:count, :count], triangle[:count, count]).astype(np.float64)
    return LeastSquaresFit(rows, weights, float(triangle[count, count] ** 2), triangle[:count, :count])


def coefficients(design: DesignMatrix, where: str) -> pd.DataFrame:
    """Return the weights of a fit to all rows, with standard errors and t-tests as ``summary(lm(…))`` prints them."""
    from scipy import stats

    fit = solve(np.column_stack([design.x, design.y]), len(design.y), design.terms, where)
    degrees_of_freedom = fit.rows - len(design.terms)
    # The diagonal of (XᵀX)⁻¹ by way of the triangle: inverting XᵀX itself would lose half the digits.
    inverse_diagonal = np.sum(np.linalg.inv(fit.triangle) ** 2, axis=1)
    std_error = np.sqrt(fit.squares / degrees_of_freedom * inverse_diagonal)
    t = fit.weights / std_error
    p = 2 * stats.t.sf(np.abs(t), degrees_of_freedom)
    return pd.DataFrame({"term": design.terms, "estimate": fit.weights, "std_error": std_error, "t": t, "p": p})
