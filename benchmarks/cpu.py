"""What scoring costs on a CPU, compared with the model alone in the same process.

    python benchmarks/cpu.py TEXTS [results.csv]

TEXTS has one text on each line. The limit is the trunk and the head's matrix product.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import limit
import record

import wordprob


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main():
    texts = record.texts_in(sys.argv[1])
    scorer = wordprob.load()
    model = scorer.model
    requests = limit.requests(model, texts)
    count = sum(len(ids) for ids, _ in requests)
    scorer.score(texts[:3])
    limit.bare(model, requests[:3])
    limit_times, our_times = [], []
    for _ in range(3):
        limit_times.append(seconds(lambda: limit.bare(model, requests)))
        our_times.append(seconds(lambda: scorer.score(texts)))
    least = min(limit_times)
    ours = min(our_times)
    row = {
        "texts": Path(sys.argv[1]).name,
        "model": "smollm2-135m",
        "tokens": count,
        "limit_s": round(least, 3),
        "ours_s": round(ours, 3),
        "ratio_to_limit": round(ours / least, 3),
        "tokens_per_s": round(count / ours),
        **record.surroundings(),
    }
    print(row)
    if len(sys.argv) > 2:
        record.save([row], sys.argv[2])


if __name__ == "__main__":
    main()
