"""Many candidates after one context, compared with scoring every whole text.

    python benchmarks/candidates.py CONTEXT_FILE WORDS_FILE [results.csv]

Of the whole texts twenty are timed, and the time of all is estimated from that.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import record

import wordprob


def main():
    scorer = wordprob.load()
    tokenizer = scorer.model.tokenizer
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    ends = tokenizer.encode([text])[0].ends
    context = text.encode()[: int(ends[499])].decode("utf-8", "ignore").rsplit(maxsplit=1)[0]
    types = dict.fromkeys(w for w in Path(sys.argv[2]).read_text(encoding="utf-8").split() if w.isalpha())
    candidates = list(types)[:1000]
    scorer.score_continuations(context, candidates[:2])
    begin = time.perf_counter()
    shared = scorer.score_continuations(context, candidates, unit="nats").to_pandas()
    ours = time.perf_counter() - begin
    sample = list(range(0, len(candidates), max(1, len(candidates) // 20)))[:20]
    begin = time.perf_counter()
    whole = scorer.score([f"{context} {candidates[n]}" for n in sample], unit="nats").to_pandas()
    each = (time.perf_counter() - begin) / len(sample)
    last = whole.groupby("text_id").last()["surprisal"].to_numpy()
    row = {
        "context_tokens": len(tokenizer.encode([context])[0].ids),
        "candidates": len(candidates),
        "shared_s": round(ours, 2),
        "whole_texts_s": round(each * len(candidates), 1),
        "times_faster": round(each * len(candidates) / ours, 1),
        "largest_difference_nats": f"{np.abs(shared['surprisal'].to_numpy()[sample] - last).max():.1e}",
        **record.surroundings(),
    }
    print(row)
    if len(sys.argv) > 3:
        record.save([row], sys.argv[3])


if __name__ == "__main__":
    main()
