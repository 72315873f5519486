"""Long texts like those of a book, made up from a few words: sentences with punctuation, in lines and paragraphs."""

from __future__ import annotations

import random

WORDS = (
    "the mark she saw on wall he said that it was a small word and then they went to park with other children because "
    "nobody knew how probability could be computed Elizabeth Mr. Darcy truth universally acknowledged fortune letter "
    "boss' can't O'Brien's half-way well-known café 1813 10,000 marker marked another night thought of in"
).split()
ENDS = [".", ".", ".", "?", "!", ";", '."', "?)", "..."]


def book(characters, seed=0):
    """Return a text of this many characters, with lines of some seventy and empty lines between paragraphs."""
    rng = random.Random(seed)
    lines, length = [], 0
    while length <= characters:
        line = _line(rng) + ("\n" if rng.random() < 0.2 else "")
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:characters]


def _line(rng):
    line = ""
    while len(line) < 70:
        sentence = rng.choices(WORDS, k=rng.randint(3, 12))
        opening = rng.choice(["", "", '"', "("])
        line += f"{opening}{sentence[0].capitalize()} {' '.join(sentence[1:])}{rng.choice(ENDS)} "
    return line.rstrip()
