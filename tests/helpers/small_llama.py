"""Small Llamas that were trained for a moment: real networks and files, with sharp distributions, made in the test."""

from __future__ import annotations

import torch
import transformers

from small_tokenizers import LINES, save_tokenizer, transformers_tokenizer

SIZE = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
STEPS = 25


def make_model(name, directory, positions=256):
    """Train a model with a small tokeniser on the tokeniser's own lines, and write its files."""
    tokenizer = transformers_tokenizer(name)
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=positions, bos_token_id=start, eos_token_id=end, **SIZE
    )
    network = transformers.AutoModelForCausalLM.from_config(config)
    _train(network, [[start, *tokenizer(line, add_special_tokens=False)["input_ids"], end] for line in LINES])
    network.save_pretrained(directory)
    return save_tokenizer(name, directory)


def _train(network, lines):
    longest = max(map(len, lines))
    ids = torch.tensor([line + [0] * (longest - len(line)) for line in lines])
    labels = torch.tensor([line + [-100] * (longest - len(line)) for line in lines])
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        network(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
