"""What scoring costs on a CPU, against the model alone and the tokeniser alone, in the same process.

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
import wordprob.types
from wordprob import words


def seconds(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def main():
    texts = record.texts_in(sys.argv[1])
    scorer = wordprob.load()
    model = scorer.model
    asked = limit.requests(model, texts)
    count = sum(len(ids) for ids, _ in asked)
    scorer.score(texts[:3])
    limit.bare(model, asked[:3])
    times = [(seconds(lambda: limit.bare(model, asked))[0], seconds(lambda: scorer.score(texts))[0]) for _ in range(3)]
    least, ours = (min(column) for column in zip(*times, strict=True))
    backend = model.tokenizer._backend
    tokenise = min(seconds(lambda: backend.encode_batch(texts, add_special_tokens=False))[0] for _ in range(5))
    reader, rule = scorer._reader(words.Whitespace()), words.Whitespace()
    documents = [wordprob.types.Document(n, t) for n, t in enumerate(texts)]
    host = min(seconds(lambda: reader.read(documents, [rule.segment(t) for t in texts]))[0] for _ in range(5))
    row = {
        "texts": Path(sys.argv[1]).name,
        "model": "smollm2-135m",
        "tokens": count,
        "limit_s": round(least, 3),
        "ours_s": round(ours, 3),
        "ratio_to_limit": round(ours / least, 3),
        "tokens_per_s": round(count / ours),
        "tokenise_s": round(tokenise, 4),
        "host_s": round(host, 4),
        "host_ratio": round(host / tokenise, 2),
        **record.surroundings(),
    }
    print(row)
    if len(sys.argv) > 2:
        record.save([row], sys.argv[2])


if __name__ == "__main__":
    main()
