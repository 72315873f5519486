"""Aggregation against a plain loop, correlations against scipy, the bootstrap against a plain bootstrap."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wordprob.analysis import texts, word_lengths, word_types
from wordprob.analysis.correlations import Correlations
from wordprob.analysis.word_lengths import WordLengthSettings, aggregate, analyse
from wordprob.analysis.word_types import TypeSums, WordFilter, count_words
from wordprob.errors import InputError, OptionError

WORDS = ["The", "the", "mark", "mark,", "marker", "NA", "null", "a", "an", "naïve"]


def made_up(rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    naive = random.gamma(2, 3, rows)
    words = random.choice(WORDS, rows)
    lengths = np.array([len(word) for word in words])
    return pd.DataFrame({"word": words, "surprisal": naive + lengths * 0.2, "surprisal_naive": naive})


def write(frame: pd.DataFrame, path: Path, model: str = "m-10m", unit: str = "nats") -> Path:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    about = {b"wordprob": json.dumps({"model": model, "unit": unit}).encode()}
    pq.write_table(table.replace_schema_metadata(about), path)
    return path


def test_sums_agree_with_a_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_types, "BATCH_ROWS", 700)
    frame = made_up()
    frame.loc[5, "surprisal"] = math.nan
    frame.loc[6, "surprisal"] = math.inf
    sums = aggregate([write(frame, tmp_path / "a.parquet")], WordFilter(min_count=1))["m-10m"]
    expected: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in frame.itertuples():
        if row.word.isalpha() and math.isfinite(row.surprisal):
            expected[row.word.lower()].append((row.surprisal, row.surprisal_naive))
    found = sums.table().set_index("word")
    assert set(found.index) == set(expected)
    for word, values in expected.items():
        s, b = np.array(values).T
        assert found.loc[word, "count"] == len(values)
        assert found.loc[word, "length"] == len(word)
        np.testing.assert_allclose(
            found.loc[word, ["corrected", "corrected_squared", "naive", "naive_squared"]].astype(float),
            [s.sum(), (s**2).sum(), b.sum(), (b**2).sum()],
        )
    assert (sums.rows, sums.missing) == (4000, 2)


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_every_format_gives_the_same_sums(tmp_path: Path, ending: str) -> None:
    frame = made_up(500)
    path = tmp_path / f"m-10m.{ending}"
    if ending == "jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False, double_precision=15)
    else:
        frame.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    parquet = aggregate([write(frame, tmp_path / "a.parquet")], WordFilter())["m-10m"].table()
    pd.testing.assert_frame_equal(aggregate([path], WordFilter())["m-10m"].table(), parquet)


def test_bits_and_nats_are_converted_to_one_unit(tmp_path: Path) -> None:
    frame = made_up(1000)
    bits = frame.assign(**{name: frame[name] / math.log(2) for name in ("surprisal", "surprisal_naive")})
    paths = [write(frame, tmp_path / "a.parquet"), write(bits, tmp_path / "b.parquet", unit="bits")]
    both, one = aggregate(paths, WordFilter())["m-10m"].table(), aggregate(paths[:1], WordFilter())["m-10m"].table()
    np.testing.assert_allclose(both["corrected"], 2 * one["corrected"])


def test_word_filter() -> None:
    assert [WordFilter().type_of(word) for word in ("The", "mark,", "naïve", "1900")] == ["the", None, "naïve", None]
    assert [WordFilter("all", "as-is").type_of(word) for word in ("The", "mark,")] == ["The", "mark,"]
    sums = TypeSums(WordFilter(min_count=3))
    sums.add(["a", "a", "b", "a"], {"corrected": np.ones(4), "naive": np.ones(4)})
    assert sums.table()["word"].tolist() == ["a"]


def test_counting_ignores_punctuation_around_words() -> None:
    assert count_words(["The mark, the (mark) 1900."], WordFilter()) == Counter({"the": 2, "mark": 2})


@pytest.fixture(scope="module")
def types() -> TypeSums:
    random = np.random.default_rng(3)
    sums = TypeSums(WordFilter(min_count=1))
    vocabulary = ["".join(random.choice(list("abcdefgh"), random.integers(1, 9))) for _ in range(300)]
    words = random.choice(vocabulary, 6000)
    naive = random.gamma(2, 2, 6000) + np.array([len(word) for word in words]) * 0.4
    sums.add(words.tolist(), {"corrected": naive + 0.1 * random.random(6000), "naive": naive})
    return sums


def test_correlations_agree_with_scipy(types: TypeSums) -> None:
    stats = pytest.importorskip("scipy.stats")
    table = types.table()
    found = analyse({"m": types}, WordLengthSettings(WordFilter(min_count=1), resamples=20)).correlations
    columns = {
        ("Zipf", ""): -np.log(table["count"] / table["count"].sum()),
        ("CCH (Piantadosi)", "naive"): table["naive"] / table["count"],
        ("CCH (Piantadosi)", "corrected"): table["corrected"] / table["count"],
        ("CCH (Pimentel)", "naive"): table["naive_squared"] / table["naive"],
        ("CCH (Pimentel)", "corrected"): table["corrected_squared"] / table["corrected"],
    }
    assert len(found) == len(columns)
    for row in found.itertuples():
        x = columns[row.predictor, row.estimate]
        assert row.spearman == pytest.approx(stats.spearmanr(x, table["length"]).statistic, abs=1e-12)
        assert row.pearson == pytest.approx(stats.pearsonr(x, table["length"]).statistic, abs=1e-12)
        assert row.spearman_low < row.spearman < row.spearman_high


def test_weighted_correlations_agree_with_repeated_rows() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(4)
    x, y = random.integers(0, 9, 80).astype(float), random.normal(size=80).round(1)
    for weights in word_lengths.resamples(80, 5, seed=1):
        rows = np.repeat(np.arange(80), weights.astype(int))
        assert len(rows) == 80
        found = Correlations(x[:, None], y).weighted(weights)
        assert found[0, 0] == pytest.approx(stats.spearmanr(x[rows], y[rows]).statistic, abs=1e-12)
        assert found[1, 0] == pytest.approx(stats.pearsonr(x[rows], y[rows]).statistic, abs=1e-12)


def test_changes_are_compared_within_resamples(types: TypeSums) -> None:
    """The correction here is noise on every word: its effect is far better known than the correlations themselves."""
    found = analyse({"m": types}, WordLengthSettings(WordFilter(min_count=1), resamples=200)).correlations.set_index(
        ["predictor", "estimate"]
    )
    for kind in ("spearman", "pearson"):
        naive, corrected = (found.loc[("CCH (Piantadosi)", estimate)] for estimate in ("naive", "corrected"))
        assert np.isnan(naive[f"{kind}_change"])
        assert corrected[f"{kind}_change"] == pytest.approx(corrected[kind] - naive[kind])
        width = corrected[f"{kind}_change_high"] - corrected[f"{kind}_change_low"]
        assert 0 < width < 0.3 * (corrected[f"{kind}_high"] - corrected[f"{kind}_low"])


def test_frequencies_from_another_part_of_the_corpus(types: TypeSums) -> None:
    words = types.table()["word"].tolist()
    costs = {word: float(len(word)) for word in words[:200]}
    found = analyse(
        {"m": types}, WordLengthSettings(WordFilter(min_count=1), resamples=5), costs, "elsewhere"
    ).correlations
    zipf = found[found["predictor"] == "Zipf"].iloc[0]
    assert zipf["types"] == 200
    assert zipf["spearman"] == pytest.approx(1.0)


def test_result_files(types: TypeSums) -> None:
    result = analyse({"a-10m": types, "b-20m": types}, WordLengthSettings(WordFilter(min_count=1), resamples=5))
    files = result.files()
    assert set(files) == set(result.FILE_NAMES)
    assert files["figure.png"].startswith(b"\x89PNG")
    assert files["table.md"].decode().count("\n| ") == 11
    assert files == result.files()
    assert json.loads(files["provenance.json"])["sizes"] == {"a-10m": 10, "b-20m": 20}


# --- texts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["txt", "jsonl", "parquet", "txt.gz", "hub"])
def test_texts_from_every_kind_of_source(tmp_path: Path, kind: str) -> None:
    rows = ["She saw the mark.", "", "NA"]
    path = tmp_path / f"corpus.{kind}"
    source = str(path)
    if kind == "parquet":
        pq.write_table(pa.table({"text": [rows[0], None, rows[2]]}), path)
    elif kind == "txt.gz":
        import gzip

        path.write_bytes(gzip.compress("\n".join(rows).encode()))
    elif kind == "txt":
        path.write_text("\n".join(rows), encoding="utf-8")
    else:
        if kind == "hub":
            pytest.importorskip("datasets")
            (tmp_path / "set").mkdir()
            path, source = tmp_path / "set" / "train.jsonl", f"hf:{tmp_path / 'set'}:train"
        path.write_text("\n".join(json.dumps({"text": row}) for row in rows), encoding="utf-8")
    assert list(texts.stream(source)) == ["She saw the mark.", "NA"]
    assert list(texts.stream(source, limit=1)) == ["She saw the mark."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"txt": "x"}', "no text in 'text', only txt"),
        ("a.jsonl", "{", "line 1: not JSON"),
        ("a.pdf", "x", "use .parquet, .jsonl or .txt"),
        ("a.txt", "\n \n", "holds no text"),
    ],
)
def test_bad_texts_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        texts.check(str(tmp_path / name))


# --- bad input -----------------------------------------------------------------------------------------------------


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = write(made_up(10).drop(columns="surprisal_naive"), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"no column 'surprisal_naive'.*It has: word, surprisal"):
        aggregate([path], WordFilter())


@pytest.mark.parametrize("name", ["bad.tsv", "bad.parquet"])
def test_surprisals_that_are_not_numbers_are_refused(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, made_up(3).astype(object)
    frame.loc[1, "surprisal"] = "high"
    if name.endswith("tsv"):
        frame.to_csv(path, sep="\t", index=False)
    else:
        write(frame.astype(str), path)
    with pytest.raises(InputError, match=rf"{name} cannot be read as scored words: .*high"):
        aggregate([path], WordFilter())


def test_too_few_types_are_refused() -> None:
    with pytest.raises(InputError, match="`min_count`"):
        analyse({"m": TypeSums(WordFilter())}, WordLengthSettings())


def test_unknown_filters_are_refused() -> None:
    with pytest.raises(OptionError, match="alphabetic or all"):
        WordFilter(keep="letters")
    with pytest.raises(OptionError, match="`min_count` is 0"):
        WordFilter(min_count=0)
