"""Do the corrected surprisals of two models that differ only in their tokeniser agree better than the naive ones?

    python benchmarks/twins.py BOW EOW TEXTS [--figure FILE]

BOW and EOW are two models trained alike on the same text; in one the tokeniser marks where words begin, in the other
where they end. TEXTS has one passage a line. For a white-space word inside a text the EOW model needs no correction, so
it is a witness of the BOW one; the first word of a passage is left out. Prints the mean distance of the BOW surprisals
from the EOW ones, and their correlation, naive and corrected.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

import wordprob

PASSAGES = slice(20, 60)
EDGES = [-4, -1.25, -0.75, -0.4, -0.15, 0.15, 0.4, 0.75, 1.25, 4]
"""Where the figure divides the corrections, in nats."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bow", "eow", "texts"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    passages = chosen(given.texts.read_text(encoding="utf-8"))
    twins = [wordprob.load(path) for path in (given.bow, given.eow)]
    print(f"{len(passages)} passages, nats\nwords        scored  distance naive  corrected  r naive  corrected")
    for definition in ("whitespace", "punctuation"):
        pairs = compare(*twins, passages, definition)
        print(f"{definition:12}{len(pairs):>7}{row(pairs)}")
        if definition == "whitespace":
            inside = pairs
    print(
        "whitespace: naive less witness, on the correction due: slope {:.2f}, standard error {:.2f}".format(
            *slope(inside)
        )
    )
    if given.figure:
        draw(inside, given.figure)


def chosen(text):
    """Forty passages of ordinary prose: not too short, not too long, no italics."""
    return [line for line in text.split("\n") if 200 < len(line) < 700 and "_" not in line][PASSAGES]


def compare(bow, eow, passages, definition):
    """A row for each word that both have a value for: the BOW surprisals, and the EOW one as witness."""
    one, other = (model.score(passages, definition, unit="nats").to_pandas() for model in (bow, eow))
    assert one["word"].tolist() == other["word"].tolist()
    one["witness"] = other["surprisal"]
    return one[one["surprisal"].notna() & one["witness"].notna() & (one["word_id"] > 0)]


def row(pairs):
    naive, corrected, witness = pairs["surprisal_naive"], pairs["surprisal"], pairs["witness"]
    far = [(value - witness).abs().mean() for value in (naive, corrected)]
    r = [np.corrcoef(value, witness)[0, 1] for value in (naive, corrected)]
    return f"{far[0]:>16.3f}{far[1]:>11.3f}{r[0]:>9.4f}{r[1]:>11.4f}"


def slope(pairs):
    """The regression of the naive value's error on the correction due, and its standard error: −1 if that is right."""
    due, error = pairs["after"] - pairs["before"], pairs["surprisal_naive"] - pairs["witness"]
    coefficients, covariance = np.polyfit(due, error, 1, cov=True)
    return coefficients[0], np.sqrt(covariance[0, 0])


def draw(pairs, path):
    """How far the naive value is from the witness, by the correction that is due."""
    import matplotlib.pyplot as plt

    due, error = pairs["after"] - pairs["before"], pairs["surprisal_naive"] - pairs["witness"]
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.scatter(due, error, s=6, alpha=0.25, color="#0072B2", linewidths=0, label="a word")
    middles, means, errors = binned(due.to_numpy(), error.to_numpy())
    axes.errorbar(middles, means, yerr=errors, fmt="o", color="black", capsize=3, label="mean, 95 % interval")
    span = np.array([-3.0, 3.0])
    axes.plot(span, -span, color="#D55E00", label="if the correction is right")
    axes.set(xlim=span, ylim=(-4, 4), xlabel="correction due, after − before (nats)")
    axes.set_ylabel("naive BOW surprisal less the EOW twin's (nats)")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def binned(x, y):
    parts = [(x > low) & (x <= high) for low, high in pairwise(EDGES)]
    spread = [1.96 * y[p].std(ddof=1) / np.sqrt(p.sum()) for p in parts]
    return [x[p].mean() for p in parts], [y[p].mean() for p in parts], spread


if __name__ == "__main__":
    main()
