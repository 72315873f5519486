"""What cannot be computed is refused: for a kind of model, or for every model, and before the model is loaded.

What a model can do is compared with what is asked of it here, and nowhere else. Before a model is loaded, as much is
checked as its name and its configuration show (:func:`wordprob.models.registry.capabilities`); a
:class:`wordprob.Scorer` checks the model that it holds.
"""

from __future__ import annotations

from wordprob.core.character_runs import one_character_decides
from wordprob.core.word_definition import WordDefinition
from wordprob.errors import OptionError, UnsupportedError
from wordprob.models.protocol import NEEDS_SOURCE, NO_NEXT_TOKEN, TOP_TOKENS_ONLY, Capabilities
from wordprob.models.registry import capabilities, model_label
from wordprob.options import ModelOptions, ScoringOptions
from wordprob.tables.schema import required_statistics
from wordprob.tables.word_level_columns import WordLevel

# --- before a model is loaded -----------------------------------------------------------------------------------------


def check_scoring_before_loading(
    model: ModelOptions, options: ScoringOptions, *, has_sources: bool = False, after_contexts: bool = False
) -> None:
    """Raise if texts cannot be scored in this way, as far as that is known without loading the model.

    Parameters
    ----------
    model
        The model, and how it would be loaded.
    options
        How texts would be scored.
    has_sources
        Whether each text has a source.
    after_contexts
        Whether the texts are what comes after contexts, which are not scored.
    """
    check_scoring_options(options, after_contexts=after_contexts)
    known = capabilities(model)
    if known is None:
        return
    check_model_can_score(known, options)
    check_sources(known, options, model_label(model.model), has_sources=has_sources)


def check_search_before_loading(model: ModelOptions) -> None:
    """Raise if words or spellings cannot be searched for with a model, as far as that is known without loading it."""
    known = capabilities(model)
    if known is None:
        return
    name = model_label(model.model)
    check_model_can_search(known, name)
    if known.needs_source:
        raise UnsupportedError(
            f"{name} is an encoder–decoder model: it has probabilities of a target given a source, and there is no "
            "source here. Use a causal model, such as gpt2-small."
        )


# --- for every model --------------------------------------------------------------------------------------------------


def check_scoring_options(options: ScoringOptions, *, after_contexts: bool = False) -> None:
    """Raise if options do not go together, whatever the model."""
    if not (options.extras and WordLevel.of(options.extras)):
        return
    if after_contexts:
        raise OptionError("the entropy and the rank of words are computed for whole texts: score these instead.")
    if options.max_context is not None:
        raise OptionError("the entropy and the rank of words need the whole context; leave `max_context` out.")


def enumerable_definition(definition: WordDefinition) -> WordDefinition:
    """Return a definition with the same words that can be enumerated; raise if there is none."""
    found = one_character_decides(definition)
    if found is None:
        raise OptionError(
            f"the words of '{definition.name}' cannot be enumerated: one character does not show where they end. "
            "Use whitespace, punctuation, or one class of characters, such as regex:\\w+."
        )
    return found


# --- for a kind of model ----------------------------------------------------------------------------------------------


def check_model_can_score(known: Capabilities, options: ScoringOptions, name: str = "the model") -> None:
    """Raise if a model cannot compute what options ask for."""
    if not known.predicts_next_token:
        _refuse_causal_options(options)
    if not known.has_whole_distributions:
        _refuse_whole_distributions(options)
    if options.spellings == "all" and not known.opens_prefixes:
        raise UnsupportedError(f"{name} has no method 'open', which all spellings need; use own as `spellings`.")


def check_model_can_search(known: Capabilities, name: str) -> None:
    """Raise unless a model has what a search for words or spellings needs: every token that may come next."""
    if not known.predicts_next_token:
        raise UnsupportedError(NO_NEXT_TOKEN.format(name=name))
    if not known.has_whole_distributions:
        raise UnsupportedError(TOP_TOKENS_ONLY)
    if not known.opens_prefixes:
        raise UnsupportedError(f"{name} has no method 'open', which this needs; use another model.")


def check_sources(known: Capabilities, options: ScoringOptions, name: str, *, has_sources: bool) -> None:
    """Raise unless texts have sources where the model needs them, and only there."""
    if has_sources and not known.needs_source:
        raise OptionError(
            "texts have sources for encoder–decoder models only, such as T5 and BART, and this model is another "
            "one; leave out `sources`."
        )
    if not known.needs_source:
        return
    if not has_sources:
        raise OptionError(NEEDS_SOURCE.format(name=name))
    if options.max_context is not None:
        raise UnsupportedError("`max_context` is not for targets that have a source; leave it out.")
    if WordLevel.of(options.extras):
        raise UnsupportedError(
            "the entropy and the rank of words are not for targets that have a source; leave them out."
        )


def _refuse_causal_options(options: ScoringOptions) -> None:
    """Raise for options that ask for what only a causal model has."""
    asked = {
        "max_context": options.max_context is not None,
        "spellings": options.spellings != "own",
        "estimators": bool(options.estimators),
        **dict.fromkeys(options.extras, True),
    }
    for name, given in asked.items():
        if given:
            raise UnsupportedError(f"the model is a masked model, for which `{name}` has no meaning; leave it out.")


def _refuse_whole_distributions(options: ScoringOptions) -> None:
    """Raise for options that ask for what only the probabilities of all tokens show."""
    word_level = WordLevel.of(options.extras)
    unknown = [
        *required_statistics(options.extras),
        *(["entropy of words"] if word_level.orders else []),
        *(["rank of words"] if word_level.rank else []),
        *(["sum over all spellings"] if options.spellings == "all" else []),
    ]
    if unknown:
        raise UnsupportedError(
            f"a server lists only the most probable tokens, so the {' and the '.join(unknown)} cannot be computed; "
            "leave it out, or run the model on this machine."
        )
