"""Outliers, means, unigrams, and words beside their surprisals."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wordprob.analysis import reading_time_preparation as prepare
from wordprob.analysis.frequencies import FrequencyList, normalize_word, read_costs, unigrams
from wordprob.analysis.input_tables import read_table
from wordprob.analysis.reading_time_preparation import Cleaning, StudyColumns, words_and_times
from wordprob.errors import AlignmentError, InputError, InputWarning, OptionError

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "paper_reading_times"
COLUMNS = StudyColumns(word="word", time="rt", text="story", participant="who")


def study(times: dict[str, list[float]], words: tuple[str, ...] = ("NA", "null", "cat")) -> pd.DataFrame:
    rows = [(who, "s", word, time) for who, row in times.items() for word, time in zip(words, row, strict=True)]
    return pd.DataFrame(rows, columns=["who", "story", "word", "rt"])


def test_means_leave_out_outliers() -> None:
    times = {f"p{n}": [200.0, 300.0, 400.0] for n in range(40)}
    times["p0"] = [200.0, 90_000.0, 400.0]
    found = words_and_times(study(times), COLUMNS)
    assert found["word"].tolist() == ["NA", "null", "cat"]
    assert found["time"].tolist() == [200.0, 300.0, 400.0]
    kept = words_and_times(study(times), COLUMNS, Cleaning(outliers=0))
    assert kept["time"].tolist() == [200.0, (39 * 300 + 90_000) / 40, 400.0]


def test_outliers_are_found_by_the_logarithm_over_all_rows() -> None:
    times = np.array([100.0] * 50 + [200.0] * 50 + [1200.0])
    logs = np.log(times)
    z = (logs - logs.mean()) / logs.std()
    assert prepare.times_to_keep(times, Cleaning(3.0)).tolist() == (np.abs(z) <= 3).tolist()
    assert not prepare.times_to_keep(times, Cleaning(3.0))[-1]


@pytest.mark.parametrize(("skipped", "mean"), [("zero", 150.0), ("missing", 300.0)])
def test_skipped_words_count_as_zero_or_are_missing(skipped: str, mean: float) -> None:
    found = words_and_times(study({"a": [200, 0, 100], "b": [210, 300, 110]}), COLUMNS, Cleaning(skipped=skipped))
    assert found["time"].tolist()[1] == mean


def test_word_without_times_stays_as_a_row() -> None:
    found = words_and_times(study({"a": [200, math.nan, 100]}), COLUMNS)
    assert found["word_id"].tolist() == [0, 1, 2]
    assert math.isnan(found["time"].iloc[1])


def test_participants_with_different_words_are_refused() -> None:
    frame = pd.concat([study({"a": [1, 2, 3]}), study({"b": [1, 2]}, ("NA", "cat"))])
    with pytest.raises(AlignmentError, match=r"text s word 1: 'cat', elsewhere 'null'.*`position_column`"):
        words_and_times(frame, COLUMNS)


def test_missing_columns_are_all_named() -> None:
    with pytest.raises(InputError, match=r"no column 'rt', 'who'.*It has: story, word"):
        words_and_times(pd.DataFrame({"story": [1], "word": ["a"]}), COLUMNS, where="study.csv")


def test_surprisals_are_added_to_their_words() -> None:
    rows = pd.DataFrame({"text_id": ["b", "b", "a"], "word_id": [0, 1, 0], "word": ["x", "y", "z"]})
    scored = pd.DataFrame(
        {"text_id": [0, 0, 1], "word": ["x", "y", "z"], "surprisal": [1.0, 2, 3], "surprisal_naive": 0.5}
    )
    assert prepare.with_surprisals(rows, scored, "t")["surprisal"].tolist() == [1, 2, 3]
    with pytest.raises(AlignmentError, match=r"text b word 1: 'y' in the table, 'Y' in the text"):
        prepare.with_surprisals(rows, scored.assign(word=["x", "Y", "z"]), "t")
    with pytest.raises(AlignmentError, match=r"text a: 1 words in the table, 0 in the text"):
        prepare.with_surprisals(rows, scored.head(2), "t")


# --- unigrams ------------------------------------------------------------------------------------------------------


def test_normalize_word() -> None:
    assert [normalize_word(word) for word in ('"Garryowen!"', "it's", "—", "Ñandú,")] == [
        "garryowen",
        "it's",
        "",
        "ñandú",
    ]


def test_contraction_costs_what_its_parts_cost() -> None:
    listed = FrequencyList({"it": 5.0, "s": 7.0})
    assert listed.surprisal("It's") == 12.0
    assert math.isnan(listed.surprisal("ox"))


def test_new_unigrams_replace_those_of_earlier_words() -> None:
    rows = pd.DataFrame({"word": ["a"], "freq": [1.0], "prev_freq": [2.0], "prev2_freq": [3.0], "prev_word_len": [4.0]})
    assert prepare.with_unigrams(rows, FrequencyList({"a": 9.0})).columns.tolist() == ["word", "freq", "prev_word_len"]


@pytest.mark.parametrize("text", ["a,-0.5\nb,-1\n", "word\tcount\na\t3\nb\t1\n", "a,0.75\nb,0.25\n"])
def test_frequency_files_of_log_p_counts_and_p(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(text, encoding="utf-8")
    found = read_costs(path)
    assert found["a"] == (0.5 if "-" in text else pytest.approx(-math.log(0.75)))


@pytest.mark.parametrize("text", ["a,1\nb\n", "a,-1\nb,2\n", "", "only words\n"])
def test_bad_frequency_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_costs(path)


def test_frequencies_from_wordfreq() -> None:
    pytest.importorskip("wordfreq")
    assert unigrams("wordfreq:en").surprisal("The") < unigrams("wordfreq").surprisal("marker,")
    with pytest.raises(OptionError, match="It has: ar"):
        unigrams("wordfreq:tlh")


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data/paper_reading_times is absent")
@pytest.mark.parametrize("corpus", ["brown", "natural_stories", "provo"])
def test_unigrams_agree_with_the_paper(corpus: str) -> None:
    listed = FrequencyList(read_costs(SHARED / "unigrams.csv"))
    table = read_table(SHARED / "merged" / f"{corpus}-gpt2-small.tsv")
    found = prepare.with_unigrams(table, listed)["freq"].to_numpy()
    theirs = pd.to_numeric(table["freq"]).to_numpy()
    known = np.isfinite(theirs)
    assert np.mean(np.abs(found[known] - theirs[known]) < 1e-9) > 0.99
    assert np.isnan(found[~known]).all()


# --- reading -------------------------------------------------------------------------------------------------------


def test_words_that_look_like_missing_values_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("word\ttime\nNA\t1\nnull\t\n", encoding="utf-8")
    assert read_table(path)["word"].tolist() == ["NA", "null"]


def test_another_encoding_is_announced_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("word,time\na,1\ncaf\xe9,2\n".encode("latin-1"))
    with pytest.warns(InputWarning, match="taken for Windows-1252. Line 3 reads 'café,2'"):
        assert read_table(path)["word"].tolist() == ["a", "café"]
