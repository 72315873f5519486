"""Corpus totals of several models: texts in, bits per byte, character and word, and perplexity out."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pandas as pd

from wordprob.analysis import outputs, texts
from wordprob.analysis.perplexity import TOTALS, PerplexityResult, corpus_totals, text_totals
from wordprob.errors import InputError, OptionError, counted
from wordprob.options import DEFAULT_MODEL, ScoringOptions
from wordprob.scoring.loading import Model, open_scorer
from wordprob.sources import Source, find
from wordprob.studies.study_models import (
    StudyProgress,
    as_list,
    model_labels,
    options_record,
    score_texts,
)
from wordprob.studies.study_options import PerplexityOptions, check_scoring

TEXTS_PER_BATCH = 64
"""Texts that are scored together; only their totals are kept, so that a corpus of any size fits into memory."""

SCORING_OPTIONS = ("boundary", "words", "min_context", "readers")
"""The options of scoring that totals depend on."""


def perplexity(
    sources: str | Path | Sequence[str | Path],
    models: Model | Sequence[Model] = DEFAULT_MODEL,
    options: PerplexityOptions | None = None,
    *,
    scoring: ScoringOptions | None = None,
    progress: StudyProgress | None = None,
    **named_options: Any,
) -> PerplexityResult:
    """Add up the log-probability of all texts under each model, and divide it by their bytes, characters and words.

    Parameters
    ----------
    sources
        Texts: ``.txt`` files (a text on each line), ``.jsonl``, ``.parquet``, ``.csv`` or ``.tsv`` files, folders of
        them, or ``hf:NAME[:CONFIG][:SPLIT]``. Each text is scored by itself.
    models
        Names, paths, :class:`wordprob.options.ModelOptions`, or open scorers.
    options
        How texts are read, and how intervals are computed.
    scoring
        How models score: ``words``, ``boundary``, ``min_context`` and ``readers`` are used.
    progress
        Called with a description, the texts scored so far and the number of texts of the batch.
    named_options
        Fields of :class:`PerplexityOptions` by name, instead of ``options`` or on top of them.

    Returns
    -------
    PerplexityResult
        A data frame with a row for each model and total, one with a row for each text, and the metadata.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.txt"
    >>> _ = path.write_text("She saw the mark" + chr(10) + "She saw the marker" + chr(10))
    >>> result = perplexity(path, models=["exact:bow", "exact:eow"])
    >>> totals = result.table.query("total == 'words'")
    >>> totals[["model", "n_words", "bits_per_word"]].round(4).values.tolist()
    [['exact:bow', 8, 1.2359], ['exact:eow', 8, 1.2359]]
    """
    options = (options or PerplexityOptions()).updated(named_options)
    scoring = scoring or ScoringOptions()
    check_scoring(scoring, *SCORING_OPTIONS)
    if isinstance(scoring.words, str) and scoring.words.startswith("list:"):
        raise OptionError("`words` is a list; totals need a rule that finds the words of any text.")
    names = [str(source) for source in as_list(sources)]
    found = find(names, options.whole_file)
    chosen_models: list[Model] = as_list(models)
    labels = model_labels(chosen_models, scoring)
    n_blank = _check_texts(found, options)

    scored: dict[str, pd.DataFrame] = {}
    about: dict[str, Any] = {}
    for model, label in zip(chosen_models, labels, strict=True):
        scored[label], about[label] = _score(model, label, found, options, scoring, progress)
        gc.collect()  # the memory of a model is free before the next one is loaded
    used = {name: getattr(scoring, name) for name in SCORING_OPTIONS}
    if not isinstance(scoring.words, str):
        used["words"] = scoring.words.name
    metadata = {
        "study": "perplexity",
        "totals": TOTALS,
        "unit": "log_prob in nats, rates in bits",
        "intervals": f"95 % bootstrap over texts, {options.bootstrap} samples, seed {options.seed}",
        "blank_texts": n_blank,
        "models": about,
        "inputs": outputs.checksums(source.path for source in found),
        "options": options_record({"sources": names}, options, chosen_models, labels, used),
    }
    table = corpus_totals(scored, options.bootstrap, options.seed)
    of_texts = pd.concat([one.assign(model=label) for label, one in scored.items()], ignore_index=True)
    return PerplexityResult(table, of_texts[["model", *(name for name in of_texts if name != "model")]], metadata)


def _stream(sources: Sequence[Source], options: PerplexityOptions) -> Iterator[str]:
    """Yield the texts of all sources, blank ones left out."""
    streams = (texts.stream(source, options.text_column) for source in sources)
    return islice(chain.from_iterable(streams), options.max_texts)


def _check_texts(sources: Sequence[Source], options: PerplexityOptions) -> int:
    """Raise, before a model is loaded, unless all sources can be read and hold texts; return how many are blank."""
    n_blank = n_texts = 0
    for source in sources:
        for text in texts.stream(source, options.text_column, keep_blank=True):
            n_blank += not text.strip()
            n_texts += bool(text.strip())
            if options.max_texts is not None and n_texts >= options.max_texts:
                return n_blank
    if not n_texts:
        raise InputError(f"there is no text in {', '.join(source.path for source in sources[:3])}.")
    return n_blank


def _score(
    model: Model,
    label: str,
    sources: Sequence[Source],
    options: PerplexityOptions,
    scoring: ScoringOptions,
    progress: StudyProgress | None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Score all texts with one model; return the totals of each text, and the metadata of the model."""
    scorer = open_scorer(model)
    stream = _stream(sources, options)
    parts: list[pd.DataFrame] = []
    about: dict[str, Any] = {}
    first = 0
    while batch := list(islice(stream, TEXTS_PER_BATCH)):
        description = f"{label}, {counted(len(batch), 'text')} from {first}"
        table = score_texts(scorer, batch, scoring.words, scoring, description, progress)
        totals = text_totals(table.words(), table.texts())
        parts.append(totals.assign(text_id=totals["text_id"] + first))
        about = table.metadata
        first += len(batch)
    return pd.concat(parts, ignore_index=True), about
