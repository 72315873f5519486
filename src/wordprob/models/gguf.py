"""GGUF files, read through transformers.

The conversion in transformers keeps the vocabulary but not the rule that splits a text before the merges are applied.
The file names that rule (``tokenizer.ggml.pre``), so it is restored here.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError
from wordprob.models.devices import pick_device, pick_dtype
from wordprob.models.fingerprints import describe_path
from wordprob.models.huggingface import load as huggingface
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer, exclude_imports_from_garbage_collection, first_line
from wordprob.options import ModelOptions

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLIT_PATTERNS = {
    "llama-bpe": LETTERS + r"|\p{N}{1,3}" + REST,
    "llama3": LETTERS + r"|\p{N}{1,3}" + REST,
    "qwen2": LETTERS + r"|\p{N}" + REST,
}
"""Patterns that split a text before byte-level merges, by the name that GGUF has for them."""

DIGIT_RULES = ("smollm", "starcoder", "refact", "command-r")
"""Rules that split off every digit and then split as GPT-2 does."""

GPT2_RULES = ("", "default", "gpt-2", "gpt2", "olmo", "phi-2", "mpt")
"""Rules that split as GPT-2 does, which is what the conversion in transformers assumes."""


def load(source: str, options: ModelOptions) -> HFModel:
    """Load a GGUF file; its weights are converted to the dtype of the options."""
    path = Path(source)
    network, transformers_tokenizer = read(path, options.device, options.dtype)
    tokenizer = HFTokenizer(transformers_tokenizer, options.bos, huggingface.end_ids(network))
    metadata = huggingface.model_metadata(network, options.model, path.name, "", options.compile)
    return HFModel(network, tokenizer, metadata, compile=options.compile)


def load_tokenizer(source: str, options: ModelOptions) -> HFTokenizer:
    """Load the tokenizer in a GGUF file."""
    with huggingface.quiet():
        return HFTokenizer(read_tokenizer(Path(source)), options.bos)


def describe(source: str, _options: ModelOptions) -> dict[str, str]:
    """Return the name and the fingerprint of the file."""
    return describe_path(Path(source).expanduser())


def read(path: Path, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """Return the transformers model and tokenizer in a GGUF file."""
    from transformers import AutoModelForCausalLM

    exclude_imports_from_garbage_collection()
    torch_device = pick_device(device)
    with huggingface.quiet(), contextlib.redirect_stderr(io.StringIO()):
        try:
            # The weights are unpacked on the CPU, so that is the device that decides what "auto" means.
            network = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=pick_dtype(dtype, "cpu")
            )
            tokenizer = read_tokenizer(path)
        except Exception as error:
            raise ModelError(
                f"{path} could not be read as a GGUF model: {first_line(error)}. Its architecture must be one that "
                "transformers reads from GGUF (Llama, Mistral, Qwen2, GPT-2, Gemma and others)."
            ) from error
    return network.to(torch_device), tokenizer


def unquantized(network: Any) -> Any:
    """Return the same weights as a plain model, which can be saved."""
    from transformers import AutoModelForCausalLM

    settings = network.config.to_dict()
    settings.pop("quantization_config", None)
    plain = AutoModelForCausalLM.from_config(type(network.config).from_dict(settings), dtype=network.dtype)
    plain.load_state_dict(network.state_dict())
    return plain


def read_tokenizer(path: Path) -> Any:
    """Return the transformers tokenizer in a GGUF file, with its splitting rule restored."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    restore_splits(tokenizer, splitting_rule(path))
    return tokenizer


def splitting_rule(path: Path) -> str:
    """Return the name of the file's pre-tokenization rule."""
    from gguf import GGUFReader

    field = GGUFReader(path).fields.get("tokenizer.ggml.pre")
    return str(field.contents()) if field is not None else ""


def restore_splits(tokenizer: Any, rule: str) -> None:
    """Make a transformers tokenizer split texts by a rule before its merges are applied."""
    from tokenizers import Regex, pre_tokenizers

    backend = tokenizer.backend_tokenizer
    is_byte_level = isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel | pre_tokenizers.Sequence)
    if not is_byte_level or rule in GPT2_RULES:
        return
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule not in SPLIT_PATTERNS)
    if rule in SPLIT_PATTERNS:
        split = pre_tokenizers.Split(Regex(SPLIT_PATTERNS[rule]), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    elif rule in DIGIT_RULES:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    else:
        warnings.warn(
            f"this GGUF file splits text by a rule called '{rule}', which wordprob does not know; digits and "
            "punctuation may be tokenised otherwise than in training. The model's Hugging Face directory has the rule "
            "in full.",
            stacklevel=2,
        )
