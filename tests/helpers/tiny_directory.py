"""A directory with a small Llama of random weights and a byte-level tokenizer, and ways to change its files."""

from __future__ import annotations

import json

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tiny_gguf import MERGES, TOKENS
from tiny_models import SIZE

WEIGHTS = "model.safetensors"


def make(path, tied=True, **settings):
    """Write the files of a model."""
    torch.manual_seed(0)
    settings = {"vocab_size": len(TOKENS), "max_position_embeddings": 256, "eos_token_id": 0, **SIZE, **settings}
    config = transformers.LlamaConfig(tie_word_embeddings=tied, bos_token_id=0, **settings)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(path)
    merges = [tuple(merge.split()) for merge in MERGES]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(TOKENS)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    fast.save_pretrained(path)
    return path


def change_weights(path, change):
    """Replace the tensors of a model with what ``change`` returns for them."""
    tensors = load_file(path / WEIGHTS)
    save_file(change(tensors), path / WEIGHTS, {"format": "pt"})


def change_config(path, **settings):
    """Change settings in a model's configuration."""
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
