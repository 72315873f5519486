"""The twenty most probable next words after many contexts, compared with plain scoring of the same contexts.

    python benchmarks/next_words.py TEXT_FILE [results.csv] [--contexts 100] [--tokens 30]

The time of each beginning that was opened is given as a ratio to that of a token of plain scoring in the same run. The
model also has to run each context. So there are three ratios: of all the time, of the time without that of the contexts
in plain scoring, and of all the time to the beginnings and the tokens of the contexts together.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import record

import wordprob


def contexts_of(text, tokenizer, count, n_tokens):
    """Cut a text into contexts of about so many tokens, at the ends of words."""
    contexts = []
    tokens = tokenizer.encode([text])[0]
    data = text.encode()
    step = max(n_tokens, (len(tokens.ids) - n_tokens - 1) // count)
    for first in range(0, len(tokens.ids) - n_tokens, step):
        piece = data[int(tokens.starts[first]) : int(tokens.ends[first + n_tokens])].decode("utf-8", "ignore")
        contexts.append(piece.rsplit(maxsplit=1)[0].strip())
    return contexts[:count]


def plain_scoring(scorer, contexts):
    """Return how many tokens contexts have, and the time of scoring them."""
    begin = time.perf_counter()
    n_tokens = int(scorer.score(contexts).texts()["n_tokens"].sum())
    return n_tokens, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("results", nargs="?")
    parser.add_argument("--contexts", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=30)
    arguments = parser.parse_args()
    scorer = wordprob.load()
    text = arguments.text.read_text(encoding="utf-8")
    contexts = contexts_of(text, scorer.model.tokenizer, arguments.contexts, arguments.tokens)
    scorer.score(contexts[0])
    scorer.next_words(contexts[0], top=1, max_open=16)
    # Plain scoring is timed before and after: the speed of a machine changes.
    n_tokens, before = plain_scoring(scorer, contexts)
    begin = time.perf_counter()
    found = scorer.next_words(contexts, top=20)
    seconds = time.perf_counter() - begin
    _, after = plain_scoring(scorer, contexts)
    plain = (before + after) / 2
    opened = sum(each.opened for each in found)
    row = {
        "contexts": len(contexts),
        "context_tokens": n_tokens,
        "opened": opened,
        "seconds": round(seconds, 1),
        "ms_each_opened": round(1000 * seconds / opened, 2),
        "ms_each_plain_token": round(1000 * plain / n_tokens, 2),
        "ratio": round(seconds / opened / (plain / n_tokens), 2),
        "ratio_without_contexts": round((seconds - plain) / opened / (plain / n_tokens), 2),
        "ratio_with_contexts": round(seconds / (opened + n_tokens) / (plain / n_tokens), 2),
        "contexts_certain": sum(all(word.is_certain for word in each.words) for each in found),
        **record.surroundings(),
    }
    print(row)
    if arguments.results:
        record.save([row], arguments.results)


if __name__ == "__main__":
    main()
