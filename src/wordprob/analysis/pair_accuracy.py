"""Minimal pairs: how often a model finds the first sentence of a pair likelier than the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from wordprob.errors import InputError, missing_columns

ACCURACY: dict[str, str] = {
    "model": "which model, where there are several",
    "measure": "the surprisals that were compared",
    "n_pairs": "pairs that have both values",
    "n_missing": "pairs left out because a value is missing",
    "n_ties": "pairs whose two values are the same; each counts as half right",
    "accuracy": "share of pairs whose first sentence is less surprising",
    "ci_low": "95 % interval of the accuracy (Wilson)",
    "ci_high": "its upper end",
    "difference": "mean difference: surprisal of the second minus that of the first",
}
"""The columns of a table of accuracies, and what each says."""

ALL = "(all)"
"""The value, in the column that divides the pairs, for all pairs together."""

Z_95 = 1.959963984540054
"""The normal quantile of a 95 % interval."""


def accuracy(frame: pd.DataFrame, by: str | None = None, source: str = "the table") -> pd.DataFrame:
    """Return the accuracy of each model over all pairs and, with ``by``, for each value of a column.

    Parameters
    ----------
    frame
        Scored pairs, with the columns ``difference`` and, if there, ``difference_naive`` and ``model``.
    by
        A column that divides the pairs, such as a phenomenon.
    source
        What to call the table in messages.

    Examples
    --------
    >>> pairs = pd.DataFrame({"difference": [2.0, 1.0, -1.0, 3.0]})
    >>> accuracy(pairs)[["n_pairs", "accuracy", "ci_low", "ci_high"]].round(3).values.tolist()
    [[4.0, 0.75, 0.301, 0.954]]
    """
    message = missing_columns(source, [by] if by else [], frame.columns)
    if message:
        raise InputError(message)
    measures = {"surprisal": "difference", "surprisal_naive": "difference_naive"}
    rows = []
    for model in dict.fromkeys(frame["model"]) if "model" in frame.columns else [None]:
        of_model = frame if model is None else frame[frame["model"] == model]
        for measure, column in measures.items():
            if column not in frame.columns:
                continue
            names = ({} if model is None else {"model": model}) | {"measure": measure}
            for part, values in _parts(of_model, by, column):
                rows.append({**names, **({} if by is None else {by: part}), **_counts(values)})
    return pd.DataFrame(rows)


def _parts(frame: pd.DataFrame, by: str | None, column: str) -> list[tuple[str, Any]]:
    """Return the differences of all pairs, and those of each part, by its name."""
    values = frame[column].to_numpy(dtype=np.float64)
    parts = [(ALL, values)]
    if by is not None:
        of_rows = frame[by].astype(str).to_numpy()
        parts += [(part, values[of_rows == part]) for part in dict.fromkeys(of_rows)]
    return parts


def _counts(differences: Any) -> dict[str, float]:
    known = differences[np.isfinite(differences)]
    n_ties = int((known == 0).sum())
    n_right = float((known > 0).sum()) + n_ties / 2
    low, high = wilson(n_right, len(known))
    return {
        "n_pairs": len(known),
        "n_missing": len(differences) - len(known),
        "n_ties": n_ties,
        "accuracy": n_right / len(known) if len(known) else math.nan,
        "ci_low": low,
        "ci_high": high,
        "difference": float(known.mean()) if len(known) else math.nan,
    }


def wilson(n_right: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's method, which stays within 0 and 1.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.596, 0.982]
    """
    if not n:
        return math.nan, math.nan
    share = n_right / n
    spread = Z_95**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half_width = Z_95 * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(centre - half_width, 0.0), min(centre + half_width, 1.0)


def caption(pair: Sequence[str], unit: str) -> str:
    """Return a sentence on what was compared."""
    return (
        f"accuracy: share of pairs whose {pair[0]} is less surprising than {pair[1]}, a tie counts as half; 95 % "
        f"interval by Wilson, as if pairs were independent; difference: mean of {pair[1]} minus {pair[0]}, in {unit}."
    )
