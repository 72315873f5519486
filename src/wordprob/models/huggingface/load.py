"""Any Hugging Face causal language model, by hub id or directory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from logging import ERROR, getLogger
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wordprob.errors import ModelError, listing
from wordprob.models.devices import pick_device, pick_dtype
from wordprob.models.fingerprints import describe_path, weights_digest
from wordprob.models.huggingface.encoder_decoder import EncoderDecoderModel, target_start_ids
from wordprob.models.huggingface.hub import (
    cache_alone_if_out_of_reach,
    cached_files,
    damaged_files,
    digests_of,
    read_config,
)
from wordprob.models.huggingface.load_arguments import (
    base_of_adapter,
    check_kernels,
    check_quantized,
    loading_arguments,
    put_adapter_on,
    unwrapped,
)
from wordprob.models.huggingface.masked import MaskedModel
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.tokenizer import (
    HFTokenizer,
    exclude_imports_from_garbage_collection,
    first_line,
    message_of,
    read_tokenizer,
)
from wordprob.models.huggingface.weights import check_index, check_layers, check_weights, read_weights
from wordprob.models.protocol import Capabilities
from wordprob.options import ModelOptions

HUB_TIMEOUT_SECONDS = 10

HAS_CHAT_TEMPLATES = True
USES_FROM_PRETRAINED = True

MASKED_MODEL_TYPES = (
    "albert",
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "modernbert",
    "roberta",
    "xlm-roberta",
)
"""Kinds of models that fill in masked tokens, where a configuration does not say so itself."""

ENCODER_DECODER_MODEL_TYPES = (
    "bart",
    "bigbird_pegasus",
    "blenderbot",
    "blenderbot-small",
    "encoder-decoder",
    "fsmt",
    "led",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "mt5",
    "mvp",
    "nllb-moe",
    "pegasus",
    "pegasus_x",
    "plbart",
    "prophetnet",
    "switch_transformers",
    "t5",
    "umt5",
)
"""Kinds of models with an encoder and a decoder, where a file of a configuration leaves out what is the default."""

CAPABILITIES = {
    "CausalLM": Capabilities(),
    "MaskedLM": Capabilities(predicts_next_token=False),
    "Seq2SeqLM": Capabilities(needs_source=True),
}
"""What each kind of model, as :func:`kind_of` names it, can do."""


# --- the backend's functions (see wordprob.models.registry) ----------------------------------------------------------


def load(source: str, options: ModelOptions) -> Any:
    """Load a model from a hub id or a directory: an :class:`HFModel`, or a :class:`MaskedModel`."""
    device = pick_device(options.device)
    with cache_alone_if_out_of_reach(source), quiet():
        network = load_network(source, options, device)
        tokenizer = read_tokenizer(
            source,
            options.bos,
            end_ids(network),
            options.revision,
            trust_remote_code=options.trust_remote_code,
            message=message_of(options),
            start_ids=start_ids_of(network),
        )
    directory = Path(source)
    origin = directory.name if directory.is_dir() else source
    revision = getattr(network.config, "_commit_hash", None) or options.revision or ""
    metadata = model_metadata(
        network, origin if directory.is_dir() else options.model, origin, revision, options.compile
    )
    files = cached_files(source, revision or None)
    damaged = damaged_files(files)
    if damaged:
        raise ModelError(
            f"files of {source} in the hub's cache are damaged: {listing(damaged)}. Delete these and load it again."
        )
    if files:
        metadata["weights_sha256"] = weights_digest(digests_of(files))
    if options.adapter is not None:
        network = put_adapter_on(network, options.adapter)
        metadata |= describe_adapter(options.adapter)
    return wrap_network(unwrapped(network), tokenizer, metadata, options)


def wrap_network(
    network: Any, tokenizer: HFTokenizer, metadata: dict[str, str], options: ModelOptions, may_change: bool = False
) -> HFModel | MaskedModel:
    """Return a network behind the protocol: a masked model, an encoder–decoder model, or else a causal one."""
    if type(network).__name__.endswith("ForMaskedLM"):
        return MaskedModel(network, tokenizer, metadata, options.masking)
    if is_encoder_decoder(network):
        return EncoderDecoderModel(network, tokenizer, metadata)
    return HFModel(network, tokenizer, metadata, compile=options.compile, may_change=may_change)


def load_tokenizer(source: str, options: ModelOptions) -> HFTokenizer:
    """Load the tokenizer of a model from a hub id or a directory."""
    with cache_alone_if_out_of_reach(source), quiet():
        return read_tokenizer(
            source,
            options.bos,
            end_ids_in_files(Path(source)),
            options.revision,
            trust_remote_code=options.trust_remote_code,
            message=message_of(options),
        )


def describe(source: str, options: ModelOptions) -> dict[str, Any]:
    """Return a directory's name and fingerprint, or the revision of a model on the hub."""
    path = Path(source).expanduser()
    described: dict[str, Any] = describe_path(path) if path.exists() else {"revision": options.revision or ""}
    if options.adapter is not None:
        adapter = Path(options.adapter).expanduser()
        described["adapter"] = describe_path(adapter) if adapter.exists() else {"source": options.adapter}
    return described


def commit(source: str, options: ModelOptions) -> str:
    """Return the commit of a model on the hub, or of the copy in the cache if the hub is out of reach."""
    if Path(source).expanduser().exists():
        return ""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        return str(HfApi().model_info(source, revision=options.revision, timeout=HUB_TIMEOUT_SECONDS).sha)
    except Exception:  # the hub is out of reach, or does not know the model: the cache may
        cached = try_to_load_from_cache(source, "config.json", revision=options.revision)
        return Path(cached).parent.name if isinstance(cached, str) else ""


def damage(source: str, options: ModelOptions) -> list[str]:
    """Return which files of a model in the hub's cache are not what the hub says; nothing is fetched."""
    return damaged_files(cached_files(source, options.revision))


def capabilities(source: str, options: ModelOptions) -> Capabilities | None:
    """Return what a model can do by its ``config.json``; ``None`` if that cannot be read, or does not say."""
    config = read_config(source, options.revision)
    if config is None:
        return None
    model_type = config.get("model_type", "")
    defaults = {"model_type": model_type, "is_encoder_decoder": model_type in ENCODER_DECODER_MODEL_TYPES}
    declared = SimpleNamespace(**{**defaults, **config})
    try:
        kind = kind_of(declared)
        return CAPABILITIES[kind] if kind != "CausalLM" or is_causal(declared) else None
    except (AttributeError, TypeError):  # the values are not what they should be
        return None


# --- the transformers model ------------------------------------------------------------------------------------------


def load_network(source: str, options: ModelOptions, device: str) -> Any:
    """Return the transformers model of a hub id or a directory, on a device."""
    from transformers import AutoConfig

    exclude_imports_from_garbage_collection()
    arguments = loading_arguments(options, pick_dtype(options.dtype, device))
    where: dict[str, Any] = {
        "revision": options.revision or "main",
        "trust_remote_code": options.trust_remote_code,
    }
    with quiet():
        try:
            config = AutoConfig.from_pretrained(source, **where)
        except Exception as error:
            raise _unreadable(source, error, options.trust_remote_code) from error
        check_kernels(config, arguments, options)
        check_layers(getattr(config, "num_hidden_layers", None), source)
        check_index(Path(source).expanduser() / str(arguments.get("subfolder", "")))
        kind = kind_of(config)
        try:
            network, report = read_weights(source, kind, **arguments, **where)
        except Exception as error:
            raise _unreadable(source, error, options.trust_remote_code) from error
    check_weights(network, report, source)
    check_quantized(network, options)
    # Parts of a model that is divided among devices, or was loaded in fewer bits, are where they belong.
    is_placed = options.device_map is not None or getattr(network, "is_quantized", False)
    return network if is_placed and network.device.type != "meta" else network.to(device)


def model_metadata(network: Any, name: str, source: str, revision: str, compiled: bool) -> dict[str, str]:
    """Return what a table records about a model."""
    return {"model": name, "source": source, "revision": revision, **describe_network(network, compiled)}


def describe_network(network: Any, compiled: bool) -> dict[str, str]:
    """Return what a table records about the state of a network: precision, devices, adapters, versions."""
    import torch
    import transformers

    metadata = {"dtype": str(network.dtype).removeprefix("torch."), "device": _devices(network)}
    quantization = getattr(network.config, "quantization_config", None)
    if quantization is not None:
        metadata["quantization"] = quantization_in_words(quantization)
    adapters = active_adapters(network)
    if adapters:
        metadata["adapter"] = ", ".join(adapters)
    if compiled:
        metadata["compiled"] = "yes"
    metadata["transformers"] = transformers.__version__
    metadata["torch"] = str(torch.__version__)
    return metadata


def active_adapters(network: Any) -> list[str]:
    """Return the names of the adapters that are at work in the layers of a network."""
    active: dict[str, None] = {}
    for module in network.modules():
        if type(module).__module__.startswith("peft."):
            names = getattr(module, "active_adapters", None)
            if isinstance(names, list) and not getattr(module, "disable_adapters", False):
                active |= dict.fromkeys(map(str, names))
    return list(active)


def quantization_in_words(quantization: Any) -> str:
    """Return how the weights of a model were quantized: the method, and what it calls the kind of numbers."""
    method = getattr(quantization, "quant_method", "")
    kind = getattr(quantization, "quant_type", None)
    if getattr(quantization, "load_in_4bit", False):
        kind = f"4bit {quantization.bnb_4bit_quant_type}"
    elif getattr(quantization, "load_in_8bit", False):
        kind = "8bit"
    name = kind if isinstance(kind, str) else "" if kind is None else type(kind).__name__
    return f"{getattr(method, 'value', method)} {name}".strip()


def describe_adapter(adapter: str) -> dict[str, str]:
    """Return what a table records about an adapter by its name or directory."""
    import peft

    path = Path(adapter).expanduser()
    described = {"adapter": path.name if path.is_dir() else adapter, "peft": str(peft.__version__)}
    if path.is_dir():
        described["adapter_fingerprint"] = describe_path(path)["fingerprint"]
    return described


def _devices(network: Any) -> str:
    """Return the device of a network, or all of them where it is divided."""
    places = getattr(network, "hf_device_map", None)
    if not places:
        return str(network.device)
    names = [f"cuda:{place}" if isinstance(place, int) else str(place) for place in places.values()]
    return " ".join(dict.fromkeys(names))


def end_ids(network: Any) -> list[int]:
    """Return the ids that end a document, as a model's configurations name them."""
    configs = (getattr(network, "generation_config", None), network.config)
    return _distinct_ids([getattr(config, "eos_token_id", None) for config in configs])


def end_ids_in_files(directory: Path) -> list[int]:
    """Return the ids that end a document, as the configuration files in a directory name them."""
    declared = []
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        if path.is_file():
            declared.append(json.loads(path.read_text(encoding="utf-8")).get("eos_token_id"))
    return _distinct_ids(declared)


def _distinct_ids(declared: list[Any]) -> list[int]:
    """Return ids in their order; each item declares one id, a list of ids, or none."""
    ids: list[int] = []
    for item in declared:
        if isinstance(item, list):
            ids += item
        elif item is not None:
            ids.append(item)
    return list(dict.fromkeys(int(i) for i in ids))


def is_encoder_decoder(network: Any) -> bool:
    """Return True for a network that has an encoder and a decoder."""
    return bool(getattr(network.config, "is_encoder_decoder", False))


def start_ids_of(network: Any) -> Callable[[Any], Sequence[int]] | None:
    """Return what finds, for a tokenizer, what comes before every text, where the network's configuration says that."""
    return partial(target_start_ids, network) if is_encoder_decoder(network) else None


def is_causal(config: Any) -> bool:
    """Return True if a configuration says that its model predicts the next token."""
    architectures = list(getattr(config, "architectures", None) or [])
    named = any("CausalLM" in name or name.endswith(("LMHeadModel", "DoubleHeadsModel")) for name in architectures)
    return named or bool(getattr(config, "is_decoder", False))


def kind_of(config: Any) -> str:
    """Return the kind of a model as classes of transformers have it in their names: CausalLM, MaskedLM, Seq2SeqLM."""
    architectures = list(getattr(config, "architectures", None) or [])
    causal = is_causal(config)
    masked = any("MaskedLM" in name for name in architectures) or config.model_type in MASKED_MODEL_TYPES
    if getattr(config, "is_encoder_decoder", False) and not causal:
        return "Seq2SeqLM"
    return "MaskedLM" if masked and not causal else "CausalLM"


def _unreadable(source: str, error: Exception, trust_remote_code: bool) -> ModelError:
    """Return the error for a model that transformers could not load, with what to do about it."""
    base = base_of_adapter(Path(source))
    if is_gated(error):
        page = f"https://huggingface.co/{source}"
        return ModelError(
            f"the hub gives {source} only to people who have accepted its licence. Accept it at {page}, make a token "
            "at https://huggingface.co/settings/tokens, and type: hf auth login"
        )
    if "trust_remote_code" in str(error) and not trust_remote_code:
        advice = "It brings its own code; if you trust it, set the option trust_remote_code."
    elif base:
        advice = f"It is a PEFT adapter; set `model` to the model that it was made for, {base}, and `adapter` to it."
    elif Path(source).is_dir():
        advice = "The directory needs config.json, the weights (*.safetensors) and the tokeniser's files."
    else:
        advice = (
            "Is the name right, and the hub in reach? If it is a private model, type: hf auth login. A local directory "
            "or .gguf file works without a network."
        )
    return ModelError(f"the model {source} could not be loaded: {first_line(error)}. {advice}")


def is_gated(error: BaseException | None) -> bool:
    """Return True if the hub refused a model until its licence is accepted; transformers raises errors around that."""
    from huggingface_hub.errors import GatedRepoError

    while error is not None:
        if isinstance(error, GatedRepoError) or "gated repo" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bars and warnings of transformers, and what the packages say that it imports."""
    from transformers.utils import logging

    for name in ("torchao", "torch.utils._pytree"):
        getLogger(name).setLevel(ERROR)

    level = logging.get_verbosity()
    shows_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shows_bars:
            logging.enable_progress_bar()
