"""A transformers model that the user has loaded, changed, adapted or quantized, and its tokenizer."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError, OptionError
from wordprob.models.huggingface.load import describe_network, end_ids, start_ids_of, wrap_network
from wordprob.models.huggingface.load_arguments import unwrapped
from wordprob.models.huggingface.tokenizer import HFTokenizer, message_of, read_tokenizer
from wordprob.options import ModelOptions

LOADING_OPTIONS = (
    *("device", "dtype", "revision", "trust_remote_code"),
    *("adapter", "quantize", "device_map", "model_kwargs"),
)
"""Options that say how to load a model; they mean nothing for one that is loaded."""


def wrap_loaded(model: Any, tokenizer: Any, options: ModelOptions) -> Any:
    """Return a language model made of a transformers model and its tokenizer.

    Nothing about the two is changed: the network is in evaluation mode only while it runs, and the tokenizer is copied.
    """
    _refuse_loading_options(options)
    if type(model).__name__.endswith("Pipeline"):
        tokenizer = model.tokenizer if tokenizer is None else tokenizer
        model = model.model
    network = unwrapped(model)
    _require_language_model(network)
    name = _name_of(network)
    wrapped_tokenizer = _wrap_tokenizer(tokenizer, network, options)
    metadata = {
        "model": Path(name).name if Path(name).is_dir() else name,
        "source": name,
        "revision": getattr(network.config, "_commit_hash", None) or "",
        "loaded": f"by the caller, as {type(model).__name__}",
        **describe_network(network, options.compile),
    }
    if wrapped_tokenizer.chat is not None:
        metadata |= {"chat_template": str(options.chat_template), "before_text": wrapped_tokenizer.chat.text_before}
    return wrap_network(network, wrapped_tokenizer, metadata, options, may_change=True)


def _refuse_loading_options(options: ModelOptions) -> None:
    defaults = ModelOptions()
    for name in LOADING_OPTIONS:
        if getattr(options, name) != getattr(defaults, name):
            raise OptionError(
                f"`{name}` says how to load a model, and this one is loaded already; leave it out, and load the model "
                "as you want it."
            )


def _require_language_model(network: Any) -> None:
    """Raise, with what to do instead, for an object that is no transformers model with a language-model head."""
    kind = type(network).__name__
    if not (hasattr(network, "config") and hasattr(network, "forward") and hasattr(network, "get_output_embeddings")):
        raise OptionError(
            f"a model is a name, a directory, or a transformers model, not a {kind}. A model of another kind needs the "
            "methods of wordprob.models.protocol.LanguageModel."
        )
    if network.base_model is network and network.get_output_embeddings() is None:
        raise ModelError(
            f"{kind} has no language-model head, so it has no probabilities; load it with "
            f"transformers.AutoModelForCausalLM.from_pretrained('{_name_of(network)}')."
        )


def _name_of(network: Any) -> str:
    return str(getattr(network, "name_or_path", "") or type(network).__name__)


def _wrap_tokenizer(tokenizer: Any, network: Any, options: ModelOptions) -> HFTokenizer:
    """Return the tokenizer behind the protocol's interface; raise, with what to type, if it is missing or another."""
    name = _name_of(network)
    load = f"transformers.AutoTokenizer.from_pretrained('{name}')"
    message = message_of(options)
    if tokenizer is None:
        raise OptionError(
            f"a loaded model has no tokenizer; give it too, for example wordprob.load(model, {load}), or its name: "
            f"wordprob.load(model, '{name}')."
        )
    if isinstance(tokenizer, HFTokenizer):
        return tokenizer
    if isinstance(tokenizer, str | Path):
        return read_tokenizer(
            tokenizer, options.bos, end_ids(network), message=message, start_ids=start_ids_of(network)
        )
    if hasattr(tokenizer, "image_processor") or hasattr(tokenizer, "feature_extractor"):
        tokenizer = tokenizer.tokenizer  # a processor of text and images or sounds
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        hint = ""
        if type(tokenizer).__module__.partition(".")[0] == "tokenizers":
            hint = (
                " Wrap it, and say which tokens begin and end a text: transformers.PreTrainedTokenizerFast("
                "tokenizer_object=tokenizer, bos_token=…, eos_token=…)."
            )
        raise OptionError(
            f"`tokenizer` must be a transformers tokenizer, such as {load}, or its name, not a "
            f"{type(tokenizer).__module__.partition('.')[0]}.{type(tokenizer).__name__}.{hint}"
        )
    start_ids = start_ids_of(network)
    known_start = () if start_ids is None else start_ids(tokenizer)
    return HFTokenizer(copy.deepcopy(tokenizer), options.bos, end_ids(network), message, known_start)
