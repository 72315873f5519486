"""wordprob: every word, corrected and naive, from one run."""

from __future__ import annotations

import sys

import protocol

import wordprob

scorer = wordprob.load(sys.argv[1], device="cpu")


def score(texts):
    table = scorer.score(texts, unit="nats")

    def listed():
        groups = [group for _, group in table.to_pandas().groupby("text_id", sort=False)]
        columns = {"corrected": "surprisal", "naive": "surprisal_naive"}
        values = {kind: [g[column].tolist() for g in groups] for kind, column in columns.items()}
        return [g["word"].tolist() for g in groups], values

    return listed


protocol.serve(score, ["torch", "transformers"])
