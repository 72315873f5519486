"""Which columns of a scored table a figure is drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class PlotColumns:
    """Which columns of a scored table hold what."""

    word: str = "word"
    value: str = "surprisal"
    texts: Sequence[str] = ("text_id",)
    naive: str = "surprisal_naive"


def columns_of(
    frame: pd.DataFrame,
    metadata: Mapping[str, Any],
    word: str | None = None,
    value: str | None = None,
    texts: Sequence[str] = (),
) -> PlotColumns:
    """Return which columns hold what: as specified, as recorded when the table was scored, or by their usual names."""
    recorded_word = "word" if metadata.get("sum_by") else metadata.get("word_column")
    recorded_texts = [name for name in str(metadata.get("group_by", "")).split(",") if name in frame.columns]
    prefix = str(metadata.get("prefix") or "")
    return PlotColumns(
        word=word or recorded_word or f"{prefix}word",
        value=value or "surprisal",
        texts=list(texts) or recorded_texts or ["text_id"],
    )
