"""``wordprob reading-times``: how much surprisal helps to predict reading times, and what the correction changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wordprob.cli.extras import check_installed
from wordprob.errors import InputError, OptionError

if TYPE_CHECKING:
    import pandas as pd

    from wordprob.analysis.prepare import Cleaning, Columns
    from wordprob.analysis.reading_times import Dataset
    from wordprob.core.arrays import Floats, Ints
    from wordprob.corpora import Corpus, ReadingTimes


def _list_corpora(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from wordprob import corpora

        click.echo(corpora.describe())
        context.exit()


OF_TABLES = {"word_column", "time_column", "group_by", "position_column", "participant", "texts", "fold_column"}
"""Options that say something about TABLES."""


@click.command()
@click.argument("tables", nargs=-1, type=click.Path(path_type=Path))
@click.option("--corpus", "corpora", multiple=True, help="A corpus by name; may be repeated.")
@click.option(
    "--list-corpora",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_corpora,
    help="Say which corpora there are, with terms and citations, and stop.",
)
@click.option("-m", "--model", "models", multiple=True, help="Score with this model; may be repeated.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="A folder that holds the corpora; nothing is fetched."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@click.option("--force", is_flag=True, help="Replace results that exist.")
@click.option("--word-column", default="word", show_default=True, help="Column of the words.")
@click.option("--time-column", default="time", show_default=True, help="Column of the reading times.")
@click.option("--group-by", help="Column that says which text a word is in; text_id if there.")
@click.option("--position-column", help="Column that counts the words of a text; word_id if there, else the order.")
@click.option("--participant", help="Column of the participants; without it, times are means already.")
@click.option("--texts", type=click.Path(path_type=Path), help="The texts as they were read, one a line, to score.")
@click.option("--outliers", default=3.0, show_default=True, help="Drop times whose log is more SDs off; 0 keeps all.")
@click.option("--skipped", default="zero", show_default=True, help="A time of 0 counts as zero, or is missing.")
@click.option("--frequencies", help="Unigrams: a file of words and counts or log p, or wordfreq:LANGUAGE.")
@click.option("--spillover", default=3, show_default=True, help="Words before the current one that count.")
@click.option("--baseline", default="", help="Formula without surprisal; the paper's by default.")
@click.option("--predictors", default="", help="What is added to it; the paper's surprisals by default.")
@click.option(
    "--folds",
    "fold_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Files of text_id, word_id, fold, called CORPUS.tsv if several; or their folder.",
)
@click.option("--fold-column", help="Column of the tables that holds the folds.")
@click.option("--n-folds", default=10, show_default=True, help="Folds to draw where none are given.")
@click.option("--seed", default=42, show_default=True, help="Seed of the folds drawn, as in R's set.seed.")
@click.option("--correction", default="bh", show_default=True, help="For testing often: bh, holm or none.")
@click.option("--size", "sizes", multiple=True, help="NAME=MILLIONS of parameters, for the figure; may be repeated.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
def reading_times(**options: Any) -> None:
    """Measure how much surprisal helps to predict reading times, naive and corrected.

    TABLES have a row for each word (or participant and word). With surprisals in them (surprisal, and surprisal_naive
    or surprisal_buggy) they are analysed as they are; a file called CORPUS-MODEL.tsv names both. With --model the
    words are scored first.

    \b
    Examples:
      wordprob reading-times brown-gpt2-small.tsv --folds folds.tsv -o results
      wordprob reading-times --corpus provo --model smollm2-135m --model ./stories15M -o results
      wordprob reading-times --corpus provo-raw --model gpt2-small -o results
      wordprob reading-times --corpus meco --data-dir meco -o results
      wordprob reading-times study.csv --time-column rt --group-by text --participant subject \\
          --model gpt2-small -o results
    """
    _check_choice(options)
    check_extra()
    from wordprob.analysis import outputs, report
    from wordprob.analysis.reading_times import Protocol, analyse

    folder = outputs.check_folder(options["output"], report.READING_TIMES_FILES, options["force"])
    protocol = Protocol(
        baseline=options["baseline"],
        predictors=options["predictors"],
        spillover=options["spillover"],
        folds=options["n_folds"],
        seed=options["seed"],
        correction=options["correction"],
    )
    sizes = parse_sizes(options["sizes"])
    check_models(options["models"])
    datasets, about = _from_corpora(options) if options["corpora"] else _from_tables(options)
    result = analyse(datasets, protocol, sizes)
    inputs = [
        *options["tables"],
        *fold_files(options["fold_files"]),
        options["texts"] or "",
        options["frequencies"] or "",
    ]
    about |= {"inputs": outputs.checksums(inputs), "options": given_options()}
    result = replace(result, provenance={**result.provenance, **about})
    outputs.write_folder(folder, report.reading_times_files(result))
    click.echo(report.reading_times_markdown(result))
    _say(result.provenance["datasets"], about)


def check_extra() -> None:
    """Raise, with what to type, unless the packages of the studies and figures are installed."""
    check_installed("studies and figures need", ("formulaic", "matplotlib", "scipy"), "study")


def _check_choice(options: dict[str, Any]) -> None:
    """Refuse options that contradict one another, or that would be ignored."""
    given = set(given_options())
    if bool(options["tables"]) == bool(options["corpora"]):
        raise click.UsageError("give TABLES or --corpus, one of them: wordprob reading-times --corpus provo -o results")
    if options["fold_files"] and options["fold_column"]:
        raise click.UsageError("give --folds or --fold-column, one of them.")
    if options["corpora"] and (lost := given & OF_TABLES):
        raise click.UsageError(f"{_flag(min(lost))} is about TABLES; a corpus given with --corpus knows for itself.")
    if options["tables"] and options["data_dir"]:
        raise click.UsageError("--data-dir goes with --corpus; give the files in it as TABLES.")
    if options["texts"] and not options["models"]:
        raise click.UsageError("--texts are for a --model to score; name one.")
    if options["tables"] and not options["participant"] and (lost := given & {"outliers", "skipped"}):
        raise click.UsageError(
            f"{_flag(min(lost))} is about participants' times; name their column with --participant."
        )


def given_options() -> dict[str, Any]:
    """Return what was typed after the running command, but for where results go."""
    context, typed = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    names = [name for name in context.params if context.get_parameter_source(name) == typed]
    return {name: context.params[name] for name in names if name not in ("output", "force")}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _say(datasets: Any, about: dict[str, Any]) -> None:
    for name, counts in about["cleaning"].items():
        skipped = f", {counts['zero']} zeros {counts['zeros_are']}" if counts["zero"] else ""
        click.echo(f"{name}: {counts['times']} times{skipped}, {counts['outliers']} outliers dropped", err=True)
    for part in datasets:
        left = f"{part['incomplete']} incomplete" + (
            f", {part['without_fold']} in no fold" if part["without_fold"] else ""
        )
        click.echo(f"{part['corpus']}, {part['model']}: {part['used']} of {part['rows']} words used; {left}", err=True)
    for note in about.get("notes", ()):
        click.echo(f"note: {note}", err=True)


# --- tables --------------------------------------------------------------------------------------------------------


def _from_tables(options: dict[str, Any]) -> tuple[list[Dataset], dict[str, Any]]:
    from wordprob.analysis.frequencies import unigrams
    from wordprob.analysis.prepare import Cleaning, with_unigrams, words_and_times
    from wordprob.analysis.tables import numbers, read_table

    cleaning = Cleaning(options["outliers"], options["skipped"])
    about: dict[str, Any] = {"frequencies": {}, "cleaning": {}}
    prepared = []
    for path in options["tables"]:
        raw = read_table(path)
        rows = words_and_times(_renamed(raw), _columns(raw, options), cleaning, str(path))
        if options["participant"]:
            about["cleaning"][str(path)] = _cleaned(numbers(raw, options["time_column"], str(path)), cleaning)
        if source := _frequencies(rows, options):
            rows = with_unigrams(rows, unigrams(source))
        about["frequencies"][str(path)] = source or "its column freq"
        prepared.append((path, rows))
    if options["models"]:
        _check_names([path.stem for path, _ in prepared])
        return _score_tables(prepared, options, about)
    names = [names_of(path)[0] for path, _ in prepared]
    datasets = [_dataset(*names_of(path), rows, options, str(path), names) for path, rows in prepared]
    return datasets, about


def _cleaned(times: Floats, cleaning: Cleaning) -> dict[str, Any]:
    from wordprob.analysis.prepare import tally

    zeros = "counted" if cleaning.skipped == "zero" else "left out"
    return {**tally(times, cleaning), "limit_in_sds": cleaning.outliers, "zeros_are": zeros}


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Call the naive estimate by its name here; the authors' tables call it buggy."""
    return frame.rename(columns=lambda name: str(name).replace("surprisal_buggy", "surprisal_naive"))


def _columns(frame: pd.DataFrame, options: dict[str, Any]) -> Columns:
    from wordprob.analysis.prepare import Columns

    usual = {name: name if name in frame.columns else None for name in ("text_id", "word_id")}
    return Columns(
        word=options["word_column"],
        time=options["time_column"],
        text=options["group_by"] or usual["text_id"],
        position=options["position_column"] or usual["word_id"],
        participant=options["participant"],
    )


def _frequencies(frame: pd.DataFrame, options: dict[str, Any]) -> str | None:
    """Say where unigram surprisals come from: what was asked for, the table's own (None), or wordfreq."""
    chosen: str | None = options["frequencies"]
    return chosen or (None if "freq" in frame.columns else "wordfreq:en")


def names_of(path: Path) -> tuple[str, str]:
    """Tell corpus and model by a file's name: ``CORPUS-MODEL.tsv``."""
    corpus, _, model = path.stem.partition("-")
    return corpus, model or "surprisal"


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError(f"two tables have the same name: {', '.join(names)}. Rename one; the name is the corpus's.")


def _score_tables(
    prepared: Sequence[tuple[Path, pd.DataFrame]], options: dict[str, Any], about: dict[str, Any]
) -> tuple[list[Dataset], dict[str, Any]]:
    from wordprob.analysis.prepare import texts_of

    if options["texts"] and len(prepared) > 1:
        raise OptionError("--texts goes with one table.")
    jobs = []
    for path, rows in prepared:
        words = list(texts_of(rows).values())
        texts = _read_texts(options["texts"]) if options["texts"] else [" ".join(part) for part in words]
        jobs.append((path.stem, "", str(path), texts, rows))
    return _score_all(jobs, options, about)


def _read_texts(path: Path) -> list[str]:
    from wordprob.cli.options import read_lines

    return [line for line in read_lines(path) if line.strip()]


# --- corpora -------------------------------------------------------------------------------------------------------


def _from_corpora(options: dict[str, Any]) -> tuple[list[Dataset], dict[str, Any]]:
    from wordprob import corpora
    from wordprob.analysis.prepare import Cleaning

    chosen = list({corpus.name: corpus for name in options["corpora"] for corpus in corpora.find(name)}.values())
    _check_fit(chosen, options)
    cleaning = Cleaning(options["outliers"], options["skipped"])
    with _Bar() as bar:
        loaded = {corpus.name: corpora.load(corpus.name, options["data_dir"], bar) for corpus in chosen}
    about: dict[str, Any] = {
        "cleaning": {},
        "frequencies": {},
        "notes": sorted({note for found in loaded.values() for note in found.notes}),
        "files": {corpus.name: _files(corpus, loaded[corpus.name]) for corpus in chosen},
        "citations": {corpus.name: corpus.citation for corpus in chosen},
        "licences": {corpus.name: corpus.licence for corpus in chosen},
    }
    if options["models"]:
        jobs = [
            (c.name, c.title, c.name, list(loaded[c.name].texts), _words(c, loaded[c.name], cleaning, options, about))
            for c in chosen
        ]
        return _score_all(jobs, options, about)
    names = [corpus.name for corpus in chosen]
    datasets = [
        _dataset(corpus.name, model, _unigrams(rows, corpus, options, about), options, "", names, corpus.title)
        for corpus in chosen
        for model, rows in loaded[corpus.name].scored.items()
    ]
    return datasets, about


def _files(corpus: Corpus, found: ReadingTimes) -> dict[str, dict[str, str]]:
    urls = {file.path: file.url for file in corpus.files}
    return {name: {"sha256": got, "url": urls.get(name, "")} for name, got in found.files.items()}


def _check_fit(chosen: Sequence[Corpus], options: dict[str, Any]) -> None:
    """Refuse, before anything is fetched, what cannot be done with these corpora."""
    raw = [corpus.name for corpus in chosen if corpus.participants]
    if raw and not options["models"]:
        raise OptionError(f"{raw[0]} comes without surprisals: name a model that scores its texts with --model.")
    lost = set(given_options()) & {"outliers", "skipped"}
    if lost and len(raw) < len(chosen):
        means = next(corpus.name for corpus in chosen if not corpus.participants)
        raise OptionError(f"{_flag(min(lost))} is about participants' times, but {means} holds means.")


def _words(
    corpus: Corpus, found: ReadingTimes, cleaning: Cleaning, options: dict[str, Any], about: dict[str, Any]
) -> pd.DataFrame:
    """Return a corpus's words with their mean times and unigram surprisals."""
    from wordprob.analysis.prepare import average

    rows = found.words
    if found.readings is not None:
        rows = average(rows, found.readings, cleaning)
        about["cleaning"][corpus.name] = {
            "participants": int(found.readings["participant"].nunique()),
            **_cleaned(found.readings["time"].to_numpy(), cleaning),
        }
    return _unigrams(rows, corpus, options, about)


def _unigrams(rows: pd.DataFrame, corpus: Corpus, options: dict[str, Any], about: dict[str, Any]) -> pd.DataFrame:
    from wordprob.analysis.frequencies import unigrams
    from wordprob.analysis.prepare import with_unigrams

    source = options["frequencies"] or (None if "freq" in rows.columns else f"wordfreq:{corpus.language}")
    about["frequencies"][corpus.name] = source or "published with it"
    return with_unigrams(rows, unigrams(source)) if source else rows


class _Bar:
    """Progress of downloads, on a terminal."""

    def __enter__(self) -> _Bar:
        self._bar: Any = None
        return self

    def __call__(self, name: str, done: int, size: int) -> None:
        from tqdm import tqdm

        if self._bar is None or self._bar.desc != name:
            self.__exit__()
            self._bar = tqdm(desc=name, total=size or None, unit="B", unit_scale=True, disable=not sys.stderr.isatty())
            self._bar.desc = name
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


# --- scoring -------------------------------------------------------------------------------------------------------


Job = tuple[str, str, str, list[str], "pd.DataFrame"]


def _score_all(
    jobs: Sequence[Job], options: dict[str, Any], about: dict[str, Any]
) -> tuple[list[Dataset], dict[str, Any]]:
    from wordprob.analysis.prepare import with_surprisals
    from wordprob.scoring.loading import load, model_label

    datasets, metadata = [], {}
    for name in options["models"]:
        scorer, label = load(name, device=options["device"], dtype=options["dtype"]), model_label(name)
        for corpus, title, source, texts, rows in jobs:
            table = run_scorer(scorer, texts, _word_lists(rows), f"{corpus}, {label}")
            metadata[label] = table.metadata
            scored = with_surprisals(rows, table.to_pandas(), source)
            datasets.append(_dataset(corpus, label, scored, options, "", [job[0] for job in jobs], title))
    return datasets, {**about, "models": metadata}


def _word_lists(rows: pd.DataFrame) -> str | list[list[str]]:
    """White space tells the words, unless a word of the table holds some itself."""
    from wordprob.analysis.prepare import texts_of

    lists = list(texts_of(rows).values())
    return lists if any(len(word.split()) != 1 for words in lists for word in words) else "whitespace"


def run_scorer(scorer: Any, texts: Sequence[str], words: str | list[list[str]], what: str) -> Any:
    """Score texts in nats, with a bar on a terminal."""
    from wordprob.cli.output import progress

    with progress(len(texts), what) as shown:
        return scorer.score(texts, words, unit="nats", progress=shown)


def check_models(names: Sequence[str]) -> None:
    """Raise, before any is loaded, if two models would be called the same."""
    from wordprob.scoring.loading import model_label

    labels = [model_label(name) for name in names]
    if twice := [name for name, label in zip(names, labels, strict=True) if labels.count(label) > 1]:
        raise OptionError(f"{' and '.join(twice)} have the same name in tables; give each model once, or rename one.")


def _dataset(
    corpus: str,
    model: str,
    rows: pd.DataFrame,
    options: dict[str, Any],
    source: str,
    names: Sequence[str],
    title: str = "",
) -> Dataset:
    from wordprob.analysis.reading_times import Dataset

    return Dataset(corpus, model, rows, _folds(corpus, rows, options, names, source), source, title)


def _folds(corpus: str, rows: pd.DataFrame, options: dict[str, Any], names: Sequence[str], source: str) -> Ints | None:
    from wordprob.analysis import folds
    from wordprob.analysis.tables import read_table, require

    if column := options["fold_column"]:
        require(rows, [column], source or corpus)
        return folds.given(rows, rows.assign(fold=rows[column]), source or corpus)
    if not options["fold_files"]:
        return None
    path = _fold_file(corpus, options["fold_files"], set(names))
    return folds.given(rows, read_table(path), str(path))


def fold_files(given: Sequence[Path]) -> list[Path]:
    """Return the files of folds: those named, and those in folders named."""
    return [file for path in given for file in (sorted(path.glob("*.tsv")) if path.is_dir() else [path])]


def _fold_file(corpus: str, given: Sequence[Path], corpora: set[str]) -> Path:
    files = fold_files(given)
    if len(files) == 1 and len(corpora) == 1:
        return files[0]
    for file in files:
        if file.stem == corpus:
            return file
    there = ", ".join(file.name for file in files) or "none"
    raise InputError(
        f"no folds for {corpus}: with several corpora, --folds needs a file {corpus}.tsv; there is: {there}."
    )


def parse_sizes(given: Sequence[str]) -> dict[str, float]:
    """Read ``NAME=MILLIONS``."""
    found = {}
    for item in given:
        name, _, size = item.rpartition("=")
        try:
            found[name] = float(size)
        except ValueError:
            raise OptionError(f"'{item}' gives no size; write it as --size my-model=125") from None
    return found
