"""Measure the time and the memory that aggregating many scored words takes.

    python benchmarks/word_lengths.py [--rows 20000000] [--files 4]

The file is generated: words of a Zipfian vocabulary of 400,000 strings, a third of them with punctuation or capitals,
and gamma-distributed surprisals. What is timed is the whole command, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VOCABULARY_SIZE = 400_000
CHUNK_ROWS = 1_000_000
COMMAND = (
    "import resource, sys; from wordprob.cli.word_lengths import word_lengths; "
    "word_lengths(sys.argv[1:], standalone_mode=False); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)


def vocabulary(random: np.random.Generator) -> pa.Array:
    """Make up words: short ones first, as in a language."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    lengths = np.minimum(
        1 + np.log2(np.arange(VOCABULARY_SIZE) + 2) * random.uniform(0.3, 0.9, VOCABULARY_SIZE), 20
    ).astype(int)
    words = ["".join(random.choice(letters, n)) for n in lengths]
    return pa.array([w + "," if k % 6 == 0 else w.title() if k % 6 == 1 else w for k, w in enumerate(words)])


def generate(folder: Path, rows: int, files: int) -> list[Path]:
    """Write scored words to Parquet files as ``wordprob score`` does."""
    random = np.random.default_rng(0)
    words = vocabulary(random)
    weights = 1 / (np.arange(VOCABULARY_SIZE) + 2.7)
    cumulative = np.cumsum(weights / weights.sum())
    about = {b"wordprob": json.dumps({"model": "made-up-100m", "unit": "bits"}).encode()}
    paths = [folder / f"part-{n}.parquet" for n in range(files)]
    for path in paths:
        writer = None
        for low in range(0, rows // files, CHUNK_ROWS):
            count = min(CHUNK_ROWS, rows // files - low)
            picked = np.minimum(np.searchsorted(cumulative, random.random(count)), VOCABULARY_SIZE - 1)
            naive = random.gamma(2.0, 3.0, count)
            table = pa.table({"word": words.take(pa.array(picked)), "surprisal": naive + random.normal(0, 0.3, count),
                              "surprisal_naive": naive}).replace_schema_metadata(about)  # fmt: skip
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
    return paths


def main() -> None:
    """Generate, run, report one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = generate(folder, options.rows, options.files)
        start = time.perf_counter()
        command = [sys.executable, "-c", COMMAND, *map(str, paths), "-o", str(folder / "results")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        peak_mib = int(done.stderr.strip().splitlines()[-1]) / 1024
        print(json.dumps({"rows": options.rows, "seconds": round(seconds, 1), "peak_mib": round(peak_mib),
                          "cores": os.cpu_count(), "rows_per_second": round(options.rows / seconds)}))  # fmt: skip
        print(done.stdout)


if __name__ == "__main__":
    main()
