"""Language models: one file for each kind, opened by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from wordprob.errors import UnknownModelError, did_you_mean
from wordprob.lms.catalogue import CATALOGUE, DEFAULT, Entry
from wordprob.types import LanguageModel

__all__ = ["BACKENDS", "CATALOGUE", "DEFAULT", "Entry", "open_model", "resolve"]

BACKENDS = {
    "exact": "wordprob.lms.exact:open_exact",
    "wheel": "wordprob.lms.smollm2:open_default",
    "gguf": "wordprob.lms.gguf:load",
    "hf": "wordprob.lms.hf:load",
}
"""A kind of model, and where the function is that opens one."""


def resolve(model: str | Path) -> tuple[str, str]:
    """Return the backend for a model's name, and what to hand to it.

    >>> resolve("pythia-1.4b")
    ('hf', 'EleutherAI/pythia-1.4b')
    """
    name = str(model)
    if name == "exact" or name.startswith("exact:"):
        return "exact", name.removeprefix("exact").removeprefix(":") or "bow"
    if name.lower() in CATALOGUE:
        entry = CATALOGUE[name.lower()]
        return entry.backend, entry.source
    path = Path(name).expanduser()
    if name.lower().endswith(".gguf"):
        if not path.is_file():
            raise UnknownModelError(f"no such file: {name}")
        return "gguf", str(path)
    if path.is_dir():
        return "hf", str(path)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return "hf", name
    raise UnknownModelError(
        f"no model is called '{name}'. {did_you_mean(name, CATALOGUE)} `wordprob models` lists the short names; a hub "
        "id (owner/name), a directory or a .gguf file works too."
    )


def open_model(model: str | Path = DEFAULT, **options: Any) -> LanguageModel:
    """Open a model by short name, hub id, directory or GGUF file.

    Options are the backend's: ``bos``, ``device``, ``dtype``, ``compile``, ``revision``,
    ``trust_remote_code``.
    """
    kind, source = resolve(model)
    module, function = BACKENDS[kind].split(":")
    opened: LanguageModel = getattr(import_module(module), function)(source, name=str(model), **options)
    return opened
