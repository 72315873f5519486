"""Make up reading times for the documentation: nobody read anything.

Eight invented readers take longer over long, rare and surprising words, and over a word after a surprising one, by the
amounts below; noise and a few lapses are added. What a study finds in these times is what was put into them.

    python examples/study/make_times.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import wordprob
from wordprob.analysis.frequencies import surprisals, unigrams

HERE = Path(__file__).parent
READERS = 8
LETTER, RARITY, SURPRISAL, SPILLOVER = 6.0, 3.0, 5.0, 3.0
"""Milliseconds for each letter, each nat of rarity, each bit of the word and of the word before it."""


def main() -> None:
    """Write ``reading_times.csv`` beside this file."""
    rng = np.random.default_rng(2024)
    texts = (HERE / "texts.txt").read_text(encoding="utf-8").splitlines()
    words = wordprob.load("smollm2-135m").score(texts).to_pandas()
    before = words.groupby("text_id")["surprisal"].shift(1).fillna(0.0)
    rarity = surprisals(words["word"], unigrams("wordfreq:en"))
    expected = (
        210 + LETTER * words["word"].str.len() + RARITY * rarity + SURPRISAL * words["surprisal"] + SPILLOVER * before
    )
    parts = []
    for reader in range(1, READERS + 1):
        pace, noise = rng.normal(1.0, 0.12), rng.lognormal(0.0, 0.22, len(words))
        lapse = np.where(rng.random(len(words)) < 0.004, 8.0, 1.0)
        rows = pd.DataFrame({"subject": f"s{reader}", "text": words["text_id"] + 1, "position": words["word_id"] + 1})
        parts.append(rows.assign(word=words["word"], rt=(expected * pace * noise * lapse).round().astype(int)))
    pd.concat(parts).to_csv(HERE / "reading_times.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
