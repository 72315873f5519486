"""The weights of a transformers model: loaded whole, or not at all.

transformers fills a tensor that it does not find with random numbers and says so in a log only. Here it is asked for
that report, and a model with such a tensor is refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

import regex

from wordprob.errors import ModelError, first_line, listing

COMPUTED_BUFFER = regex.compile(
    r"(?:^|\.)(?:(?:original_)?inv_freq|position_ids|masked_bias|attn\.bias|attention\.bias)$"
)
"""Buffers that a network computes by itself and that older checkpoints have, or lack: frequencies, places, masks."""

MAX_LAYERS = 2000
"""More than any model has; transformers would build millions of layers before it notices that there are no weights."""

SOURCE_ADVICE = "Do config.json and the weights belong to the same model, and is the download complete?"


OTHER_HEADS = regex.compile(r"(?:^|\.)(?:pooler|seq_relationship|nsp|sop_classifier|discriminator_predictions)\.")
"""Heads for other tasks, which masked models were trained with too and which scoring does not need."""


def read_weights(source: Any, kind: str = "CausalLM", **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return the transformers model of a hub id or a directory, and the report for :func:`check_weights`.

    ``kind`` is that of the model, as the classes of transformers have it in their names; the options are those of
    ``from_pretrained``.
    """
    import transformers

    # A tensor of another shape is an error either way; asked in this way, transformers says which one it is.
    network, report = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
        source, output_loading_info=True, ignore_mismatched_sizes=True, **options
    )
    if kind == "MaskedLM":
        report["unexpected_keys"] = [key for key in report["unexpected_keys"] if not OTHER_HEADS.search(key)]
    return network, report


def check_layers(count: object, name: str) -> None:
    """Raise if a model declares more layers than any model has."""
    if isinstance(count, int) and count > MAX_LAYERS:
        raise ModelError(f"{name} declares {count:,} layers; no model has more than {MAX_LAYERS:,}. Is it damaged?")


def check_index(directory: Path) -> None:
    """Raise if an index of weights in a directory names a file that is not in the same directory.

    For a model on the hub, ``directory`` does not exist, and huggingface_hub makes the same check.
    """
    for path in sorted(directory.glob("*.index.json")):
        try:
            files = set(json.loads(path.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{path} cannot be read as an index of weights: {first_line(error)}.") from error
        for name in sorted(map(str, files)):
            if PurePath(name).name != name or PureWindowsPath(name).name != name:
                raise ModelError(
                    f"{path} says that weights are in '{name}', which is not a file in the same directory; nothing was "
                    "loaded. Is the model from a source that you trust?"
                )


def check_weights(network: Any, report: Mapping[str, Any], name: str, advice: str = SOURCE_ADVICE) -> None:
    """Raise, unless every tensor of a network came from its files; warn about tensors that were not used.

    Parameters
    ----------
    network
        The transformers model.
    report
        What :func:`read_weights` returned with it.
    name
        What messages call the model.
    advice
        What the message about missing weights ends with.
    """
    missing = missing_tensors(network, report["missing_keys"])
    unused = sorted(report["unexpected_keys"])
    if missing:
        raise _missing_error(name, missing, unused, advice)
    mismatched = sorted(report["mismatched_keys"], key=lambda entry: str(entry[0]))
    if mismatched:
        shapes = [f"{key} is {_shape(found)}, not {_shape(wanted)}" for key, found, wanted in mismatched]
        raise ModelError(
            f"the weights of {name} have another shape than its configuration: {listing(shapes)}. {advice}"
        )
    if report["error_msgs"]:
        raise ModelError(f"the weights of {name} could not be loaded: {listing(map(str, report['error_msgs']))}")
    if unused:
        _warn_unused(name, unused)


def missing_tensors(network: Any, keys: Iterable[str]) -> list[str]:
    """Return the names of missing tensors, without the buffers that a network computes by itself."""
    buffers = {name for name, _ in network.named_buffers()}
    return sorted(key for key in keys if not (key in buffers and COMPUTED_BUFFER.search(key)))


def _missing_error(name: str, missing: Collection[str], unused: Collection[str], advice: str) -> ModelError:
    """Return the error for weights that are not there; tensors that nothing used may be them under other names."""
    prefix = _common_prefix(missing, unused)
    if prefix:
        hint = f" The weights are there with '{prefix}' before their names; save them again without it."
    else:
        hint = f" Not used: {listing(unused)}." if unused else ""
    return ModelError(
        f"the weights of {name} are incomplete: {_tensors(missing)} of the model not found: "
        f"{listing(missing)}.{hint} {advice}"
    )


def _warn_unused(name: str, unused: Collection[str]) -> None:
    """Warn about tensors in the files of a model that nothing used."""
    warnings.warn(
        f"the weights of {name} have {_tensors(unused)} that the model does not use: {listing(unused)}. If its "
        "configuration leaves out something that it was trained with, its numbers are wrong.",
        stacklevel=2,
    )


def _tensors(names: Collection[str]) -> str:
    return "1 tensor" if len(names) == 1 else f"{len(names)} tensors"


def _common_prefix(missing: Collection[str], unused: Collection[str]) -> str:
    """Return what all unused names have before the names of missing ones; nothing if they are not related so.

    >>> _common_prefix(["a.weight", "b.weight"], ["module.a.weight", "module.b.weight"])
    'module.'
    """
    wanted = set(missing)
    first = min(unused, default="")
    for dot in regex.finditer(r"\.", first):
        prefix = first[: dot.end()]
        if {key.removeprefix(prefix) for key in unused} <= wanted:
            return prefix
    return ""


def _shape(shape: Any) -> str:
    return " × ".join(map(str, shape)) or "a single number"
