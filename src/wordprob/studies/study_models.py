"""What all studies do with models: name them, and score texts in nats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wordprob.options import ModelOptions, Options, ScoringOptions
from wordprob.scoring.loading import Model, check_models, check_models_can_score
from wordprob.scoring.passages import Words
from wordprob.scoring.results import WordTable
from wordprob.scoring.scorer import Scorer

StudyProgress = Callable[[str, int, int], None]
"""Called with what is being scored or fetched, how much of it is done, and how much there is (0 if unknown)."""


def as_list(items: Any) -> list[Any]:
    """Return several items as a list; one name, path or model by itself is a list of one.

    Examples
    --------
    >>> as_list("provo"), as_list(["brown", "provo"])
    (['provo'], ['brown', 'provo'])
    """
    if isinstance(items, str | Path | ModelOptions | Scorer):
        return [items]
    return list(items)


def model_labels(models: Sequence[Model], scoring: ScoringOptions) -> list[str]:
    """Return what tables call the models; raise if one does not exist or cannot do it, or two have the same name."""
    if not models:
        return []
    labels = check_models(models)
    check_models_can_score(models, scoring)
    return labels


def score_texts(
    scorer: Scorer,
    texts: Sequence[str],
    words: Words,
    scoring: ScoringOptions,
    description: str,
    progress: StudyProgress | None,
) -> WordTable:
    """Score texts in nats, the unit of all studies; ``description`` tells ``progress`` what is being scored."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(description, done, total)

    return scorer.with_options(scoring, unit="nats").score(texts, words, progress=report)


def options_record(
    inputs: dict[str, Any],
    options: Options,
    models: Sequence[Model],
    labels: Sequence[str],
    scoring: dict[str, Any],
) -> dict[str, Any]:
    """Return every option that had an effect, for the provenance of a result.

    Options of models and of scoring are recorded only where a model scored something.
    """
    record = {**inputs, **options.to_dict()}
    if models:
        record["models"] = [_model_record(model, label) for model, label in zip(models, labels, strict=True)]
        record |= scoring
        record |= _opening_options(models)
    return record


def _model_record(model: Model, label: str) -> str:
    if isinstance(model, Scorer):
        return label
    return model.model if isinstance(model, ModelOptions) else str(model)


def _opening_options(models: Sequence[Model]) -> dict[str, Any]:
    """Return the options that models were opened with; a command opens all of them with the same."""
    for model in models:
        if isinstance(model, ModelOptions):
            return {name: value for name, value in model.to_dict().items() if name != "model"}
    return {}
