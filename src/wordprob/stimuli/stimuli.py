"""Stimuli that have been read and checked, and how they are scored: equal texts once, one model after the other."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wordprob.errors import OptionError
from wordprob.models.registry import is_on_server
from wordprob.options import DEFAULT_MODEL, ScoringOptions
from wordprob.scoring.model_choice import Model, as_models, check_models, check_models_can_score, open_scorer
from wordprob.scoring.progress import progress_callback
from wordprob.scoring.requests import Progress
from wordprob.scoring.scorer import Scorer
from wordprob.scoring.word_choice import Words
from wordprob.stimuli.stimulus_columns import assemble, columns_of_model
from wordprob.tables import columns
from wordprob.tables.columns import ModelColumns
from wordprob.tables.layout import Offsets
from wordprob.tables.result import ScoredTable, WordTable
from wordprob.tables.schema import SERVER_BOUNDS, further_estimates
from wordprob.tables.stimulus_table import StimulusTable


@dataclass(frozen=True)
class Stimuli(StimulusTable):
    """A table that has been read and checked, and can be scored."""

    def check_columns(self, labels: Sequence[str], shape: str, options: ScoringOptions | None = None) -> None:
        """Raise, before a model is loaded, unless the new columns have names that the table does not have.

        Parameters
        ----------
        labels
            The names of the models, from :func:`wordprob.scoring.model_choice.check_models`.
        shape
            ``long`` or ``wide``.
        options
            How texts are scored.
        """
        options = options or ScoringOptions()
        estimates = further_estimates(options.estimators, options.spellings)
        if any(map(is_on_server, labels)):
            estimates = [*estimates, *SERVER_BOUNDS]
        names = columns.expected_columns(self, options.extras, estimates)
        columns.check_new_columns(self, names, labels, shape)

    def score(
        self,
        models: Model | Sequence[Model] = DEFAULT_MODEL,
        *,
        options: ScoringOptions | None = None,
        shape: str = "long",
        load_options: Mapping[str, Any] | None = None,
        progress: Progress | bool | None = None,
        **scoring: Any,
    ) -> ScoredTable:
        """Score the texts with each model in turn, and put the surprisals behind the rows.

        Parameters
        ----------
        models
            One model or several.
        options
            How to score; by default what a scorer has. What a word is was decided when the table was read.
        shape
            For several models: ``long`` or ``wide``.
        load_options
            For models given by name: further arguments of :func:`wordprob.load`.
        progress
            ``True`` shows a progress bar. Or a function that is called with the number of texts that are done and the
            number of all texts, over all models.
        **scoring
            Options of scoring by name, which replace those of ``options``.
        """
        models = as_models(models)
        chosen = options_for(models, options, scoring)
        labels = check_models(models)
        self.check_columns(labels, shape, chosen)
        check_models_can_score(
            models,
            chosen,
            load_options,
            has_sources=self.options.source_column is not None,
            after_contexts=self.layout.contexts is not None,
        )
        distinct_texts, number_of_text = self._distinct_texts()
        n_distinct = len(distinct_texts)
        results: dict[str, ModelColumns] = {}
        metadata: dict[str, dict[str, Any]] = {}
        with progress_callback(progress) as advance:
            for n, (label, model) in enumerate(zip(labels, models, strict=True)):
                shown = _offset_progress(advance, n * n_distinct, len(models) * n_distinct)
                # A model that is opened here is not kept.
                scorer = open_scorer(model, **(load_options or {})).with_options(chosen)
                table = self._score_texts(scorer, distinct_texts, shown)
                del scorer
                results[label] = columns_of_model(self, table, number_of_text)
                metadata[label] = table.metadata
                columns.check_new_columns(self, list(results[label].added.columns), labels, shape)
                gc.collect()  # the memory of a model that was opened here is free before the next one is loaded
        return assemble(self, results, metadata, shape)

    def _distinct_texts(self) -> tuple[list[int], list[int]]:
        """Return the positions of the texts to score, each once, and for every text which of them it is."""
        layout = self.layout
        word_lists: Sequence[Sequence[str | Offsets]] = [[]] * len(layout.texts)
        word_lists = layout.places or layout.words or word_lists
        before = layout.contexts or self.sources() or [""] * len(layout.texts)
        positions: dict[tuple[str, str, tuple[str | Offsets, ...]], int] = {}
        keys = []
        for position, (context, text, words) in enumerate(zip(before, layout.texts, word_lists, strict=True)):
            keys.append((context, text, tuple(words)))
            positions.setdefault(keys[-1], position)
        # Targets after the same context, or after contexts that begin alike, are scored together.
        chosen = list(positions) if layout.contexts is None else sorted(positions)
        numbers = {key: number for number, key in enumerate(chosen)}
        return [positions[key] for key in chosen], [numbers[key] for key in keys]

    def _score_texts(self, scorer: Scorer, positions: Sequence[int], progress: Progress | None) -> WordTable:
        """Score the texts at these positions."""
        words: Words | None = self.words
        if self.layout.places is not None:
            words = [self.layout.places[position] for position in positions]
        elif self.layout.words is not None:
            words = [self.layout.words[position] for position in positions]
        texts = [self.layout.texts[position] for position in positions]
        if self.layout.contexts is not None:
            contexts = [self.layout.contexts[position] for position in positions]
            separator = self.options.separator
            return scorer.score_continuations(contexts, texts, words, separator=separator, progress=progress)
        sources = self.sources()
        of_texts = None if sources is None else [sources[position] for position in positions]
        return scorer.score(texts, words, sources=of_texts, progress=progress)


def options_for(models: Sequence[Model], options: ScoringOptions | None, by_name: Mapping[str, Any]) -> ScoringOptions:
    """Return how models score texts: by options, or by what scorers have; options by name replace these.

    Raises if scorers would score in different ways.
    """
    own = [model.options if isinstance(model, Scorer) else ScoringOptions() for model in models]
    chosen = [(options or each).updated(by_name) for each in own]
    for each in chosen[1:]:
        for name, value in each.to_dict().items():
            if value != getattr(chosen[0], name):
                raise OptionError(f"the scorers have different values of `{name}`; specify it here.")
    return chosen[0]


def _offset_progress(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Return a progress function that counts on from what earlier models have done."""
    if progress is None:
        return None
    return lambda n, _: progress(done + n, total)
