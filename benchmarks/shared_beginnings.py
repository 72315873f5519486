"""Stimuli in two conditions that share their beginnings, compared with plain texts of as many distinct tokens.

    python benchmarks/shared_beginnings.py TEXTS [results.csv] [--model NAME] [--stimuli 1000] [--rounds 3]

TEXTS is running text. A stimulus has twelve words that both conditions of its item share, and eight of its own; the
conditions stand apart, all of the first before all of the second. The plain texts have twenty words and begin
differently. Times are processor time, the least of several rounds, in which the two take turns.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import record

import wordprob

SHARED_WORDS = 12
OWN_WORDS = 8


def stimuli(words, count):
    """Return stimuli in two conditions."""
    begins, ends = [], []
    place = 0
    for _ in range(count // 2):
        begins.append(" ".join(words[place : place + SHARED_WORDS]))
        place += SHARED_WORDS
        ends.append([" ".join(words[place + k * OWN_WORDS : place + (k + 1) * OWN_WORDS]) for k in range(2)])
        place += 2 * OWN_WORDS
    return [f"{begin} {end[k]}" for k in range(2) for begin, end in zip(begins, ends, strict=True)], words[place:]


def plain_texts(words, count):
    """Return texts of as many words each that share nothing."""
    size = SHARED_WORDS + OWN_WORDS
    return [" ".join(words[place : place + size]) for place in range(0, count * size, size)]


def count_tokens(model, texts):
    """Return how many tokens texts have, start tokens included, and how many beginnings of texts differ."""
    start = model.tokenizer.vocabulary.start_ids
    rows = [(*start, *tokens.ids.tolist()) for tokens in model.tokenizer.encode(texts)]
    distinct = {row[: n + 1] for row in rows for n in range(len(row))}
    return sum(map(len, rows)), len(distinct)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts")
    parser.add_argument("results", nargs="?")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--stimuli", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    scorer = wordprob.load(options.model, device="cpu")
    words = re.findall(r"\S+", Path(options.texts).read_text(encoding="utf-8"))
    alike, words = stimuli(words, options.stimuli)
    n_all, n_distinct = count_tokens(scorer.model, alike)
    _, tokens_of_one = count_tokens(scorer.model, plain_texts(words, 100))
    plain = plain_texts(words, round(100 * n_distinct / tokens_of_one))
    n_plain, _ = count_tokens(scorer.model, plain)
    scorer.score(plain[:20])
    ours, limit = [], []
    for _ in range(options.rounds):
        ours.append(record.cpu_seconds(lambda: scorer.score(alike)))
        limit.append(record.cpu_seconds(lambda: scorer.score(plain)))
    together = scorer.score(alike[:40] + alike[options.stimuli // 2 :][:40])["surprisal"].to_numpy()
    alone = [scorer.score(text)["surprisal"].to_numpy() for text in alike[:40] + alike[options.stimuli // 2 :][:40]]
    each = min(limit) / n_plain
    row = {
        "model": options.model,
        "stimuli": len(alike),
        "tokens": n_all,
        "distinct_tokens": n_distinct,
        "ours_s": round(min(ours), 2),
        "limit_s": round(each * n_distinct, 2),
        "ratio_to_limit": round(min(ours) / (each * n_distinct), 3),
        "unshared_s": round(each * n_all, 2),
        "largest_difference_bits": f"{np.abs(together - np.concatenate(alone)).max():.1e}",
        **record.surroundings(),
    }
    print(row)
    if options.results:
        record.save([row], options.results)


if __name__ == "__main__":
    main()
