"""Do the corrected surprisals of two models that differ only in their tokeniser agree better than the naive ones?

    python benchmarks/twins.py BOW EOW TEXTS [--figure FILE]

BOW and EOW are two models trained alike on the same text; in one the tokeniser marks where words begin, in the other
where they end. TEXTS has one passage a line. For a white-space word inside a text the EOW model needs no correction, so
it is a reference for the BOW one; the first word of a passage is left out. Prints the mean distance of the BOW
surprisals from the EOW ones, and their correlation, naive and corrected.
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
    arguments = parser.parse_args()
    passages = choose_passages(arguments.texts.read_text(encoding="utf-8"))
    twins = [wordprob.load(path) for path in (arguments.bow, arguments.eow)]
    print(f"{len(passages)} passages, nats\nwords        scored  distance naive  corrected  r naive  corrected")
    for definition in ("whitespace", "punctuation"):
        pairs = compare(*twins, passages, definition)
        print(f"{definition:12}{len(pairs):>7}{row(pairs)}")
        if definition == "whitespace":
            whitespace_pairs = pairs
    value, error = slope(whitespace_pairs)
    print(f"whitespace: naive minus reference, on the correction due: slope {value:.2f}, standard error {error:.2f}")
    if arguments.figure:
        draw(whitespace_pairs, arguments.figure)


def choose_passages(text):
    """Return forty passages of ordinary prose: not too short, not too long, no italics."""
    return [line for line in text.split("\n") if 200 < len(line) < 700 and "_" not in line][PASSAGES]


def compare(bow, eow, passages, definition):
    """Return a row for each word that both models give a value: the BOW surprisals, and the EOW one as reference."""
    rows = bow.score(passages, definition, unit="nats").to_pandas()
    references = eow.score(passages, definition, unit="nats").to_pandas()
    assert rows["word"].tolist() == references["word"].tolist()
    rows["reference"] = references["surprisal"]
    return rows[rows["surprisal"].notna() & rows["reference"].notna() & (rows["word_id"] > 0)]


def row(pairs):
    """Return a line of the printed table: mean distances and correlations, naive and corrected."""
    estimates = (pairs["surprisal_naive"], pairs["surprisal"])
    distances = [(estimate - pairs["reference"]).abs().mean() for estimate in estimates]
    correlations = [np.corrcoef(estimate, pairs["reference"])[0, 1] for estimate in estimates]
    return f"{distances[0]:>16.3f}{distances[1]:>11.3f}{correlations[0]:>9.4f}{correlations[1]:>11.4f}"


def correction_and_error(pairs):
    """Return the correction that each word is due, and by how much its naive value differs from the reference."""
    return pairs["after"] - pairs["before"], pairs["surprisal_naive"] - pairs["reference"]


def slope(pairs):
    """Return the slope of the naive error on the correction due, −1 if that is right; and its standard error."""
    due, error = correction_and_error(pairs)
    coefficients, covariance = np.polyfit(due, error, 1, cov=True)
    return coefficients[0], np.sqrt(covariance[0, 0])


def draw(pairs, path):
    """Draw how far the naive value is from the reference, by the correction that is due."""
    import matplotlib.pyplot as plt

    due, error = correction_and_error(pairs)
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.scatter(due, error, s=6, alpha=0.25, color="#0072B2", linewidths=0, label="a word")
    middles, means, errors = binned(due.to_numpy(), error.to_numpy())
    axes.errorbar(middles, means, yerr=errors, fmt="o", color="black", capsize=3, label="mean, 95 % interval")
    span = np.array([-3.0, 3.0])
    axes.plot(span, -span, color="#D55E00", label="if the correction is right")
    axes.set(xlim=span, ylim=(-4, 4), xlabel="correction due, after − before (nats)")
    axes.set_ylabel("naive BOW surprisal minus the EOW twin's (nats)")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def binned(x, y):
    """Return the mean x and y of each interval between edges, and half the 95 % interval of its mean y."""
    bins = [(x > low) & (x <= high) for low, high in pairwise(EDGES)]
    half_widths = [1.96 * y[rows].std(ddof=1) / np.sqrt(rows.sum()) for rows in bins]
    return [x[rows].mean() for rows in bins], [y[rows].mean() for rows in bins], half_widths


if __name__ == "__main__":
    main()
