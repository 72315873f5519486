"""The word-length study: what predicts the lengths of words, and what the correction changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from wordprob import runs
from wordprob.analysis import outputs, texts
from wordprob.analysis.frequencies import costs_of, read_costs
from wordprob.analysis.input_tables import ESTIMATES
from wordprob.analysis.word_length_results import WordLengthResult
from wordprob.analysis.word_lengths import WordLengthSettings, aggregate, analyse
from wordprob.analysis.word_types import TypeSums, WordFilter, count_words
from wordprob.errors import InputError, OptionError
from wordprob.options import ScoringOptions
from wordprob.scoring.loading import Model, open_scorer
from wordprob.scoring.passages import Words
from wordprob.sources.plain_text import read_word_lists
from wordprob.studies.study_models import (
    StudyProgress,
    as_list,
    model_labels,
    options_record,
    score_texts,
)
from wordprob.studies.study_options import WordLengthsOptions, check_scoring, parse_sizes

TEXTS_PER_BATCH = 64
"""Texts that are scored and added up together, so that a corpus of any size fits into memory."""

SCORING_OPTIONS = (
    "boundary",
    "words",
    "min_context",
    "max_context",
    "spellings",
    "tolerance",
    "max_open",
    "readers",
)
"""The options of scoring that this study uses."""

LIST_PREFIX = "list:"


def word_lengths(
    sources: str | Path | Sequence[str | Path],
    models: Model | Sequence[Model] = (),
    options: WordLengthsOptions | None = None,
    *,
    scoring: ScoringOptions | None = None,
    progress: StudyProgress | None = None,
    **named_options: Any,
) -> WordLengthResult:
    """Correlate word lengths with frequency and with surprisal in context, naive and corrected.

    Parameters
    ----------
    sources
        With ``models``, texts: ``.parquet``, ``.jsonl`` or ``.txt`` files (one text a line), or
        ``hf:NAME[:CONFIG][:SPLIT]``. Without, tables of words scored before, folders of them, or folders of corpus
        runs; each table counts for the model named in it.
    models
        Models that score the texts: names, paths, :class:`wordprob.options.ModelOptions`, or open scorers.
    options
        Which words count, where frequencies come from, and how intervals are computed.
    scoring
        How models score: ``words``, ``min_context``, ``max_context`` and ``readers`` are used. ``words="list:FILE"``
        gives the words themselves: one a line, a blank line between texts.
    progress
        Called with a description, the texts scored so far and the number of texts of the batch.
    named_options
        Fields of :class:`WordLengthsOptions` by name, instead of ``options`` or on top of them.

    Returns
    -------
    WordLengthResult
        Data frames, and the provenance of the numbers; its method ``write`` makes the folder of results.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> text = "She saw the mark" + chr(10) + "She saw the marker" + chr(10)
    >>> _ = (folder / "corpus.txt").write_text(text * 3)
    >>> result = word_lengths(folder / "corpus.txt", models="exact:bow", min_count=1, bootstrap=10)
    >>> result.types[["word", "length", "count"]].values.tolist()[:2]
    [['she', 3, 6], ['saw', 3, 6]]
    >>> sorted(path.name for path in result.write(folder / "results").iterdir())[:2]
    ['correlations.tsv', 'figure.pdf']
    """
    options = (options or WordLengthsOptions()).updated(named_options)
    scoring = scoring or ScoringOptions()
    check_scoring(scoring, *SCORING_OPTIONS)
    names = [str(source) for source in as_list(sources)]
    chosen_models: list[Model] = as_list(models)
    word_filter = WordFilter(options.keep, options.case, options.min_count)
    settings = WordLengthSettings(word_filter, options.bootstrap, options.seed)
    sizes = parse_sizes(options.sizes)
    labels = model_labels(chosen_models, scoring)
    frequencies = _frequencies(names, word_filter, options)

    study: dict[str, Any] = {}
    files = _files(names)
    if chosen_models:
        sums, study["models"] = _score(names, chosen_models, labels, word_filter, options, scoring, progress)
    else:
        sums = _aggregate(files.paths, word_filter)
    result = analyse(sums, settings, frequencies.costs, frequencies.description, sizes)

    study["inputs"] = outputs.checksums([*files.paths, options.frequencies or ""])
    used = {name: getattr(scoring, name) for name in SCORING_OPTIONS}
    if not isinstance(scoring.words, str):
        used["words"] = scoring.words.name
    study["options"] = options_record({"sources": names}, options, chosen_models, labels, used)
    study["sources"] = names
    if files.notes:
        study["notes"] = files.notes
    return replace(result, provenance={**result.provenance, **study})


# --- frequencies -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Frequencies:
    """The cost (−log p, nats) of each word, ``None`` to count the scored words; and where it comes from."""

    costs: dict[str, float] | None
    description: str


def _frequencies(sources: Sequence[str], word_filter: WordFilter, options: WordLengthsOptions) -> _Frequencies:
    if options.frequencies is None:
        return _Frequencies(None, "the scored words themselves")
    chosen = options.frequencies
    if chosen in sources:
        raise OptionError(f"{chosen} is both scored and counted; count another part of the corpus as `frequencies`.")
    if Path(chosen).suffix in (".csv", ".tsv"):
        return _Frequencies(read_costs(Path(chosen)), chosen)
    counts = count_words(texts.stream(chosen, options.text_column), word_filter)
    if not counts:
        raise InputError(f"{chosen} has none of the words that count: {word_filter.describe()}.")
    return _Frequencies(costs_of(counts), f"{chosen} ({counts.total()} words)")


# --- tables that have been scored ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SourceFiles:
    """The files that sources stand for, and what a user should know about them."""

    paths: list[Path]
    notes: list[str]


def _files(sources: Sequence[str]) -> _SourceFiles:
    """Return the files of sources: a folder stands for the tables in it, and a run for its finished shards."""
    files = _SourceFiles([], [])
    for path in map(Path, sources):
        if not path.is_dir():
            files.paths.append(path)
        elif not runs.is_run(path):
            files.paths.extend(sorted(path.glob("*.parquet")))
        else:
            status = runs.status(path)
            if not status.complete:
                files.notes.append(f"{path} is not complete: {status.done} of {status.shards} shards are there")
            files.paths.extend(runs.finished(path, partial=True))
    return files


def _aggregate(paths: Sequence[Path], word_filter: WordFilter) -> dict[str, TypeSums]:
    unscored = [path.name for path in paths if path.suffix in (".txt", ".gz")]
    if unscored:
        raise InputError(f"{', '.join(unscored)}: texts need a `model` to score them; without one, give scored tables.")
    return aggregate(paths, word_filter)


# --- texts -----------------------------------------------------------------------------------------------------------


def _score(
    sources: Sequence[str],
    models: Sequence[Model],
    labels: Sequence[str],
    word_filter: WordFilter,
    options: WordLengthsOptions,
    scoring: ScoringOptions,
    progress: StudyProgress | None,
) -> tuple[dict[str, TypeSums], dict[str, Any]]:
    """Score the texts with every model; return sums by word type, and the metadata of the models."""
    for source in sources:
        texts.check(source, options.text_column)
    word_lists = _read_word_lists(sources, options, scoring)
    sums: dict[str, TypeSums] = {}
    metadata: dict[str, Any] = {}
    for model, label in zip(models, labels, strict=True):
        scorer = open_scorer(model)
        sums[label] = TypeSums(word_filter)
        for first, batch in _batches(sources, options):
            words: Words = scoring.words
            if word_lists is not None:
                words = word_lists[first : first + len(batch)]
            table = score_texts(scorer, batch, words, scoring, f"{label}, texts from {first}", progress)
            metadata[label] = table.metadata
            frame = table.to_pandas()
            surprisals = {name: frame[column].to_numpy() for name, column in ESTIMATES.items() if column in frame}
            sums[label].add(frame["word"].tolist(), surprisals)
    return sums, metadata


def _stream(sources: Sequence[str], options: WordLengthsOptions) -> Iterator[str]:
    """Yield the texts of all sources; ``max_texts`` limits each of them."""
    streams = (texts.stream(source, options.text_column, options.max_texts) for source in sources)
    return chain.from_iterable(streams)


def _batches(sources: Sequence[str], options: WordLengthsOptions) -> Iterator[tuple[int, list[str]]]:
    """Yield batches of texts, each with the number of its first text."""
    stream = _stream(sources, options)
    first = 0
    while batch := list(islice(stream, TEXTS_PER_BATCH)):
        yield first, batch
        first += len(batch)


def _read_word_lists(
    sources: Sequence[str], options: WordLengthsOptions, scoring: ScoringOptions
) -> list[list[str]] | None:
    """Return the words of each text if ``words`` names a file of them, which must have one list for each text."""
    if not isinstance(scoring.words, str) or not scoring.words.startswith(LIST_PREFIX):
        return None
    path = scoring.words.removeprefix(LIST_PREFIX)
    lists = read_word_lists(path)
    n_texts = sum(1 for _ in _stream(sources, options))
    if n_texts != len(lists):
        raise InputError(
            f"{n_texts} texts that are not blank but {len(lists)} lists of words in {path}; put one word on each line "
            "and a blank line between texts."
        )
    return lists
