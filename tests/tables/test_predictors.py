"""Length, frequency and the values of the words before, beside the surprisals of a table."""

from __future__ import annotations

import math
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import wordprob
from wordprob.analysis.frequencies import FrequencyList, zipf
from wordprob.cli import cli
from wordprob.errors import InputError, OptionError
from wordprob.tables.metadata import read_metadata
from wordprob.tables.predictors import add_predictors, predictor_names

TABLE = pd.DataFrame(
    {
        "item": [1, 1, 1, 1, 2, 2],
        "word": ["She", "saw", "the", "mark", "She", "saw"],
        "rt": [300, 280, 250, 310, 290, 270],
    }
)
MEASURES = ("surprisal", "surprisal_naive", "length", "frequency")


@pytest.fixture
def frequencies(tmp_path):
    """A frequency file that does not have every word."""
    path = tmp_path / "counts.csv"
    path.write_text("word,count\nshe,900\nsaw,90\nthe,9000\nother,10\n", encoding="utf-8")
    return str(path)


def scored(source, /, model="exact:bow", **options):
    options = {"word_column": "word", "group_by": "item", "predictors": True, "frequencies": source, **options}
    return wordprob.score_table(TABLE, model, **options)


def test_values_of_earlier_words_are_those_of_their_rows_and_stay_within_a_text(frequencies):
    table = scored(frequencies).to_pandas()
    assert table["length"].tolist() == [3, 3, 3, 4, 3, 3]
    for distance in (1, 2, 3):
        for measure in MEASURES:
            earlier = table[f"{measure}_prev{distance}"].astype(float)
            truth = table.groupby("item")[measure].shift(distance).astype(float)
            np.testing.assert_array_equal(earlier, truth)
    assert pd.isna(table["surprisal_prev1"][4]), "the first word of the second text has no word before it"


def test_frequency_is_on_the_zipf_scale_and_unknown_words_say_so(frequencies):
    table = scored(frequencies).to_pandas()
    assert table["frequency"][0] == pytest.approx(math.log10(900 / 10_000 * 1e9))
    assert table["frequency"].isna().tolist() == [False, False, False, True, False, False]
    assert table["note"][3] == f"no frequency in {frequencies}"
    assert (table["note"].drop(3) == "").all()


def test_wordfreq_and_its_own_zipf_scale_agree():
    wordfreq = pytest.importorskip("wordfreq")
    from wordprob.analysis.frequencies import unigrams

    words = ["the", "House", "puppet"]
    ours = zipf(words, unigrams("wordfreq:en"))
    assert ours == pytest.approx([wordfreq.zipf_frequency(word, "en") for word in words], abs=0.006)


def test_the_unit_is_in_the_metadata(frequencies, tmp_path):
    path = scored(frequencies).write(tmp_path / "out.csv")
    about = read_metadata(path)
    assert about["frequencies"] == frequencies
    assert about["frequency_unit"] == "Zipf: log10 of occurrences in a billion words"
    assert about["length_unit"] == "characters"
    assert (
        "frequency_unit" not in wordprob.score_table(TABLE, "exact:bow", word_column="word", group_by="item").metadata
    )


def test_several_models_share_what_depends_on_no_model(frequencies):
    wide = scored(frequencies, ["exact:bow", "exact:eow"], shape="wide").to_pandas()
    names = list(wide.columns)
    assert names.count("length_prev1") == names.count("frequency") == 1
    assert {"surprisal_prev1_exact_bow", "surprisal_prev1_exact_eow"} <= set(names)
    assert all(name.replace("_", "a").replace(".", "a").isalnum() for name in names), "R takes the names as they are"
    long = scored(frequencies, ["exact:bow", "exact:eow"]).to_pandas()
    np.testing.assert_array_equal(
        long.loc[long["model"] == "exact:eow", "surprisal_prev1"], wide["surprisal_prev1_exact_eow"]
    )


def test_a_prefix_is_before_all_new_columns(frequencies):
    table = scored(frequencies, prefix="wp_").to_pandas()
    assert {f"wp_{name}" for name in predictor_names(["surprisal"])} <= set(table.columns)


def test_columns_of_the_same_names_are_not_replaced(frequencies):
    own = TABLE.assign(length=9)
    with pytest.raises(InputError, match="has columns called length already"):
        wordprob.score_table(own, "exact:bow", word_column="word", group_by="item", predictors=True,
                             frequencies=frequencies)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sum_by": "rt"}, "`sum_by` adds words up; leave one of them out"),
        ({"predictors": False}, "`frequencies` is for `predictors`; specify both"),
        ({"frequencies": "wordfreq:xx"}, "wordfreq has no frequencies for 'xx'"),
        (
            {"word_column": None, "group_by": None, "text_column": "word"},
            "the rows of the result are texts; add `per_word`",
        ),
    ],
)
def test_what_cannot_have_predictors(frequencies, options, message):
    if "xx" in str(options):
        pytest.importorskip("wordfreq")
    with pytest.raises(OptionError, match=message):
        scored(frequencies, **options)


def test_a_frequency_file_that_is_not_there_is_an_error_before_scoring(tmp_path):
    with pytest.raises(InputError, match="none.csv"):
        scored(str(tmp_path / "none.csv"), model="no-such-model")


def test_english_is_a_guess_that_is_announced():
    pytest.importorskip("wordfreq")
    with pytest.warns(UserWarning, match=r"frequencies are those of English words \(wordfreq:en\)"):
        scored(None)


def test_a_row_that_is_missing_does_not_move_words_closer():
    words = pd.DataFrame({"text_id": ["a"] * 3, "word_id": [1, 2, 4], "word": ["a", "bb", "dddd"], "surprisal": 1.0})
    table = add_predictors(words, frequency=[1.0, 2.0, 4.0])
    assert table["length_prev1"].tolist() == [pd.NA, 1, pd.NA]
    assert table["length_prev2"].tolist() == [pd.NA, pd.NA, 2]


def test_the_command_adds_them_to_plain_texts_too(frequencies, tmp_path):
    arguments = ["score", "--text", "She saw the mark", "--predictors", "--frequencies", frequencies, "-m", "exact:bow"]
    result = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "out.csv")], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"1 of 4 words has no frequency in {frequencies}" in result.stderr
    table = wordprob.WordTable.read(tmp_path / "out.csv").to_pandas()
    assert table["surprisal_prev3"].notna().tolist() == [False, False, False, True]
    assert table["length_prev1"].dropna().tolist() == [3, 3, 3]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_r_reads_the_table_and_fits_a_model(tmp_path):
    counts = FrequencyList({"she": 2.0, "saw": 5.0, "the": 1.0, "mark": 7.0})
    words = pd.concat([TABLE.assign(item=TABLE["item"] + 2 * n, rt=TABLE["rt"] + n % 7 * n) for n in range(12)])
    words.to_csv(tmp_path / "in.csv", index=False)
    (tmp_path / "counts.csv").write_text("".join(f"{w},{-c}\n" for w, c in counts.costs.items()), encoding="utf-8")
    given, counted, out = (str(tmp_path / name) for name in ("in.csv", "counts.csv", "out.csv"))
    columns = ["--word-column", "word", "--group-by", "item"]
    arguments = ["score", given, *columns, "--predictors", "--frequencies", counted, "-m", "exact:bow", "-o", out]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    script = """
    d <- read.csv(commandArgs(TRUE)[1], na.strings = "")
    stopifnot(is.numeric(d$surprisal_prev1), is.numeric(d$frequency_prev2), is.numeric(d$length_prev3))
    fit <- lm(rt ~ surprisal + frequency + surprisal_prev1, data = d)
    cat(nobs(fit))
    """
    done = subprocess.run(
        ["Rscript", "-e", script, str(tmp_path / "out.csv")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == str(4 * 12), "every word except the first of each text"
