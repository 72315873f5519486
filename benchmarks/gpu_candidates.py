"""A thousand one-word candidates after a long context on a GPU, compared with the model alone.

    python benchmarks/gpu_candidates.py TOKENIZER TEXTS [results.csv] [--shape pythia-160m] [--tokens 500]
                                        [--candidates 1000] [--device cuda]

Random weights in the published shape of a Pythia model, bfloat16 on a GPU; TOKENIZER is the directory of Pythia's
tokenizer, TEXTS is running text that the context and the candidates are taken from. The limit is the context's own pass
and one row with all tokens of the candidates, both through the trunk and the head's bare matrix product, with every id
on the device already. Where pandas and pyarrow are not installed, the table is not built, and the column
`table` says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import time
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
import numpy as np
import record
from shapes import SHAPES, config_of

from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import read_tokenizer
from wordprob.options import ScoringOptions
from wordprob.scoring.chunks import SHARED_CONTEXT_CHARACTERS, cut_into_chunks
from wordprob.scoring.continuations import continuations_of, with_heads
from wordprob.scoring.passages import choose_words
from wordprob.scoring.pipeline import score_in_threads
from wordprob.scoring.scorer import Scorer

HAS_TABLES = all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow"))
ROUNDS = 30
"""Everything is timed in turns: the speed of a machine changes from one second to the next."""


def model_of(shape, tokenizer, device):
    """Return a model of random weights."""
    torch.manual_seed(0)
    network = transformers.GPTNeoXForCausalLM(config_of(shape))
    if device == "cuda":
        network = network.to(torch.bfloat16).to(device)
    return HFModel(network.eval(), tokenizer, {"model": shape})


def stimuli(tokenizer, text, n_tokens, count):
    """Return a context of about so many tokens, and words of one token."""
    end = int(tokenizer.encode([text[: 20 * n_tokens]])[0].ends[n_tokens - 1])
    context = text.encode()[:end].decode("utf-8", "ignore").rsplit(maxsplit=1)[0]
    words = list(dict.fromkeys(re.findall(r"[a-z]+", text)))
    lengths = [len(tokens.ids) for tokens in tokenizer.encode([f" {word}" for word in words])]
    return context, [word for word, length in zip(words, lengths, strict=True) if length == 1][:count]


def values_of(scorer, context, candidates):
    """Return the surprisals of candidates: by the table, or where there is none, as the scorer hands them over."""
    if HAS_TABLES:
        return scorer.score_continuations(context, candidates, unit="nats")["surprisal"].to_numpy()
    texts = continuations_of(context, candidates, None, " ", crossed=False)
    choice = choose_words("whitespace", "rule", texts.passages, after_contexts=True)
    settings = scorer.settings(ScoringOptions())
    passages = with_heads(choice, texts.contexts, scorer.model.tokenizer, settings.max_text_tokens)
    chunks = cut_into_chunks(passages, SHARED_CONTEXT_CHARACTERS, shares_context=True)
    batches = score_in_threads(scorer.model, scorer.preparer(choice.definition), chunks, settings)
    return np.concatenate([batch.surprisal for batch in batches])


def seconds(function, device):
    """Return the time of a call."""
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def limits(model, context, candidates):
    """Return what runs the context's own pass, and one batch of all tokens of the candidates."""
    tokenizer, device = model.tokenizer, model.forward.device
    ids = torch.tensor([tokenizer.encode([context])[0].ids.tolist()], device=device)
    of_candidates = np.concatenate([tokens.ids for tokens in tokenizer.encode([f" {word}" for word in candidates])])
    candidate_ids = torch.tensor(of_candidates[None], device=device)

    def run(row):
        hidden = model.network.base_model(input_ids=row)[0]
        return hidden[0] @ model.head_weight.T

    return (lambda: run(ids)), (lambda: run(candidate_ids))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer")
    parser.add_argument("texts")
    parser.add_argument("results", nargs="?")
    parser.add_argument("--shape", default="pythia-160m", choices=list(SHAPES))
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = parser.parse_args()
    tokenizer = read_tokenizer(options.tokenizer)
    model = model_of(options.shape, tokenizer, options.device)
    scorer = Scorer(model)
    text = Path(options.texts).read_text(encoding="utf-8")
    context, candidates = stimuli(tokenizer, text, options.tokens, options.candidates)
    functions = (lambda: values_of(scorer, context, candidates), *limits(model, context, candidates))
    with model.forward.ready():
        for function in functions:
            function()
        rounds = np.array([[seconds(function, options.device) for function in functions] for _ in range(ROUNDS)])
    ours, of_context, of_candidates = rounds.min(axis=0).tolist()
    row = {
        "shape": options.shape,
        "context_tokens": len(tokenizer.encode([context])[0].ids),
        "candidates": len(candidates),
        "ours_ms": round(1000 * ours, 1),
        "context_ms": round(1000 * of_context, 1),
        "candidates_ms": round(1000 * of_candidates, 1),
        "ratio_to_limit": round(ours / (of_context + of_candidates), 2),
        "median_of_ratios": round(float(np.median(rounds[:, 0] / rounds[:, 1:].sum(axis=1))), 2),
        "table": "built" if HAS_TABLES else "not built: no pandas",
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        **record.surroundings(),
        "transformers": transformers.__version__,
    }
    print(row)
    if options.results:
        record.save([row], options.results)


if __name__ == "__main__":
    main()
