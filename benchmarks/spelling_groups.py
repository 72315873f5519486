"""What counting every spelling does to the prediction of reading times, by frequency and by number of tokens.

    python benchmarks/spelling_groups.py FOLDS TOKENIZER TABLE [TOKENIZER TABLE …]

TABLE is what `wordprob reading-times --spellings all --table TABLE` wrote for one model, and TOKENIZER the directory or
name of that model. FOLDS is a folder with CORPUS.tsv: text_id, word_id and fold. Each estimate is added to the paper's
baseline; words are predicted from the other folds, and the log-likelihoods averaged over each group of words.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from wordprob.models.registry import open_tokenizer

ESTIMATES = ("surprisal_naive", "surprisal", "surprisal_all")
POSITIONS = ("", "_prev1", "_prev2", "_prev3")
MAX_TOKENS_APART = 3
"""Words of this many tokens or more are one group."""


def held_out_log_likelihoods(predictors, times, folds):
    """Return the Gaussian log-likelihood of every time, after least squares on the other folds."""
    values = np.zeros(len(times))
    for fold in np.unique(folds):
        held_out = folds == fold
        x, y = predictors[~held_out], times[~held_out]
        weights = np.linalg.lstsq(x, y, rcond=None)[0]
        variance = np.mean((y - x @ weights) ** 2)
        errors = times[held_out] - predictors[held_out] @ weights
        values[held_out] = -0.5 * np.log(2 * np.pi * variance) - errors**2 / (2 * variance)
    return values


def baseline(frame):
    """Return length, frequency and their product, for a word and the three before it."""
    columns = [np.ones(len(frame))]
    for at in POSITIONS:
        length, frequency = frame[f"length{at}"], frame[f"frequency{at}"]
        columns += [length, frequency, length * frequency]
    return np.column_stack(columns)


def compare(frame, folds):
    """Return the words of one corpus and model that can be predicted, with what each estimate adds to each."""
    frame = frame.merge(folds, on=["text_id", "word_id"])
    needed = [f"{name}{at}" for name in (*ESTIMATES, "length", "frequency") for at in POSITIONS]
    frame = frame.dropna(subset=["time", *needed])
    frame[needed] = frame[needed].astype(float)
    times, labels = frame["time"].to_numpy(), frame["fold"].to_numpy()
    simple = baseline(frame)
    without = held_out_log_likelihoods(simple, times, labels)
    for name in ESTIMATES:
        predictors = np.column_stack([simple, *(frame[f"{name}{at}"] for at in POSITIONS)])
        frame[f"gain_{name}"] = held_out_log_likelihoods(predictors, times, labels) - without
    return frame


def main():
    folds_dir = Path(sys.argv[1])
    parts = []
    for source, table in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        tokenizer = open_tokenizer(source)
        frame = pd.read_parquet(table)
        # Some tokenizers put a space before a text themselves.
        with_space = tokenizer.encode([" " + word for word in frame["word"]])
        without = tokenizer.encode(list(frame["word"]))
        counts = [min(len(a.ids), len(b.ids)) for a, b in zip(with_space, without, strict=True)]
        frame["n_tokens"] = np.minimum(counts, MAX_TOKENS_APART)
        for corpus, rows in frame.groupby("corpus"):
            folds = pd.read_csv(folds_dir / f"{corpus}.tsv", sep="\t")[["text_id", "word_id", "fold"]]
            parts.append(compare(rows, folds))
    words = pd.concat(parts)
    words["difference"] = words["surprisal"] - words["surprisal_all"]
    words["all - corrected"] = 100 * (words["gain_surprisal_all"] - words["gain_surprisal"])
    words["corrected - naive"] = 100 * (words["gain_surprisal"] - words["gain_surprisal_naive"])
    words["frequency"] = pd.cut(words["frequency"], [0, 3, 4, 5, 9], labels=["below 3", "3 to 4", "4 to 5", "above 5"])
    columns = ["difference", "corrected - naive", "all - corrected"]
    for by in (["model", "corpus"], ["model", "frequency"], ["model", "n_tokens"]):
        groups = words.groupby(by, observed=True)
        print(groups[columns].mean().assign(words=groups.size()).round(3).to_string(), end="\n\n")


if __name__ == "__main__":
    main()
