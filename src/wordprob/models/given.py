"""Models that the user has loaded already: wrapped so that they can score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wordprob.errors import OptionError
from wordprob.models.protocol import LanguageModel
from wordprob.options import ModelOptions


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
