"""Language models by name: which backend opens one. Models that the user has loaded are wrapped here too.

A backend is one module and one line in :data:`BACKENDS`. The module has three functions::

    load(source: str, options: ModelOptions) -> LanguageModel
    load_tokenizer(source: str, options: ModelOptions) -> Tokenizer
    describe(source: str, options: ModelOptions) -> dict[str, Any]

``source`` is what :func:`resolve` made of the model's name. ``describe`` returns what identifies the model besides its
name and must not load it: the manifest of a corpus run records it. Three further functions are optional::

    commit(source: str, options: ModelOptions) -> str
    damage(source: str, options: ModelOptions) -> list[str]
    capabilities(source: str, options: ModelOptions) -> Capabilities | None

``commit`` returns the exact version of a model that would be downloaded now. ``damage`` returns which of a model's
files in a cache are not what they are known to be, without loading it. ``capabilities`` returns what a model can do,
without loading it, so that what it cannot do is refused early; ``None`` if that is not known. A backend whose models
may have chat templates sets ``HAS_CHAT_TEMPLATES = True``, one that loads them with transformers'
``from_pretrained`` sets ``USES_FROM_PRETRAINED = True``, and one whose models are on a server ``IS_SERVER = True``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from wordprob.errors import OptionError, UnknownModelError, did_you_mean
from wordprob.models.catalogue import CATALOGUE, ONE_WORD_HUB_IDS
from wordprob.models.fingerprints import weights_digest
from wordprob.models.protocol import Capabilities, LanguageModel, Tokenizer
from wordprob.options import DEFAULT_MODEL, ModelOptions

BACKENDS: dict[str, str] = {
    "exact": "wordprob.models.exact",
    "wheel": "wordprob.models.default_model",
    "gguf": "wordprob.models.gguf",
    "llama-cpp": "wordprob.models.llama_cpp.load",
    "openai": "wordprob.models.completions.load",
    "hf": "wordprob.models.huggingface.load",
}
"""The name of each backend, and its module, which is imported when a model is opened."""

FILE_BACKENDS = ("gguf", "llama-cpp")
"""Backends whose models are files of the user's: ``gguf:FILE`` expands one, and ``llama-cpp:FILE`` does not."""

SERVER_SCHEMES = ("http://", "https://")
"""What the address of a server begins with, which is a model's name too."""

DEFAULT_SOURCES = {"exact": "bow"}
"""What a backend's name alone stands for, or its name and nothing after the colon."""


def register_backend(name: str, module: str) -> None:
    """Add a backend, so that ``NAME:SOURCE`` is a model's name everywhere a model can be named.

    Parameters
    ----------
    name
        The name of the backend.
    module
        The module that has its functions, as it is imported.
    """
    BACKENDS[name] = module


def resolve(model: str | Path) -> tuple[str, str]:
    """Return the backend for a model's name, and the source to pass to it.

    Examples
    --------
    >>> resolve("pythia-1.4b")
    ('hf', 'EleutherAI/pythia-1.4b')
    >>> resolve("exact:eow")
    ('exact', 'eow')
    >>> resolve("distilgpt2")
    ('hf', 'distilgpt2')
    >>> resolve("pythia-160m@step1000")
    ('hf', 'EleutherAI/pythia-160m')
    """
    if is_on_server(str(model)):
        return "openai", str(model).removeprefix("openai:")
    name, _ = split_revision(model)
    backend, _, source = name.partition(":")
    if name in DEFAULT_SOURCES or (backend in BACKENDS and ":" in name):
        return backend, source or DEFAULT_SOURCES.get(backend, "")
    if name.lower() in CATALOGUE:
        entry = CATALOGUE[name.lower()]
        return entry.backend, entry.source
    path = Path(name).expanduser()
    if name.lower().endswith(".gguf"):
        if not path.is_file():
            raise UnknownModelError(f"no such file: {name}")
        return gguf_backend(), str(path)
    if path.is_dir():
        return "hf", str(path)
    if path.is_file():
        raise UnknownModelError(f"{name} is a file; a model is a directory or a .gguf file.")
    if _looks_like_path(name):
        raise UnknownModelError(f"no such directory: {name}")
    if name.count("/") == 1 or name in ONE_WORD_HUB_IDS:
        return "hf", name
    hint = did_you_mean(name, [*CATALOGUE, *ONE_WORD_HUB_IDS])
    suggestion = "" if hint.startswith("Known") else f" {hint}"
    raise UnknownModelError(
        f"no model is called '{name}'.{suggestion} `wordprob models` lists the short names; a hub id (owner/name), a "
        "directory, a .gguf file or the address of a server works too."
    )


def is_on_server(model: str) -> bool:
    """Return True for the name of a model that a server runs.

    >>> is_on_server("openai:my-model@https://example.org/v1"), is_on_server("gpt2")
    (True, False)
    """
    return model.startswith((*SERVER_SCHEMES, "openai:"))


def gguf_backend() -> str:
    """Return the backend of a ``.gguf`` file that is named without one: llama.cpp where it is installed."""
    return "gguf" if find_spec("llama_cpp") is None else "llama-cpp"


def split_revision(model: str | Path) -> tuple[str, str | None]:
    """Return a model's name without its revision, and the revision, if the name has one: ``NAME@REVISION``.

    A file or directory whose name has an ``@`` is a model of that name.

    Examples
    --------
    >>> split_revision("pythia-160m@step1000"), split_revision("gpt2")
    (('pythia-160m', 'step1000'), ('gpt2', None))
    """
    name, at, revision = str(model).rpartition("@")
    if not at or not name or Path(model).expanduser().exists() or _has_backend(str(model)):
        return str(model), None
    if not revision:
        raise OptionError(f"'{model}' has no revision after the @; write {name}@main, or {name} alone.")
    return name, revision


def _has_backend(name: str) -> bool:
    """Return True for an address, or a name that begins with that of a backend and a colon, other than the hub's."""
    backend, colon, _ = name.partition(":")
    return name.startswith(SERVER_SCHEMES) or (bool(colon) and backend in BACKENDS and backend != "hf")


def _looks_like_path(name: str) -> bool:
    """Return True for a name that can only be that of a file or directory."""
    return name.startswith((".", "/", "~")) or "\\" in name or name.endswith("/") or name.count("/") > 1


def model_label(model: str | Path) -> str:
    """Return the name of a model in tables: a short name as it is, a path by its last part.

    Examples
    --------
    >>> model_label("exact:bow")
    'exact:bow'
    """
    path = local_path(model)
    return str(model) if path is None else path.name.removesuffix(".gguf")


class ModelIdentity(NamedTuple):
    """What tells two models apart: the name in tables, the place of a model of the user's, and the revision."""

    label: str
    path: Path | None = None
    revision: str = ""


def identity_of(options: ModelOptions) -> ModelIdentity:
    """Return what tells a model apart from others."""
    return ModelIdentity(model_label(options.model), local_path(options.model), options.revision or "")


def distinct_labels(models: Sequence[ModelIdentity]) -> list[str]:
    """Return the names of several models in one table; those that would be the same are made longer.

    A directory gets the names of the directories that it is in, and a model of the hub its revision.

    Examples
    --------
    >>> distinct_labels([ModelIdentity("gpt2"), ModelIdentity("gpt2", Path("/runs/1/gpt2"))])
    ['gpt2', '1/gpt2']
    >>> distinct_labels([ModelIdentity("gpt2", revision="main"), ModelIdentity("gpt2", revision="v2")])
    ['gpt2@main', 'gpt2@v2']
    """
    labels = [model.label for model in models]
    most_parts = max((len(model.path.parts) for model in models if model.path is not None), default=2)
    for n_parts in range(2, most_parts + 1):
        repeated = _repeated(labels)
        for n, model in enumerate(models):
            if labels[n] in repeated:
                labels[n] = _longer_label(model, n_parts)
    if _repeated(labels):
        names = ", ".join(sorted(_repeated([model.label for model in models])))
        raise OptionError(f"two models are called {names}; name each once, or rename a directory.")
    return labels


def _repeated(labels: Sequence[str]) -> set[str]:
    return {label for label in labels if labels.count(label) > 1}


def _longer_label(model: ModelIdentity, n_parts: int) -> str:
    """Return a name with the last parts of the model's path, or with its revision."""
    if model.path is not None:
        return "/".join(model.path.parts[-n_parts:]).removesuffix(".gguf")
    return f"{model.label}@{model.revision}" if model.revision and "@" not in model.label else model.label


def local_path(model: str | Path) -> Path | None:
    """Return where a model is that is a file or a directory of the user's."""
    backend, colon, source = str(model).partition(":")
    is_named = bool(colon) and backend in FILE_BACKENDS and not Path(model).exists()
    path = Path(source if is_named else model).expanduser()
    if str(model).lower() in CATALOGUE or not path.exists():
        return None
    return path.resolve()


def open_model(model: str | Path | ModelOptions = DEFAULT_MODEL, **options: Any) -> LanguageModel:
    """Open a model by short name, hub id, directory or GGUF file.

    Parameters
    ----------
    model
        The name of the model, or all of its options.
    options
        The other options of :class:`wordprob.options.ModelOptions`, where ``model`` is a name.
    """
    chosen = _model_options(model, options)
    backend, source = _backend_of(chosen)
    opened: LanguageModel = backend.load(source, with_revision(chosen))
    opened.metadata = {**opened.metadata, **_origin(chosen, opened.metadata), **_chat(chosen, opened.tokenizer)}
    return opened


def _chat(options: ModelOptions, tokenizer: Tokenizer) -> dict[str, str]:
    """Return what a table records about the chat that texts are messages of, if they are."""
    if options.chat_template is None:
        return {}
    return {"chat_template": options.chat_template, "before_text": tokenizer.chat.text_before}  # type: ignore[attr-defined]


def _origin(options: ModelOptions, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what a table records about where a model comes from; every backend's models are recorded here.

    The name, the source and the revision; for what is no model of the hub also the fingerprint of its files and the
    SHA-256 of its weights, and for a model of the user's the place where it was.
    """
    described = describe(options)
    origin = {
        "model": model_label(options.model),
        "source": metadata.get("source") or described["source"],
        "revision": metadata.get("revision") or described.get("revision", ""),
    }
    path = local_path(options.model)
    if path is not None:
        origin |= {"revision": "", "path": str(path)}
    if described.get("fingerprint"):
        origin["fingerprint"] = described["fingerprint"]
    if weights := weights_digest(described.get("files", {})):
        origin["weights_sha256"] = weights
    return origin


def open_tokenizer(model: str | Path | ModelOptions = DEFAULT_MODEL, **options: Any) -> Tokenizer:
    """Open the tokenizer of a model without its weights; the parameters are those of :func:`open_model`."""
    chosen = _model_options(model, options)
    backend, source = _backend_of(chosen)
    opened: Tokenizer = backend.load_tokenizer(source, with_revision(chosen))
    return opened


def describe(options: ModelOptions) -> dict[str, Any]:
    """Return where a model comes from, with a fingerprint or revision that another model would not have.

    The model is not loaded, and the network is not used.
    """
    name, source = resolve(options.model)
    backend, _ = _backend_of(options)
    return {"backend": name, "source": source, **backend.describe(source, with_revision(options))}


def commit(options: ModelOptions) -> str:
    """Return the exact version that opening a model would download now; nothing for a model that is not downloaded.

    With it as the ``revision``, every later call opens the same model.
    """
    backend, source = _backend_of(options)
    find_commit = getattr(backend, "commit", None)
    return "" if find_commit is None else str(find_commit(source, with_revision(options)))


def damage(options: ModelOptions) -> list[str]:
    """Return which files of a model in a cache are damaged, one line for each; the network is not used."""
    backend, source = _backend_of(options)
    find_damage = getattr(backend, "damage", None)
    return [] if find_damage is None else list(find_damage(source, with_revision(options)))


def capabilities(options: ModelOptions) -> Capabilities | None:
    """Return what a model can do, without loading it; ``None`` if that is known only of the open model."""
    backend, source = _backend_of(options)
    find_capabilities = getattr(backend, "capabilities", None)
    if find_capabilities is None:
        return None
    found: Capabilities | None = find_capabilities(source, with_revision(options))
    return found


def check_model(options: ModelOptions) -> None:
    """Raise, without opening it, if there is no such model or its options do not fit it."""
    _backend_of(options)


def _model_options(model: str | Path | ModelOptions, options: dict[str, Any]) -> ModelOptions:
    if not isinstance(model, ModelOptions):
        return ModelOptions.from_dict({"model": str(model), **options})
    if options:
        raise TypeError(f"options were given twice: as {type(model).__name__} and as {', '.join(options)}")
    return model


def _backend_of(options: ModelOptions) -> tuple[ModuleType, str]:
    """Return the backend's module, and the source to pass to it."""
    name, source = resolve(options.model)
    backend = import_module(BACKENDS[name])
    if with_revision(options).revision and (local_path(source) is not None or not hasattr(backend, "commit")):
        raise OptionError(
            f"`revision` is for models on the hub, and {split_revision(options.model)[0]} is not one; leave it out."
        )
    _check_chat(options, backend)
    _check_loading(options, backend)
    _check_server_options(options, backend)
    return backend, source


def with_revision(options: ModelOptions) -> ModelOptions:
    """Return the same options with the revision that the model's name has; raise if another one was given."""
    _, revision = split_revision(options.model)
    if revision is None:
        return options
    if options.revision not in (None, revision):
        raise OptionError(
            f"{options.model} is the revision '{revision}', and `revision` is '{options.revision}'; "
            "specify one of them."
        )
    return replace(options, revision=revision)


def _check_loading(options: ModelOptions, backend: ModuleType) -> None:
    """Raise, unless the backend loads models in such a way that the options about loading mean something."""
    if getattr(backend, "USES_FROM_PRETRAINED", False):
        return
    for name in ("adapter", "quantize", "device_map", "model_kwargs"):
        if getattr(options, name) is not None:
            raise OptionError(
                f"`{name}` is for models that transformers loads from the hub or from a directory, and "
                f"{options.model} is not one; leave it out."
            )


def _check_server_options(options: ModelOptions, backend: ModuleType) -> None:
    """Raise, unless the options that concern servers and those that do not fit the backend."""
    defaults = ModelOptions()
    is_server = getattr(backend, "IS_SERVER", False)
    names = ("device", "dtype", "compile") if is_server else ("tokenizer", "top_logprobs")
    for name in names:
        if getattr(options, name) != getattr(defaults, name):
            which = "that run on this machine" if is_server else "on a server"
            raise OptionError(f"`{name}` is for models {which}, and {options.model} is not one; leave it out.")


def _check_chat(options: ModelOptions, backend: ModuleType) -> None:
    """Raise, unless the options of a chat fit each other and the backend."""
    if options.chat_prompt is not None and options.chat_template != "assistant":
        raise OptionError(
            "`chat_prompt` is what comes before the assistant's message: set `chat_template` to assistant."
        )
    if options.chat_template is None:
        return
    if options.bos is not None:
        raise OptionError("`chat_template` and `bos` both say what comes before a text; choose one of them.")
    if not getattr(backend, "HAS_CHAT_TEMPLATES", False):
        raise OptionError(f"{options.model} has no chat template, so `chat_template` cannot be used; leave it out.")


# --- models that are loaded already -----------------------------------------------------------------------------------


def wrap_given_model(model: Any, tokenizer: Any = None, options: ModelOptions | None = None) -> LanguageModel:
    """Return a language model for what the user has in hand.

    Parameters
    ----------
    model
        A :class:`wordprob.models.protocol.LanguageModel`, which is returned as it is, or a transformers model.
    tokenizer
        The tokenizer of a transformers model, or its name or directory.
    options
        How texts begin and whether to compile; the options that say how to load a model must have their defaults.
    """
    if isinstance(model, str | Path):
        raise OptionError(f"'{model}' is the name of a model, not a model; type wordprob.load('{model}').")
    wrapped: Any
    if _is_language_model(model):
        if tokenizer is not None:
            raise OptionError(f"{type(model).__name__} has a tokenizer of its own; leave out `tokenizer`.")
        wrapped = model
    else:
        from wordprob.models.huggingface.user_models import wrap_loaded

        wrapped = wrap_loaded(model, tokenizer, options or ModelOptions())
    language_model: LanguageModel = wrapped
    return language_model


def _is_language_model(model: Any) -> bool:
    """Return True for what has the protocol's main method; torch networks have none of that name."""
    return hasattr(model, "score") and hasattr(model, "tokenizer")
