"""Time and memory for one text, from a thousand tokens to a million.

    python benchmarks/length.py MODEL TEXT [results.csv] [--lengths 1000 10000 100000 1000000]

TEXT is repeated or cut to each length, in tokens of MODEL (the directory of a small model, or this takes days). Every
length has new processes, one for wordprob and one for the limit: the same windows through the trunk and the head's
matrix product. Loading is not timed; memory is the most used beyond what was used after one short text. Short texts are
scored a hundred times, or until two hundred thousand tokens, the tools in turns, and the mean is reported: the best of
many would be too good.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import record
from worker import RUNNERS, Run, Worker

from wordprob.models.registry import open_tokenizer

TOOLS = ("limit", "wordprob")


def cut(tokenizer, text, length):
    """Return the text, repeated where necessary, as whole words of at most ``length`` tokens."""
    whole = text
    while len(ends := tokenizer.encode([whole])[0].ends) < length:
        whole += "\n" + text
    return whole.encode()[: int(ends[length - 1])].decode(errors="ignore").rsplit(maxsplit=1)[0]


def measure(model, text, turns):
    """Return, by tool, the mean times and the most memory beyond the loaded model."""
    with ExitStack() as stack:
        workers = {t: stack.enter_context(Worker(sys.executable, RUNNERS / f"run_{t}.py", model)) for t in TOOLS}
        runs = {tool: [] for tool in TOOLS}
        for turn in range(turns):
            for tool in TOOLS[:: -1 if turn % 2 else 1]:
                runs[tool].append(workers[tool].run([text]))
    return {
        tool: Run(mean(r.seconds for r in done), mean(r.cpu for r in done), max(r.extra for r in done))
        for tool, done in runs.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--lengths", nargs="+", type=int, default=[10**k for k in (3, 4, 5, 6)])
    options = parser.parse_args()
    tokenizer, rows = open_tokenizer(options.model), []
    original = options.text.read_text(encoding="utf-8")
    for length in options.lengths:
        text = cut(tokenizer, original, length)
        tokens = len(tokenizer.encode([text])[0].ids)
        measured = measure(options.model, text, turns=max(1, min(100, 200_000 // length)))
        rows.append(row(tokens, measured, rows[:1]) | {"text": options.text.name, "model": options.model.name})
        rows[-1] |= record.surroundings()
        print(rows[-1], flush=True)
        if options.results is not None:
            record.save(rows, options.results)


def row(tokens, measured, first):
    """Return the columns of one length, and the ratio to the first length."""
    ours, limit = measured["wordprob"], measured["limit"]
    each = round(ours.seconds / tokens * 1e6, 2)
    return {
        "tokens": tokens,
        "ours_s": round(ours.seconds, 3),
        "limit_s": round(limit.seconds, 3),
        "ours_cpu_s": round(ours.cpu, 3),
        "limit_cpu_s": round(limit.cpu, 3),
        "us_per_token": each,
        "limit_us_per_token": round(limit.seconds / tokens * 1e6, 2),
        "ratio_to_limit": round(ours.seconds / limit.seconds, 3),
        "ratio_to_first": round(each / first[0]["us_per_token"], 3) if first else 1.0,
        "extra_memory_mb": round(ours.extra / 1e6),
        "limit_extra_memory_mb": round(limit.extra / 1e6),
    }


if __name__ == "__main__":
    main()
