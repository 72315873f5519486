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
    """Return what the paper adds to it: the surprisals at the same positions."""
    return " + ".join(f"{at}surprisal" for at in positions(spillover))


@dataclass(frozen=True)
class Design:
    """A formula worked out on a table: what is predicted, and from what."""

    formula: str
    terms: tuple[str, ...]
    y: Floats
    x: Floats


def variables(formula: str) -> set[str]:
    """Return the columns a formula asks for."""
    return {str(name) for name in _parse(formula).required_variables}


def design(formula: str, frame: pd.DataFrame) -> Design:
    """Work out a formula; rows must be complete."""
    parsed = _parse(formula)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # what is not finite is named below
            matrices = parsed.get_model_matrix(frame, na_action="raise")
    except Exception as error:  # formulaic wraps whatever the formula's own functions raise
        raise InputError(f"the formula '{formula}' cannot be worked out on this table: {error}") from error
    y = np.asarray(matrices.lhs, dtype=np.float64)
    x = np.asarray(matrices.rhs, dtype=np.float64)
    terms = tuple(str(name) for name in matrices.rhs.columns)
    wrong = [term for term, column in zip(("what is predicted", *terms), (y[:, 0], *x.T), strict=True)
             if not np.isfinite(column).all()]  # fmt: skip
    if wrong:
        raise InputError(f"in '{formula}', {', '.join(wrong)} is not finite on every row; the logarithm of 0, perhaps?")
    return Design(formula, terms, y[:, 0], x)


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


def fold_log_likelihoods(design: Design, folds: Ints, where: str) -> Floats:
    """Return, for each fold in order, the mean log-likelihood (nats a word) of its rows after training on the others.

    The likelihood is Gaussian, with the training rows' mean squared residual for a variance.
    """
    rows = np.column_stack([design.x, design.y])
    parts = [rows[folds == fold] for fold in np.unique(folds)]
    # For least squares, the triangle R of a fold's QR decomposition is as good as its rows, and much smaller.
    triangles = [_triangle(part) for part in parts]
    found = []
    for k, (fold, part) in enumerate(zip(np.unique(folds), parts, strict=True)):
        training = np.vstack(triangles[:k] + triangles[k + 1 :])
        fit = solve(training, len(rows) - len(part), design.terms, f"{where}, fold {fold}")
        variance = fit.squares / fit.rows
        squared = (part[:, -1] - part[:, :-1] @ fit.weights) ** 2
        found.append(float(np.mean(-0.5 * np.log(2 * np.pi * variance) - squared / (2 * variance))))
    return np.array(found)


class Fit(NamedTuple):
    """A least-squares solution: weights, residual sum of squares, and the triangle they came from."""

    rows: int
    weights: Floats
    squares: float
    triangle: Floats


def _triangle(block: Floats) -> Floats:
    return np.asarray(np.linalg.qr(block, mode="r"), dtype=np.float64)


def solve(block: Floats, rows: int, terms: Sequence[str], where: str) -> Fit:
    """Regress the last column of ``block`` on the others; refuse what has no solution or has many.

    ``block`` holds ``rows`` rows of data, or the triangles that stand for them.
    """
    count = len(terms)
    if rows <= count:
        raise InputError(
            f"{where}: {rows} rows to train on are too few for {count} parameters. "
            "Use fewer folds, fewer spill-over words or more data."
        )
    triangle = _triangle(block)
    # What a column adds to those before it, as a share of its length: a question about directions, not about units.
    share = np.abs(np.diag(triangle)) / np.maximum(np.linalg.norm(triangle, axis=0), 1e-300)
    if redundant := [term for term, part in zip(terms, share, strict=False) if part < 1e-10]:
        raise InputError(
            f"{where}: some terms say what those before them say already: {', '.join(redundant)}. "
            "Leave them out of the formula, or check whether a column is constant."
        )
    if share[count] < 1e-10:
        raise InputError(f"{where}: the regression fits its training rows exactly, so it has no variance to judge by.")
    weights: Floats = np.linalg.solve(triangle[:count, :count], triangle[:count, count]).astype(np.float64)
    return Fit(rows, weights, float(triangle[count, count] ** 2), triangle[:count, :count])


def coefficients(design: Design, where: str) -> pd.DataFrame:
    """Return the weights of a fit to all rows, with standard errors and t-tests as ``summary(lm(…))`` prints them."""
    from scipy import stats

    fit = solve(np.column_stack([design.x, design.y]), len(design.y), design.terms, where)
    freedom = fit.rows - len(design.terms)
    # (XᵀX)⁻¹ by way of the triangle: half the digits are lost when XᵀX itself is inverted.
    spread = np.sum(np.linalg.inv(fit.triangle) ** 2, axis=1)
    error = np.sqrt(fit.squares / freedom * spread)
    t = fit.weights / error
    p = 2 * stats.t.sf(np.abs(t), freedom)
    return pd.DataFrame({"term": design.terms, "estimate": fit.weights, "std_error": error, "t": t, "p": p})
