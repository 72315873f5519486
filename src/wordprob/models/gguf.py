"""GGUF files, read through transformers and made whole again.

The conversion from GGUF keeps the vocabulary but not how text is cut before the merges are applied; the file names
that rule (``tokenizer.ggml.pre``), so it is put back here.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError
from wordprob.models.huggingface import load as hf
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import HFTokenizer, keep_imports

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "llama-bpe": LETTERS + r"|\p{N}{1,3}" + REST,
    "llama3": LETTERS + r"|\p{N}{1,3}" + REST,
    "qwen2": LETTERS + r"|\p{N}" + REST,
}
"""Patterns that cut a text before byte-level merges, by the name GGUF gives them."""

DIGITS = ("smollm", "starcoder", "refact", "command-r")
"""Rules that split every digit off and then cut as GPT-2 does."""

PLAIN = ("", "default", "gpt-2", "gpt2", "olmo", "phi-2", "mpt")
"""Rules that cut as GPT-2 does, which is what the conversion assumes."""


def load(
    path: str | Path,
    *,
    name: str | None = None,
    bos: str | int | None = None,
    compile: bool = False,
    **options: Any,
) -> HFModel:
    """Load a GGUF file; its weights are widened to the dtype asked for."""
    path = Path(path)
    model, tokenizer = read(path, **options)
    found = HFModel(model, HFTokenizer(tokenizer, bos, hf.end_ids(model)), {}, compile=compile)
    found.metadata = hf.describe(model, name or path.name, path.name, "", compile)
    return found


def read(
    path: Path,
    device: str = "auto",
    dtype: str = "auto",
    **_: Any,
) -> tuple[Any, Any]:
    """Return the transformers model and tokeniser in a GGUF file."""
    from transformers import AutoModelForCausalLM

    keep_imports()
    where = hf.pick_device(device)
    with hf.quiet(), contextlib.redirect_stderr(io.StringIO()):
        try:
            model = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=hf.pick_dtype(dtype, "cpu")
            )
            tokenizer = read_tokenizer(path)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"{path} could not be read as a GGUF model: {reason}. Its architecture must be one that "
                "transformers reads from GGUF (Llama, Mistral, Qwen2, GPT-2, Gemma and others)."
            ) from error
    return model.to(where), tokenizer


def unquantised(model: Any) -> Any:
    """Return the same weights as a plain model, which can be saved."""
    from transformers import AutoModelForCausalLM

    config = type(model.config).from_dict(
        {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    )
    plain = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    plain.load_state_dict(model.state_dict())
    return plain


def read_tokenizer(path: Path) -> Any:
    """Return the transformers tokeniser in a GGUF file, with its cuts put back."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    restore_cuts(tokenizer, pre_tokenizer(path))
    return tokenizer


def pre_tokenizer(path: Path) -> str:
    """Return the name of the file's pre-tokenisation rule."""
    from gguf import GGUFReader

    field = GGUFReader(path).fields.get("tokenizer.ggml.pre")
    return str(field.contents()) if field is not None else ""


def restore_cuts(tokenizer: Any, rule: str) -> None:
    """Put back how text is cut before the merges are applied."""
    from tokenizers import Regex, pre_tokenizers

    backend = tokenizer.backend_tokenizer
    if not isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel | pre_tokenizers.Sequence) or rule in PLAIN:
        return
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule not in SPLITS)
    if rule in SPLITS:
        cut = pre_tokenizers.Split(Regex(SPLITS[rule]), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([cut, byte_level])
    elif rule in DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    else:
        warnings.warn(
            f"this GGUF file cuts text by a rule called '{rule}', which wordprob does not know; digits and punctuation "
            "may be tokenised otherwise than in training. The model's Hugging Face directory has the rule in full.",
            stacklevel=2,
        )
