"""Texts to table on a GPU: the whole of wordprob compared with the model alone on the same batches.

    python benchmarks/gpu.py TOKENIZER TEXTS [results.csv] [--shapes pythia-160m …] [--readers 0 4] [--workers 1 4]
                             [--repeat 4 40]

Random weights in the published shapes of Pythia, or of Llama 3 (llama-8b), bfloat16; TOKENIZER is the directory of
Pythia's tokenizer, TEXTS has one text on each line. The limit is transformers' eager trunk and the head's bare matrix
product over batches of similar length, taken from all of the texts, with every id on the device already and no mask: no
reading, no table. With --workers, `wordprob run` is timed too, with that many processes that share the GPU, from the
first shard to the last. The texts are repeated as often as --repeat says, once for each number; with more than one
number, further_us_per_token is what another token takes when the start of processes no longer counts. With --compile,
the model is compiled; the limit is not.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import record
import torch
import transformers
from shapes import SHAPES, config_of

from runs import done_marks, pace
from wordprob import runs
from wordprob.models.batching import padded_batches
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import read_tokenizer
from wordprob.scoring.scorer import Scorer


def model_of(shape, tokenizer, compile=False):
    """Return a model of random weights, small enough that its softmax is not all in one place."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config_of(shape), dtype=torch.bfloat16).eval()
    return HFModel(model, tokenizer, {"model": shape}, compile=compile)


def limit(model, texts):
    """Return the seconds that the model alone takes, and the numbers of tokens and of padding."""
    start = model.tokenizer.vocabulary.start
    rows = [[start, *tokens.ids.tolist()] for tokens in model.tokenizer.encode(texts)]
    rows = [row[:2048] for row in rows]
    budget = model.batch_tokens
    similar = padded_batches([len(row) for row in rows], budget, padding_counts_from=budget // 2)
    batches = [model.forward.pad([rows[n] for n in batch]) for batch in similar]
    weight = model.head_weight
    best = float("inf")
    with model.forward.ready():
        for _ in range(3):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for ids, mask in batches:
                hidden = model.network.base_model(input_ids=ids, attention_mask=mask)[0].flatten(0, 1)
                for part in hidden.split(16384):
                    part @ weight.T
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
    return best, sum(len(row) for row in rows), sum(ids.numel() for ids, _ in batches)


def whole(scorer, texts, readers):
    scorer.score(texts[:200], readers=0)
    times = []
    for _ in range(2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        scorer.score(texts, readers=readers)
        times.append(time.perf_counter() - begin)
    return min(times)


def shared_out(model, tokenizer, texts, workers):
    """Return the seconds that processes which share the GPU take for all texts, computed from their pace."""
    with tempfile.TemporaryDirectory() as home:
        corpus, saved = Path(home, "corpus.txt"), Path(home, "model")
        corpus.write_text("\n".join(texts), encoding="utf-8")
        model.network.save_pretrained(saved)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (saved / name).write_bytes(Path(tokenizer, name).read_bytes())
        how = {"workers": workers, "gpus_per_worker": 1 / workers, "shard_characters": 1_000_000, "threads": 1}
        finished = runs.run(corpus, Path(home, "out"), model=str(saved), **how)
        return finished.words / pace(done_marks(Path(home, "out")))


def row(shape, way, count, tokens, ours, alone, model):
    """Return the columns of one measurement, next to those of the model alone."""
    each = ours / tokens * 1e6
    return {
        "shape": shape,
        "tokens": tokens,
        "batch_tokens": model.batch_tokens,
        "compiled": model.compiled,
        "readers": count if way == "readers" else 0,
        "workers": count if way == "workers" else 0,
        "ours_s": round(ours, 3),
        "us_per_token": round(each, 4),
        "limit_us_per_token": round(alone["limit_us"], 4),
        "limit_padding": alone["limit_padding"],
        "ratio_to_limit": round(each / alone["limit_us"], 3),
        "tokens_per_s": round(tokens / ours),
        **further_row(None, None),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def further_row(each, least):
    """Return the columns for what another token takes, where that is known."""
    return {
        "further_us_per_token": "" if each is None else round(each, 4),
        "further_ratio_to_limit": "" if each is None else round(each / least, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer")
    parser.add_argument("texts")
    parser.add_argument("results", nargs="?")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--readers", nargs="+", type=int, default=[0, 4])
    parser.add_argument("--workers", nargs="*", type=int, default=[])
    parser.add_argument("--repeat", nargs="+", type=int, default=[1], help="how often the texts are taken")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    texts, rows = record.texts_in(options.texts), []
    tokenizer = read_tokenizer(options.tokenizer)
    for shape in options.shapes:
        model = model_of(shape, tokenizer, options.compile)
        scorer = Scorer(model)
        least, tokens, padded = limit(model, texts * min(options.repeat))
        alone = {"limit_us": least / tokens * 1e6, "limit_padding": round(padded / tokens - 1, 4)}
        tokens //= min(options.repeat)
        ways = [("readers", n) for n in options.readers] + [("workers", n) for n in options.workers]
        for way, count in ways:
            taken = {}
            for repeat in options.repeat:
                many = texts * repeat
                taken[repeat] = (
                    whole(scorer, many, count)
                    if way == "readers"
                    else shared_out(model, options.tokenizer, many, count)
                )
                rows.append(row(shape, way, count, tokens * repeat, taken[repeat], alone, model))
                print(rows[-1], flush=True)
            if len(taken) > 1:
                low, *_, high = sorted(taken)
                further = (taken[high] - taken[low]) / (tokens * (high - low)) * 1e6
                rows[-1] |= further_row(further, alone["limit_us"])
                print(rows[-1], flush=True)
        del model, scorer
        torch.cuda.empty_cache()
    if options.results:
        record.save(rows, options.results)


if __name__ == "__main__":
    main()
