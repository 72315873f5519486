"""What the head costs on a GPU: the fused kernel, the bare matrix product and the usual recipe.

    python benchmarks/gpu_head.py [results.csv] [--shapes pythia-70m …] [--compile]

Random weights in the published shapes of Pythia, 16 × 1024 tokens in bfloat16. The trunk is transformers' own, eager;
with --compile also as wordprob compiles it. The limit is the eager trunk and the bare matrix product.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
import record
from shapes import SHAPES, VOCABULARY, config_of

from wordprob.kernels import fused, reference

BATCH, LENGTH, ATOMS = 16, 1024, 12


def timed(function, repeats=10, rounds=5):
    """Return the milliseconds of a call, the best of some rounds: small models wait for the host, which is noisy."""
    for _ in range(3):
        function()
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            function()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / repeats)
    return best


def extra_memory(function):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def trunk_of(shape):
    torch.manual_seed(0)
    with torch.device("cuda"):
        return transformers.GPTNeoXModel(config_of(shape)).to(torch.bfloat16).eval()


def naive_recipe(hidden, weight, targets, atom_of_token):
    logits = (hidden @ weight.T).float()
    surprisal = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    masks = (atom_of_token < 3).float(), (atom_of_token < 6).float()
    return surprisal, [-((mask * torch.softmax(logits, -1)).sum(-1)).log() for mask in masks]


def precision(hidden, weight, targets, atom_of_token, head):
    few = slice(0, 512)
    exact = torch.log_softmax(hidden[few].double() @ weight.double().T, -1)
    target, mass, _ = head.score(hidden[few], targets[few])
    true = exact.gather(-1, targets[few, None])[:, 0]
    masses = torch.stack([exact[:, atom_of_token == k].logsumexp(-1) for k in range(ATOMS)], -1)
    written = torch.log_softmax((hidden[few] @ weight.T).float(), -1).gather(-1, targets[few, None])[:, 0]
    return (
        max((target - true).abs().max().item(), (mass - masses).abs().max().item()),
        (written - true).abs().max().item(),
    )


def measure(shape, compiled):
    trunk = trunk_of(shape)
    size = trunk.config.hidden_size
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
    weight = (torch.randn(VOCABULARY, size, device="cuda") * 0.02).to(torch.bfloat16)
    sizes = torch.tensor([0.5, 0.3] + [0.2 / (ATOMS - 2)] * (ATOMS - 2), device="cuda")
    atom_of_token = torch.multinomial(sizes, VOCABULARY, replacement=True)
    head = fused.FusedHead(weight, None, atom_of_token, ATOMS)
    with torch.inference_mode():
        hidden = trunk(input_ids=ids, use_cache=False)[0].reshape(-1, size)
        targets = torch.randint(0, VOCABULARY, (len(hidden),), device="cuda")
        run = lambda: trunk(input_ids=ids, use_cache=False)[0].reshape(-1, size)  # noqa: E731
        times = {
            "trunk_ms": timed(run),
            "matmul_ms": timed(lambda: hidden @ weight.T),
            "fused_ms": timed(lambda: head.score(hidden, targets)),
            "whole_ms": timed(lambda: head.score(run(), targets)),
            "naive_ms": timed(lambda: naive_recipe(hidden, weight, targets, atom_of_token), 3, 1),
        }
        if compiled:
            fast = torch.compile(trunk.forward, dynamic=True)
            quick = lambda: fast(input_ids=ids, use_cache=False)[0].reshape(-1, size)  # noqa: E731
            times["compiled_trunk_ms"] = timed(quick)
            times["compiled_whole_ms"] = timed(lambda: head.score(quick(), targets))
        memory = extra_memory(lambda: head.score(hidden, targets))
        naive_memory = extra_memory(lambda: naive_recipe(hidden, weight, targets, atom_of_token))
        error, written = precision(hidden, weight, targets, atom_of_token, head)
        kept = reference.membership(atom_of_token, ATOMS)
        slow = reference.score_hidden(hidden[:300].float(), weight.float(), None, targets[:300], kept)
        fast = head.score(hidden[:300], targets[:300])
        assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(slow, fast, strict=True))
    limit = times["trunk_ms"] + times["matmul_ms"]
    row = {"shape": shape, **{k: round(v, 3) for k, v in times.items()}}
    if compiled:
        row["compiled_ratio_to_limit"] = round(times["compiled_whole_ms"] / limit, 3)
    return row | {
        "ratio_to_limit": round(times["whole_ms"] / limit, 3),
        "head_memory_gib": round(memory, 3),
        "naive_memory_gib": round(naive_memory, 2),
        "error_nats": f"{error:.1e}",
        "error_from_bf16_logits": f"{written:.1e}",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--compile", action="store_true")
    options, rows = parser.parse_args(), []
    for shape in options.shapes:
        rows.append(measure(shape, options.compile))
        print(rows[-1], flush=True)
        torch.cuda.empty_cache()
        if options.results is not None:
            record.save(rows, options.results)


if __name__ == "__main__":
    main()
