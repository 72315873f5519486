"""Published shapes of Pythia and of Llama 3, for models of random weights."""

from __future__ import annotations

SHAPES = {
    # hidden size, layers, heads, feed-forward size
    "pythia-70m": (512, 6, 8, 2048),
    "pythia-160m": (768, 12, 12, 3072),
    "pythia-1.4b": (2048, 24, 16, 8192),
    "pythia-6.9b": (4096, 32, 32, 16384),
}
VOCABULARY = 50304
LLAMA = "llama-8b"
"""Grouped queries and a vocabulary of 128,256 tokens."""


def config_of(shape):
    """Return the configuration of a model of this shape."""
    import transformers

    if shape == LLAMA:
        return transformers.LlamaConfig(
            vocab_size=128256,
            hidden_size=4096,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            intermediate_size=14336,
            max_position_embeddings=8192,
        )
    size, layers, heads, feed = SHAPES[shape]
    return transformers.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=feed,
        max_position_embeddings=2048,
    )
