"""Real architectures with small random weights, each with a small tokeniser of its family."""

from __future__ import annotations

import torch
import transformers

from wordprob.models.huggingface.model import HFModel

SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
FAMILIES = {
    # name: configuration, its sizes, tokenizer, rows of logits beyond the vocabulary
    "gpt2": ("GPT2Config", GPT2, "small-gpt2", 0),
    "mgpt": ("GPT2Config", GPT2, "small-gpt2", 7),
    "pythia": ("GPTNeoXConfig", SIZE, "small-gpt-neox", 27),
    "llama2": ("LlamaConfig", SIZE, "small-llama2", 0),
    "llama3": ("LlamaConfig", SIZE, "small-llama3", 0),
    "mistral": ("MistralConfig", {**SIZE, "num_key_value_heads": 2}, "small-llama2", 0),
    "sliding": ("MistralConfig", {**SIZE, "num_key_value_heads": 2, "sliding_window": 8}, "small-llama2", 0),
    "gemma": ("GemmaConfig", {**SIZE, "head_dim": 8, "num_key_value_heads": 1}, "small-gemma", 0),
    "gemma2": ("Gemma2Config", {**SIZE, "head_dim": 8, "num_key_value_heads": 1}, "small-gemma", 0),
    "qwen2": ("Qwen2Config", {**SIZE, "num_key_value_heads": 2}, "small-qwen2", 271),
    "openai-gpt": ("OpenAIGPTConfig", GPT2, "small-openai-gpt", 0),
    "ctrl": ("CTRLConfig", {**GPT2, "dff": 64}, "small-ctrl", 0),
}
FEW = ("pythia", "llama2", "sliding")
"""Enough where a test is about our own code: a plain head with rows to spare, another tokenizer, a window."""


def build(name, tokenizer_of, **options):
    """Build the model of a family."""
    kind, sizes, tokenizer, extra = FAMILIES[name]
    found = tokenizer_of(tokenizer)
    torch.manual_seed(0)
    config = getattr(transformers, kind)(vocab_size=found.vocabulary.size + extra, **sizes)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # far from uniform, so that a wrong number shows
        for parameter in network.parameters():
            parameter.mul_(3.0)
    return HFModel(network, found, {"model": name, "revision": "", "dtype": "float32"}, **options)
