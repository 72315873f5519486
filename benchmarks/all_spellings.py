"""What counting every spelling costs, compared with plain scoring of the same texts in the same process.

    python benchmarks/all_spellings.py TEXTS [results.csv] [--model NAME] [--device cuda] [--dtype bfloat16]
                                       [--tolerance 0.01]

TEXTS has one text on each line. Reported are the ratio of the times, how many prefixes were opened for a word, and the
share of words whose interval is as narrow as it was asked for.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import record

import wordprob


def seconds(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("texts")
    parser.add_argument("results", nargs="?")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    texts = record.texts_in(arguments.texts)
    scorer = wordprob.load(arguments.model, device=arguments.device, dtype=arguments.dtype)
    options = {"spellings": "all", "tolerance": arguments.tolerance, "extras": ["prefixes_opened"]}
    scorer.score(texts[:3], **options)
    plain_times, all_times = [], []
    for _ in range(arguments.repeat):
        plain_times.append(seconds(lambda: scorer.score(texts))[0])
        taken, table = seconds(lambda: scorer.score(texts, **options))
        all_times.append(taken)
    words = table.to_pandas()
    width = words["surprisal_all"] - words["surprisal_all_low"]
    row = {
        "texts": Path(arguments.texts).name,
        "model": arguments.model,
        "device": arguments.device,
        "dtype": arguments.dtype,
        "words": len(words),
        "tolerance_bits": arguments.tolerance,
        "plain_s": round(min(plain_times), 3),
        "all_s": round(min(all_times), 3),
        "ratio_to_plain": round(min(all_times) / min(plain_times), 3),
        "prefixes_per_word": round(float(words["prefixes_opened"].mean()), 3),
        "within_tolerance": round(float((width <= arguments.tolerance).mean()), 5),
        "mean_width_bits": round(float(width.mean()), 6),
        "mean_change_bits": round(float((words["surprisal_all"] - words["surprisal"]).mean()), 6),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **record.surroundings(),
    }
    print(row)
    if arguments.results:
        record.save([row], arguments.results)


if __name__ == "__main__":
    main()
