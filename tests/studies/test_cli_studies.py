"""Both studies, as commands and from Python: what they write and print, and that bad input leaves nothing behind."""

import hashlib
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click import UsageError
from click.testing import CliRunner, Result

import wordprob
from wordprob import studies
from wordprob.analysis import permutation, reading_time_preparation, word_types
from wordprob.analysis.reading_time_results import ReadingTimesResult
from wordprob.analysis.word_length_results import WordLengthResult
from wordprob.cli.reading_times import reading_times
from wordprob.cli.word_lengths import word_lengths
from wordprob.core.words import define
from wordprob.errors import AlignmentError, DownloadError, InputError, OptionError, OutputError, UnsupportedError
from wordprob.options import ModelOptions, ScoringOptions, info_of
from wordprob.scoring import loading
from wordprob.scoring.scorer import Scorer
from wordprob.studies import ReadingTimesOptions, WordLengthsOptions
from wordprob.studies.reading_time_tables import corpus_and_model

SHARED = Path(__file__).parents[3] / "shared"
PAPER = SHARED / "data" / "paper_reading_times"
SMALL = Path(__file__).parents[1] / "analysis" / "r" / "small.tsv"
paper = pytest.mark.skipif(not PAPER.is_dir(), reason="../shared/data/paper_reading_times is absent")


def run(command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)


# --- reading times -------------------------------------------------------------------------------------------------


@paper
def test_published_tables_give_the_papers_numbers(tmp_path: Path) -> None:
    tables = [PAPER / "merged" / f"{corpus}-gpt2-small.tsv" for corpus in ("brown", "natural_stories", "provo")]
    done = run(reading_times, *tables, "--folds", PAPER / "folds", "-o", tmp_path / "results")
    line = next(line for line in done.stdout.splitlines() if "gpt2-small" in line)
    assert [cell.strip(" *") for cell in line.split("|")[3:12:3]] == ["5.25", "4.35", "3.63"]
    assert [cell.strip(" *") for cell in line.split("|")[4:12:3]] == ["5.24", "4.33", "3.47"]
    assert {path.name for path in (tmp_path / "results").iterdir()} == set(ReadingTimesResult.FILE_NAMES)
    about = json.loads((tmp_path / "results" / "provenance.json").read_text(encoding="utf-8"))
    assert about["inputs"][str(tables[0])] == hashlib.sha256(tables[0].read_bytes()).hexdigest()
    assert str(PAPER / "folds" / "provo.tsv") in about["inputs"]
    assert about["options"]["fold_files"] == [str(PAPER / "folds")]
    tidy = pd.read_csv(tmp_path / "results" / "delta_llh.tsv", sep="\t")
    assert tidy.columns.tolist() == ["corpus", "model", "estimate", "fold", "n", "delta_llh"]
    assert len(tidy) == 3 * 2 * 10


@paper
def test_folds_drawn_for_a_corpus_are_the_papers(tmp_path: Path) -> None:
    run(reading_times, "--corpus", "provo", "--data-dir", PAPER, "-o", tmp_path / "a")
    tables = sorted((PAPER / "merged").glob("provo-*.tsv"))
    run(reading_times, *tables, "--folds", PAPER / "folds" / "provo.tsv", "-o", tmp_path / "b")
    a, b = (pd.read_csv(tmp_path / name / "delta_llh.tsv", sep="\t") for name in "ab")
    both = a.merge(b, on=["corpus", "model", "estimate", "fold", "n"])
    assert len(both) == len(a) == len(b) == 60
    np.testing.assert_allclose(both["delta_llh_x"], both["delta_llh_y"], atol=1e-12)


@pytest.mark.skipif(not (SHARED / "data" / "meco").is_dir(), reason="../shared/data/meco is absent")
def test_corpora_in_seven_languages(tmp_path: Path) -> None:
    done = run(reading_times, "--corpus", "meco", "--data-dir", SHARED / "data" / "meco", "-o", tmp_path / "results")
    assert "Finnish: Buggy" in done.stdout
    assert "Corrected |" not in done.stdout
    summary = pd.read_csv(tmp_path / "results" / "summary.tsv", sep="\t")
    assert len(summary) == 7
    assert (summary["mean"] > 0).all()
    assert (tmp_path / "results" / "figure.pdf").read_bytes().startswith(b"%PDF")


@paper
@pytest.mark.skipif(not (SHARED / "models" / "fiction-bow").is_dir(), reason="../shared/models is absent")
def test_corpus_scored_by_a_model(tmp_path: Path) -> None:
    model = SHARED / "models" / "fiction-bow"
    folder = tmp_path / "data"
    for name in ("texts/provo.txt", "merged/provo-gpt2-small.tsv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = (PAPER / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[: 12 if "texts" in name else 1 + _words(12)]), encoding="utf-8")
    run(
        reading_times, "--corpus", "provo", "--data-dir", folder, "--model", model, "-o", tmp_path / "r", "--n-folds", 4
    )
    about = json.loads((tmp_path / "r" / "provenance.json").read_text(encoding="utf-8"))
    assert about["models"]["fiction-bow"]["unit"] == "nats"
    assert about["datasets"][0]["used"] > 400
    means = pd.read_csv(tmp_path / "r" / "summary.tsv", sep="\t").set_index("contrast")["mean"]
    assert means["corrected - naive"] != 0


def _words(texts: int) -> int:
    lines = (PAPER / "texts" / "provo.txt").read_text(encoding="utf-8").splitlines()[:texts]
    return sum(len(line.split()) for line in lines)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A made-up study of the exact model's language: twelve texts, four participants, a few outliers."""
    random = np.random.default_rng(5)
    texts = ["She saw the mark", "She saw the marker", "She saw the mark saw"]
    rows = []
    for text in range(12):
        for who in range(4):
            for word in texts[text % 3].split():
                time = 200 + 20 * len(word) + 40 * who + random.normal(0, 15)
                rows.append((text, f"p{who}", word, 99_999.0 if random.random() < 0.01 else time))
    path = tmp_path / "study.csv"
    pd.DataFrame(rows, columns=["text", "subject", "word", "rt"]).to_csv(path, index=False)
    return path


@pytest.fixture
def frequencies(tmp_path: Path) -> Path:
    path = tmp_path / "unigrams.csv"
    path.write_text("she,40\nsaw,90\nthe,100\nmark,7\nmarker,3\n", encoding="utf-8")
    return path


STUDY = ("--time-column", "rt", "--group-by", "text", "--participant", "subject", "--n-folds", 4, "--spillover", 0)


def test_table_of_a_users_study(study: Path, frequencies: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    plain = ("--baseline", "time ~ word_len", "--frequencies", frequencies, "-o", out)
    run(reading_times, study, *STUDY, *plain, "--model", "exact:bow", "--model", "exact:eow")
    tidy = pd.read_csv(out / "delta_llh.tsv", sep="\t")
    assert set(tidy["model"]) == {"exact:bow", "exact:eow"}
    corrected = tidy[tidy["estimate"] == "corrected"].pivot(index="fold", columns="model", values="delta_llh")
    np.testing.assert_allclose(corrected["exact:bow"], corrected["exact:eow"], atol=1e-9)
    about = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    assert about["datasets"][0]["rows"] == 52
    assert about["frequencies"] == {str(study): str(frequencies)}


def test_texts_that_differ_from_the_words_are_refused(study: Path, frequencies: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    right = "She saw the mark\nShe saw the marker\nShe saw the mark saw\n"
    texts.write_text(right * 3 + right.replace(" saw\n", "\n"), encoding="utf-8")
    out = tmp_path / "results"
    with pytest.raises(AlignmentError, match=r"text 11: 5 words in the table, 4 in the text"):
        run(
            reading_times,
            study,
            *STUDY,
            "--frequencies",
            frequencies,
            "--texts",
            texts,
            "--model",
            "exact:bow",
            "-o",
            out,
        )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((SMALL, "--time-column", "rt"), InputError, r"no column 'rt'.*It has: text_id"),
        ((SMALL, "--time-column", "word"), InputError, r"'word' holds \d+ values that are not numbers"),
        ((SMALL, "--baseline", "time ~ cloze"), InputError, "no column 'cloze'"),
        ((SMALL, "--n-folds", "1"), OptionError, "cannot make 1 folds"),
        ((SMALL, "--correction", "tukey"), UsageError, "not one of 'bh', 'holm', 'none'"),
        ((SMALL, "--participant", "word", "--skipped", "never"), UsageError, "not one of 'zero', 'missing'"),
        ((SMALL, "--skipped", "missing"), OptionError, "`skipped` is about participants.* `participant`"),
        ((SMALL, "--position-column", "freq"), InputError, r"'freq' should count the words, but holds row 1: '"),
        ((SMALL, "--data-dir", "."), OptionError, "`data_dir` is the folder of corpora"),
        ((SMALL, "--texts", "t.txt"), OptionError, "`texts` need a model"),
        ((SMALL, "--size", "big"), OptionError, "write it as my-model=125"),
        ((SMALL, "--folds", "nowhere.tsv"), InputError, "no such file: nowhere.tsv"),
        (("nowhere.tsv",), InputError, "no such file"),
        (("--corpus", "povo"), OptionError, "Did you mean provo"),
        (("--corpus", "dundee", "--model", "exact:bow"), DownloadError, "`data_dir`"),
        (("--corpus", "provo-raw"), OptionError, "provo-raw comes without surprisals: specify a `model`"),
        (("--corpus", "provo", "--outliers", "2"), OptionError, "`outliers` is about.*, but provo holds means"),
        (("--corpus", "provo", "--time-column", "rt"), OptionError, "`time_column` is about tables"),
        (("--corpus", "provo", "small.tsv"), UsageError, "TABLES or --corpus"),
        ((SMALL, "--model", "exact:bow", "--model", "exact:bow"), OptionError, "two models are called exact:bow"),
    ],
)
def test_bad_input_leaves_no_files(tmp_path: Path, arguments: tuple[str, ...], error: type, message: str) -> None:
    out = tmp_path / "results"
    with pytest.raises(error, match=message):
        run(reading_times, *arguments, "-o", out)
    assert not out.exists()


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "results"
    run(reading_times, SMALL, "-o", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(OutputError, match=r"holds delta_llh.tsv.*`force`"):
        run(reading_times, SMALL, "-o", out)
    run(reading_times, SMALL, "-o", out, "--force")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before, "the same input gives the same files"


def test_full_disk_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(path: Path, data: bytes) -> int:
        written.append(path.name)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        return len(data)

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(OutputError, match="results could not be written: No space left on device"):
        run(reading_times, SMALL, "-o", tmp_path / "results")
    assert len(written) == 4
    assert not (tmp_path / "results").exists()


def test_file_names_tell_corpus_and_model() -> None:
    assert corpus_and_model(Path("natural_stories-gpt2-small.tsv")) == ("natural_stories", "gpt2-small")
    assert corpus_and_model(Path("mine.csv")) == ("mine", "surprisal")


# --- word lengths --------------------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("She saw the mark\nShe saw the marker\nThe marked saw the mark\n\n" * 3, encoding="utf-8")
    return path


def test_scored_tables_give_the_same_as_texts(texts: Path, frequencies: Path, tmp_path: Path) -> None:
    from wordprob.scoring.loading import load

    common = ("--frequencies", frequencies, "--min-count", 1, "--bootstrap", 20)
    run(word_lengths, texts, "--model", "exact:bow", *common, "-o", tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == set(WordLengthResult.FILE_NAMES)
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line]
    (tmp_path / "scored").mkdir()
    load("exact:bow").score(lines).write(tmp_path / "scored" / "part.parquet")
    run(word_lengths, tmp_path / "scored", *common, "-o", tmp_path / "b")
    a, b = (pd.read_csv(tmp_path / name / "correlations.tsv", sep="\t").drop(columns="model") for name in "ab")
    pd.testing.assert_frame_equal(a, b)
    assert len(a) == 5


def test_texts_from_a_hugging_face_data_set(texts: Path, frequencies: Path, tmp_path: Path) -> None:
    """Wiki-40B's shape, in a folder: the hub itself is not asked."""
    pytest.importorskip("datasets")
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line]
    (tmp_path / "wiki").mkdir()
    articles = [
        json.dumps({"wikidata_id": "Q1", "text": f"_START_PARAGRAPH_\n{line}", "version_id": "1"}) for line in lines
    ]
    (tmp_path / "wiki" / "test.jsonl").write_text("\n".join(articles), encoding="utf-8")
    common = ("--model", "exact:bow", "--frequencies", frequencies, "--min-count", 1, "--bootstrap", 5)
    run(word_lengths, f"hf:{tmp_path / 'wiki'}:test", *common, "-o", tmp_path / "a")
    run(word_lengths, texts, *common, "-o", tmp_path / "b")
    assert (tmp_path / "a" / "types.tsv").read_bytes() == (tmp_path / "b" / "types.tsv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "texts need a `model`"),
        (("--model", "exact:bow", "--keep", "some"), "not one of 'alphabetic', 'all'"),
        (("--model", "exact:bow", "--min-count", "50", "--frequencies", "unigrams.csv"), "`min_count`"),
        (("--model", "exact:bow", "--frequencies", "corpus.txt"), "another part of the corpus"),
        (("--model", "exact:bow", "--bootstrap", "1"), "1 is not in the range x>=2"),
        (("--model", "exact:bow", "--model", "exact:bow"), "two models are called exact:bow"),
        (("--model", "exact:bow", "--words", "list:words.txt"), "9 texts that are not blank but 1 lists of words"),
    ],
)
def test_bad_input_of_word_lengths_leaves_no_files(
    texts: Path, frequencies: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "words.txt").write_text("She\nsaw\n", encoding="utf-8")
    given = [re.sub(r"(\w+\.(csv|txt))$", rf"{tmp_path}/\1", argument) for argument in arguments]
    with pytest.raises((InputError, UsageError), match=message):
        run(word_lengths, texts, *given, "-o", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_folds_from_a_column(tmp_path: Path) -> None:
    table = pd.read_csv(SMALL, sep="\t", dtype=str, keep_default_na=False)
    table["part"] = [str(n % 5 + 1) if n > 20 else "" for n in range(len(table))]
    table.to_csv(tmp_path / "small-m.tsv", sep="\t", index=False)
    done = run(reading_times, tmp_path / "small-m.tsv", "--fold-column", "part", "-o", tmp_path / "results")
    assert sorted(set(pd.read_csv(tmp_path / "results" / "delta_llh.tsv", sep="\t")["fold"])) == [1, 2, 3, 4, 5]
    assert "in no fold" in done.stderr


@pytest.mark.parametrize("command", [reading_times, word_lengths])
def test_error_without_the_optional_packages(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(UnsupportedError, match=r"need formulaic: pip install 'wordprob\[study\]'"):
        run(command, SMALL, "-o", tmp_path / "results")


def test_corpora_are_listed() -> None:
    done = run(reading_times, "--list-corpora")
    assert "provo-raw\n" in done.stdout
    assert "CC BY-NC-SA 4.0" in done.stdout
    assert "Siegelman et al. (2022)" in done.stdout


# --- from Python -----------------------------------------------------------------------------------------------------


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_reading_times_from_python_gives_the_commands_files(study: Path, frequencies: Path, tmp_path: Path) -> None:
    run(
        reading_times, study, *STUDY, "--frequencies", frequencies, "--baseline", "time ~ word_len",
        "--model", "exact:bow", "--model", "exact:eow", "--readers", 0, "--size", "exact:bow=5",
        "-o", tmp_path / "command",
    )  # fmt: skip
    result = studies.reading_times(
        study,
        models=[ModelOptions("exact:bow"), ModelOptions("exact:eow")],
        time_column="rt",
        group_by="text",
        participant="subject",
        n_folds=4,
        spillover=0,
        frequencies=str(frequencies),
        baseline="time ~ word_len",
        sizes=("exact:bow=5",),
    )
    result.write(tmp_path / "python")
    assert files_of(tmp_path / "python") == files_of(tmp_path / "command")


def test_word_lengths_from_python_gives_the_commands_files(texts: Path, frequencies: Path, tmp_path: Path) -> None:
    run(
        word_lengths, texts, "--model", "exact:bow", "--frequencies", frequencies, "--min-count", 1, "--bootstrap", 20,
        "--words", "punctuation", "--readers", 0, "-o", tmp_path / "command",
    )  # fmt: skip
    result = studies.word_lengths(
        texts,
        models=ModelOptions("exact:bow"),
        options=WordLengthsOptions(frequencies=str(frequencies), min_count=1),
        bootstrap=20,
        scoring=ScoringOptions(words="punctuation"),
    )
    result.write(tmp_path / "python")
    assert files_of(tmp_path / "python") == files_of(tmp_path / "command")


def test_models_may_be_names_paths_options_or_scorers(texts: Path) -> None:
    tables = []
    for model in ("exact:bow", ModelOptions("exact:bow"), wordprob.load("exact:bow")):
        tables.append(studies.word_lengths(texts, model, min_count=1, bootstrap=5).types)
    pd.testing.assert_frame_equal(tables[0], tables[1])
    # The label of an open scorer is the name in its metadata.
    pd.testing.assert_frame_equal(tables[0].drop(columns="model"), tables[2].drop(columns="model"))


def test_result_is_not_written_over_another(tmp_path: Path) -> None:
    result = studies.reading_times(SMALL)
    result.write(tmp_path / "results")
    with pytest.raises(OutputError, match="`force`"):
        result.write(tmp_path / "results")
    assert result.write(tmp_path / "results", force=True) == tmp_path / "results"


def test_progress_is_reported(texts: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    studies.word_lengths(texts, "exact:bow", min_count=1, bootstrap=5, progress=lambda *call: calls.append(call))
    assert calls[-1] == ("exact:bow, texts from 0", 9, 9)


def test_options_are_checked_in_python() -> None:
    with pytest.raises(OptionError, match="no correction is called 'tukey'; use bh, holm or none"):
        studies.reading_times(SMALL, correction="tukey")
    with pytest.raises(
        OptionError, match="there is no option of a reading-time study called 'time_colum'. Did you mean"
    ):
        studies.reading_times(SMALL, time_colum="rt")
    with pytest.raises(OptionError, match="specify either `tables` or `corpora`"):
        studies.reading_times()
    with pytest.raises(
        OptionError,
        match="`words` does not apply to this study.*min_context, max_context, spellings, tolerance, max_open, readers",
    ):
        studies.reading_times(SMALL, scoring=ScoringOptions(words="punctuation"))
    with pytest.raises(
        OptionError,
        match="`unit` does not apply to this study.*words, min_context, max_context, spellings, tolerance",
    ):
        studies.word_lengths("corpus.txt", "exact:bow", scoring=ScoringOptions(unit="nats"))


# --- the same options everywhere -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [reading_times, word_lengths])
def test_every_option_of_models_is_accepted(command) -> None:
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for declared in fields(ModelOptions):
        expected = info_of(declared).flags or (f"--{declared.name.replace('_', '-')}",)
        assert flags.issuperset(expected)


SPELLING_OPTIONS = ("spellings", "tolerance", "max_open")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (reading_times, ("boundary", "min_context", "max_context", *SPELLING_OPTIONS, "readers")),
        (word_lengths, ("words", "boundary", "min_context", "max_context", *SPELLING_OPTIONS, "readers")),
    ],
)
def test_options_of_scoring_that_mean_something_are_accepted(command, names: tuple[str, ...]) -> None:
    accepted = {parameter.name for parameter in command.params}
    assert accepted & set(ScoringOptions.names()) == set(names)


@pytest.mark.parametrize(
    ("command", "options"), [(reading_times, ReadingTimesOptions), (word_lengths, WordLengthsOptions)]
)
def test_every_option_of_the_study_has_a_flag(command, options) -> None:
    assert {parameter.name for parameter in command.params}.issuperset(options.names())


@pytest.mark.parametrize("command", [reading_times, word_lengths])
def test_options_of_models_and_scoring_reach_the_model(
    command, study: Path, texts: Path, frequencies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[dict[str, object]] = []
    scored: list[dict[str, object]] = []
    open_model, score = loading.open_model, Scorer.score

    def record_opening(options: ModelOptions) -> object:
        opened.append({name: value for name, value in options.to_dict().items() if name != "model"})
        return open_model(options.model)

    def record_scoring(self: Scorer, *arguments: object, **options: object) -> object:
        scored.append(self.options.to_dict())
        return score(self, *arguments, **options)

    monkeypatch.setattr(loading, "open_model", record_opening)
    monkeypatch.setattr(Scorer, "score", record_scoring)
    # This model has no revisions.
    monkeypatch.setattr("wordprob.scoring.loading.check_model", lambda options: None)
    monkeypatch.setattr("wordprob.scoring.capability_checks.capabilities", lambda options: None)
    model = ("--model", "exact:bow", "--bos", "none", "--device", "cpu", "--dtype", "float32", "--compile",
             "--revision", "v1", "--trust-remote-code", "--min-context", 2, "--readers", 0)  # fmt: skip
    inputs = (study, *STUDY, "--baseline", "time ~ word_len") if command is reading_times else (texts, "--min-count", 1)
    run(command, *inputs, "--frequencies", frequencies, *model, "-o", tmp_path / "results")
    chosen = {"bos": "none", "device": "cpu", "dtype": "float32", "compile": True, "revision": "v1",
              "trust_remote_code": True}  # fmt: skip
    expected = {**ModelOptions().to_dict("model"), **chosen}
    assert opened == [expected]
    assert (scored[0]["min_context"], scored[0]["readers"], scored[0]["unit"]) == (2, 0, "nats")
    recorded = json.loads((tmp_path / "results" / "provenance.json").read_text(encoding="utf-8"))["options"]
    assert {name: recorded[name] for name in expected} == expected
    assert (recorded["models"], recorded["min_context"], recorded["readers"]) == (["exact:bow"], 2, 0)


def test_words_from_a_list(texts: Path, tmp_path: Path) -> None:
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line]
    words = tmp_path / "words.txt"
    words.write_text("\n\n".join("\n".join(line.split()) for line in lines) + "\n", encoding="utf-8")
    common = ("--model", "exact:bow", "--min-count", 1, "--bootstrap", 5)
    run(word_lengths, texts, *common, "-o", tmp_path / "a")
    run(word_lengths, texts, *common, "--words", f"list:{words}", "-o", tmp_path / "b")
    assert (tmp_path / "a" / "types.tsv").read_bytes() == (tmp_path / "b" / "types.tsv").read_bytes()


def test_words_from_a_definition(texts: Path) -> None:
    found = {}
    for words in ("punctuation", define("punctuation")):
        result = studies.word_lengths(texts, "exact:bow", min_count=1, bootstrap=5, scoring=ScoringOptions(words=words))
        found[type(words)] = result.types
        assert result.provenance["options"]["words"] == "punctuation"
    pd.testing.assert_frame_equal(*found.values())


def test_choices_are_those_of_the_analysis() -> None:
    """The options are declared where pandas is not imported; the analysis must know the same values."""
    choices = {
        declared.name: info_of(declared).choices
        for declared in (*fields(ReadingTimesOptions), *fields(WordLengthsOptions))
    }
    assert choices["correction"] == tuple(permutation.CORRECTIONS)
    assert choices["skipped"] == reading_time_preparation.SKIPPED
    assert choices["keep"] == word_types.KEEP
    assert choices["case"] == word_types.CASES
