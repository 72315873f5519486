"""Corpus totals: how many bits a model needs for each byte, character and word of many texts, and its perplexity.

A total is a sum over texts, divided by what the same texts hold. A text whose probability is not known is in neither,
and is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wordprob.analysis import outputs
from wordprob.analysis.correlations import resamples
from wordprob.core.arrays import Bools, Floats
from wordprob.errors import InputError, counted
from wordprob.tables.frames import NO_WORDS

TOTALS: dict[str, str] = {
    "words": "log p of the words: that a text begins with them, and that the last of them ends",
    "words_and_end": "log p of the words and of the text's end after them: log p(tokens, end) − log B(start)",
    "tokens": "log p of the tokens that write the words, whatever follows them: the naive surprisals added up",
}
"""What is added up, by the name that tables use."""

RATES = {"bits_per_byte": "n_bytes", "bits_per_character": "n_characters", "bits_per_word": "n_words"}
"""Bits for each unit of length, and the column that counts those."""

PERPLEXITY_COLUMNS: dict[str, str] = {
    "model": "which model",
    "total": "what is added up: words, words_and_end or tokens",
    "n_texts": "texts that are in the total",
    "n_words": "their words",
    "n_characters": "their characters",
    "n_bytes": "their bytes in UTF-8",
    "n_words_unscored": "words of these texts that have no surprisal of their own; `score` says why",
    "n_texts_missing": "texts that are not in the total; note says why",
    "n_words_missing": "the words of those texts",
    "log_prob": "the total, natural logarithm",
    "bits_per_byte": "−log2 p for each byte of UTF-8",
    "bits_per_character": "the same for each character",
    "bits_per_word": "the same for each word",
    "word_perplexity": "2 to the power of bits_per_word",
    "note": "which texts are missing, and why",
}
"""The columns of the totals. Each rate has a 95 % interval as well: ``bits_per_byte_low``, ``bits_per_byte_high``."""

OTHER_TEXTS = "not the same texts as the other models"

MAX_REASONS = 3
"""Reasons for missing texts that a note lists."""


@dataclass(frozen=True)
class PerplexityResult:
    """The totals of several models over the same texts.

    Attributes
    ----------
    table
        A row for each model and total; :data:`PERPLEXITY_COLUMNS` describes its columns.
    texts
        A row for each model and text: its size, and log p by each way of adding up, in nats.
    metadata
        What was computed, and from what.
    """

    table: pd.DataFrame = field(repr=False)
    texts: pd.DataFrame = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)

    def write(self, path: str | Path, force: bool = False, format: str | None = None) -> Path:
        """Write the totals, completely or not at all.

        Parameters
        ----------
        path
            A ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl`` or ``.json`` file.
        force
            Replace a file that exists.
        format
            The format; by default, the ending of the file determines it.
        """
        return outputs.write_table(path, self.table, self.metadata, force, format)


def text_totals(words: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """Return what each scored text holds and its log p, in nats, by each way of adding up; missing with a reason.

    Parameters
    ----------
    words, texts
        The scored words in nats and the summary by text, as a :class:`wordprob.WordTable` has them.
    """
    n_words = texts["n_words"].to_numpy(dtype=np.int64)
    stops = np.cumsum(n_words).tolist()
    words_of_texts = [words[stop - count : stop] for stop, count in zip(stops, n_words.tolist(), strict=True)]
    tokens = [-part["surprisal_naive"].to_numpy(dtype=np.float64).sum() for part in words_of_texts]
    no_words = n_words == 0
    sizes = texts[["text_id", "n_words", "n_scored", "n_characters", "n_bytes"]]
    return sizes.assign(
        words=np.where(no_words, np.nan, texts["log_prob_words"]),
        words_and_end=np.where(no_words, np.nan, texts["log_prob"]),
        tokens=np.where(no_words, np.nan, tokens),
        reason=[_reason(part, note) for part, note in zip(words_of_texts, texts["note"].tolist(), strict=True)],
    )


def _reason(words: pd.DataFrame, note: str) -> str:
    """Return why a total of a text may be missing: its own note, or that of the first word without a value."""
    if not len(words):
        return NO_WORDS
    without_value = words["surprisal"].isna() | words["surprisal_naive"].isna()
    return note or next((reason for reason in words.loc[without_value, "note"] if reason), "")


def corpus_totals(texts: Mapping[str, pd.DataFrame], n_samples: int = 1000, seed: int = 42) -> pd.DataFrame:
    """Return a row for each model and total.

    Parameters
    ----------
    texts
        What :func:`text_totals` returned, by model.
    n_samples, seed
        The number of bootstrap samples of texts behind the intervals, and their seed.

    Examples
    --------
    >>> one = {"n_words": 2, "n_scored": 2, "n_characters": 8, "n_bytes": 8, "reason": ""}
    >>> log_probs = {name: [-8 * math.log(2), -4 * math.log(2)] for name in TOTALS}
    >>> totals = corpus_totals({"m": pd.DataFrame({**{name: [value] * 2 for name, value in one.items()}, **log_probs})})
    >>> totals[["total", "bits_per_byte", "bits_per_word", "word_perplexity"]].values.tolist()[0]
    ['words', 0.75, 3.0, 8.0]
    """
    if not texts:
        raise InputError("there is nothing to add up: no model was named.")
    has_value = {model: {total: _is_known(table[total]) for total in TOTALS} for model, table in texts.items()}
    first = next(iter(has_value.values()))
    rows = []
    for model, table in texts.items():
        for total in TOTALS:
            row = _total(table, total, has_value[model][total], n_samples, seed)
            if any(not np.array_equal(of_model[total], first[total]) for of_model in has_value.values()):
                row["note"] = "; ".join(filter(None, [row["note"], OTHER_TEXTS]))
            rows.append({"model": model, "total": total, **row})
    return pd.DataFrame(rows)


def _is_known(log_probs: pd.Series) -> Bools:
    """Return True where there is a value; probability zero is one."""
    known: Bools = ~np.isnan(log_probs.to_numpy(dtype=np.float64))
    return known


def _total(table: pd.DataFrame, total: str, has_value: Bools, n_samples: int, seed: int) -> dict[str, Any]:
    """Return one row of the totals, without the model."""
    used, left_out = table[has_value], table[~has_value]
    row: dict[str, Any] = {"n_texts": len(used)}
    for name in ("n_words", "n_characters", "n_bytes"):
        row[name] = int(used[name].sum())
    row["n_words_unscored"] = int((used["n_words"] - used["n_scored"]).sum())
    row |= {"n_texts_missing": len(left_out), "n_words_missing": int(left_out["n_words"].sum())}
    bits = -used[total].to_numpy(dtype=np.float64) / math.log(2)
    row["log_prob"] = float(used[total].sum()) if len(used) else math.nan
    for rate, lengths in RATES.items():
        row |= _with_interval(rate, bits, used[lengths].to_numpy(dtype=np.float64), n_samples, seed)
    for ending in ("", "_low", "_high"):
        row[f"word_perplexity{ending}"] = _power_of_two(row[f"bits_per_word{ending}"])
    row["note"] = "; ".join(_notes(used, left_out, int(np.isposinf(bits).sum())))
    return row


def _with_interval(name: str, bits: Floats, lengths: Floats, n_samples: int, seed: int) -> dict[str, float]:
    """Return a rate over all texts, and its 95 % interval by drawing texts with replacement."""
    rate = bits.sum() / lengths.sum() if len(bits) else math.nan
    low = high = math.nan
    if len(bits) > 1 and np.isfinite(rate):
        samples = [(drawn @ bits) / (drawn @ lengths) for drawn in resamples(len(bits), n_samples, seed)]
        low, high = np.percentile(samples, [2.5, 97.5])
    return {name: float(rate), f"{name}_low": float(low), f"{name}_high": float(high)}


def _power_of_two(bits: float) -> float:
    try:
        return float(2.0**bits)
    except OverflowError:
        return math.inf


def _notes(used: pd.DataFrame, left_out: pd.DataFrame, n_impossible: int) -> list[str]:
    """Return what to know about a total: texts that are not in it and why, and why a number is infinite or missing."""
    notes = []
    if len(left_out):
        reasons = Counter(reason or "no value" for reason in left_out["reason"].tolist()).most_common()
        listed = [f"{reason} ({count})" if len(reasons) > 1 else reason for reason, count in reasons[:MAX_REASONS]]
        listed += ["other reasons"] if len(reasons) > MAX_REASONS else []
        notes.append(f"{counted(len(left_out), 'text')} not in the total: {', '.join(listed)}")
    if n_impossible:
        notes.append(f"{counted(n_impossible, 'text')} with probability zero: the rates are infinite")
    if len(used) == 1:
        notes.append("one text: no interval")
    return notes
