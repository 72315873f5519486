"""wordprob and other packages on the same model and texts, each in an environment of its own.

    python benchmarks/peers.py [TEXTS] [results.csv] [--repeats 3] [--tools wordprob minicons]

TEXTS has one text on each line. The model is SmolLM2-135M in float32; all tools load the same directory, whose start
and end of text are both <|endoftext|>. Environments and model are made under .bench/ the first time.

Loading is not timed. The tools take turns, every other round in reverse order, so that other load affects all of
them. The limit is the trunk and the head's matrix product. Memory is the most that a tool used beyond what it
used after one short text. Differences are from wordprob's value of the same kind, in nats, without the first and the
last word of each text, which the tools define differently.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np
import record
from worker import RUNNERS, Worker

from wordprob.models import default_model

HOME = Path(__file__).resolve().parents[1] / ".bench"
PEERS = ("wordsprobability", "minicons", "surprisal")
TOOLS = ("wordprob", *PEERS)
END = "<|endoftext|>"


def model_directory():
    """Return the directory that all tools load: the default model, with one token for both ends of a text."""
    home = HOME / default_model.converted_directory().name
    if not home.exists():
        HOME.mkdir(exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=HOME))
        _write_model(default_model.converted_directory(), aside)
        aside.replace(home)
    return home


def _write_model(source, aside):
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.bos_token = tokenizer.eos_token = tokenizer.pad_token = END
    tokenizer.save_pretrained(aside)
    config = AutoConfig.from_pretrained(source)
    config.bos_token_id = config.eos_token_id = config.pad_token_id = tokenizer.convert_tokens_to_ids(END)
    config.save_pretrained(aside)
    (aside / "model.safetensors").symlink_to(source / "model.safetensors")


def interpreter(peer):
    """Return the peer's Python; its environment is made if it does not exist or has other requirements."""
    home, wanted = HOME / peer, RUNNERS / f"requirements-{peer}.txt"
    python, made = home / "bin" / "python", home / "requirements.txt"
    if not made.exists() or made.read_text() != wanted.read_text():
        print(f"making {home} for {peer} (once, 1.4 GB)…", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        if subprocess.run([python, "-m", "pip", "install", "-qq", "--requirement", wanted]).returncode:
            sys.exit(f"{peer} could not be installed from {wanted}; --tools names the others.")
        shutil.copy(wanted, made)
    return python


def start(tool, model):
    """Start a tool: ours in this environment, a peer in its own."""
    foreign = tool in PEERS
    return Worker(interpreter(tool) if foreign else sys.executable, RUNNERS / f"run_{tool}.py", model, foreign)


def measure(workers, texts, repeats):
    """Return, by tool, its runs over the texts, after a few that warm it up."""
    for worker in workers.values():
        worker.run(texts[:3])
    runs = {tool: [] for tool in workers}
    for turn in range(repeats):
        for tool in list(workers)[:: -1 if turn % 2 else 1]:
            runs[tool].append(workers[tool].run(texts, values=turn == 0))
            print(f"{tool}: {runs[tool][-1].seconds:.2f} s", file=sys.stderr, flush=True)
    return runs


def differences(ours, theirs):
    """Return the kind of value that a tool computes, and its distances from ours in texts with as many words."""
    [kind] = theirs.values
    pairs = zip(ours.values[kind], theirs.values[kind], strict=True)
    found = [np.subtract(mine, other)[1:-1] for mine, other in pairs if len(mine) == len(other)]
    return kind, np.abs(np.concatenate([[], *found]))


def compared(ours, run):
    """Return the columns for how far a tool is from wordprob."""
    if len(run.values) != 1:
        return dict.fromkeys(("compared", "words_compared", "mean_difference_nats", "largest_difference_nats"), "")
    kind, apart = differences(ours, run)
    return {
        "compared": kind,
        "words_compared": len(apart),
        "mean_difference_nats": f"{apart.mean():.2g}" if len(apart) else "",
        "largest_difference_nats": f"{apart.max():.2g}" if len(apart) else "",
    }


def row(tool, runs, versions, tokens):
    """Return the columns of one tool."""
    seconds = [run.seconds for run in runs[tool]]
    best, limit = min(seconds), min(run.seconds for run in runs["limit"])
    return {
        "tool": tool,
        "version": versions.get(tool, ""),
        "words": sum(len(words) for words in runs[tool][0].words) or "",
        "tokens": tokens,
        "repeats": len(seconds),
        "best_s": round(best, 3),
        "median_s": round(median(seconds), 3),
        "cpu_s": round(min(run.cpu for run in runs[tool]), 3),
        "tokens_per_s": round(tokens / best),
        "ratio_to_limit": round(best / limit, 3),
        "extra_memory_mb": round(max(run.extra for run in runs[tool]) / 1e6),
        **compared(runs["wordprob"][0], runs[tool][0]),
    }


def count_tokens(model, texts):
    """Return the number of tokens, the start of each text included."""
    from transformers import AutoTokenizer

    found = AutoTokenizer.from_pretrained(model)(texts, add_special_tokens=False).input_ids
    return sum(1 + len(ids) for ids in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="?", type=Path, default=HOME.parent / "examples" / "abstract.txt")
    parser.add_argument("results", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    options = parser.parse_args()
    texts, model = record.texts_in(options.texts), model_directory()
    tools = ["limit", *dict.fromkeys(["wordprob", *options.tools])]
    with ExitStack() as stack:
        workers = {tool: stack.enter_context(start(tool, model)) for tool in tools}
        runs = measure(workers, texts, options.repeats)
    tokens, shape = count_tokens(model, texts), {"texts": options.texts.name, "model": "smollm2-135m, float32"}
    rows = []
    for tool, worker in workers.items():
        versions = {"wordprob": record.surroundings()["wordprob"], **worker.versions}
        about = record.surroundings() | {k: versions[k] for k in ("torch", "transformers")}
        rows.append(shape | row(tool, runs, versions, tokens) | about)
        print(rows[-1])
    if options.results is not None:
        record.save(rows, options.results)


if __name__ == "__main__":
    main()
