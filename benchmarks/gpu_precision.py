"""How precise log p and log B are on a GPU, with a real model's weights in bfloat16.

    python benchmarks/gpu_precision.py MODEL TEXTS [results.csv]

MODEL is a directory, TEXTS has one text on each line. They are compared with a float64 head on the same hidden
states, as is a target read from bfloat16 logits, which most programs use.
"""

from __future__ import annotations

import sys
from pathlib import Path

import record
import torch

from wordprob import load
from wordprob.core import words
from wordprob.core.atoms import atoms_of


def errors(model, rows):
    """Return the largest errors over rows of ids: of log p, of log B at every atom, and of log p from bfloat16."""
    atoms = atoms_of(model.tokenizer.vocabulary, words.define("whitespace"), model.vocab_size)
    atom_of_token = torch.from_numpy(atoms.atom_of_token).to("cuda")
    weight = model.head_weight
    score = model.head.scorer(atoms)
    worst = [0.0, 0.0, 0.0]
    with torch.inference_mode():
        for ids in rows:
            seen = torch.tensor([ids], device="cuda")
            hidden = model.forward.run_trunk(input_ids=seen)[0][0, :-1]
            targets = seen[0, 1:]
            target, mass, _ = score(hidden, targets)
            exact = torch.log_softmax(hidden.double() @ weight.double().T, -1)
            true = exact.gather(-1, targets[:, None])[:, 0]
            masses = torch.stack([exact[:, atom_of_token == k].logsumexp(-1) for k in range(len(atoms.labels))], -1)
            representable = masses > -80  # exponentials below are zero in float32
            written = torch.log_softmax((hidden @ weight.T).float(), -1).gather(-1, targets[:, None])[:, 0]
            apart = target - true, (mass - masses)[representable], written - true
            worst = [max(old, new.abs().max().item()) for old, new in zip(worst, apart, strict=True)]
    return worst


def main():
    texts = record.texts_in(sys.argv[2])
    model = load(sys.argv[1], device="cuda", dtype="bfloat16").model
    start = model.tokenizer.vocabulary.start
    rows = [[start, *t.ids.tolist()][: model.max_tokens] for t in model.tokenizer.encode(texts)]
    target, mass, written = errors(model, rows)
    row = {
        "model": Path(sys.argv[1]).name,
        "texts": Path(sys.argv[2]).name,
        "tokens": sum(map(len, rows)),
        "error_target_nats": f"{target:.1e}",
        "error_mass_nats": f"{mass:.1e}",
        "error_from_bf16_logits": f"{written:.1e}",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    print(row)
    if len(sys.argv) > 3:
        record.save([row], sys.argv[3])


if __name__ == "__main__":
    main()
