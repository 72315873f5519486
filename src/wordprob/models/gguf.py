"""GGUF files, read through transformers.

The conversion in transformers keeps the vocabulary but not the rule that splits a text before the merges are applied.
The file names that rule (``tokenizer.ggml.pre``), so it is restored here.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wordprob.errors import ModelError
from wordprob.models.devices import pick_device, pick_dtype
from wordprob.models.fingerprints import describe_path
from wordprob.models.huggingface import load as huggingface
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import (
    HFTokenizer,
    exclude_imports_from_garbage_collection,
    first_line,
    message_of,
)
from wordprob.models.huggingface.weights import check_layers, check_weights, read_weights
from wordprob.options import ModelOptions

HAS_CHAT_TEMPLATES = True

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

WEIGHTS_ADVICE = "Is the file complete, and did the program that wrote it use the standard names of tensors?"
CONVERTED_APART = ("rope_freqs.weight", "output.weight")
"""Tensors outside of the table of names: frequencies, which networks compute, and the head, which is never left out."""

UNTRACEABLE_ARCHITECTURES = ("gpt-oss", "gpt_oss")
"""Architectures whose tensors are cut up when they are converted, so that their names say nothing."""

GPT2_RULES = ("", "default", "gpt-2", "gpt2", "olmo", "phi-2", "mpt")
"""Rules that split as GPT-2 does, which is what the conversion in transformers assumes."""


def load(source: str, options: ModelOptions) -> HFModel:
    """Load a GGUF file; its weights are converted to the dtype of the options."""
    path = Path(source).expanduser()
    if not path.is_file():
        raise ModelError(f"no such file: {source}")
    if not options.model.startswith("gguf:"):
        print(
            f"{path.name} is expanded to full precision. llama.cpp would run it as it is, in a quarter of the memory: "
            "pip install 'wordprob[llama-cpp]'",
            file=sys.stderr,
        )
    network, transformers_tokenizer = read(path, options.device, options.dtype)
    tokenizer = HFTokenizer(transformers_tokenizer, options.bos, huggingface.end_ids(network), message_of(options))
    metadata = huggingface.model_metadata(network, options.model, path.name, "", options.compile)
    return HFModel(network, tokenizer, metadata, compile=options.compile)


def load_tokenizer(source: str, options: ModelOptions) -> HFTokenizer:
    """Load the tokenizer in a GGUF file."""
    with huggingface.quiet():
        return HFTokenizer(read_tokenizer(Path(source)), options.bos, message=message_of(options))


def describe(source: str, _options: ModelOptions) -> dict[str, Any]:
    """Return the name and the fingerprint of the file."""
    return describe_path(Path(source).expanduser())


def read(path: Path, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """Return the transformers model and tokenizer in a GGUF file."""
    exclude_imports_from_garbage_collection()
    torch_device = pick_device(device)
    try:
        reader = _reader(path)
        for name, field in reader.fields.items():
            if name.endswith(".block_count"):
                check_layers(int(field.contents()), str(path))
        with huggingface.quiet(), contextlib.redirect_stderr(io.StringIO()):
            # The weights are unpacked on the CPU, so that is the device that decides what "auto" means.
            network, report = read_weights(path.parent, gguf_file=path.name, dtype=pick_dtype(dtype, "cpu"))
        with huggingface.quiet():
            tokenizer = read_tokenizer(path, reader)
        unused = unused_tensors(reader, network)
        mismatched = mismatched_shapes(network)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{path} could not be read as a GGUF model: {first_line(error)}. Its architecture must be one that "
            "transformers reads from GGUF (Llama, Mistral, Qwen2, GPT-2, Gemma and others)."
        ) from error
    found = {
        **report,
        "missing_keys": [*report["missing_keys"], *_renamed_head(network, unused)],
        "unexpected_keys": [*report["unexpected_keys"], *unused],
        "mismatched_keys": mismatched,
    }
    check_weights(network, found, str(path), WEIGHTS_ADVICE)
    return network.to(torch_device), tokenizer


# --- tensors that the conversion in transformers leaves out or does not check ----------------------------------------


def unused_tensors(reader: Any, network: Any) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of tensors in a file that its conversion to a network leaves out.

    transformers leaves them out without a word. Experts of some architectures are converted in ways that this cannot
    see; nothing is returned for these.
    """
    architecture = str(reader.fields["general.architecture"].contents())
    if architecture in UNTRACEABLE_ARCHITECTURES:
        return {}
    shapes = {tensor.name: tuple(int(size) for size in reversed(tensor.shape)) for tensor in reader.tensors}
    # The names of the network's own tensors are enough for nearly all files; those of its parts take seconds.
    whole = SimpleNamespace(config=network.config, state_dict=network.state_dict, named_children=list)
    for part in (whole, network):
        known = _known_names(part, architecture)
        shapes = {name: shape for name, shape in shapes.items() if name not in known}
        shapes = {name: shape for name, shape in shapes.items() if name.removesuffix(".weight") not in known}
        if not shapes:
            break
    return shapes


def _known_names(network: Any, architecture: str) -> set[str]:
    """Return the names of tensors in files that the conversion knows."""
    from transformers import modeling_gguf_pytorch_utils as conversion

    processor = conversion.TENSOR_PROCESSORS.get(architecture, conversion.TensorProcessor)(network.config.to_dict())
    return {*conversion.get_gguf_hf_weights_map(network, processor), *CONVERTED_APART}


def mismatched_shapes(network: Any) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the tensors of a converted network that have another shape than its configuration: name, found, wanted.

    A vocabulary may have more rows than it has tokens.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        expected = AutoModelForCausalLM.from_config(_plain_configuration(network)).state_dict()
    found = network.state_dict()
    embeddings = [network.get_input_embeddings().weight, network.get_output_embeddings().weight]
    vocabulary_sizes = {len(weight) for weight in embeddings}
    mismatched = []
    for name, tensor in expected.items():
        shape, wanted = tuple(found[name].shape), tuple(tensor.shape)
        padded = len(shape) == 2 and shape[0] in vocabulary_sizes and shape[1:] == wanted[1:]
        if shape != wanted and not padded:
            mismatched.append((name, shape, wanted))
    return mismatched


def _renamed_head(network: Any, unused: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the name of the head if the file has one by a name that is not known.

    transformers takes a file without ``output.weight`` to have the input embeddings as its head.
    """
    shape = tuple(network.get_input_embeddings().weight.shape)
    return ["output.weight"] if shape in unused.values() and network.config.tie_word_embeddings else []


def unquantized(network: Any) -> Any:
    """Return the same weights as a plain model, which can be saved."""
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_config(_plain_configuration(network), dtype=network.dtype)
    plain.load_state_dict(network.state_dict())
    return plain


def _plain_configuration(network: Any) -> Any:
    settings = network.config.to_dict()
    settings.pop("quantization_config", None)
    return type(network.config).from_dict(settings)


# --- the tokenizer ---------------------------------------------------------------------------------------------------


def read_tokenizer(path: Path, reader: Any = None) -> Any:
    """Return the transformers tokenizer in a GGUF file, with its splitting rule restored.

    ``reader`` is what is open on the file already.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    restore_splits(tokenizer, splitting_rule(reader or _reader(path)))
    return tokenizer


def _reader(path: Path) -> Any:
    from gguf import GGUFReader

    return GGUFReader(path)


def splitting_rule(reader: Any) -> str:
    """Return the name of the file's pre-tokenization rule."""
    field = reader.fields.get("tokenizer.ggml.pre")
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
            "punctuation may be tokenised differently than in training. The model's Hugging Face directory has the "
            "whole rule.",
            stacklevel=2,
        )
