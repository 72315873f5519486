"""What a GGUF file costs run by llama.cpp, beside the same file expanded: time, memory, and how far apart they are.

    python benchmarks/gguf_quantised.py TEXTS [results.csv]

TEXTS has one text on each line. Each way runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

WAYS = {"llama.cpp": "llama-cpp", "expanded": "gguf"}
"""What each way is called here, and its backend."""


def resident_mb(field):
    """Return what this process has in memory: now (``VmRSS``), or at most (``VmHWM``)."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return round(int(line.split()[1]) / 1024)
    return None


def measure(backend, path):
    """Score the texts in this process, and print what that took."""
    import wordprob
    from wordprob.models.default_model import gguf_file

    texts = [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line.strip()]
    scorer = wordprob.load(f"{backend}:{gguf_file()}")
    scorer.score(texts[:1])
    begin, cpu_begin = time.perf_counter(), time.process_time()
    table = scorer.score(texts, unit="nats")
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    words = table.to_pandas()
    print(
        json.dumps(
            {
                "tokens": int(table.texts()["n_tokens"].sum()),
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "resident_mb": resident_mb("VmRSS"),
                "most_mb": resident_mb("VmHWM"),
                "n_tokens": words["n_tokens"].tolist(),
                **{name: words[name].tolist() for name in ("surprisal", "surprisal_naive", "after")},
            }
        )
    )


def mean_difference(some, others, counts=None):
    """Return the mean of absolute differences, for each word or for each token."""
    total = sum(abs(value - other) for value, other in zip(some, others, strict=True))
    return round(total / (len(some) if counts is None else sum(counts)), 4)


def main():
    import record  # imports torch, whose memory is not to be measured

    path = sys.argv[1]
    found = {}
    for name, backend in WAYS.items():
        command = [sys.executable, __file__, path, "--backend", backend]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[name] = json.loads(output.splitlines()[-1])
    ours, expanded = found["llama.cpp"], found["expanded"]
    rows = []
    for name, result in found.items():
        rows.append(
            {
                "texts": Path(path).name,
                "model": "smollm2-135m, Q4_1",
                "way": name,
                "tokens": result["tokens"],
                "tokens_per_s": round(result["tokens"] / result["seconds"]),
                "tokens_per_cpu_s": round(result["tokens"] / result["cpu_seconds"]),
                "resident_mb": result["resident_mb"],
                "most_mb": result["most_mb"],
                "token_difference_nats": mean_difference(
                    ours["surprisal_naive"], expanded["surprisal_naive"], ours["n_tokens"]
                ),
                "word_difference_nats": mean_difference(ours["surprisal"], expanded["surprisal"]),
                "boundary_difference_nats": mean_difference(ours["after"], expanded["after"]),
                "threads": os.environ.get("OMP_NUM_THREADS", "") or os.cpu_count(),
                **record.surroundings(),
            }
        )
        print(rows[-1])
    if len(sys.argv) > 2:
        record.save(rows, sys.argv[2])


if __name__ == "__main__":
    if "--backend" in sys.argv:
        measure(sys.argv[3], sys.argv[1])
    else:
        main()
