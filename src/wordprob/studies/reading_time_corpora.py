"""Reading times from corpora that are known by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wordprob import corpora
from wordprob.analysis.reading_time_preparation import Cleaning, average, cleaning_record, mark_used
from wordprob.corpora import Corpus, ReadingTimes
from wordprob.errors import OptionError
from wordprob.studies.reading_time_inputs import CorpusToScore, PreparedStudy, add_unigrams, dataset

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.datasets import Dataset
    from wordprob.studies.study_models import StudyProgress
    from wordprob.studies.study_options import ReadingTimesOptions


def prepare_corpora(
    names: Sequence[str], options: ReadingTimesOptions, to_score: bool, progress: StudyProgress | None
) -> PreparedStudy:
    """Load corpora, average participants' times, and add unigram surprisals.

    Parameters
    ----------
    names
        Names of corpora, or of groups of them.
    options
        Where the files are, and which times count.
    to_score
        Whether models will score the texts; otherwise the surprisals published with the corpora are taken.
    progress
        Called while files are fetched.
    """
    chosen = _find(names)
    _check_compatible(chosen, options, to_score)
    loaded = {corpus.name: corpora.load(corpus.name, options.data_dir, progress) for corpus in chosen}
    provenance = _provenance(chosen, loaded)
    if to_score:
        texts = [_corpus_to_score(corpus, loaded[corpus.name], options, provenance) for corpus in chosen]
        return PreparedStudy(to_score=texts, provenance=provenance)
    scored = _published_datasets(chosen, loaded, options, provenance)
    return PreparedStudy(scored=scored, provenance=provenance)


def _find(names: Sequence[str]) -> list[Corpus]:
    """Return the corpora of these names, each once, in the order in which they are first named."""
    chosen = {}
    for name in names:
        for corpus in corpora.find(name):
            chosen[corpus.name] = corpus
    return list(chosen.values())


def _check_compatible(chosen: Sequence[Corpus], options: ReadingTimesOptions, to_score: bool) -> None:
    """Raise, before anything is fetched, if these corpora cannot be used as asked."""
    unscored = [corpus.name for corpus in chosen if corpus.participants]
    if unscored and not to_score:
        raise OptionError(f"{unscored[0]} comes without surprisals: specify a `model` that scores its texts.")
    averaged = [corpus.name for corpus in chosen if not corpus.participants]
    ignored = {"outliers", "skipped"} & set(options.changed())
    if ignored and averaged:
        raise OptionError(f"`{min(ignored)}` is about participants' times, but {averaged[0]} holds means.")


def _provenance(chosen: Sequence[Corpus], loaded: Mapping[str, ReadingTimes]) -> dict[str, Any]:
    notes = {note for reading_times in loaded.values() for note in reading_times.notes}
    return {
        "cleaning": {},
        "frequencies": {},
        "notes": sorted(notes),
        "files": {corpus.name: _files(corpus, loaded[corpus.name]) for corpus in chosen},
        "citations": {corpus.name: corpus.citation for corpus in chosen},
        "licences": {corpus.name: corpus.licence for corpus in chosen},
    }


def _files(corpus: Corpus, loaded: ReadingTimes) -> dict[str, dict[str, str]]:
    urls = {file.path: file.url for file in corpus.files}
    return {name: {"sha256": checksum, "url": urls.get(name, "")} for name, checksum in loaded.files.items()}


def _corpus_to_score(
    corpus: Corpus, loaded: ReadingTimes, options: ReadingTimesOptions, provenance: dict[str, Any]
) -> CorpusToScore:
    rows = loaded.words
    readings = None
    if loaded.readings is not None:
        cleaning = Cleaning(options.outliers, options.skipped)
        rows = average(rows, loaded.readings, cleaning)
        readings = mark_used(loaded.readings, cleaning)
        provenance["cleaning"][corpus.name] = {
            "participants": int(loaded.readings["participant"].nunique()),
            **cleaning_record(loaded.readings["time"].to_numpy(), cleaning),
        }
    rows = _with_unigrams(rows, corpus, options, provenance)
    return CorpusToScore(corpus.name, corpus.title, corpus.name, loaded.texts, rows, readings)


def _published_datasets(
    chosen: Sequence[Corpus],
    loaded: Mapping[str, ReadingTimes],
    options: ReadingTimesOptions,
    provenance: dict[str, Any],
) -> list[Dataset]:
    names = [corpus.name for corpus in chosen]
    datasets = []
    for corpus in chosen:
        for model, scored in loaded[corpus.name].scored.items():
            rows = _with_unigrams(scored, corpus, options, provenance)
            datasets.append(dataset(corpus.name, model, rows, options, names, title=corpus.title))
    return datasets


def _with_unigrams(
    rows: pd.DataFrame, corpus: Corpus, options: ReadingTimesOptions, provenance: dict[str, Any]
) -> pd.DataFrame:
    rows, frequencies = add_unigrams(rows, options.frequencies, corpus.language)
    provenance["frequencies"][corpus.name] = frequencies or "published with it"
    return rows
