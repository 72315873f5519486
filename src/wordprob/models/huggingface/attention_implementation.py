"""Which function computes the attention of a network: transformers lets it be replaced by another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

WINDOW_OPTIONS = ("sliding_window", "attention_chunk_size")
"""Names under which configurations give the size of a window within attention."""
NO_WINDOW_TOKENS = 1 << 30


def attention_configs(network: Any) -> list[Any]:
    """Return the configurations of a network's modules that choose an implementation of attention, each once."""
    configs: dict[int, Any] = {}
    for module in network.modules():
        config = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation"):
            configs[id(config)] = config
    return list(configs.values())


def attention_window(network: Any) -> int:
    """Return the size of the smallest window within a network's attention; a huge number where there is none."""
    sizes = []
    for config in attention_configs(network):
        for name in WINDOW_OPTIONS:
            size = getattr(config, name, None)
            if size:
                sizes.append(size)
    return min(sizes, default=NO_WINDOW_TOKENS)


@contextmanager
def replaced_attention(configs: Sequence[Any], name: str) -> Iterator[None]:
    """Let the networks of these configurations use the attention function that is registered under a name."""
    before = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = name
        yield
    finally:
        for config, own in zip(configs, before, strict=True):
            config._attn_implementation = own
