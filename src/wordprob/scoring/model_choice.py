"""Which models score a table or a study: checked and named before any is loaded, then opened one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wordprob.errors import OptionError
from wordprob.models.registry import ModelIdentity, check_model, distinct_labels, identity_of, model_label
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.scoring.capability_checks import check_scoring_before_loading, check_scoring_options
from wordprob.scoring.loading import load
from wordprob.scoring.scorer import Scorer

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
