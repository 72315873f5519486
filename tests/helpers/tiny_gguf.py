"""A GGUF file of a small Llama with random weights and a byte-level vocabulary."""

from __future__ import annotations

import gguf
import numpy as np

from wordprob.core.vocabulary import byte_alphabet

HIDDEN, INNER, HEADS, LAYERS = 32, 64, 4, 2
MERGES = ["h e", "m a", "r k", *(f"Ġ {letter}" for letter in "abcdefghimnoprstuvwy"), "Ġt he"]
TOKENS = ["<|endoftext|>", *sorted(byte_alphabet()), *(merge.replace(" ", "") for merge in MERGES)]


def tensors(tied=True):
    """Return the tensors of the model by their names in the file."""
    random = np.random.default_rng(0)
    shapes = {"token_embd.weight": (len(TOKENS), HIDDEN), "output_norm.weight": (HIDDEN,)}
    if not tied:
        shapes["output.weight"] = (len(TOKENS), HIDDEN)
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{layer}.{name}.weight"] = (HIDDEN, HIDDEN)
        for name, shape in (("ffn_gate", (INNER, HIDDEN)), ("ffn_up", (INNER, HIDDEN)), ("ffn_down", (HIDDEN, INNER))):
            shapes[f"blk.{layer}.{name}.weight"] = shape
        for name in ("attn_norm", "ffn_norm"):
            shapes[f"blk.{layer}.{name}.weight"] = (HIDDEN,)
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def write(path, contents, layers=LAYERS):
    """Write tensors and what describes the model into a file."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * (len(TOKENS) - 1)])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, values in contents.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
