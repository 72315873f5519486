"""Models on a server: by the server's address, or ``openai:NAME@ADDRESS`` where it has several."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wordprob.errors import ModelError, OptionError, UnknownModelError, did_you_mean, first_line, listing
from wordprob.models.completions.client import Client, check_url
from wordprob.models.completions.dialects import ServedModel, find_dialect
from wordprob.models.completions.model import ServerModel
from wordprob.models.protocol import Capabilities, Tokenizer
from wordprob.options import ModelOptions

IS_SERVER = True
PROBE_TEXT = "She saw the mark."
"""A text that every server is tried on."""

UNDECLARED_MAX_TOKENS = 2048
"""The longest sequence sent to a server that does not say what it takes."""

GENERATED_TOKENS = 1
"""Tokens that a server generates after a prompt, for which there must be room."""


def load(source: str, options: ModelOptions) -> ServerModel:
    """Find out what a server has and how it is asked."""
    name, url = split_source(source)
    client = Client(url)
    entry = served_entry(client, name)
    tokenizer = find_tokenizer(client, entry, options)
    served = ServedModel(client, str(entry["id"]), options.top_logprobs, tokenizer.vocabulary)
    start_ids = tokenizer.vocabulary.start_ids
    probe = np.array([*start_ids, *tokenizer.encode([PROBE_TEXT])[0].ids.tolist()], dtype=np.int64)
    dialect = find_dialect(served, probe)
    metadata = {
        "model": options.model,
        "source": f"{entry['id']} at {client.root}",
        "revision": "",
        "top_logprobs": str(options.top_logprobs),
        "asked_by": dialect.name,
    }
    return ServerModel(dialect, tokenizer, metadata, _max_tokens(entry, client))


def load_tokenizer(source: str, options: ModelOptions) -> Tokenizer:
    """Open the tokenizer of a model on a server."""
    name, url = split_source(source)
    client = Client(url)
    entry = {} if options.tokenizer else served_entry(client, name)
    return find_tokenizer(client, entry, options)


def describe(source: str, options: ModelOptions) -> dict[str, Any]:
    """Return the server's address and how much it is asked to list; the server is not asked."""
    name, url = split_source(source)
    return {
        "source": f"{name}@{url}" if name else url,
        "revision": "",
        "tokenizer": options.tokenizer or "",
        "top_logprobs": options.top_logprobs,
    }


def capabilities(_source: str, _options: ModelOptions) -> Capabilities:
    """Return what every server can do; this one is not asked."""
    return Capabilities(has_whole_distributions=False)


def split_source(source: str) -> tuple[str, str]:
    """Return the name of a model, which may be empty, and the address of its server.

    >>> split_source("my-model@http://127.0.0.1:8000"), split_source("https://example.org/v1")
    (('my-model', 'http://127.0.0.1:8000'), ('', 'https://example.org/v1'))
    """
    if source.startswith(("http://", "https://")):
        name, url = "", source
    else:
        name, _, url = source.rpartition("@")
        if not name:
            raise OptionError(f"'openai:{source}' has no address; write openai:NAME@https://HOST/v1.")
    check_url(url)
    return name, url


# --- what the server has ----------------------------------------------------------------------------------------------


def served_entry(client: Client, name: str) -> Mapping[str, Any]:
    """Return what a server says about a model: the one of this name, or its only one."""
    answer = client.get("/v1/models")
    entries = answer.get("data") if isinstance(answer, Mapping) else None
    known = [entry for entry in entries or [] if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]
    if not known:
        if name:
            return {"id": name}  # some servers do not list their models
        raise ModelError(
            f"the server at {client.root} does not say which models it has; name one: openai:NAME@{client.root}."
        )
    names = [str(entry["id"]) for entry in known]
    if not name:
        if len(known) > 1:
            raise OptionError(
                f"the server at {client.root} has {len(known)} models: {listing(names)}. Name one of them: "
                f"openai:NAME@{client.root}."
            )
        return known[0]
    for entry in known:
        if name == entry["id"] or name in (entry.get("aliases") or ()):
            return entry
    raise UnknownModelError(f"the server at {client.root} has no model '{name}'. {did_you_mean(name, names)}")


def _max_tokens(entry: Mapping[str, Any], client: Client) -> int:
    """Return the longest prompt that a server takes: vLLM and llama.cpp say so."""
    meta = entry.get("meta")
    declared = [entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, Mapping) else None]
    for length in declared:
        if isinstance(length, int) and length > GENERATED_TOKENS:
            return length - GENERATED_TOKENS
    print(
        f"The server at {client.root} does not say how long a text may be; at most {UNDECLARED_MAX_TOKENS} tokens are "
        "sent at a time.",
        file=sys.stderr,
    )
    return UNDECLARED_MAX_TOKENS


# --- the tokenizer ----------------------------------------------------------------------------------------------------


def find_tokenizer(client: Client, entry: Mapping[str, Any], options: ModelOptions) -> Tokenizer:
    """Open the tokenizer that the options name, or else the one that the server says it uses."""
    from wordprob.models.registry import open_tokenizer

    if options.tokenizer:
        return open_tokenizer(options.tokenizer, bos=options.bos, trust_remote_code=options.trust_remote_code)
    failures = []
    for source in _tokenizer_sources(client, entry):
        try:
            return open_tokenizer(source, bos=options.bos)  # whatever a server names, no code of it is run
        except ModelError as error:
            failures.append(f"{source}: {first_line(error)}")
    tried = f" The server names {listing(failures)}." if failures else ""
    raise ModelError(
        f"the tokeniser of {entry['id']} is not known here.{tried} Name it with `tokenizer`: the model's hub id, its "
        "directory or its .gguf file."
    )


def _tokenizer_sources(client: Client, entry: Mapping[str, Any]) -> list[str]:
    """Return where a server says its tokenizer is: a path, if it is there on this machine too, or a hub id."""
    said: list[Any] = []
    for path, keys in (("/get_model_info", ("tokenizer_path", "model_path")), ("/props", ("model_path",))):
        answer = client.get(path)
        if isinstance(answer, Mapping):
            said += [answer.get(key) for key in keys]
    said += [entry.get("root"), entry.get("id")]
    named = [source for source in dict.fromkeys(said) if isinstance(source, str) and source]
    return [source for source in named if Path(source).exists() or _is_hub_id(source)]


def _is_hub_id(source: str) -> bool:
    return source.count("/") == 1 and not source.startswith(("/", ".", "~")) and not source.endswith("/")
