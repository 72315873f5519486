"""Texts to table on a GPU with real weights: tokens run for each token of the texts, and seconds beside the bare model.

    python benchmarks/text_to_table.py MODEL TEXTS [results.csv] [--readers 0 4] [--words whitespace punctuation]
                                       [--rounds 3] [--device cuda] [--dtype bfloat16]

MODEL is whatever wordprob loads (a name, a directory, a .gguf file), TEXTS has one text on each line. Each line is a
text, and then eight lines together are one. The limit is that of benchmarks/gpu.py: the eager trunk and the head's
matrix product over batches of similar length, with every id on the device. What share it has of the 790 TFLOP/s that
matrix products in bfloat16 reach on an H200 says how far the limit itself is from the hardware's.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import record
import torch
import transformers
from gpu import limit

import wordprob

LINES_OF_A_DOCUMENT = 8
H200_FLOPS = 790e12
"""What matrix products in bfloat16 reach on an H200: 8192 × 8192 × 8192, random numbers."""


class TokenCounter:
    """Counts the tokens that a network runs, padding included, and its passes."""

    def __init__(self, network):
        self.tokens = self.passes = 0
        network.get_input_embeddings().register_forward_hook(self._count)

    def _count(self, _, inputs, __):
        self.tokens += inputs[0].numel()
        self.passes += 1

    def start(self):
        """Count from 0 again."""
        self.tokens = self.passes = 0


def flops_of(model, lengths):
    """Return the floating-point operations of the trunk and the head for texts of these lengths."""
    config = model.network.config.get_text_config(decoder=True)
    head = model.head_weight
    trunk = sum(weight.numel() for weight in model.network.base_model.parameters() if weight.ndim == 2)
    trunk -= model.network.get_input_embeddings().weight.numel()  # a look-up, no product
    each = 2 * (trunk + head.numel())
    # A token attends to half of its text on average: one product with the keys, and one with the values.
    attention = 2 * config.num_hidden_layers * config.hidden_size * float(np.square(lengths, dtype=float).sum())
    return each * float(np.sum(lengths)) + attention


def synchronise():
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measured(scorer, counter, texts, words, readers, rounds):
    """Return the best time, and the tokens and passes of a round."""
    counter.start()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        scorer.score(texts, words, readers=readers)
        synchronise()
        times.append(time.perf_counter() - begin)
    return min(times), counter.tokens / rounds, counter.passes / rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("results", nargs="?")
    parser.add_argument("--readers", nargs="+", type=int, default=[0, 4])
    parser.add_argument("--words", nargs="+", default=["whitespace", "punctuation"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    lines, rows = record.texts_in(options.texts), []
    starts = range(0, len(lines), LINES_OF_A_DOCUMENT)
    documents = [" ".join(lines[first : first + LINES_OF_A_DOCUMENT]) for first in starts]
    scorer = wordprob.load(options.model, device=options.device, dtype=options.dtype)
    counter = TokenCounter(scorer.model.network)
    for label, texts in (("paragraphs", lines), ("documents", documents)):
        lengths = [1 + len(tokens.ids) for tokens in scorer.model.tokenizer.encode(texts)]
        scorer.score(texts[:50])
        least, *_ = limit(scorer.model, texts)
        for words in options.words:
            for readers in options.readers:
                seconds, run, passes = measured(scorer, counter, texts, words, readers, options.rounds)
                rows.append(
                    {
                        "model": Path(options.model).name,
                        "texts": label,
                        "words": words,
                        "readers": readers,
                        "workers": 0,
                        "tokens": sum(lengths),
                        "run_per_token": round(run / sum(lengths), 4),
                        "passes": round(passes),
                        "ours_s": round(seconds, 3),
                        "limit_s": round(least, 3),
                        "ratio_to_limit": round(seconds / least, 3),
                        "limit_flops_share": round(flops_of(scorer.model, lengths) / least / H200_FLOPS, 4),
                        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
                        **record.surroundings(),
                        "transformers": transformers.__version__,
                    }
                )
                print(rows[-1], flush=True)
    if options.results:
        record.save(rows, options.results)


if __name__ == "__main__":  # worker processes import this file
    main()
