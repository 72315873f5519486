"""Models as users name them: checked and named before any is loaded, and opened ready to score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wordprob.errors import OptionError
from wordprob.models import open_model
from wordprob.models.registry import (
    ModelIdentity,
    check_model,
    distinct_labels,
    identity_of,
    model_label,
    wrap_given_model,
)
from wordprob.options import DEFAULT_MODEL, ModelOptions, ScoringOptions
from wordprob.scoring.capability_checks import check_scoring_before_loading, check_scoring_options
from wordprob.scoring.scorer import Scorer


def load(
    model: Any = DEFAULT_MODEL,
    tokenizer: Any = None,
    *,
    bos: str | int | None = None,
    chat_template: str | None = None,
    chat_prompt: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    compile: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    adapter: str | Path | None = None,
    quantize: str | None = None,
    device_map: str | Mapping[str, str | int] | None = None,
    model_kwargs: str | Mapping[str, Any] | None = None,
    masking: str = "within_word_l2r",
    top_logprobs: int = 20,
) -> Scorer:
    """Open a model, or take one that is open already, and return a scorer for it.

    Parameters
    ----------
    model
        A short name (``wordprob models`` lists them), a Hugging Face hub id, a directory, a ``.gguf`` file, or
        ``BACKEND:SOURCE`` with the name of a registered backend. ``NAME@REVISION`` is a revision of a model on the hub,
        such as a checkpoint: ``pythia-160m@step1000``. The address of a server, ``https://…`` (or
        ``openai:NAME@https://…``), is a model that the server runs. Or a transformers model that you have loaded,
        changed, adapted or quantized yourself; then only ``tokenizer``, ``bos``, ``chat_template``, ``chat_prompt`` and
        ``compile`` apply.
    tokenizer
        For a model that is loaded already: its transformers tokenizer, or the name or directory to load that from. For
        a model on a server: where its tokenizer is, a hub id, a directory or a ``.gguf`` file; by default what the
        server names.
    bos
        The start-of-text token, by its text or id, or ``"none"``; by default the one that precedes a document in
        training.
    chat_template
        ``user`` or ``assistant``: texts are scored as messages of this role, inside the model's chat template. What the
        template puts before the message is context.
    chat_prompt
        For ``chat_template="assistant"``: what the user says before the assistant's message.
    device
        ``auto``, ``cpu``, ``cuda`` or ``mps``.
    dtype
        ``auto`` (the checkpoint's own on a GPU, float32 elsewhere), ``float32``, ``bfloat16`` or ``float16``.
    compile
        Compile the model with ``torch.compile`` first. It takes a minute or so and pays off on a GPU, for long runs.
    revision
        Branch, tag or commit on the hub, unless the name has it.
    trust_remote_code
        Run code that comes with the model. Off by default.
    adapter
        A PEFT adapter to put on the model: a directory or a hub id.
    quantize
        ``4bit`` (needs bitsandbytes) or ``8bit`` (needs torchao): load the weights in fewer bits.
    device_map
        Divide the model among GPUs, memory and disk, as transformers does: ``auto``, ``balanced``, ``balanced_low_0``,
        ``sequential``, or a mapping from the names of modules to devices.
    model_kwargs
        Further arguments of transformers' ``from_pretrained``.
    masking
        For masked models: ``within_word_l2r`` masks a token together with the later tokens of the same word (Kauf &
        Ivanova 2023), ``original`` masks it alone (Salazar et al. 2020).
    top_logprobs
        For a model on a server: how many tokens it lists at each place. The more, the narrower the interval between
        ``surprisal_low`` and ``surprisal_high``.
    """
    is_name = isinstance(model, str | Path)
    options = ModelOptions(
        model=str(model) if is_name else DEFAULT_MODEL,
        bos=bos,
        chat_template=chat_template,
        chat_prompt=chat_prompt,
        device=device,
        dtype=dtype,
        compile=compile,
        revision=revision,
        trust_remote_code=trust_remote_code,
        adapter=None if adapter is None else str(adapter),
        quantize=quantize,
        device_map=device_map,
        model_kwargs=model_kwargs,
        masking=masking,
        tokenizer=tokenizer if is_name else None,
        top_logprobs=top_logprobs,
    )
    if is_name:
        return Scorer(open_model(options))
    return Scorer(wrap_given_model(model, tokenizer, options))


# --- one model or several ---------------------------------------------------------------------------------------------

Model = str | Path | ModelOptions | Scorer
"""What a model can be given as: its name, its name and how to open it, or a scorer that holds it."""


def as_models(models: Model | Sequence[Model]) -> list[Model]:
    """Return one model or several as a list; raise if something else was given."""
    listed: list[Any] = list(models) if isinstance(models, list | tuple) else [models]
    for model in listed:
        if not isinstance(model, Model):
            raise OptionError(
                f"a model is a name, a path, a ModelOptions or a Scorer, not a {type(model).__name__}: {model!r:.60}"
            )
    return listed


def check_models(models: Sequence[Model]) -> list[str]:
    """Return the names that tables use for models, all of them different.

    Raises, before any is loaded, if a model does not exist or is named twice.
    """
    if not models:
        raise OptionError("no model was named.")
    return distinct_labels([_identity(model) for model in models])


def check_models_can_score(
    models: Sequence[Model],
    options: ScoringOptions,
    load_options: Mapping[str, Any] | None = None,
    *,
    has_sources: bool = False,
    after_contexts: bool = False,
) -> None:
    """Raise, before any is loaded, if a model cannot score texts in this way; a scorer checks its own model.

    Parameters
    ----------
    models
        The models.
    options, has_sources, after_contexts
        As for :func:`wordprob.scoring.capability_checks.check_scoring_before_loading`.
    load_options
        As for :func:`open_scorer`.
    """
    check_scoring_options(options, after_contexts=after_contexts)
    for model in models:
        if isinstance(model, Scorer):
            continue
        if not isinstance(model, ModelOptions):
            model = ModelOptions.pick({**(load_options or {}), "model": str(model)})
        check_scoring_before_loading(model, options, has_sources=has_sources, after_contexts=after_contexts)


def _identity(model: Model) -> ModelIdentity:
    """Return what tells a model from others; raise, if it is named, unless it exists."""
    if isinstance(model, Scorer):
        metadata = model.model.metadata
        path = Path(metadata["path"]) if "path" in metadata else None
        return ModelIdentity(model_label(metadata.get("model", "model")), path, metadata.get("revision", ""))
    options = model if isinstance(model, ModelOptions) else ModelOptions(model=str(model))
    check_model(options)
    return identity_of(options)


def open_scorer(model: Model, **load_options: Any) -> Scorer:
    """Return a scorer as it is; load a model that is given in another way.

    ``load_options`` are for a model that is given by its name alone.
    """
    if isinstance(model, Scorer):
        return model
    if isinstance(model, ModelOptions):
        return load(**model.to_dict())
    return load(model, **load_options)
