"""What scoring costs on a CPU, against the model alone and the tokeniser alone, in the same process.

    python benchmarks/cpu.py TEXTS [results.csv]

TEXTS has one text on each line. The limit is the trunk and the head's matrix product on the same batches.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import record
import torch

import wordprob
import wordprob.types
from wordprob import plan, words
from wordprob.lms import hf


def seconds(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def bare(model, rows):
    """Run the batches through trunk and head, and drop what comes out."""
    with torch.inference_mode():
        for batch in plan.batches([len(row) for row in rows], hf.BUDGET):
            ids, mask = model._padded([rows[n] for n in batch])
            hidden = model._model.base_model(input_ids=ids, attention_mask=mask)[0]
            for part in hidden.flatten(0, 1)[mask.flatten().bool()].split(170):
                part @ model._head.weight.T


def main():
    texts = [line for line in Path(sys.argv[1]).read_text(encoding="utf-8").split("\n") if line.strip()]
    scorer = wordprob.load()
    model, start = scorer.model, scorer.model.tokenizer.vocabulary.start
    rows = [[start, *tokens.ids.tolist()] for tokens in model.tokenizer.encode(texts)]
    count = sum(len(row) for row in rows)
    scorer.score(texts[:3])
    bare(model, rows[:3])
    times = [(seconds(lambda: bare(model, rows))[0], seconds(lambda: scorer.score(texts))[0]) for _ in range(3)]
    limit, ours = (min(column) for column in zip(*times, strict=True))
    backend = model.tokenizer._backend
    tokenise = min(seconds(lambda: backend.encode_batch(texts, add_special_tokens=False))[0] for _ in range(5))
    reader, rule = scorer._reader(words.Whitespace()), words.Whitespace()
    documents = [wordprob.types.Document(n, t) for n, t in enumerate(texts)]
    host = min(seconds(lambda: reader.read(documents, [rule.segment(t) for t in texts]))[0] for _ in range(5))
    row = {
        "texts": Path(sys.argv[1]).name,
        "model": "smollm2-135m",
        "tokens": count,
        "limit_s": round(limit, 3),
        "ours_s": round(ours, 3),
        "ratio_to_limit": round(ours / limit, 3),
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
