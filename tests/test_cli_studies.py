"""Both studies as commands: what they write, what they print, and that bad input leaves nothing behind."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click import UsageError
from click.testing import CliRunner, Result

from wordprob.analysis import report
from wordprob.cli.reading_times import names_of, reading_times
from wordprob.cli.word_lengths import word_lengths
from wordprob.errors import AlignmentError, DownloadError, InputError, OptionError, OutputError, UnsupportedError

SHARED = Path(__file__).parents[1].parent / "shared"
PAPER = SHARED / "data" / "paper_reading_times"
SMALL = Path(__file__).parent / "analysis" / "r" / "small.tsv"
paper = pytest.mark.skipif(not PAPER.is_dir(), reason="../shared/data/paper_reading_times is absent")


def run(command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False, standalone_mode=False)


# --- reading times -------------------------------------------------------------------------------------------------


@paper
def test_published_tables(tmp_path: Path) -> None:
    tables = [PAPER / "merged" / f"{corpus}-gpt2-small.tsv" for corpus in ("brown", "natural_stories", "provo")]
    done = run(reading_times, *tables, "--folds", PAPER / "folds", "-o", tmp_path / "results")
    line = next(line for line in done.stdout.splitlines() if "gpt2-small" in line)
    assert [cell.strip(" *") for cell in line.split("|")[3:12:3]] == ["5.25", "4.35", "3.63"]
    assert [cell.strip(" *") for cell in line.split("|")[4:12:3]] == ["5.24", "4.33", "3.47"]
    assert {path.name for path in (tmp_path / "results").iterdir()} == set(report.READING_TIMES_FILES)
    about = json.loads((tmp_path / "results" / "provenance.json").read_text(encoding="utf-8"))
    assert about["inputs"][str(tables[0])] == hashlib.sha256(tables[0].read_bytes()).hexdigest()
    assert str(PAPER / "folds" / "provo.tsv") in about["inputs"]
    assert about["options"]["fold_files"] == [str(PAPER / "folds")]
    tidy = pd.read_csv(tmp_path / "results" / "delta_llh.tsv", sep="\t")
    assert tidy.columns.tolist() == ["corpus", "model", "estimate", "fold", "n", "delta_llh"]
    assert len(tidy) == 3 * 2 * 10


@paper
def test_registered_corpora_draw_the_papers_folds(tmp_path: Path) -> None:
    run(reading_times, "--corpus", "provo", "--data-dir", PAPER, "-o", tmp_path / "a")
    tables = sorted((PAPER / "merged").glob("provo-*.tsv"))
    run(reading_times, *tables, "--folds", PAPER / "folds" / "provo.tsv", "-o", tmp_path / "b")
    a, b = (pd.read_csv(tmp_path / name / "delta_llh.tsv", sep="\t") for name in "ab")
    both = a.merge(b, on=["corpus", "model", "estimate", "fold", "n"])
    assert len(both) == len(a) == len(b) == 60
    np.testing.assert_allclose(both["delta_llh_x"], both["delta_llh_y"], atol=1e-12)


@pytest.mark.skipif(not (SHARED / "data" / "meco").is_dir(), reason="../shared/data/meco is absent")
def test_seven_languages(tmp_path: Path) -> None:
    done = run(reading_times, "--corpus", "meco", "--data-dir", SHARED / "data" / "meco", "-o", tmp_path / "results")
    assert "Finnish: Buggy" in done.stdout
    assert "Corrected |" not in done.stdout
    summary = pd.read_csv(tmp_path / "results" / "summary.tsv", sep="\t")
    assert len(summary) == 7
    assert (summary["mean"] > 0).all()
    assert (tmp_path / "results" / "figure.pdf").read_bytes().startswith(b"%PDF")


@paper
@pytest.mark.skipif(not (SHARED / "models" / "fiction-bow").is_dir(), reason="../shared/models is absent")
def test_end_to_end_with_a_model(tmp_path: Path) -> None:
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


def test_a_study_of_ones_own(study: Path, frequencies: Path, tmp_path: Path) -> None:
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


def test_texts_that_are_not_the_words(study: Path, frequencies: Path, tmp_path: Path) -> None:
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
        ((SMALL, "--correction", "tukey"), OptionError, "bh, holm, none"),
        ((SMALL, "--participant", "word", "--skipped", "never"), OptionError, "zero or missing"),
        ((SMALL, "--skipped", "missing"), UsageError, "--skipped is about participants.* --participant"),
        ((SMALL, "--position-column", "freq"), InputError, r"'freq' should count the words, but holds row 1: '"),
        ((SMALL, "--data-dir", "."), UsageError, "--data-dir goes with --corpus"),
        ((SMALL, "--texts", "t.txt"), UsageError, "--texts are for a --model"),
        ((SMALL, "--size", "big"), OptionError, "--size my-model=125"),
        ((SMALL, "--folds", "nowhere.tsv"), InputError, "no such file: nowhere.tsv"),
        (("nowhere.tsv",), InputError, "no such file"),
        (("--corpus", "povo"), OptionError, "Did you mean provo"),
        (("--corpus", "dundee", "--model", "exact:bow"), DownloadError, "--data-dir"),
        (("--corpus", "provo-raw"), OptionError, "provo-raw comes without surprisals.*--model"),
        (("--corpus", "provo", "--outliers", "2"), OptionError, "--outliers is about.*, but provo holds means"),
        (("--corpus", "provo", "--time-column", "rt"), UsageError, "--time-column is about TABLES"),
        (("--corpus", "provo", "small.tsv"), UsageError, "TABLES or --corpus"),
        ((SMALL, "--model", "exact:bow", "--model", "exact:bow"), OptionError, "exact:bow and exact:bow have the same"),
    ],
)
def test_bad_input_leaves_nothing(tmp_path: Path, arguments: tuple[str, ...], error: type, message: str) -> None:
    out = tmp_path / "results"
    with pytest.raises(error, match=message):
        run(reading_times, *arguments, "-o", out)
    assert not out.exists()


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "results"
    run(reading_times, SMALL, "-o", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(OutputError, match=r"holds delta_llh.tsv.*--force"):
        run(reading_times, SMALL, "-o", out)
    run(reading_times, SMALL, "-o", out, "--force")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before, "the same input gives the same files"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_names_of_files() -> None:
    assert names_of(Path("natural_stories-gpt2-small.tsv")) == ("natural_stories", "gpt2-small")
    assert names_of(Path("mine.csv")) == ("mine", "surprisal")


# --- word lengths --------------------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("She saw the mark\nShe saw the marker\nThe marked saw the mark\n\n" * 3, encoding="utf-8")
    return path


def test_from_text_and_again_without_the_model(texts: Path, frequencies: Path, tmp_path: Path) -> None:
    from wordprob.scoring.loading import load

    common = ("--frequencies", frequencies, "--min-count", 1, "--bootstrap", 20)
    run(word_lengths, texts, "--model", "exact:bow", *common, "-o", tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == set(report.WORD_LENGTHS_FILES)
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line]
    (tmp_path / "scored").mkdir()
    load("exact:bow").score(lines).write(tmp_path / "scored" / "part.parquet")
    run(word_lengths, tmp_path / "scored", *common, "-o", tmp_path / "b")
    a, b = (pd.read_csv(tmp_path / name / "correlations.tsv", sep="\t").drop(columns="model") for name in "ab")
    pd.testing.assert_frame_equal(a, b)
    assert len(a) == 5


def test_a_hugging_face_data_set(texts: Path, frequencies: Path, tmp_path: Path) -> None:
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
        ((), "texts need a --model"),
        (("--model", "exact:bow", "--keep", "some"), "alphabetic or all"),
        (("--model", "exact:bow", "--min-count", "50", "--frequencies", "unigrams.csv"), "--min-count"),
        (("--model", "exact:bow", "--frequencies", "corpus.txt"), "another part of the corpus"),
        (("--model", "exact:bow", "--bootstrap", "1"), "bootstrap samples"),
        (("--model", "exact:bow", "--model", "exact:bow"), "have the same name"),
    ],
)
def test_bad_word_lengths_leave_nothing(
    texts: Path, frequencies: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = [str(tmp_path / a) if a.endswith((".csv", ".txt")) else a for a in arguments]
    with pytest.raises(InputError, match=message):
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
def test_without_the_extra(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(UnsupportedError, match=r"need formulaic: pip install 'wordprob\[study\]'"):
        run(command, SMALL, "-o", tmp_path / "results")


def test_corpora_are_listed() -> None:
    done = run(reading_times, "--list-corpora")
    assert "provo-raw\n" in done.stdout
    assert "CC BY-NC-SA 4.0" in done.stdout
    assert "Siegelman et al. (2022)" in done.stdout
