"""The joined table of a reading-time study: what stands in it, and that R can use it."""

from __future__ import annotations

import json
import math
import shutil
import string
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from random_lm import RandomLM
from wordprob import Scorer, studies
from wordprob.analysis.datasets import Dataset
from wordprob.analysis.study_table import STUDY_TABLE_COLUMNS, StudyTable
from wordprob.cli import cli
from wordprob.errors import OptionError, OutputError
from wordprob.models.exact import ToyTokenizer
from wordprob.tables.metadata import read_metadata

pytest.importorskip("formulaic")

COLUMNS = ("--time-column", "rt", "--group-by", "text", "--participant", "subject")
OPTIONS = {"time_column": "rt", "group_by": "text", "participant": "subject"}
TEXTS = ("She saw the mark", "She saw the marker", "She saw the mark")


@pytest.fixture
def counts(tmp_path):
    """Frequencies of all words except one."""
    path = tmp_path / "counts.csv"
    path.write_text("she,100\nsaw,10\nthe,1000\nmark,1\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def study(tmp_path):
    """Times of three readers, one of them an outlier, with a condition; words are numbered only by their order."""
    rng = np.random.default_rng(2)
    rows = []
    for subject in ("s1", "s2", "s3"):
        for text, words in enumerate(TEXTS, start=1):
            condition = "a" if text == 1 else "b"
            rows += [(subject, text, word, int(rng.integers(200, 400)), condition) for word in words.split()]
    frame = pd.DataFrame(rows, columns=["subject", "text", "word", "rt", "condition"])
    frame.loc[5, "rt"] = 40_000
    frame.to_csv(tmp_path / "study.csv", index=False)
    return tmp_path / "study.csv"


def run(*arguments):
    return CliRunner().invoke(cli, ["reading-times", *map(str, arguments)], catch_exceptions=False)


def test_there_is_a_row_for_each_participant_and_word(study, counts):
    table = studies.reading_time_table(study, models="exact:bow", frequencies=counts, outliers=2.0, **OPTIONS)
    rows = table.to_pandas()
    given = pd.read_csv(study)
    assert rows["participant"].tolist() == given["subject"].tolist()
    assert rows["word"].tolist() == given["word"].tolist()
    assert rows["time"].tolist() == given["rt"].tolist()
    assert rows["condition"].tolist() == given["condition"].tolist(), "columns of the user's own are kept"
    assert rows["time_used"].tolist() == [int(n != 5) for n in range(len(given))]
    assert rows["length"].tolist() == given["word"].str.len().tolist()
    assert set(rows.columns) <= {*STUDY_TABLE_COLUMNS, "condition"} | {name for name in rows if "_prev" in name}
    assert rows["frequency"].isna().tolist() == (given["word"] == "marker").tolist()
    assert rows["frequency"][1] == pytest.approx(math.log10(10 / 1111 * 1e9))
    in_reading = rows.groupby(["participant", "text_id"])
    for measure in ("surprisal", "surprisal_naive", "length", "frequency"):
        for distance in (1, 2, 3):
            truth = in_reading[measure].shift(distance).astype(float)
            np.testing.assert_array_equal(rows[f"{measure}_prev{distance}"].astype(float), truth)


def test_means_have_a_row_for_each_word_found_by_position(tmp_path, counts):
    words = pd.DataFrame({"text_id": [1, 1, 1], "word_id": [1, 2, 4], "word": ["She", "saw", "mark"],
                          "time": [300.0, 250.0, 280.0], "note": ["x", "y", "z"]})  # fmt: skip
    words.to_csv(tmp_path / "mine.csv", index=False)
    rows = studies.reading_time_table(tmp_path / "mine.csv", models="exact:bow", frequencies=counts).to_pandas()
    assert "participant" not in rows.columns
    assert rows["length_prev1"].tolist() == [pd.NA, 3, pd.NA], "word 3 has no row, so word 4 has none before it"
    assert rows["length_prev2"].tolist() == [pd.NA, pd.NA, 3]
    assert rows["own_note"].tolist() == ["x", "y", "z"]


def test_a_surprisal_that_is_missing_has_a_reason(study, counts):
    table = studies.reading_time_table(study, models=scorer_without_start(), frequencies=counts, **OPTIONS)
    rows = table.to_pandas()
    first = rows["word"] == "She"
    assert rows.loc[first, "surprisal"].isna().all()
    assert rows.loc[first, "note"].str.contains("start").all()
    assert rows.loc[~first, "surprisal"].notna().all()
    assert rows.loc[rows["word"] == "saw", "surprisal_prev1"].isna().all(), "not 0"
    assert "3 without surprisal" in table.missing()[0]


def scorer_without_start():
    """A scorer whose model has no start token: the first word of a text has no surprisal."""
    tokenizer = ToyTokenizer(r" ?\w+", [*string.ascii_letters, *(f" {letter}" for letter in string.ascii_letters)])
    tokenizer.vocabulary = replace(tokenizer.vocabulary, start=None)
    return Scorer(RandomLM(tokenizer))


def test_models_below_each_other_and_side_by_side(study, counts):
    table = studies.reading_time_table(study, models=["exact:bow", "exact:eow"], frequencies=counts, **OPTIONS)
    long, wide = table.to_pandas(), table.to_pandas("wide")
    assert len(long) == 2 * len(wide) == 2 * 36
    assert "model" not in wide.columns
    for model, ending in (("exact:bow", "exact_bow"), ("exact:eow", "exact_eow")):
        of_model = long[long["model"] == model].reset_index(drop=True)
        for name in ("surprisal", "surprisal_prev2", "surprisal_naive"):
            np.testing.assert_array_equal(of_model[name], wide[f"{name}_{ending}"])
    assert table.formula("wide").startswith(
        "time ~ surprisal_exact_bow + length * frequency + surprisal_prev1_exact_bow"
    )
    assert table.formula().endswith("(1 | participant) + (1 | text_id:word_id)")
    with pytest.raises(OptionError, match="no shape is called 'tall'"):
        table.to_pandas("tall")


def test_frequency_is_the_unigram_surprisal_of_the_study_on_another_scale(tmp_path):
    columns = {"text_id": 1, "word_id": [0, 1], "word": ["a", "b"], "time": [1.0, 2.0], "word_len": [1.0, 1.0]}
    frame = pd.DataFrame({**columns, "freq": [math.log(1000), np.nan], "surprisal": [1.0, 2.0]})
    rows = StudyTable([Dataset("c", "m", frame)]).to_pandas()
    assert rows["frequency"].tolist()[0] == pytest.approx(6.0)
    assert rows["frequency"].isna().tolist() == [False, True]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_the_command_writes_the_table_alone(study, counts, tmp_path, ending):
    path = tmp_path / f"words.{ending}"
    result = run(study, *COLUMNS, "--model", "exact:bow", "--frequencies", counts, "--table", path)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"{path} is ready for R:" in result.stderr
    assert "data = subset(words, time_used == 1))" in result.stderr
    assert "36 times" in result.stderr
    assert "of 12 words, 1 without frequency" in result.stderr
    about = read_metadata(path)
    assert about["unit"] == "nats"
    assert about["frequency_unit"].startswith("Zipf")
    assert about["formula"].startswith("time ~ surprisal + ")
    assert about["models"]["exact:bow"]["source"] == "bow"


def test_the_table_of_a_result_is_the_same(tmp_path):
    from wordprob.analysis.input_tables import read_table

    small = Path(__file__).parent / "r" / "small.tsv"
    result = studies.reading_times(small)
    alone = studies.reading_time_table(small).to_pandas()
    pd.testing.assert_frame_equal(result.words.to_pandas(), alone)
    assert len(alone) == len(read_table(small))
    assert json.dumps(result.provenance, default=str)


def test_nothing_is_replaced_or_begun_in_vain(study, counts, tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="exists already"):
        run(study, *COLUMNS, "--model", "no-such/model", "--table", path)
    with pytest.raises(OutputError, match="is the input"):
        run(study, *COLUMNS, "--model", "exact:bow", "--table", study, "--force")
    assert path.read_text(encoding="utf-8") == "mine"
    result = run(study, *COLUMNS, "--model", "exact:bow")
    assert result.exit_code == 2
    assert "-o, or a file for the joined words with --table" in result.stderr


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_r_reads_the_table_and_fits_a_model(study, counts, tmp_path):
    path = tmp_path / "words.csv"
    run(study, *COLUMNS, "--model", "exact:bow", "--frequencies", counts, "--table", path)
    script = """
    words <- read.csv(commandArgs(TRUE)[1], na.strings = "")
    stopifnot(is.numeric(words$surprisal_prev3), is.numeric(words$length_prev1), is.numeric(words$frequency))
    fit <- lm(time ~ surprisal + length + surprisal_prev1 + participant, data = subset(words, time_used == 1))
    cat(nobs(fit))
    """
    done = subprocess.run(["Rscript", "-e", script, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(path)
    assert done.stdout == str(((rows["time_used"] == 1) & rows["surprisal_prev1"].notna()).sum())
