"""What transformers is told when it loads a model: places of its parts, fewer bits, adapters, further arguments."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wordprob.errors import ModelError, OptionError, UnsupportedError, first_line
from wordprob.options import ModelOptions

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""Names of ways to divide a model among devices."""

OWN_OPTIONS = {
    "adapter_kwargs": "adapter",
    "device_map": "device_map",
    "dtype": "dtype",
    "load_in_4bit": "quantize",
    "load_in_8bit": "quantize",
    "revision": "revision",
    "torch_dtype": "dtype",
    "trust_remote_code": "trust_remote_code",
}
"""Arguments of ``from_pretrained`` that have an option of their own here, and that option."""

RESERVED = ("config", "ignore_mismatched_sizes", "output_loading_info", "state_dict")
"""Arguments that are needed to check what was loaded, or that would replace it."""

ALLOWED_KWARGS = (
    # how the network computes
    *("attn_implementation", "experts_implementation", "quantization_config"),
    # which of a model's files are read, and where its parts are kept
    *("local_files_only", "subfolder", "use_safetensors", "variant"),
    *("low_cpu_mem_usage", "max_memory", "offload_buffers", "offload_folder", "offload_state_dict"),
    # settings in config.json that are sometimes changed
    *("max_position_embeddings", "rope_parameters", "rope_scaling", "rope_theta", "sliding_window"),
    "tie_word_embeddings",
)
"""Arguments that may be given. Others could run code (``weights_only``, kernels), send a key, or change the server."""

FLASH_PACKAGES = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
"""Packages that compute attention; transformers takes a kernel from the hub where one is asked for and is missing."""

PROMPT_ADAPTERS = "prompt tuning, prefix tuning, P-tuning"


# --- values of options ------------------------------------------------------------------------------------------------


def parse_device_map(value: str | Mapping[str, Any]) -> str | dict[str, Any]:
    """Return a device map as transformers takes it; raise for what is none.

    Examples
    --------
    >>> parse_device_map("auto"), parse_device_map('{"model.embed_tokens": "cpu", "model.layers": 0}')
    ('auto', {'model.embed_tokens': 'cpu', 'model.layers': 0})
    """
    if isinstance(value, str) and value in DEVICE_MAPS:
        return value
    parsed = _mapping(value)
    if parsed is None:
        raise OptionError(
            f"`device_map` is {value!r}; use {', '.join(DEVICE_MAPS)}, or JSON from the names of modules to devices, "
            'such as {"model.embed_tokens": "cpu", "model.layers": 0}. For a whole model on one device, use `device`.'
        )
    return parsed


def parse_model_kwargs(value: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return further arguments of ``from_pretrained``; raise for those that have an option of their own.

    Examples
    --------
    >>> parse_model_kwargs('{"attn_implementation": "eager"}')
    {'attn_implementation': 'eager'}
    """
    parsed = _mapping(value)
    if parsed is None:
        raise OptionError(
            f"`model_kwargs` is {value!r}; it must be JSON from names to values, such as "
            '{"attn_implementation": "eager"}.'
        )
    for name in parsed:
        if name in OWN_OPTIONS:
            raise OptionError(f"`model_kwargs` has '{name}', for which there is the option `{OWN_OPTIONS[name]}`.")
        if name in RESERVED:
            raise OptionError(f"`model_kwargs` has '{name}', which wordprob sets itself; leave it out.")
        if name not in ALLOWED_KWARGS:
            raise OptionError(
                f"`model_kwargs` has '{name}', which is not allowed; use {', '.join(sorted(ALLOWED_KWARGS))}. For "
                "anything else, load the model with transformers and pass it to wordprob.Scorer."
            )
    return parsed


def _mapping(value: str | Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a mapping, or the one that JSON text stands for; ``None`` for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def loading_arguments(options: ModelOptions, dtype: Any) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` that follow from the options.

    ``dtype`` is what :func:`wordprob.models.devices.pick_dtype` returned.
    """
    arguments: dict[str, Any] = {"dtype": dtype}
    if options.device_map is not None:
        _require("accelerate", "`device_map`", "models")
        if options.device != "auto":
            raise OptionError(
                f"`device` is {options.device}, and `device_map` divides the model among devices; choose one of them."
            )
        arguments["device_map"] = parse_device_map(options.device_map)
    if options.model_kwargs is not None:
        arguments |= parse_model_kwargs(options.model_kwargs)
    if options.quantize is not None:
        if "quantization_config" in arguments:
            raise OptionError("`quantize` and the quantization_config in `model_kwargs` say the same; choose one.")
        arguments["quantization_config"] = quantization_config(options.quantize, dtype)
    return arguments


def check_kernels(config: Any, arguments: dict[str, Any], options: ModelOptions) -> None:
    """Raise if attention would be computed by code from the hub, unless the options allow remote code.

    Parameters
    ----------
    config
        The model's configuration, whose file may name a kernel.
    arguments
        What :func:`loading_arguments` returned. Where kernels are allowed, transformers is told so here.
    options
        Where ``trust_remote_code`` is.
    """
    asked = arguments.get("attn_implementation")
    from_config = [] if isinstance(asked, str) else _attention_names(config)
    from_options = list(asked.values()) if isinstance(asked, Mapping) else [asked]
    kernels = [name for name in (*from_options, *from_config) if isinstance(name, str) and _is_remote(name)]
    if kernels and not options.trust_remote_code:
        asker = "`model_kwargs`" if kernels[0] in from_options else "config.json"
        raise ModelError(
            f"{asker} of {options.model} sets attn_implementation to '{kernels[0]}', which is code that would be taken "
            "from the hub and run; nothing was run. If you trust that code, set `trust_remote_code`; otherwise set "
            '`model_kwargs` to {"attn_implementation": "sdpa"}.'
        )
    if kernels:
        arguments["allow_all_kernels"] = True


def _attention_names(config: Any) -> list[str | None]:
    """Return the implementations of attention that a configuration and those inside it name."""
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    names = [getattr(config, "_attn_implementation", None)]
    return names + [name for part in inner if part is not None for name in _attention_names(part)]


def _is_remote(implementation: str) -> bool:
    """Return True if transformers would take an implementation of attention from the hub."""
    name = implementation.rpartition("|")[2]
    if name in FLASH_PACKAGES:
        return find_spec(FLASH_PACKAGES[name]) is None
    return "/" in name or name.startswith("flash_attention")


# --- fewer bits -------------------------------------------------------------------------------------------------------


def quantization_config(quantize: str, dtype: Any) -> Any:
    """Return how transformers is to load weights in fewer bits.

    Both ways change the weights alone. (8 bits in bitsandbytes would also round a batch's states, and by how much would
    depend on the other texts of the batch.)
    """
    import transformers

    if quantize == "4bit":
        _require("bitsandbytes", "4 bits", "quantize")
        compute = {} if dtype == "auto" else {"bnb_4bit_compute_dtype": dtype}
        return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", **compute)
    _require("torchao", "8 bits", "quantize")
    with _without_log_messages():
        from torchao.quantization import Int8WeightOnlyConfig

        return transformers.TorchAoConfig(Int8WeightOnlyConfig())


def check_quantized(network: Any, options: ModelOptions) -> None:
    """Raise if no layer has fewer bits although that was asked for: a number must not claim what it is not."""
    if options.quantize is None:
        return
    if not any(_is_quantized(module) for module in network.modules()):
        raise ModelError(
            f"none of the layers of {options.model} could be loaded with {options.quantize.removesuffix('bit')} bits; "
            "leave out `quantize`."
        )


def _is_quantized(module: Any) -> bool:
    """Return True for a layer whose weights are stored in a form of their own, or as whole numbers."""
    import torch

    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor):
        return False
    return type(weight.data) is not torch.Tensor or not weight.is_floating_point()


@contextmanager
def _without_log_messages() -> Iterator[None]:
    """Hide what torchao logs about machine code for other versions of torch, which is not needed here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


# --- adapters ---------------------------------------------------------------------------------------------------------


def put_adapter_on(network: Any, adapter: str) -> Any:
    """Return a network with the layers of a PEFT adapter; raise if the adapter does not fit the network."""
    _require("peft", "`adapter`", "peft")
    import warnings

    from peft import PeftModel

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Found missing adapter keys")
            return PeftModel.from_pretrained(network, str(Path(adapter).expanduser()))
    except Exception as error:
        where = Path(adapter).expanduser()
        advice = "An adapter's directory has adapter_config.json and adapter_model.safetensors."
        if where.is_dir() and (where / "adapter_config.json").is_file():
            advice = (
                f"It was made for {base_of_adapter(where) or 'a model that it does not name'}: is `model` that one?"
            )
        raise ModelError(
            f"the adapter {adapter} could not be put on the model: {first_line(error)}. {advice}"
        ) from error


def unwrapped(model: Any) -> Any:
    """Return the network inside what PEFT, data parallelism or ``torch.compile`` wrap around it.

    The layers that an adapter adds are inside the network, so they stay in use.
    """
    network = model
    while True:
        if type(network).__name__ in ("DataParallel", "DistributedDataParallel"):
            network = network.module
        elif hasattr(network, "_orig_mod"):
            network = network._orig_mod
        elif hasattr(network, "get_base_model") and hasattr(network, "peft_config"):
            _refuse_prompt_adapter(network)
            network = network.get_base_model()
        else:
            return network


def _refuse_prompt_adapter(network: Any) -> None:
    """Raise for an adapter that puts virtual tokens before a text: they are no part of the layers."""
    if getattr(network.active_peft_config, "is_prompt_learning", False):
        kind = type(network.active_peft_config).__name__
        raise UnsupportedError(
            f"the adapter is of a kind that puts virtual tokens before every text ({kind}; {PROMPT_ADAPTERS}), which "
            "is not supported; adapters that change the model's layers are: LoRA, IA3, OFT and the like."
        )


def base_of_adapter(directory: Path) -> str:
    """Return the name of the model that the adapter in a directory was made for; empty if it holds no adapter."""
    path = directory / "adapter_config.json"
    if not path.is_file():
        return ""
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path") or "")
    except ValueError:
        return ""


def _require(package: str, purpose: str, extra: str) -> None:
    """Raise, with what to type, unless a package is installed."""
    if find_spec(package) is None:
        raise OptionError(
            f"{purpose} needs the package {package}, which is not installed; type: pip install 'wordprob[{extra}]'"
        )
