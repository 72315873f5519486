"""Checks of options whose values name something: each is done by the room that knows the names.

An option declares what its values name (:attr:`wordprob.options.OptionInfo.names`), because :mod:`wordprob.options` is
below all rooms. The checks are registered here, above the rooms, when the package is imported. A room itself is
imported when the first of its values is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wordprob.options import register_check

if TYPE_CHECKING:
    from wordprob.core.word_definition import WordDefinition


@register_check("word definition")
def check_words(words: str | WordDefinition) -> None:
    """Raise, unless this is a word definition, the name of one, or a file of words."""
    from wordprob.core.words import check_definition

    check_definition(words)


@register_check("rule for the end of a word")
def check_boundary(boundary: str) -> None:
    """Raise, unless this is ``rule``, ``none``, or the name of a word definition."""
    from wordprob.core import words

    words.check_boundary(boundary)


@register_check("context limit")
def check_context_limit(limit: str | int) -> None:
    """Raise, unless this is a number of tokens or of words."""
    from wordprob.core.context_limit import parse_limit

    parse_limit(limit)


@register_check("estimators")
def check_estimators(names: Sequence[str]) -> None:
    """Raise, unless all of these are registered estimators."""
    from wordprob.core import equation

    equation.check_estimators(names)


@register_check("further columns")
def check_extras(names: Sequence[str]) -> None:
    """Raise, unless all of these are further columns."""
    from wordprob.tables import schema

    schema.check_extras(names)


@register_check("model")
def check_model(name: str) -> None:
    """Raise, unless a backend opens models of this name."""
    from wordprob.models.registry import resolve

    resolve(name)


@register_check("device map")
def check_device_map(device_map: str | Mapping[str, str | int]) -> None:
    """Raise, unless this divides a model among devices."""
    from wordprob.models.huggingface.load_arguments import parse_device_map

    parse_device_map(device_map)


@register_check("arguments of from_pretrained")
def check_model_kwargs(arguments: str | Mapping[str, Any]) -> None:
    """Raise, unless these are arguments of ``from_pretrained`` that may be given."""
    from wordprob.models.huggingface.load_arguments import parse_model_kwargs

    parse_model_kwargs(arguments)
